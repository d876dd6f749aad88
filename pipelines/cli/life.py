"""The life cycle of a command: a plan to agree to, the run, and its outcome, shown once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import UserError
from ..base.budget import BudgetSpent, Unanswered
from ..base.life import Outcome
from ..base.request import PlanType, Spending
from ..base.run_files import BOOKS
from ..base.wording import as_sentence, paused
from ..lms.ledger import totals
from ..runs.manifest import OtherRun
from ..tracking.store import push_words
from .guard import INTERRUPTED, STOPPED, say
from .options import Planned
from .show import confirm, console, leave, present, show_lines

OutcomeType = TypeVar("OutcomeType", bound=Outcome)


def live(
    request: Spending,
    view: Planned,
    plan: PlanType,
    run: Callable[[PlanType, Callable[[OutcomeType], None]], OutcomeType],
    left: Callable[[Path], OutcomeType | None] = lambda _: None,
    show: Callable[[OutcomeType], None] | None = None,
    code_of: Callable[[OutcomeType], int] = lambda _: 0,
) -> None:
    """Show the plan, carry it out if the user agrees, show the outcome, and exit with a code.

    Args:
        run: carries out the plan. It may call its second argument with a result that ended well,
            before later steps such as sending the run to MLflow.
        left: returns the partial outcome of a stopped attempt from its folder, or None.
        show: shows an outcome to a person, after the reason if it ended early; by default as lines.
        code_of: returns the exit code of an outcome that is not empty and did not end early.
    """
    for warning in plan.warnings:
        say(f"warning: {warning}")
    guessed = getattr(plan, "guessed", "")
    # Details that few plans have.
    details: list[str] = getattr(plan, "details", list)() if view.verbose or view.dry_run else []
    confirm(request, view, [*plan.lines(), *details], plan.to_dict, plan.cost, guessed)
    screen = _Screen(view, show)

    def before_push(outcome: OutcomeType) -> None:
        screen.show(outcome)
        if getattr(request, "tracking", False):
            # Only a pipeline's plan has it, from its file.
            name = getattr(plan, "register", getattr(request, "register", None))
            say(push_words(name))

    def kept() -> OutcomeType | None:
        return None if plan.out is None else left(plan.out)

    outcome: OutcomeType | None = None
    stopped, code = None, 0
    try:
        outcome = run(plan, before_push)
        stopped = outcome.stopped
        code = STOPPED if outcome.empty or stopped else code_of(outcome)
    except KeyboardInterrupt:
        outcome, code = kept(), INTERRUPTED
        stopped = f"interrupted: finished work is kept in {plan.out}; the same command resumes it"
    except OtherRun:
        raise  # the folder holds another run's result
    except (BudgetSpent, UserError) as problem:
        outcome, stopped, code = kept(), str(problem), STOPPED
        if outcome is None and not (isinstance(problem, BudgetSpent) or _failed(problem, plan.out)):
            raise  # the input is wrong, and nothing was done
        if isinstance(problem, EndpointDown):
            stopped = paused(problem)
    if outcome is not None:
        screen.show(outcome)
    elif view.as_json:
        present(view, {"out": str(plan.out), "stopped": stopped}, lambda: None)
    if stopped == screen.reason:  # shown above the result
        stopped = None
    leave(stopped, code)


@dataclass
class _Screen(Generic[OutcomeType]):
    """Shows an outcome once, though a run may show its result before its last steps. `reason` is
    that of an early end, if a terminal shows it above the result.
    """

    view: Planned
    in_words: Callable[[OutcomeType], None] | None
    shown: bool = False
    reason: str | None = None

    def show(self, outcome: OutcomeType) -> None:
        if not self.shown:
            self.shown = True
            present(self.view, outcome.to_dict(), partial(self._say, outcome))

    def _say(self, outcome: Any) -> None:
        """Show an outcome to a person."""
        if outcome.stopped and not self.view.quiet:
            show_lines([as_sentence(outcome.stopped)])
            if console().is_terminal:
                self.reason = outcome.stopped
        if self.in_words is not None:
            self.in_words(outcome)
        else:
            show_lines(outcome.lines()[: 1 if self.view.quiet else None])


def _failed(problem: UserError, folder: Path | None) -> bool:
    """Return whether an endpoint or account failed in the middle of a run. Without any answered
    call in the folder or below it, the address or key is more likely to be wrong.
    """
    if folder is None or not isinstance(problem, EndpointDown | Unanswered):
        return False
    return totals(*(books.parent for books in folder.rglob(BOOKS))).calls > 0
