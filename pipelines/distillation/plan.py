"""Plans a distillation: reads and checks the team's run, and says what it is going to ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.single import SingleAgent
from ...modules.reading.row import ResultRow
from ...optimizers.statistics.noninferiority import CONFIDENCE, fewest_questions
from ..base.wording import counted
from ..comparison.run_again import lm_of_run, questions_of
from ..evaluation.earlier import Evaluation, earlier
from ..programs.seats import Seating
from ..runs.describe import lms_of
from .candidates import Candidate, Parts, candidates, split_questions
from .report import DistilReport, opening
from .request import DistilRequest
from .team import seat_team, team_of

FEWEST = 4  # questions that a run must have to be split at all
DISTIL = "distil"  # sub-folder of the run


@dataclass
class DistillationPlan:
    """A distillation that is checked; no LM has been called."""

    request: DistilRequest
    run: Evaluation
    rows: dict[str, ResultRow]
    team: Program
    candidates: list[Candidate]
    parts: Parts
    lm: Any
    out: Path
    report: DistilReport

    warnings: tuple[str, ...] = ()
    cost = None  # which candidates are asked depends on how the cheaper ones do

    @property
    def most_calls(self) -> int:
        """The most calls it can take, but for answers that have to be asked for twice."""
        each = [one.program.most_turns() for one in self.candidates]
        last = sum(sorted(each)[-2:])  # the single agent's and the router's
        return sum(each) * len(self.parts.selection) + last * len(self.parts.held_out)

    @property
    def title(self) -> str:
        return self.report["name"]

    def lines(self) -> list[str]:
        """The plan in words, with what the user must know before it runs."""
        parts, budget = self.parts, self.request.budget
        return [
            f"team: {self.title} ({self.run.folder}); its recorded answers count, it is not asked",
            f"{counted(len(self.candidates), 'candidate')} on "
            f"{counted(len(parts.selection), 'question')}, "
            f"the last test on {len(parts.held_out):,} others; {len(parts.shown)} shown as "
            f"demonstrations",
            f"at most {counted(self.most_calls, 'call')} to {self.report['lm']['endpoint']}",
            *([f"budget: {budget}"] if budget else []),
            *(f"Note: {note}" for note in self.report["notes"]),
        ]

    def to_dict(self) -> dict[str, object]:
        return {"out": str(self.out), "most_calls": self.most_calls, **self.report}


def plan_distil(request: DistilRequest) -> DistillationPlan:
    """Check and prepare everything. Raises UserError before any LM is called."""
    seating, margin = Seating(request), request.margin
    if isinstance(margin, bool) or not 0 < margin < 1:
        raise UserError(
            f"the margin is {margin!r}: give a share of the questions, such as 0.02 for 2 points"
        )
    run = earlier(request.run)
    if not run.summary.default_metric:
        raise UserError(
            f"{run.folder} was scored by {run.summary.metric}: distilling needs a run that is "
            "scored by accuracy"
        )
    questions = questions_of(run, request.questions)
    rows = {row["id"]: row for row in run.rows if not row["repeat"]}
    if len(rows) < len(questions):
        raise UserError(
            f"{run.folder} is not finished: {len(questions) - len(rows):,} of its "
            f"{len(questions):,} questions have no row; give its evaluation's command again first"
        )
    usable = [question for question in questions if rows[question.id]["error"] is None]
    if len(usable) < FEWEST:
        raise UserError(
            f"{run.folder} has {len(usable)} answered questions, too few to split: at least "
            f"{FEWEST} are needed, and about {2 * fewest_questions(margin):,} to show anything "
            "within this margin"
        )
    spent = [rows[question.id]["usage"]["calls"] for question in usable]
    if None in spent:
        raise UserError(
            f"{run.folder} has calls in threads of its program's own, which belong to no "
            "question: what a question takes is not known, and so nothing can be cheaper"
        )
    calls = sum(filter(None, spent)) / len(usable)
    parts = split_questions(usable, rows, request.seed)
    lm = _lm(request, run, seating)
    identity = lms_of(SingleAgent(), lm)["*"]
    team = team_of(run, request.team, seating)
    seat_team(team, run, lm, identity, seating)
    shown = [(one, rows[one.id]) for one in parts.shown]
    agents = candidates(run.summary.run["program"], calls, shown)
    if not agents:
        raise UserError(
            f"{run.folder} took {calls:.1f} calls per question, and no single agent takes fewer: "
            "distil the run of a team"
        )
    out = run.folder / DISTIL if request.out is None else Path(request.out).expanduser()
    notes = list(_notes(run, parts, margin, len(questions) - len(usable), str(identity["name"])))
    report = opening(run, parts, margin, request.seed, identity, notes)
    return DistillationPlan(request, run, rows, team, agents, parts, lm, out, report)


def _lm(request: DistilRequest, run: Evaluation, seating: Seating) -> Any:
    """The candidates' LM: the user's, else the one that DSPy is set to, else the run's."""
    if isinstance(request.lm, dspy.BaseLM):
        return request.lm
    if request.lm is None and dspy.settings.lm is not None:
        return dspy.settings.lm
    return lm_of_run(run, seating, "a single agent", other=True)


def _notes(run: Evaluation, parts: Parts, margin: float, failed: int, lm: str) -> Iterator[str]:
    """What a reader must know before any money is spent, a sentence each."""
    if failed:
        are = "is" if failed == 1 else "are"
        yield f"{counted(failed, 'question')} that failed in {run.folder} {are} left out."
    if not parts.shown:
        yield "No question is shown as a demonstration: too few were answered right."
    fewest = fewest_questions(margin, CONFIDENCE)
    if len(parts.held_out) < fewest:
        yield (
            f"The last test has {len(parts.held_out):,} of the run's questions, too few to show a "
            f"margin of {100 * margin:g} points even if the two programs are right on the very "
            f"same ones: for that it takes {fewest:,}, so {2 * fewest:,} in the run, and more the "
            "oftener one alone is right."
        )
    others = {used["name"] for used in run.summary.run["lms"].values()} - {lm}
    if others:
        yield (
            f"The team ran on {', '.join(sorted(others))}, the candidates on {lm}: name another LM "
            "with --lm to see what that does alone."
        )
