"""The life of a command on the command line: a plan to agree to, the run, and its outcome, shown once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...modules.base.errors import UserError
from ..base.budget import BudgetSpent
from ..base.life import Outcome, Plan
from ..base.request import Spending
from .guard import INTERRUPTED, STOPPED, say
from .options import Planned
from .show import confirm, console, leave, present, show_result

P = TypeVar("P", bound=Plan)
O = TypeVar("O", bound=Outcome)


def live(
    request: Spending,
    screen: Planned,
    plan: P,
    run: Callable[[P, Callable[[O], None]], O],
    left: Callable[[P], O | None],
    show: Callable[[O], None] | None = None,
) -> None:
    """Show the plan, carry it out if the user agrees, show what came out, and leave with an exit code.

    Args:
        run: carries the plan out. It may call its second argument with a result that ended well, before what
            comes after the result (such as sending the run to MLflow).
        left: what an attempt that was stopped has left in its folder; None for nothing.
        show: shows an outcome to a person; by default its lines.
    """
    for warning in plan.warnings:
        say(f"warning: {warning}")
    confirm(request, screen, plan.lines(), plan.to_dict, plan.cost)
    shown: list[O] = []

    def lines(outcome: O) -> None:
        show_result(console(), plan.title, outcome.lines(quiet=screen.quiet))

    def once(outcome: O) -> None:
        if not shown:
            shown.append(outcome)
            present(screen, outcome.to_dict(), lambda: (show or lines)(outcome))

    outcome: O | None = None
    stopped, code = None, 0
    try:
        outcome = run(plan, once)
        stopped, code = outcome.stopped, STOPPED if outcome.empty else 0
    except KeyboardInterrupt:
        outcome, code = left(plan), INTERRUPTED
        stopped = f"interrupted: what is finished is kept in {plan.out}; the same command takes it up again"
    except (BudgetSpent, UserError) as problem:
        outcome, stopped, code = left(plan), str(problem), STOPPED
        if outcome is None and not isinstance(problem, BudgetSpent):
            raise  # nothing was done: the input is wrong
    if outcome is not None:
        once(outcome)
    elif screen.as_json:
        present(screen, {"out": str(plan.out), "stopped": stopped}, lambda: None)
    leave(stopped, code)
