"""From a team's recorded run to the cheapest single agent as good, and a router that spares the
team.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.router import ALWAYS, Router
from ...modules.reading.question import Question
from ..base.display import displayed
from ..base.journal import write_json
from ..base.request import entry
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import evaluate
from ..lms.foreign import billed_as
from ..lms.ledger import LEDGER, totals
from ..lms.store import CALLS
from ..runs.lines import Progress, evaluation_line
from ..runs.manifest import RunFolder
from ..tracking.context import ABOVE
from ..tracking.run import Run, running
from .candidates import Candidate
from .plan import DISTIL, DistillationPlan, plan_distil
from .price import price_of
from .report import DistilReport, Search, last_test, selection_report, sentences_of
from .request import DistilRequest
from .team import seat_cheap

REPORT = "distil.json"
SELECTION, HELD_OUT = "selection", "held-out"  # sub-folders of the evaluations
_FIELDS = {
    "program_hash": "team",
    "data_fingerprint": "data",
    "lm": "LM",
    "margin": "margin",
    "seed": "seed",
    "parts": "questions",
}
DISTILLATION = RunFolder(
    "distillation", REPORT, {k: f"its {what} differs" for k, what in _FIELDS.items()}
)


class Distilling(NamedTuple):
    """Where a distillation stands: the evaluation under way, and how far that is."""

    evaluation: str
    progress: Progress


@dataclass(frozen=True)
class Distilled:
    """What came out of `distil`. `report` is what `distil.json` in the folder says.

    `keep` names what to use, `single`, `router` or `team`: the cheapest that the last test shows to
    be non-inferior. `single` is None when every candidate was inferior to the team; both are None
    when a budget stopped the search before there was a choice.
    """

    folder: Path
    report: DistilReport
    single: Program | None = None
    router: Router | None = None
    _run: Evaluation | None = None  # the run's temporary folder lives as long as this

    @property
    def run_id(self) -> str | None:
        """The distillation's run in MLflow; None when it has none."""
        return self.report["mlflow_run_id"]

    @property
    def stopped(self) -> str | None:
        """The budget that ended the search early, in a sentence; None where none did."""
        return self.report["stopped"]

    @property
    def empty(self) -> bool:
        """Whether the search was stopped before any candidate had answered."""
        return bool(self.stopped and not self.report["candidates"])

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        """What came out, a line each."""
        return {
            "keep": self.keep,
            "verdict": " ".join(self.report["sentences"][: 1 if quiet else None]),
        }

    def to_dict(self) -> dict[str, object]:
        return {"out": str(self.folder), **self.report}

    @property
    def keep(self) -> str:
        return str(self.report["keep"])

    def __repr__(self) -> str:
        return "\n".join(self.report["sentences"])


@entry(DistilRequest)
def distil(request: DistilRequest) -> Distilled:
    """Find the cheapest single agent that is non-inferior to a team, and learn when to ask the
    team.

    The questions of the team's run are split once. On one part the candidates (single agents that
    make fewer calls than the team, without and with demonstrations from its transcripts) answer,
    the cheapest non-inferior one is chosen, and a router's rule is learned; both are then tested
    once on the other part. The team is never asked: its recorded answers count. The folder gets
    `distil.json`, the saved programs `single/` and `router/`, and every evaluation; the same call
    resumes.

    Raises: UserError: a run that is unfinished, too small, or makes one call per question; other
        questions than its own; a team that cannot be built; an `out` folder of another
        distillation; and as `evaluate`.
    """
    return distil_as_planned(plan_distil(request))


def distil_as_planned(
    plan: DistillationPlan, show: Callable[[Distilled], None] | None = None
) -> Distilled:
    """Do what was planned. `show` gets the result before it is sent to the tracking store."""
    request, team, about = plan.request, plan.run.folder, plan.report
    asks: Any = {
        "budget": request.budget,
        "engines": [billed_as(plan.lm)],
        "spent": _spent(plan.out),
    }
    if (team / CALLS).is_file():
        asks["replayed"] = team  # what the team asked is not asked again
    with (
        running(DISTILLATION, about, plan.out, parts=True, **asks) as run,
        displayed(request.progress, "distil", lambda state: evaluation_line(*state)) as tell,
    ):
        if request.tracking or not (plan.out / REPORT).exists():
            write_json(plan.out / REPORT, about)
        if request.tracking:
            run.track(REPORT)
        plan.report["mlflow_run_id"] = run.tracking.run_id
        distilled = _distilled(plan, lambda *asked: _evaluated(plan, run, tell, *asked))
        run.end(None if show is None else partial(show, distilled))
        distilled.report["mlflow_run_id"] = run.tracking.run_id
    return distilled


def _evaluated(
    plan: DistillationPlan,
    run: Run[DistilReport],
    tell: Callable[[Distilling], None],
    one: Candidate,
    part: str,
    questions: Sequence[Question],
) -> Evaluation:
    """A candidate on a part of the questions, as a run under this one. Raises UserError if all
    fail.
    """
    request, settings = plan.request, plan.run.summary.run["settings"]
    evaluation = evaluate(
        one.program,
        questions,
        lm=plan.lm,
        concurrency=request.concurrency,
        out=plan.out / part / one.name,
        retry_errors=True,
        cache=request.cache,
        tracking=request.tracking,
        parent=ABOVE,
        settings={
            "command": DISTIL,
            **{
                key: settings[key] for key in ("data", "split", "kinds", "types") if key in settings
            },
            "label": f"{one.name} · {part}",
            "part": part,
            "demos": one.demos,
        },
        progress=lambda state: tell(Distilling(f"{part} {one.name}", state)),
    )
    if evaluation.summary.counts["rows"] and evaluation.empty:
        why = next(iter(evaluation.rows))["error"]
        raise UserError(f"every question failed ({why}): fix the cause, and give the command again")
    return evaluation


def _distilled(
    plan: DistillationPlan, run: Callable[[Candidate, str, Sequence[Question]], Evaluation]
) -> Distilled:
    """The whole of it: candidates answer, one is chosen, a rule is learned, both meet new
    questions.
    """
    parts, report = plan.parts, copy.deepcopy(plan.report)
    team = [row for row in plan.rows.values() if row["error"] is None]
    search = Search(plan.rows, price_of(team, len(team)), parts.selection, report["margin"])
    single: Program | None = None
    router: Router | None = None

    def finished() -> Distilled:
        """The report is written, and the programs beside it."""
        report["paid"] = _spent(plan.out).to_dict()
        report["sentences"] = sentences_of(report)
        for name, program in (("single", single), ("router", router)):
            if program is not None:
                program.save(plan.out / name)
        write_json(plan.out / REPORT, report)
        return Distilled(plan.out, report, single, router, plan.run)

    for one in plan.candidates:
        if search.needless(one):
            report["skipped"].append(one.name)
            continue
        evaluation = run(one, SELECTION, parts.selection)
        report["stopped"] = evaluation.summary.stopped
        if report["stopped"]:
            break
        search.add(one, evaluation)
    chosen = search.chosen()
    routed = None if report["stopped"] else search.routed(report["seed"])
    selection_report(report, search, chosen, routed)
    if routed is None or report["router"] is None:
        return finished()
    cheap, learnt = routed
    answered: dict[str, Evaluation] = {}
    for tested in (chosen, cheap if learnt.rule != ALWAYS else None):
        if tested is None:
            continue
        name = tested.candidate.name
        answered[name] = run(tested.candidate, HELD_OUT, parts.held_out)
        report["stopped"] = answered[name].summary.stopped
        if report["stopped"]:
            return finished()
    last_test(report, report["router"], search, answered, parts.held_out)
    if chosen is not None:
        single = chosen.candidate.program
        cheap = chosen if learnt.rule == ALWAYS else cheap
    router = Router(cheap.candidate.program.deepcopy(), plan.team, learnt.rule)
    seat_cheap(router, plan.lm)
    return finished()


def _spent(folder: Path) -> Usage:
    """What all evaluations of the folder have paid, killed attempts too."""
    return totals(*(ledger.parent for ledger in sorted(folder.glob(f"*/*/{LEDGER}"))))
