"""`contest`: runs a race, improves and confirms its winner as planned, and saves it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import UserError, system_errors
from ...modules.base.sync import ends_alone, run_sync
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.budget import only_shows
from ..base.display import displayed
from ..base.journal import read_object, write_json
from ..base.request import entry, warned
from ..base.wording import paused
from ..reporting.contested import RESULT, Place
from ..runs.describe import save_with_lm
from ..runs.lines import unmetered_line
from ..runs.manifest import CONTEST, RunFolder
from ..runs.rows import RESULTS, read_rows
from ..tasks.check import Check
from ..tasks.picked import Picked
from ..tracking.context import awaitable, to_show
from ..tracking.run import Run, is_sent, running, send_rest
from .after import apply_confirmation, cheapest_survivors, confirm, improve
from .card import WINNER
from .entrants import Entrant, entrants_by_name, lm_name
from .free import any_right, free_entrants
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
    given = plan.request
    request = given.handed_to(ContestRequest, out=folder, budget=budget or given.budget)
    return carry_out_contest(plan_contest(request))


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
        system_errors(run.folder),
    ):
        if request.tracking:
            run.track(CONTEST, registered=request.register)
        # The last tests and the planned numbers of earlier attempts.
        written = read_object(run.folder / CONTEST) or {}
        looks, plans = list(written.get(LOOKS) or []), dict(written.get(PLANS) or [])
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
        contest = _conclude(plan, race, run, looks)
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


def _note(
    folder: Path,
    about: Mapping[str, object],
    looks: Sequence[int],
    race: Race,
    result: Mapping[str, object] | None = None,
) -> None:
    """Write what a later attempt has to know of a race; without a result it is under way."""
    noted = {RESULT: result, LOOKS: looks, PLANS: list(race.planned_for.items())}
    write_json(folder / CONTEST, {**about, **noted})


def _reporting(request: ContestRequest, tell: Callable[[Race], None]) -> Callable[[Race], None]:
    """Return what is called after every answer: the display, and the user's own function."""

    def report(race: Race) -> None:
        tell(race)
        if request.on_question is not None:
            with ends_alone():  # since it runs in the event loop that all calls share
                request.on_question(race)

    return report


def _conclude(plan: ContestPlan, race: Race, run: Run[Any], looks: list[int]) -> Contest:
    """Decide a contest after its race, save the winner, and write the result. `looks` are the
    numbers of questions at which attempts took their last test.
    """
    verdict, winner, steps = _decide(plan, race, run.folder)
    if race.ended == "questions" and race.planned not in looks:
        looks.append(race.planned)
    # A last test uses up the 5% error rate: a contest that goes on with more questions after it has
    # a higher one.
    if len(looks) > 1:
        verdict = replace(
            verdict,
            reason=f"{verdict.reason}; the answers had a last test at {looks[0]:,} questions, too, "
            f"so a verdict is wrong in up to {5 * len(looks)}% of such contests instead of 5%",
        )
    saved = taken = None
    if steps["finished"]:
        saved = save_winner(winner, run.folder / WINNER, plan.race)
        taken = ready(winner)
    result = _result(plan, race, verdict, winner, steps, saved)
    _note(run.folder, run.about, looks, race, result)
    again = partial(_again, plan, run.folder)
    return Contest(run.folder, result, winner=taken, keep=run.keep, again=again)


def _decide(
    plan: ContestPlan, race: Race, folder: Path
) -> tuple[RaceVerdict, Entrant, dict[str, object]]:
    """Decide what the contest comes to. If planned, the survivors of the race are improved, and
    unseen questions asked. Returns the verdict, the winner, and what the result says of these
    steps.
    """
    verdict = race_verdict(race)
    playing = [lane.entrant for lane in race.lanes.values()]
    entrants = entrants_by_name(playing or plan.field)
    reference = next(value for value in entrants.values() if value.reference)
    contenders = [reference, entrants[verdict.winner]]
    # `short`: the budget did not pay for all that was planned.
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
        comparison, why, pauses = confirm(plan, list(field.values()), folder)
        race.stopped = race.stopped or why
        short, finished = short or why is not None, not pauses
    confirmed: dict[str, str] = {}
    confirmation = improvement = ""
    if comparison is not None:
        confirmed = {name: entrant.folder for name, entrant in field.items()}
        verdict, confirmation, improvement = apply_confirmation(
            verdict, comparison, improved, field
        )
    winner, stopped, spent = field[verdict.winner], None, None
    if not finished:
        stopped = race.stopped or "interrupted"
    if short and plan.budget is not None:
        spent = str(plan.budget)
    steps: dict[str, object] = {
        "finished": finished,
        "stopped": stopped,
        "spent": spent,
        "confirmed": confirmed or None,
        "confirmation": confirmation,
        "improved": improvement,
        "chosen_on_same": not (winner.reference or confirmed),
    }
    return verdict, winner, steps


def _result(
    plan: ContestPlan,
    race: Race,
    verdict: RaceVerdict,
    winner: Entrant,
    steps: Mapping[str, object],
    saved: bool | None,
) -> dict[str, object]:
    """Return the result that `contest.json` keeps."""
    unmetered = []
    for name, played in race.runs.items():
        if line := unmetered_line(played.summary):
            unmetered.append(f"{name}: {line}.")
    result = {
        **vars(verdict),
        "standings": list(map(asdict, _standings(race))),
        "course": race.course,
        "scores": race.scores.title,
        "rate": race.scores.rate,
        "questions": race.seen,
        "planned": race.planned,
        "ended": race.ended,
        "steps": plan.steps,
        "budget": plan.budget and str(plan.budget),
        "runs": {name: race.lanes[name].entrant.folder for name in race.runs},
        **steps,
        "paid": race.books.paid.to_dict(),
        "lost": race.books.lost.to_dict(),
        "saved": saved,
        "registered": plan.request.register,
        "spec": winner.spec,
        "lm": lm_name(winner.lm),
        "unmetered": unmetered,
    }
    if not steps["finished"]:  # no program is to be taken yet
        result["winner"] = None
    return result


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
