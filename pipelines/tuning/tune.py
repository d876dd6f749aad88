"""Tunes the structure of a program: an Optuna study over a protocol's space that pays for every
call once.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import optuna

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import UserError
from ...modules.base.files import locked
from ...modules.base.keyed import without, without_none
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.reading.question import Question
from ...modules.statistics.effects import Effect
from ...modules.statistics.statistics import Difference
from ..base.budget import BudgetSpent, BudgetUnheld, Unanswered, only_shows
from ..base.cards import ShownResult
from ..base.display import displayed
from ..base.journal import as_json, read_object, write_json
from ..base.request import entry, warned
from ..base.run_files import RunSettings, ScoreFields, books_of
from ..base.wording import ProgressLine, paused
from ..comparison.compare import compare
from ..comparison.pairs import Pair
from ..comparison.verdict import B
from ..comparison.words import say
from ..data import questions as data
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.evaluate import evaluate
from ..lms.ledger import lost_in, totals
from ..plots.trials import draw_trials, trials_frame
from ..plots.tuning import history_plot
from ..programs.saved import saved_program
from ..runs.books import open_books
from ..runs.describe import lms_of, save_with_lm
from ..runs.folder import MANIFEST, out_folder
from ..runs.manifest import check_kind, made_with, versions
from ..runs.study_file import DEFAULT, StudyReport, TrialEntry, WinnerJudged
from ..runs.summary import Ending
from ..tracking.context import ABOVE, Untracked, to_show
from ..tracking.live import Tracking
from ..tracking.run import is_sent
from .card import BEGUN, FOUND, STUDY, WINNER
from .job import Job, StudySettings
from .learned import digest_name, learning_calls
from .plan import StudyPlan, plan_study
from .recovery import trials_tuned
from .report import (
    best_of,
    calls_of,
    counts,
    effects_of,
    entries,
    why_no_winner,
)
from .request import TuneRequest
from .storage import safe_url
from .trial import Scorer
from .worker import StudyStopped, work
from .workers import in_processes

if TYPE_CHECKING:
    import pandas as pd

VALIDATION = "validation"


@dataclass(frozen=True)
class StudyProgress:
    """Where a study stands; handed to `progress` now and then."""

    total: int
    done: int
    pruned: int
    replayed: int
    calls: int
    best: float | None


def tuning_line(state: StudyProgress) -> ProgressLine:
    parts = [f"{state.done:,}/{state.total:,}"]
    if state.best is not None:
        parts.append(f"best {state.best:.1%}")
    parts.append(f"{state.pruned:,} stopped early")
    if state.replayed:
        parts.append(f"{state.replayed:,} replayed")
    parts.append(f"{state.calls:,} calls")
    return ProgressLine("tune", parts, state.done, state.total)


@dataclass
class Study(ShownResult):
    """A study as it stands: `report` is what `study.json` holds, `best` the winning program, or the
    default where that is shown to be better, and `study` the Optuna study itself.

    `best` raises UserError as long as no trial is finished.
    """

    folder: Path
    name: str
    report: StudyReport
    winner: Program | None
    validation: Evaluation | None = None
    default: Evaluation | None = None
    run_id: str | None = None
    _opened: Callable[[], optuna.Study] | None = field(default=None, repr=False)
    _keep: object = None  # a temporary folder lives as long as its study

    @property
    def best(self) -> Program:
        if self.winner is None:
            raise UserError(f"the study has no winner: {self.stopped}")
        return self.winner

    @cached_property
    def study(self) -> optuna.Study | None:
        return None if self._opened is None else self._opened()

    @property
    def stopped(self) -> str | None:
        """Why it ended early, or has no winner; None where neither is so."""
        if self.empty:
            return self.report.stopped or self.report.verdict
        return self.report.stopped

    @property
    def paused(self) -> bool:
        """Whether an endpoint or account failed."""
        return self.report.stopped is not None and self.report.spent is None

    @property
    def empty(self) -> bool:
        """Whether no trial has finished."""
        return self.report.best is None

    def to_dict(self) -> dict[str, object]:
        """Return the report without the table of trials and the space, which `study.json` has;
        `calls_made` counts all that were paid, also for the validation.
        """
        return {
            "out": str(self.folder),
            **without(self.report, ("table", "space", "versions")),
            "calls_made": self.report.paid["calls"],
            "calls_saved": self.report.calls["saved"],
        }

    @property
    def trials(self) -> list[TrialEntry]:
        return self.report.table

    @property
    def front(self) -> list[TrialEntry]:
        return self.report.front

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each trial, with a column for each setting and each objective."""
        return trials_frame(self.report)

    @property
    def effects(self) -> pd.DataFrame:
        """What each choice changes: a row for each value against the first one.

        `difference` is in scores, paired over the same questions and averaged over what else was
        tried, with `low` and `high` (95%); `cost_ratio` is how many times the calls it takes, or
        the price or tokens where these are objectives. They are empty where no two settings differ
        in a choice alone.
        """
        import pandas as pd

        return pd.DataFrame(self.report.effects, columns=list(Effect.__dataclass_fields__))

    def plot(self, path: str | Path) -> Path:
        """Draw how the study went, as PNG or SVG; as `.html` all trials, interactively, with
        plotly.

        Raises UserError where there is nothing to draw, or no plotly.
        """
        place = Path(path)
        if place.suffix == ".html":
            drawn = draw_trials(self.report, "parallel_coordinates", place)
        else:
            drawn = history_plot(self.report, place)
        if not drawn:
            raise UserError(
                "there is nothing to draw yet; for interactive plots also "
                "pip install 'folkmoot[plots]'"
            )
        return place

    def __repr__(self) -> str:
        return f"Study({self.name}: {self.report.verdict})"


@entry(TuneRequest)
def tune(request: TuneRequest) -> Study:
    """Search a protocol's settings on training questions, and evaluate the winner once on others.

    A budget holds for all that is spent in this folder; a fifth is kept for the validation. Other
    machines have budgets of their own.

    Raises UserError for a bad space, questions, objectives or budget, another study in the folder
    or storage, and an LM that cannot be used. What was finished is kept, also at a
    KeyboardInterrupt, with a report so far.
    """
    return tune_as_planned(warned(plan_study(request)))


def tune_as_planned(plan: StudyPlan, show: Callable[[Study], None] | None = None) -> Study:
    """Do what was planned.

    `show` gets a result that ended well before it is sent to the tracking store.
    """
    request, job, validation = plan.request, plan.job, plan.validation
    if plan.out is not None:
        check_kind(plan.out, BEGUN)
    if (stored := _load_finished(plan)) is not None:
        return stored
    with (
        out_folder(plan.out) as (folder, keep),
        displayed(request.progress, "tune", tuning_line) as tell,
    ):
        job = replace(job, folder=folder, began=time.monotonic())
        job.account()  # refused now rather than after a trial
        study, crew = job.opened()
        job = replace(job, earlier=len(trials_tuned(study)))
        tracking = Untracked()
        write_json(folder / BEGUN, _described(job, validation))
        if request.tracking:
            tracking = Tracking(folder, BEGUN, keep=keep, lm=job.lm, registered=request.register)
            job = replace(job, tracking=True)
        stopped, short = None, False
        problem: KeyboardInterrupt | UserError | None = None
        total, _ = job.planned()

        def watch(_: object = None) -> None:
            state = _progress(study, entries(study, job.objectives), job, total)
            best = dict[str, float]()
            if state.best is not None:
                best[job.objectives[0]] = state.best
            tracking.show(state.done, best)
            tell(state)

        try:
            watch()
            _search_all(job, study, validation, request.workers, watch)
        except BudgetUnheld as over:
            stopped = str(over)
        except BudgetSpent as over:
            stopped, short = str(over), True
        except EndpointDown as down:
            if not totals(folder).calls:  # none has ever answered: rather a wrong name or address
                raise
            stopped = paused(down)
        except KeyboardInterrupt as met:
            stopped, problem = "interrupted", met
        except UserError as met:
            stopped, problem = str(met), met
        with crew.asking():
            crew.sweep()
        spent = str(job.budget) if short and job.budget is not None else None
        # A budget that is spent is the search's share of it: the winner's evaluation has its own.
        go_on = stopped is None or short
        result = _finish(job, study, validation, stopped, go_on, keep, spent)
        tracking.end(to_show(show, result, well=problem is None))
        result.run_id = tracking.run_id
        if problem is not None:
            raise problem
        return result


def _search_all(
    job: Job,
    study: optuna.Study,
    validation: Sequence[Question],
    workers: int,
    watch: Callable[..., None],
) -> None:
    """Search with its share of the budget. If what is kept back pays for no validation, search with
    that, too.
    """
    try:
        _search(job, workers, watch)
    except (StudyStopped, BudgetUnheld):
        raise
    except BudgetSpent:
        if _why_unjudged(job, study, entries(study, job.objectives), validation) is None:
            raise
        _search(replace(job, share=1.0), workers, watch)


def _search(job: Job, workers: int, watch: Callable[..., None]) -> None:
    """Take trials until none is left, or the budget's share for it is spent."""
    if workers > 1:
        in_processes(workers, work, job, watch)
    work(job, watch)  # all of it, or the trials that processes left when they died


def _load_finished(plan: StudyPlan) -> Study | None:
    """Return the study in the plan's folder, if it was asked for in the same way and the plan asks
    for nothing more: it is shown as it is stored.
    """
    job, folder = plan.job, plan.out
    if folder is None or job.own is not None:
        return None
    stored = study_in(folder)
    if stored is None:
        return None
    written = read_object(folder / BEGUN) or {}
    # In the form of the file, where tuples have become lists.
    now = as_json(_described(replace(job, folder=folder), plan.validation))
    # A raised budget is no other study: whether it leaves something to do is asked below.
    for settings in (now["settings"], written.get("settings") or {}):
        settings.pop("budget", None)
    same = all(written.get(name) == now[name] for name in now if name not in made_with())
    unsent = plan.request.tracking and not is_sent(folder, written.get("mlflow_run_id"))
    shows = only_shows(stored.report, job.budget)
    # Without a winner, failed questions are asked again, but not with a budget that is spent.
    failed = stored.empty and stored.report.spent is None
    if failed or not (same and shows) or unsent or plan.request.register:
        return None
    if not stored.empty:
        stored.winner = saved_program(folder / WINNER)
    if judged := stored.report.validation:
        chosen = stored.winner
        if judged.handed_over == DEFAULT:
            chosen = saved_program(folder / FOUND)
        stored.validation = _load_judged(folder, "winner", plan.validation, chosen)
        if not judged.same:
            stored.default = _load_judged(folder, "default", plan.validation)
    stored.run_id = written.get("mlflow_run_id")
    # Without its database there is still all that is shown.
    stored._opened = lambda: replace(job, folder=folder).opened()[0]
    return stored


def study_in(folder: Path) -> Study | None:
    """Return the study that a folder holds, as its report says; None where it has none."""
    report = read_object(folder / STUDY)
    if report is None or "best" not in report:
        return None
    return Study(folder, str(report.get("study")), StudyReport.of(report), None)


def _finish(
    job: Job,
    study: optuna.Study,
    validation: Sequence[Question],
    stopped: str | None,
    go_on: bool,
    keep: object,
    spent: str | None,
) -> Study:
    """Return the report, and the winner with its validation, where there is one and nothing was
    interrupted.
    """
    scorer, table = Scorer(job), entries(study, job.objectives)
    front = best_of(study, table)
    evaluations: list[Evaluation] = []
    validated: WinnerJudged | None = None
    winner: Program | None = None
    if front and front[0].setting is not None and go_on:
        # The search had its share; from here on the whole budget counts, what it left included.
        # Another process at this folder may be at it: this one finds its rows.
        judging, account = locked(books_of(job.folder) / "winner.lock"), replace(job, share=1.0)
        with judging, open_books(job.folder, cache=job.cache, account=account.account()):
            try:
                shutil.rmtree(job.folder / FOUND, ignore_errors=True)  # of another outcome
                winner = scorer.program(front[0].setting)
                save_with_lm(winner, job.folder / WINNER, job.lm, job.train)
                unjudged = _why_unjudged(job, study, table, validation)
                if unjudged:
                    raise BudgetSpent(unjudged)
                if unjudged is None:
                    default = scorer.default()
                    validated, evaluations = _validate(job, default, winner, validation)
                    if validated.handed_over == DEFAULT:
                        save_with_lm(winner, job.folder / FOUND, job.lm, job.train)
                        save_with_lm(default, job.folder / WINNER, job.lm, job.train)
                        winner = default
            except (BudgetSpent, Unanswered) as ended:
                stopped = stopped or str(ended)
                if isinstance(ended, BudgetSpent):
                    spent = str(job.budget)
            except EndpointDown as down:
                stopped = stopped or paused(down)
    report = _report(job, study, scorer, table, validation, validated, stopped, spent)
    # As it is read from disk, so that a result is the same now and later.
    document = as_json(report)
    write_json(job.folder / STUDY, document)
    # Those that were asked come first: the winner's, then the default's.
    of_winner, of_default = (*evaluations, None, None)[:2]
    return Study(
        job.folder,
        job.study,
        StudyReport.of(document),
        winner,
        of_winner,
        of_default,
        _opened=lambda: study,
        _keep=keep,
    )


def _report(
    job: Job,
    study: optuna.Study,
    scorer: Scorer,
    table: list[TrialEntry],
    validation: Sequence[Question],
    validated: WinnerJudged | None,
    stopped: str | None,
    spent: str | None,
) -> StudyReport:
    """Return what a study has found, and what it cost."""
    front = best_of(study, table)
    made, lost = totals(job.folder), lost_in(job.folder)
    searched = made.calls - totals(*(job.folder / VALIDATION).glob("*/")).calls
    questions, learning = {"train": len(job.train)}, 0
    if job.space.trains or job.space.compiles:
        # Networks and prompts learn from one half of the training questions.
        questions["scored"] = len(scorer.questions)
        learning = learning_calls(job.folder)
    questions["validation"] = len(validation)
    best, verdict = None, why_no_winner(table)
    if front:
        best, verdict = front[0], say("study_verdict", validated, job.objectives[0])
    here = {entry.place for entry in table if entry.home == job.home}
    own = [entry for entry in table if entry.place in here or entry.told_by in here]
    return StudyReport(
        study=job.study,
        storage=safe_url(job.storage),
        objectives=job.objectives,
        sampler=job.sampler_name,
        seed=job.seed,
        questions=questions,
        trials=counts(table),
        calls=calls_of(own, searched, learning),
        paid=made.without(lost).to_dict(),
        best=best,
        front=front,
        validation=validated,
        verdict=verdict,
        stopped=stopped,
        spent=spent,
        space=job.space.to_dict(),
        settings=job.settings,
        versions=dict(versions()),
        table=table,
        lost=lost.to_dict(),
        effects=list(map(asdict, effects_of(study, table))),
    )


def _why_unjudged(
    job: Job, study: optuna.Study, table: Sequence[TrialEntry], validation: Sequence[Question]
) -> str | None:
    """Return why the winner is not asked the validation questions, None where it is: the rest of
    the budget pays for a part of them only, which would say nothing. Empty on a machine that has
    joined, since they are asked once, and where there is no winner.
    """
    front = best_of(study, table)
    if not front or study.user_attrs.get("home") not in (None, job.home):
        return ""
    made, budget = totals(job.folder), job.budget
    scored = [entry for entry in table if entry.scores]
    # A validation that has begun goes on: what it paid is not to be lost.
    if budget is None or not made.calls or (job.folder / VALIDATION).exists():
        return None
    # Trials say how many calls a question takes, and the bill so far what a call costs.
    each = front[0].value("calls")
    if front[0] is not scored[0]:  # the default is asked, too
        each += scored[0].value("calls")
    for unit, limit in budget.limits.items():
        paid = getattr(made, unit)
        if limit is None or paid is None:
            continue
        needs, left = len(validation) * each * paid / made.calls, limit - paid
        if needs > left:
            return (
                f"the budget {budget} leaves {max(0, left):.4g} of its {unit.replace('_', ' ')}, "
                f"and the validation takes about {needs:.4g}: it is not asked; a larger budget "
                "goes on from there"
            )
    return None


def _validate(
    job: Job,
    default: Program,
    winner: Program,
    validation: Sequence[Question],
) -> tuple[WinnerJudged, list[Evaluation]]:
    """Return the winner on questions that no trial saw, beside the default on the same.

    Raises BudgetSpent and Unanswered.
    """
    same = hashes(default) == hashes(winner) and lms_of(default, job.lm) == lms_of(winner, job.lm)
    programs = {WINNER: winner}
    if not same:
        programs[DEFAULT] = default
    evaluations = []
    for name, program in programs.items():
        named = {"run_name": None, "label": f"{name} on validation"}
        result = evaluate(
            program,
            validation,
            lm=job.lm,
            metric=job.metric,
            concurrency=job.concurrency,
            out=_validation_folder(job.folder, name, program, validation),
            cache=job.cache,
            tracking=job.tracking,
            parent=ABOVE,
            progress=False,
            settings={**job.settings, **_held_out(job.settings), **named},
        )
        if result.summary.ending == Ending.PAUSED:
            raise Unanswered(str(result.summary.stopped))
        if result.summary.stopped:
            raise BudgetSpent(result.summary.stopped)
        evaluations.append(result)
    objective = job.objectives[0]
    scores = [result.summary.scores[objective] for result in evaluations]
    judged = WinnerJudged(
        same=same,
        n=len(validation),
        winner=scores[0],
        default=scores[-1],
        failures=evaluations[0].summary.failures,
    )
    if not same:
        compared = compare(evaluations[1], evaluations[0], names=(DEFAULT, WINNER))
        pair = compared.pairs[0]
        spans = objective == "f1" and job.metric.default
        difference: Pair | Difference = pair
        outcome = pair.outcome
        if spans and pair.f1 is not None:
            difference, outcome = pair.f1, pair.f1_outcome
        ends = ScoreFields(value=difference.difference, low=difference.low, high=difference.high)
        found = {"difference": ends, "p": pair.p, "outcome": outcome, "unread": pair.cause}
        if outcome == B or not compared.runs[1].usable:
            found["handed_over"] = DEFAULT
        judged = judged.but(**without_none(found))
    return judged, evaluations


def _validation_folder(
    folder: Path, name: str, program: Program, validation: Sequence[Question]
) -> Path:
    """Where a program is evaluated on validation questions; with a larger budget or more trials
    another one may win, which then has a folder of its own, as other questions have.
    """
    place, mine = folder / VALIDATION / name, hashes(program)
    mine["data_fingerprint"] = data.fingerprint(validation)
    earlier = read_object(place / MANIFEST) or {}
    # The folder of another run would be refused.
    differs = any(earlier.get(what, value) != value for what, value in mine.items())
    if differs:
        return place.with_name(f"{name}-{digest_name(mine)[:8]}")
    return place


def _load_judged(
    folder: Path, name: str, validation: Sequence[Question], program: Program | None = None
) -> Evaluation | None:
    """Return the evaluation of a finished study's winner or default; None where its folder is
    gone.
    """
    wanted = {"data_fingerprint": data.fingerprint(validation)}
    # A study has one default, but other winners may have been judged before.
    if program is not None:
        wanted |= hashes(program)
    for place in sorted((folder / VALIDATION).glob(f"{name}*")):
        described = read_object(place / MANIFEST) or {}
        if wanted.items() <= described.items():
            return earlier(place)
    return None


def _held_out(settings: StudySettings) -> RunSettings:
    """Return the settings by which the questions of a run are read again, for the validation."""
    if "validation" not in settings:
        return RunSettings()
    return RunSettings(
        data=settings.validation,
        split=settings.validation_split,
        limit=settings.validation_limit,
    )


def _progress(
    study: optuna.Study, table: Sequence[TrialEntry], job: Job, total: int
) -> StudyProgress:
    states, front = counts(table), best_of(study, table)
    best = front[0].value(job.objectives[0]) if front else None
    return StudyProgress(
        total=total,
        done=states["complete"] + states["pruned"] + states["failed"],
        pruned=states["pruned"],
        replayed=states["told"],
        calls=totals(job.folder).calls,
        best=best,
    )


def _described(job: Job, validation: Sequence[Question]) -> dict[str, object]:
    """Return what `study_run.json` says of the study, in the form of a manifest."""
    _, default = job.space.default()
    return {
        "program": {
            "program": ", ".join(dict.fromkeys(branch.spec for branch in job.space.branches))
        },
        **hashes(default),
        "lms": lms_of(default, job.lm),
        "data_fingerprint": data.fingerprint(job.train),
        "questions": len(job.train),
        "settings": {
            "label": f"study {job.study}",
            **job.settings,
            "objectives": job.objectives,
            "sampler": job.sampler_name,
            "seed": job.seed,
            "trials": job.trials,
            "storage": safe_url(job.storage),
            "study": job.study,
            "home": job.home,
            "validation_fingerprint": data.fingerprint(validation),
            "validation_questions": len(validation),
        },
        **made_with(),
    }
