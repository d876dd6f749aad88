"""From a team's recorded run to the cheapest single agent as good, and a router that spares the team."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.router import ALWAYS, Router
from ...modules.protocols.single import SingleAgent
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ...optimizers.statistics.noninferiority import CONFIDENCE, fewest_questions
from ..base.budget import Budget
from ..base.journal import write_json
from ..base.wording import counted
from ..comparison.run_again import questions_of
from ..data import load as data
from ..evaluation.answering import CONCURRENCY
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.evaluate import evaluate
from ..lms.foreign import billed_as
from ..lms.ledger import LEDGER, totals
from ..lms.named import engine_of, lm_given
from ..lms.named import lm as make_one
from ..lms.store import CALLS
from ..programs.resolve import MakeLM
from ..runs.books import open_books
from ..runs.manifest import RunFolder, lms_of
from ..runs.progress import Progress
from ..tracking.context import caller_place
from ..tracking.tracker import start_tracking
from ..tracking.uploads import Tracker
from .candidates import Candidate, Parts, candidates, split_questions
from .logged import REPORT, distillation_run, distillation_uploads
from .price import price_of_run
from .report import DistilReport, Search, last_test, opening, selection_report, sentences_of
from .team import endpoint_of, lms_alone, seat_cheap, seat_team, team_of

MARGIN = 0.02
FEWEST = 4  # questions that a run must have to be split at all
DISTIL = "distil"  # sub-folder of the run
SELECTION, HELD_OUT = "selection", "held-out"  # sub-folders of the evaluations
Show = Callable[[str, Progress], None]
_FIELDS = {
    "program_hash": "team",
    "data_fingerprint": "data",
    "lm": "LM",
    "margin": "margin",
    "seed": "seed",
    "parts": "questions",
}
DISTILLATION = RunFolder("distillation", REPORT, {k: f"its {what} differs" for k, what in _FIELDS.items()})


@dataclass(frozen=True)
class Distilled:
    """What `distil` found. `report` is what `distil.json` in the folder says.

    `keep` names what to use, `single`, `router` or `team`: the cheapest that the last test shows to be
    non-inferior. `single` is None when every candidate was inferior to the team; both are None when a budget
    stopped the search before there was a choice.
    """

    folder: Path
    report: dict[str, Any]
    single: Program | None = None
    router: Router | None = None
    _run: Evaluation | None = None  # the run's temporary folder lives as long as this

    @property
    def run_id(self) -> str | None:
        """The distillation's run in MLflow; None when it has none."""
        found: str | None = self.report["mlflow_run_id"]
        return found

    @property
    def keep(self) -> str:
        return str(self.report["keep"])

    def __repr__(self) -> str:
        return "\n".join(self.report["sentences"])


@dataclass
class DistillationPlan:
    """A distillation that is checked and has not asked any LM."""

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


def distil(
    run: Evaluation | str | Path,
    questions: Sequence[Question] | None = None,
    *,
    margin: float = MARGIN,
    lm: Any = None,
    team: Program | None = None,
    out: str | Path | None = None,
    budget: str | Budget | None = None,
    seed: int = 0,
    concurrency: int = CONCURRENCY,
    cache: bool = True,
    tracking: bool = True,
    progress: Show | None = None,
) -> Distilled:
    """Find the cheapest single agent that is non-inferior to a team, and learn when to ask the team.

    The questions of the team's run are split once. On one part the candidates (single agents that make fewer
    calls than the team, without and with demonstrations from its transcripts) answer, the cheapest
    non-inferior one is chosen, and a router's rule is learned; both are then tested once on the other part.
    The team is never asked: its recorded answers count.

    Args:
        run: the team's finished evaluation, or its folder.
        questions: those that it ran on; None reads them again as the run notes.
        margin: how much lower than the team's an accuracy may be and still count as as good, 0 to 1.
        lm: the candidates' LM. None takes DSPy's configured one.
        team: the team's program, where the run does not say how to build it again (changed prompts) or its
            LMs have addresses that the environment does not know.
        out: folder for `distil.json`, the saved programs `single/` and `router/`, and every evaluation; by
            default `distil` in that of the run. The same call resumes.
        budget: ceilings such as `"2 USD, 500 calls"`, over all resumptions of the folder (time: for this
            one).
        seed: of the split and of cross-validation.
        concurrency, cache, tracking: as in `evaluate`; the evaluations are shown under one tracked run.
        progress: called with the name of an evaluation and where it stands.

    Raises:
        UserError: a run that is unfinished, too small, or makes one call a question; other questions than its
            own; a team that cannot be built; an `out` folder of another distillation; and as `evaluate`.
    """
    plan = plan_distil(run, questions, margin=margin, lm=lm, team=team, out=out, seed=seed)
    return carry_out(
        plan, budget=budget, concurrency=concurrency, cache=cache, tracking=tracking, progress=progress
    )


def plan_distil(
    run: Evaluation | str | Path,
    questions: Sequence[Question] | None = None,
    *,
    margin: float = MARGIN,
    lm: Any = None,
    team: Program | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    make_lm: MakeLM = make_one,
) -> DistillationPlan:
    """Check and prepare what `distil` does, without a call; `make_lm` makes the LMs of the team's seats."""
    if isinstance(margin, bool) or not 0 < margin < 1:
        raise UserError(f"the margin is {margin!r}: give a share of the questions, such as 0.02 for 2 points")
    matched = earlier(run)
    described = matched.summary.run
    if not matched.summary.default_metric:
        raise UserError(
            f"{matched.folder} was scored by {matched.summary.metric}: distilling needs right and wrong "
            "answers, of a run that is scored by accuracy"
        )
    asked = questions_of(matched) if questions is None else list(questions)
    if data.fingerprint(asked) != described["data_fingerprint"]:
        raise UserError(
            f"the questions are not those that {matched.folder} ran on: give the same ones, in the same order"
        )
    rows = {row["id"]: row for row in matched.rows if not row["repeat"]}
    left = len(asked) - len(rows)
    if left:
        raise UserError(
            f"{matched.folder} is not finished: {left:,} of its {len(asked):,} questions have no row; give "
            "its evaluation's command again first"
        )
    usable = [question for question in asked if rows[question.id]["error"] is None]
    if len(usable) < FEWEST:
        raise UserError(
            f"{matched.folder} has {len(usable)} answered questions, too few to split: at least {FEWEST} are "
            f"needed, and about {2 * fewest_questions(margin):,} to show anything within this margin"
        )
    if any(rows[question.id]["usage"]["calls"] is None for question in usable):
        raise UserError(
            f"{matched.folder} has calls in threads of its program's own, which are nobody's: what a "
            "question takes is not known, and so nothing can be cheaper"
        )
    calls = sum(rows[question.id]["usage"]["calls"] or 0 for question in usable) / len(usable)
    parts = split_questions(
        usable, {question.id: bool(rows[question.id]["correct"]) for question in usable}, seed
    )
    language_model = lm_given(lm)
    identity = lms_of(SingleAgent(), language_model)["*"]
    program = team_of(matched, team)
    seat_team(program, matched, language_model, identity, make_lm)
    shown = [(one, rows[one.id]) for one in parts.shown]
    others = lms_alone(program, language_model)
    found = candidates(described["program"], calls, shown, others)
    if not found:
        raise UserError(
            f"{matched.folder} took {calls:.1f} calls a question, and no single agent takes fewer: distil "
            "the run of a team"
        )
    folder = matched.folder / DISTIL if out is None else Path(out).expanduser()
    notes = _notes(matched, parts, margin, len(asked) - len(usable), identity)
    if others and any(getattr(engine_of(one), "prices", None) is None for one in (language_model, *others)):
        notes.append(
            "Not all their prices are known, so tokens or calls count, whatever the LM: give --price."
        )
    report = opening(matched, parts, margin, seed, identity, notes)
    return DistillationPlan(matched, rows, program, found, parts, language_model, folder, report)


def carry_out(
    plan: DistillationPlan,
    *,
    budget: str | Budget | None = None,
    concurrency: int = CONCURRENCY,
    cache: bool = True,
    tracking: bool = True,
    progress: Show | None = None,
) -> Distilled:
    """Do what was planned; see `distil`."""
    team, about = plan.run.folder, plan.report.to_dict()
    with (
        DISTILLATION.opened(plan.out, about),
        open_books(
            replayed=team if (team / CALLS).is_file() else None,  # what the team asked is not asked again
            budget=budget,
            engines=map(billed_as, plan.lms),
            spent=_spent(plan.out),
        ),
        ExitStack() as held,
    ):
        described = plan.run.summary.run
        run_of = distillation_run(about, plan.report.name, described["settings"])
        if tracking:
            write_json(plan.out / REPORT, about)
        tracker = start_tracking(run_of | caller_place()) if tracking else Tracker()
        held.push(lambda kind, *_: tracker.stop("FAILED") if kind else None)
        if tracking:
            about["mlflow_run_id"] = tracker.run_id
        if tracking or not (plan.out / REPORT).exists():
            write_json(plan.out / REPORT, about)
        plan.report.mlflow_run_id = about["mlflow_run_id"]
        kept = {key: described["settings"].get(key) for key in ("data", "split", "kinds", "types")}
        same = {"command": DISTIL, **{key: value for key, value in kept.items() if value is not None}}

        def run(one: Candidate, part: str, questions: Sequence[Question]) -> Evaluation:
            named = {"label": f"{one.name} · {part}", "part": part, "demos": one.demos}
            found = evaluate(
                one.program,
                questions,
                lm=plan.lm,
                concurrency=concurrency,
                out=plan.out / part / one.name,
                retry_errors=True,
                cache=cache,
                tracking=tracking,
                parent=tracker.run_id,
                settings={**same, **named},
                progress=None if progress is None else lambda state: progress(f"{part} {one.name}", state),
            )
            if 0 < found.summary.counts["rows"] == found.summary.counts["errors"]:
                why = next(iter(found.rows))["error"]
                raise UserError(f"every question failed ({why}): mend the cause, and give the command again")
            return found

        found = _distilled(plan, run)
        tracker.end(distillation_uploads(found.report, plan.out), "FINISHED", plan.out)
    return found


def _distilled(
    plan: DistillationPlan, run: Callable[[Candidate, str, Sequence[Question]], Evaluation]
) -> Distilled:
    """The whole of it: candidates answer, one is chosen, a rule is learned, both meet new questions."""
    used = [plan.lm, *(seat.predict.lm for seat in plan.team.seats().values())]
    engines = [engine for engine in map(engine_of, used) if engine is not None]
    prices = {engine.model: engine.prices for engine in engines if engine.prices is not None}
    parts, report = plan.parts, copy.deepcopy(plan.report)
    price = price_of_run(plan.run, prices)
    search = Search(plan.rows, price, parts.selection, report.margin, prices)
    single: Program | None = None
    router: Router | None = None

    def finished() -> Distilled:
        """The report is written, and the programs beside it."""
        report.paid = _spent(plan.out).to_dict()
        report.sentences = sentences_of(report)
        for name, program in (("single", single), ("router", router)):
            if program is not None:
                program.save(plan.out / name)
        write_json(plan.out / REPORT, report.to_dict())
        return Distilled(plan.out, report.to_dict(), single, router, plan.run)

    for one in plan.candidates:
        if search.needless(one):
            report.skipped.append(one.name)
            continue
        evaluation = run(one, SELECTION, parts.selection)
        report.stopped = evaluation.summary.stopped
        if report.stopped:
            break
        search.add(one, evaluation)
    chosen = search.chosen()
    routed = None if report.stopped else search.routed(report.seed)
    selection_report(report, search, chosen, routed)
    if routed is None or report.router is None:
        return finished()
    needed = [one for one in (chosen, routed.tried if routed.rule != ALWAYS else None) if one is not None]
    answered: dict[str, Evaluation] = {}
    for tested in needed:
        name = tested.candidate.name
        answered[name] = run(tested.candidate, HELD_OUT, parts.held_out)
        report.stopped = answered[name].summary.stopped
        if report.stopped:
            return finished()
    last_test(report, report.router, search, answered, chosen, routed, parts.held_out)
    single = chosen.candidate.program if chosen is not None else None
    cheap = chosen if chosen is not None and routed.rule == ALWAYS else routed.tried
    router = Router(cheap.candidate.program.deepcopy(), plan.team, routed.rule)
    seat_cheap(router, plan.lm)
    return finished()


def _spent(folder: Path) -> Usage:
    """What all evaluations of the folder have paid, killed attempts too."""
    total = Usage()
    for ledger in sorted(folder.glob(f"*/*/{LEDGER}")):
        total.add(totals(ledger.parent))
    return total


def _notes(run: Evaluation, parts: Parts, margin: float, failed: int, lm: Mapping[str, Any]) -> list[str]:
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
            f"The last test has {len(parts.held_out):,} of the run's questions, too few to show a margin of "
            f"{100 * margin:g} points even if the two programs are right on the very same ones: for that it "
            f"takes {fewest:,}, so {2 * fewest:,} in the run, and more the oftener one alone is right."
        )
    others = {used["name"] for used in run.summary.run["lms"].values()} - {lm["name"]}
    if others:
        notes.append(
            f"The team ran on {', '.join(sorted(others))}, the candidates on {lm['name']}; simple and cot "
            "also on each LM of the team alone."
        )
    return notes
