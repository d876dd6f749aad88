"""`contest`: runs a race, improves and confirms its winner as planned, and saves it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import UserError
from ...modules.base.sync import ends_alone, run_sync
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.budget import only_shows
from ..base.display import displayed
from ..base.journal import read_object, write_json
from ..base.request import entry, warned
from ..base.wording import paused
from ..comparison.comparison import Comparison
from ..comparison.verdict import A, B
from ..reporting.contested import RESULT, Place
from ..runs.describe import save_with_lm
from ..runs.lines import unmetered_line
from ..runs.manifest import CONTEST, RunFolder
from ..runs.rows import RESULTS, read_rows
from ..tasks.check import Check
from ..tasks.picked import Picked
from ..tracking.context import awaitable, to_show
from ..tracking.run import Run, disk_errors, is_sent, running, send_rest
from .card import WINNER
from .confirm import confirm, confirmation_words
from .entrants import Entrant, entrants_by_name, lm_name
from .free import any_right, free_entrants
from .improve import Improved, cheapest_survivors, improve, improvement_words
from .outcome import Contest
from .plan import ContestPlan, plan_contest
from .race import Race
from .request import ContestRequest
from .screen import contest_line
from .standing import RaceVerdict, free_places, places, race_verdict

NAMED = "WINNER.txt"
"""The file in the winner's folder that names a program which cannot be saved."""

FOLDER = RunFolder(
    "contest",
    CONTEST,
    {
        "seed": "its seed differs",  # before the data, whose order it draws
        "data_fingerprint": "its data differs",
        "margin": "its margin differs",
        "metric": "its metric differs",
        "early_stop": "its rule of early stops differs",
        "repeats": "its number of repeats differs",
        "permute": "its order of the options differs",
        # Last, since a program's examples follow from seed and data.
        "field": "its programs or LMs differ",
    },
    {RESULTS: "an evaluation", "compile.json": "a compilation", "study.json": "a study"},
)


@entry(ContestRequest)
def contest(request: ContestRequest) -> Contest:
    """Let programs answer the same questions in rounds until it is clear which one to take.

    The default programs are one prompt; step-by-step reasoning; one prompt with examples; one
    prompt asked as often as the dearest team costs; a panel of three; and two agents who talk.

    Raises UserError for unusable questions, programs or settings, a budget that cannot be enforced,
    and a program whose first answers all fail or cannot be read. At a KeyboardInterrupt finished
    work is kept.
    """
    return carry_out_contest(warned(plan_contest(request)))


_ASYNC = """Do what `contest` does, for async code, with the same arguments:
`await fm.acontest(…)`.

If it is cancelled, the finished rows stay in the folder, and the same call with the same `out`
continues.
"""

acontest = awaitable(contest, _ASYNC)

LOOKS, PLANS = "last_looks", "plans"
"""Keys in `contest.json`: the numbers of questions at which attempts took their last test, and
those that were planned for each budget.
"""


def _read_notes(folder: Path) -> tuple[list[int], dict[str, int]]:
    """Return the last tests and the planned numbers of earlier attempts."""
    written = read_object(folder / CONTEST) or {}
    looks, plans = written.get(LOOKS) or [], written.get(PLANS) or []
    return list(looks), dict(plans)


def finished_contest(plan: ContestPlan) -> Contest | None:
    """Return the contest that is stored in the plan's folder, if nothing is left to do; else None.
    Raises UserError if the folder holds something else.
    """
    if plan.out is None:
        return None
    written = FOLDER.earlier(plan.out, plan.about())
    result = written.get(RESULT)
    if not isinstance(result, dict) or not result.get("finished"):
        return None
    # Further steps or a larger budget leave something to do.
    if result.get("steps", plan.steps) != plan.steps or not only_shows(result, plan.budget):
        return None
    winner = None
    for entrant in plan.field:
        # Not the plan's fair opponent, which lacks the number of samples that the race settled.
        if entrant.name == result["winner"] and not entrant.fair:
            winner = ready(entrant)
    contest = Contest(plan.out, result, winner=winner, again=partial(_again, plan, plan.out))
    contest.run_id = written.get("mlflow_run_id")
    return contest


def _register_later(contest: Contest, name: str | None) -> None:
    """Register the winner of a finished contest under this name, unless it has it already. Raises
    UserError for a winner that could not be saved.
    """
    if name is None or name == contest.result.get("registered"):
        return
    if not contest.result.get("saved"):
        raise UserError(
            f"{contest.winner_name} is your own code, which cannot be registered: drop --register"
        )
    contest.winner.register(name)
    written = read_object(contest.folder / CONTEST) or {}
    contest.result = {**contest.result, "registered": name}
    write_json(contest.folder / CONTEST, {**written, RESULT: contest.result})


def _again(plan: ContestPlan, folder: Path, budget: str | None) -> Contest:
    """Go on with a contest in its folder, perhaps with another budget."""
    request = replace(plan.request, out=folder)
    return carry_out_contest(plan_contest(replace(request, budget=budget or plan.request.budget)))


def carry_out_contest(plan: ContestPlan, show: Callable[[Contest], None] | None = None) -> Contest:
    """Carry out a plan; returns the result. `show` is called with it before it is sent to the
    tracking store.
    """
    stored = finished_contest(plan)
    if stored is not None:
        _catch_up(stored, plan.request, show)
        return stored
    request, about = plan.request, plan.about()
    with (
        running(
            FOLDER,
            about,
            plan.out,
            lms=plan.shared_lms(),
            cache=request.cache,
            budget=request.budget,
            engines=plan.engines,
        ) as run,
        disk_errors(run.folder),
    ):
        if request.tracking:
            run.track(CONTEST, registered=request.register)
        looks, plans = _read_notes(run.folder)
        note = partial(_note, run.folder, about, looks)
        race = Race(plan, run.folder, run.books, note=note, planned_for=plans)
        note(race)
        problem: BaseException | None = None
        try:
            with displayed(request.progress, "try", contest_line) as tell:
                race.tell = _reporting(request, tell)
                race.run()
        except UserError:
            raise
        except BaseException as ending:  # raised below, once the result so far is written
            problem = ending
        contest = _conclude(plan, race, run)
        run.end(to_show(show, contest, well=problem is None))
        contest.run_id = run.tracking.run_id
        if problem is not None:
            raise problem
    return contest


def _catch_up(
    stored: Contest, request: ContestRequest, show: Callable[[Contest], None] | None
) -> None:
    """Show a contest that was finished before; send and register it, if that is left to do."""
    shown = to_show(show, stored)
    if request.tracking and not is_sent(stored.folder, stored.run_id):
        stored.run_id = send_rest(stored.folder, CONTEST, shown)
    elif request.register and shown is not None:
        shown()
    _register_later(stored, request.register)


def _note(folder: Path, about: Mapping[str, object], looks: Sequence[int], race: Race) -> None:
    """Write what a later attempt has to know of a race that is under way."""
    noted = {RESULT: None, LOOKS: looks, PLANS: list(race.planned_for.items())}
    write_json(folder / CONTEST, {**about, **noted})


def _reporting(request: ContestRequest, tell: Callable[[Race], None]) -> Callable[[Race], None]:
    """Return what is called after every answer: the display, and the user's own function."""

    def report(race: Race) -> None:
        tell(race)
        if request.on_question is not None:
            with ends_alone():  # since it runs in the event loop that all calls share
                request.on_question(race)

    return report


class _Decision(NamedTuple):
    """What a contest has come to, by its race and by the steps that follow it."""

    verdict: RaceVerdict
    winner: Entrant
    finished: bool
    short: bool
    """Whether the budget did not pay for all that was planned."""
    confirmed: dict[str, str]
    """The programs that answered the unseen questions, and their folders."""
    confirmation: str
    improvement: str


def _conclude(plan: ContestPlan, race: Race, run: Run[Any]) -> Contest:
    """Decide a contest after its race, save the winner, and write the result."""
    decision = _decide(plan, race, run.folder)
    looks, plans = _read_notes(run.folder)
    if race.ended == "questions" and race.planned not in looks:
        looks.append(race.planned)
    if len(looks) > 1:
        decision = decision._replace(verdict=_tested_again(decision.verdict, looks))
    saved = taken = None
    if decision.finished:
        saved = save_winner(decision.winner, run.folder / WINNER, plan.race)
        taken = ready(decision.winner)
    result = _result(plan, race, decision, saved)
    noted = {RESULT: result, LOOKS: looks, PLANS: list(plans.items())}
    write_json(run.folder / CONTEST, {**run.about, **noted})
    again = partial(_again, plan, run.folder)
    return Contest(run.folder, result, winner=taken, keep=run.keep, again=again)


def _decide(plan: ContestPlan, race: Race, folder: Path) -> _Decision:
    """Decide what the contest comes to. If planned, the survivors of the race are improved, and
    unseen questions asked.
    """
    verdict = race_verdict(race)
    playing = [lane.entrant for lane in race.lanes.values()]
    entrants = entrants_by_name(playing or plan.field)
    reference = next(value for value in entrants.values() if value.reference)
    contenders = [reference, entrants[verdict.winner]]
    finished, short = race.ended in ("decided", "questions", "money"), race.short
    improved = None
    if plan.improve_share and finished:
        try:
            improved = improve(plan, race, folder, plan.improve_share)
        except EndpointDown as problem:
            finished = False
            race.stopped = paused(problem)
    if improved is not None:
        race.stopped = race.stopped or improved.stopped
        short = short or improved.stopped is not None
        contenders += [*cheapest_survivors(race), *improved.entrants]
    # The race favours programs with lucky answers, and the improved ones have learned from its
    # questions: unseen ones confirm the winner, or choose another.
    comparison, field = None, entrants_by_name(contenders)
    if plan.unseen and finished and len(field) > 1:
        comparison, stopped, pauses = confirm(plan, list(field.values()), folder)
        race.stopped = race.stopped or stopped
        short, finished = short or stopped is not None, not pauses
    confirmed: dict[str, str] = {}
    confirmation = improvement = ""
    if comparison is not None:
        confirmed = {name: entrant.folder for name, entrant in field.items()}
        verdict, confirmation, improvement = _apply_confirmation(
            verdict, comparison, improved, field
        )
    return _Decision(
        verdict,
        field[verdict.winner],
        finished,
        short,
        confirmed,
        confirmation,
        improvement,
    )


def _apply_confirmation(
    verdict: RaceVerdict,
    comparison: Comparison,
    improved: Improved | None,
    field: Mapping[str, Entrant],
) -> tuple[RaceVerdict, str, str]:
    """Return the verdict after a comparison on unseen questions, and what that says about the
    winner and about improving.
    """
    improvement = ""
    if improved is not None and comparison.recommendation is not None:
        chosen = comparison.recommendation.run
        improvement = improvement_words(improved, comparison, chosen, verdict.winner)
        if chosen != verdict.winner:
            verdict = _chosen(verdict, comparison, field[chosen])
    confirmation = confirmation_words(comparison, verdict.winner)
    # If the field was improved, the unseen questions have given the verdict already.
    if improved is None and comparison.against[0].outcome == B:
        verdict = replace(
            verdict,
            outcome="undecided",
            winner=comparison.runs[0].name,  # the reference
            reason=f"{verdict.reason}, but {confirmation}",
            advice="unseen questions contradict the race",
        )
        confirmation = ""
    return verdict, confirmation, improvement


def _tested_again(verdict: RaceVerdict, looks: Sequence[int]) -> RaceVerdict:
    """Return the verdict of a contest that had a last test before. Such a test uses up the 5% error
    rate: a contest that goes on with more questions after it has a higher one.
    """
    return replace(
        verdict,
        reason=f"{verdict.reason}; the answers had a last test at {looks[0]:,} questions, too, "
        f"so a verdict is wrong in up to {5 * len(looks)}% of such contests instead of 5%",
    )


def _result(
    plan: ContestPlan, race: Race, decision: _Decision, saved: bool | None
) -> dict[str, object]:
    """Return the result that `contest.json` keeps."""
    spent = None
    ended_early: str | None = race.stopped or "interrupted"
    if decision.finished:
        ended_early = None
    if decision.short and plan.budget is not None:
        spent = str(plan.budget)
    unmetered = []
    for name, played in race.runs.items():
        if line := unmetered_line(played.summary):
            unmetered.append(f"{name}: {line}.")
    result = {
        **vars(decision.verdict),
        "standings": list(map(asdict, _standings(race))),
        "course": race.course,
        "scores": race.scores.title,
        "rate": race.scores.rate,
        "questions": race.seen,
        "planned": race.planned,
        "ended": race.ended,
        "finished": decision.finished,
        "stopped": ended_early,
        "spent": spent,
        "steps": plan.steps,
        "budget": plan.budget and str(plan.budget),
        "runs": {name: race.lanes[name].entrant.folder for name in race.runs},
        "confirmed": decision.confirmed or None,
        "confirmation": decision.confirmation,
        "improved": decision.improvement,
        "chosen_on_same": not (decision.winner.reference or decision.confirmed),
        "paid": race.books.paid.to_dict(),
        "lost": race.books.lost.to_dict(),
        "saved": saved,
        "registered": plan.request.register,
        "spec": decision.winner.spec,
        "lm": lm_name(decision.winner.lm),
        "unmetered": unmetered,
    }
    if not decision.finished:  # no program is to be taken yet
        result["winner"] = None
    return result


def _chosen(verdict: RaceVerdict, comparison: Comparison, chosen: Entrant) -> RaceVerdict:
    """Return the verdict if unseen questions chose another program than the race's winner."""
    why = f"on unseen questions {chosen.name} is the cheapest that nothing is shown to beat"
    beats = any(pair.a == chosen.name and pair.outcome == A for pair in comparison.against)
    # A team also has to beat the fair opponent, which is only in the race.
    better = beats and (verdict.outcome == "better" or not chosen.team)
    return replace(
        verdict,
        outcome="better" if better else "undecided",
        winner=chosen.name,
        reason=f"{why}; in the race, {verdict.reason}",
        advice=why,
        open="",
    )


def _standings(race: Race) -> list[Place]:
    """Return the standings of all programs, free entrants included."""
    if not race.lanes:
        return []
    asked = places(race)
    reference = next(lane for lane in race.lanes.values() if lane.entrant.reference)
    rows: dict[str, Mapping[str, ResultRow]] = {}
    metric = race.plan.metric
    # Free entrants need their answers scored: by our metrics and by checks of tasks, but not by a
    # user's own, which may ask an LM that would have to be paid.
    if race.watch is not None and (metric.default or isinstance(metric, Check)):
        for name, run in race.runs.items():
            read = read_rows(run.folder / RESULTS)
            rows[name] = {row.id: row for row in read if not row.repeat and row.error is None}
    entrants = [lane.entrant for lane in race.lanes.values()]
    if metric.default:
        free = free_entrants(entrants, rows)
    else:
        free = []
        for entrant in entrants:
            answered = rows.get(entrant.name)
            if answered and isinstance(entrant.program, Picked):
                free.append(run_sync(any_right, entrant, answered, metric, race.questions))
    return [*asked, *free_places(asked, free, reference)]


def ready(entrant: Entrant) -> Any:
    """Return the program of an entrant with its LM in every agent, ready to be asked."""
    program: Program = entrant.program.deepcopy()
    for seat in program.seats().values():
        seat.predict.lm = seat.predict.lm or entrant.lm
    return program if program.started else program.as_given


def save_winner(winner: Entrant, folder: Path, asked: Sequence[Question]) -> bool:
    """Save the winner, with its LM and the kinds of questions that it was asked, for
    `fm.load_program`, `ask` and `serve`. If that is not possible, as for a command or a user's own
    code, the folder only names it. Returns whether it could be saved.
    """
    # Written under another name and renamed, so that the folder is always whole.
    scratch = folder.with_name(f".{folder.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        save_with_lm(winner.program, scratch, winner.lm, asked)
        saved = True
    except UserError:
        scratch.mkdir()
        (scratch / NAMED).write_text(
            f"The winner is {winner.spec or winner.name}, which no file can hold: run it where its "
            "code is.\n",
            encoding="utf-8",
        )
        saved = False
    shutil.rmtree(folder, ignore_errors=True)
    scratch.rename(folder)
    return saved
