"""Plans a distillation: reads and checks the team's run, and says what it is going to ask."""

from __future__ import annotations

from collections.abc import Mapping
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
from ..data import load as data
from ..evaluation.earlier import Evaluation, earlier
from ..lms.named import engine_of
from ..programs.resolve import program_of
from ..programs.seats import Seating
from ..runs.describe import lms_of
from .candidates import Candidate, Parts, candidates, split_questions
from .report import DistilReport, opening
from .request import DistilRequest
from .team import endpoint_of, lms_alone, seat_team, team_of

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

    @property
    def lms(self) -> list[Any]:
        """The LMs that are asked: the candidates', and those that are candidates alone."""
        own = [one.lm for one in self.candidates if one.lm is not None]
        return list({endpoint_of(lm): lm for lm in (self.lm, *own)}.values())

    @property
    def most_calls(self) -> int:
        """The most calls it can take, but for answers that have to be asked for twice."""
        each = [one.program.most_turns() for one in self.candidates]
        last = sum(sorted(each)[-2:])  # the single agent's and the router's
        return sum(each) * len(self.parts.selection) + last * len(self.parts.held_out)

    @property
    def title(self) -> str:
        return self.report.name

    @property
    def warnings(self) -> list[str]:
        return []

    @property
    def cost(self) -> None:
        """Not known: which candidates are asked depends on how the cheaper ones do."""

    def lines(self) -> list[str]:
        """The plan in words, with what the user must know before it runs."""
        parts, budget = self.parts, self.request.budget
        return [
            f"team: {self.report.name} ({self.run.folder}); its recorded answers count, it is "
            f"not asked",
            f"{counted(len(self.candidates), 'candidate')} on "
            f"{counted(len(parts.selection), 'question')}, "
            f"the last test on {len(parts.held_out):,} others; {len(parts.shown)} shown as "
            f"demonstrations",
            f"at most {counted(self.most_calls, 'call')} to "
            f"{', '.join(endpoint_of(lm)[1] for lm in self.lms)}",
            *([f"budget: {budget}"] if budget else []),
            *(f"Note: {note}" for note in self.report.notes),
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"out": str(self.out), "most_calls": self.most_calls, **self.report.to_dict()}


def plan_distil(request: DistilRequest) -> DistillationPlan:
    """Check and prepare everything. Raises UserError before any LM is called."""
    seating, margin, seed = Seating(request), request.margin, request.seed
    given, out = request.questions, request.out
    if isinstance(margin, bool) or not 0 < margin < 1:
        raise UserError(
            f"the margin is {margin!r}: give a share of the questions, such as 0.02 for 2 points"
        )
    matched = earlier(request.run)
    described = matched.summary.run
    if not matched.summary.default_metric:
        raise UserError(
            f"{matched.folder} was scored by {matched.summary.metric}: distilling needs right "
            f"and wrong "
            "answers, of a run that is scored by accuracy"
        )
    if given is None or isinstance(given, str | Path):
        asked = questions_of(matched, None if given is None else str(given))
    else:
        asked = data.listed(given)
    if data.fingerprint(asked) != described["data_fingerprint"]:
        raise UserError(
            f"the questions are not those that {matched.folder} ran on: give the same ones, in "
            f"the same order"
        )
    rows = {row["id"]: row for row in matched.rows if not row["repeat"]}
    left = len(asked) - len(rows)
    if left:
        raise UserError(
            f"{matched.folder} is not finished: {left:,} of its {len(asked):,} questions have no "
            f"row; give "
            "its evaluation's command again first"
        )
    usable = [question for question in asked if rows[question.id]["error"] is None]
    if len(usable) < FEWEST:
        raise UserError(
            f"{matched.folder} has {len(usable)} answered questions, too few to split: at least "
            f"{FEWEST} are "
            f"needed, and about {2 * fewest_questions(margin):,} to show anything within this "
            f"margin"
        )
    if any(rows[question.id]["usage"]["calls"] is None for question in usable):
        raise UserError(
            f"{matched.folder} has calls in threads of its program's own, which are nobody's: "
            f"what a "
            "question takes is not known, and so nothing can be cheaper"
        )
    calls = sum(rows[question.id]["usage"]["calls"] or 0 for question in usable) / len(usable)
    parts = split_questions(
        usable, {question.id: bool(rows[question.id]["correct"]) for question in usable}, seed
    )
    language_model = _lm(request, matched, seating)
    identity = lms_of(SingleAgent(), language_model)["*"]
    team: Any = request.team
    if isinstance(team, str | Path):
        team = program_of(team, make_lm=seating.make)
    program = team_of(matched, team)
    seat_team(program, matched, language_model, identity, seating.make)
    shown = [(one, rows[one.id]) for one in parts.shown]
    others = lms_alone(program, language_model)
    found = candidates(described["program"], calls, shown, others)
    if not found:
        raise UserError(
            f"{matched.folder} took {calls:.1f} calls a question, and no single agent takes "
            f"fewer: distil "
            "the run of a team"
        )
    folder = matched.folder / DISTIL if out is None else Path(out).expanduser()
    notes = _notes(matched, parts, margin, len(asked) - len(usable), identity)
    if others and any(
        getattr(engine_of(one), "prices", None) is None for one in (language_model, *others)
    ):
        notes.append(
            "Not all their prices are known, so tokens or calls count, whatever the LM: give "
            "--price."
        )
    report = opening(matched, parts, margin, seed, identity, notes)
    return DistillationPlan(
        request, matched, rows, program, found, parts, language_model, folder, report
    )


def _lm(request: DistilRequest, run: Evaluation, seating: Seating) -> Any:
    """The candidates' LM: the one given, else the one that DSPy is set to, else the run's."""
    if isinstance(request.lm, dspy.BaseLM):
        return request.lm
    if request.lm is None and dspy.settings.lm is not None:
        return dspy.settings.lm
    return lm_of_run(run, seating, "a single agent", other=True)


def _notes(
    run: Evaluation, parts: Parts, margin: float, failed: int, lm: Mapping[str, Any]
) -> list[str]:
    """What a reader must know before any money is spent, a sentence each."""
    notes = []
    if failed:
        are = "is" if failed == 1 else "are"
        notes.append(f"{counted(failed, 'question')} that failed in {run.folder} {are} left out.")
    if not parts.shown:
        notes.append("No question is shown as a demonstration: too few were answered right.")
    fewest = fewest_questions(margin, CONFIDENCE)
    if len(parts.held_out) < fewest:
        notes.append(
            f"The last test has {len(parts.held_out):,} of the run's questions, too few to show "
            f"a margin of "
            f"{100 * margin:g} points even if the two programs are right on the very same ones: "
            f"for that it "
            f"takes {fewest:,}, so {2 * fewest:,} in the run, and more the oftener one alone is "
            f"right."
        )
    others = {used["name"] for used in run.summary.run["lms"].values()} - {lm["name"]}
    if others:
        notes.append(
            f"The team ran on {', '.join(sorted(others))}, the candidates on {lm['name']}; "
            f"simple and cot "
            "also on each LM of the team alone."
        )
    return notes
