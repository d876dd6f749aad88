"""Runs a contest: the race, the confirmation, and the program that is handed over."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.sync import awaitable
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from ...modules.reading.row import ResultRow
from ..base.display import displayed
from ..base.journal import read_object, write_json
from ..base.request import entry
from ..comparison.verdict import B
from ..lms.named import engine_of
from ..meter.programs import Command
from ..reporting.contested import RESULT, Place
from ..runs.lines import unmetered_line
from ..runs.manifest import CONTEST, RunFolder
from ..runs.rows import RESULTS, read_rows
from ..tracking.context import from_caller
from ..tracking.run import Run, disk_errors, running
from .confirm import confirm, confirmation_words
from .entrants import Entrant
from .free import free_entrants
from .improve import cheapest_survivors, improve, improvement_words
from .outcome import WINNER, Contest
from .plan import ContestPlan, plan_contest
from .race import Race
from .request import ContestRequest
from .screen import contest_line
from .standing import free_places, places, race_verdict

_SAME = {
    "field": "programs or LMs differ",
    "data_fingerprint": "data differs",
    "margin": "margin differs",
    "seed": "seed differs",
    "metric": "metric differs",
    "early_stop": "rule of early stops differs",
    "repeats": "number of repeats differs",
    "permute": "order of the options differs",
}
FOLDER = RunFolder(
    "contest",
    CONTEST,
    {name: f"its {differs}" for name, differs in _SAME.items()},
    {RESULTS: "an evaluation", "compile.json": "a compilation", "study.json": "a study"},
)


@entry(ContestRequest)
def contest(request: ContestRequest) -> Contest:
    """Let programs answer the same questions in rounds until it is clear which one to take.

    The default programs are one prompt; step-by-step reasoning; one prompt with examples; one
    prompt asked as often as the dearest team costs; a panel of three; and two agents who talk. The
    same call with the same folder continues a stopped contest, and pays for nothing twice.

    Raises: UserError: unusable questions, programs or settings, a budget that cannot be enforced,
        and a program whose first answers all fail or cannot be read. KeyboardInterrupt: finished
        work is kept.
    """
    plan = plan_contest(request)
    for warning in plan.warnings:
        warnings.warn(warning, stacklevel=3)
    return carry_out_contest(plan)


_ASYNC = """Do what `contest` does, for async code, with the same arguments:
`await fm.acontest(…)`.

If it is cancelled, the finished rows stay in the folder, and the same call with the same `out`
continues.
"""

acontest = from_caller(awaitable(contest, _ASYNC))

LOOKS = "last_looks"
"""Key in `contest.json`: the question counts at which all attempts took their last look."""


def _looks_in(folder: Path) -> list[int]:
    looks = (read_object(folder / CONTEST) or {}).get(LOOKS)
    return [look for look in looks if isinstance(look, int)] if isinstance(looks, list) else []


def carry_out_contest(plan: ContestPlan, show: Callable[[Contest], None] | None = None) -> Contest:
    """Do what was planned. `show` gets the result before it is sent to the tracking store."""
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
        looks = _looks_in(run.folder)
        write_json(run.folder / CONTEST, {**about, RESULT: None, LOOKS: looks})
        if request.tracking:
            run.track(CONTEST, registered=request.register)
        if run.books.account is not None:
            run.books.account.strict = True
        race = Race(plan, run.folder, run.books)
        problem: BaseException | None = None
        try:
            with displayed(request.progress, "try", contest_line) as tell:
                race.tell = _reporting(request, tell)
                race.run()
        except UserError:
            raise
        except BaseException as ending:  # keep the finished answers before raising
            problem = ending
        contest = _ended(plan, race, run)
        run.end(partial(show, contest) if show is not None and problem is None else None)
        contest.run_id = run.tracking.run_id
        if problem is not None:
            raise problem
    return contest


def _reporting(request: ContestRequest, tell: Callable[[Race], None]) -> Callable[[Race], None]:
    def report(race: Race) -> None:
        tell(race)
        if request.on_question is not None:
            request.on_question(race)

    return report


def _ended(plan: ContestPlan, race: Race, run: Run[Any]) -> Contest:
    """Sum up a race: confirm the winner on unseen questions if planned, save it, and write the
    result.
    """
    verdict = race_verdict(race)
    entrants = {lane.entrant.name: lane.entrant for lane in race.lanes.values()}
    entrants = entrants or {one.name: one for one in plan.field}
    reference = next(one for one in entrants.values() if one.reference)
    winner = entrants[verdict.winner]
    names: dict[str, str] = {}
    confirmation, finished = "", race.ended in ("decided", "questions", "money")
    worth, improved, field = "", None, [reference, winner]
    if plan.improve_share and finished:
        improved = improve(plan, race, run.folder, plan.improve_share)
        race.stopped = race.stopped or improved.stopped
        asked = [reference, winner, *cheapest_survivors(race), *improved.entrants]
        field = list({one.name: one for one in asked}.values())
    if plan.unseen and finished and len({one.name for one in field}) > 1:
        comparison, stopped = confirm(plan, field, run.folder)
        race.stopped = race.stopped or stopped
        if comparison is not None:
            names = {one.name: one.folder for one in field}
            if improved is not None and comparison.recommendation is not None:
                taken = comparison.recommendation.run
                worth = improvement_words(improved, comparison, taken, winner.name)
                entrants |= {one.name: one for one in improved.entrants}
                winner = entrants[taken]
                verdict = replace(verdict, winner=taken)
            confirmation = confirmation_words(comparison, winner.name)
            if improved is None and comparison.against[0].outcome == B:
                verdict = replace(
                    verdict,
                    outcome="undecided",
                    reason=f"{verdict.reason}, but unseen questions contradict it",
                )
    looks = _looks_in(run.folder)
    if race.ended == "questions" and race.planned not in looks:
        looks.append(race.planned)
    if len(looks) > 1:
        # Each last look spends the rest of the 5% error rate, and a look cannot be undone, so a
        # contest that is resumed after its last look has a higher error rate.
        verdict = replace(
            verdict,
            reason=f"{verdict.reason}; the answers had a last test at {looks[0]:,} questions, too, "
            f"so a verdict is wrong in up to {5 * len(looks)}% of such contests instead of 5%",
        )
    saved, note = save_winner(winner, entrants.values(), run.folder / WINNER)
    if note:
        verdict = replace(verdict, reason=f"{verdict.reason}; {note}")
    result = {
        **vars(verdict),
        "standings": list(map(asdict, _standings(race))),
        "course": race.course,
        "questions": race.seen,
        "planned": race.planned,
        "ended": race.ended,
        "finished": finished,
        "stopped": None if finished else race.stopped,
        "runs": {name: one.folder for name, one in entrants.items() if name in race.runs},
        "confirmed": names or None,
        "confirmation": confirmation,
        "improved": worth,
        "chosen_on_same": winner is not reference and not names,
        "paid": run.books.paid.to_dict(),
        "saved": saved.name,
        "unmetered": [
            f"{name}: {line}."
            for name, played in race.runs.items()
            if (line := unmetered_line(played.summary))
        ],
    }
    write_json(run.folder / CONTEST, {**run.about, RESULT: result, LOOKS: looks})

    def again(budget: str | None) -> Contest:
        request = replace(plan.request, out=run.folder)
        return carry_out_contest(
            plan_contest(replace(request, budget=budget or plan.request.budget))
        )

    return Contest(run.folder, result, winner=ready(winner), keep=run.keep, again=again)


def _standings(race: Race) -> list[Place]:
    if not race.lanes:
        return []
    asked = places(race)
    reference = next(lane for lane in race.lanes.values() if lane.entrant.reference)
    rows: dict[str, Mapping[str, ResultRow]] = {}
    if race.watch is not None and race.plan.metric.default:
        for name, run in race.runs.items():
            read = read_rows(run.folder / RESULTS)
            rows[name] = {row["id"]: row for row in read if not row["repeat"]}
    free = free_entrants([lane.entrant for lane in race.lanes.values()], rows)
    return [*asked, *free_places(asked, free, reference)]


def ready(entrant: Entrant) -> Any:
    """The program of an entrant with its LM in every seat, ready to be asked."""
    if isinstance(entrant.program, Foreign) and not isinstance(entrant.program, Command):
        return entrant.program.module
    program: Program = entrant.program.deepcopy()
    for seat in program.seats().values():
        seat.predict.lm = seat.predict.lm or entrant.lm
    return program


def save_winner(
    winner: Entrant, entrants: Sequence[Entrant] | Any, folder: Path
) -> tuple[Entrant, str]:
    """Save the winner for `fm.load_program`; if it is code that no file can hold, save the cheapest
    program that can be saved, and return a note.

    The LM is saved with it, unless it has an address of its own: addresses are never saved.
    """
    scratch = folder.with_name(f".{folder.name}")
    for one in [winner, *(other for other in entrants if other is not winner)]:
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            _savable(one).save(scratch)
        except UserError:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)
        note = f"{winner.name} is code, which no file can hold, so {folder.name}/ has {one.name}"
        return one, "" if one is winner else note
    raise UserError(f"none of the programs can be saved into {folder}")


def _savable(entrant: Entrant) -> Program:
    addressed = getattr(entrant.lm, "addressed", True) or engine_of(entrant.lm) is None
    program: Program = entrant.program
    if addressed or isinstance(program, Foreign) or getattr(entrant.lm, "recorded", None):
        return program
    return ready(entrant)  # type: ignore[no-any-return]
