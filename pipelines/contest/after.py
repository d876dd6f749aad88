"""The steps after a race: programs are improved on its questions, and unseen questions confirm the
winner or choose another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import UserError
from ...modules.protocols.deliberation.deliberation import Deliberation
from ...modules.reading.grading import Scale
from ...modules.reading.question import Question
from ..base.budget import Budget, BudgetSpent
from ..base.wording import counted, money, paused
from ..comparison.compare import compare
from ..comparison.comparison import Comparison
from ..comparison.verdict import NAMES, A, B
from ..compilation.compile import compile as compile_program
from ..lms.ledger import totals
from ..runs.caveats import too_many_failed
from ..runs.rows import RESULTS, read_rows
from .entrants import Entrant
from .free import talks_of
from .lane import Lane, ask_all
from .outcome import CONFIRM
from .plan import ContestPlan
from .race import Race
from .scores import Scores
from .standing import RaceVerdict

IMPROVE = "improve"
SURVIVORS = 2
FEWEST_ANSWERS = 20
"""The confirmation reports nothing on fewer answered questions than this."""


@dataclass
class Improved:
    """The result of improving: the new programs, new name → name of the program it was made from,
    the bill (None if unknown), and why it stopped early.
    """

    entrants: list[Entrant] = field(default_factory=list)
    made_of: dict[str, str] = field(default_factory=dict)
    usd: float | None = None
    stopped: str | None = None


def improve(plan: ContestPlan, race: Race, folder: Path, share: float) -> Improved:
    """Compile the two cheapest survivors, and tune the rounds and the tie-break of a team, for at
    most `share` of the budget.
    """
    survivors, improved = cheapest_survivors(race), Improved()
    # Not the unseen questions, which will judge the new programs.
    used = plan.race[: race.seen]
    for survivor in survivors:
        made = list[Entrant]()
        if isinstance(survivor.program, Deliberation):
            made += _tune_team(survivor, survivor.program, race)
        try:
            made.append(_compile(plan, survivor, used, folder, share / len(survivors)))
        except BudgetSpent as problem:
            improved.stopped = str(problem)
        except UserError as problem:  # such as a program without a prompt to change
            improved.stopped = f"{survivor.name} was not compiled ({problem})"
        improved.entrants += made
        improved.made_of |= dict.fromkeys((each.name for each in made), survivor.name)
    # Over all attempts.
    improved.usd = totals(*(folder / IMPROVE / each.folder for each in survivors)).cost_usd
    return improved


def cheapest_survivors(race: Race) -> list[Entrant]:
    """Return the two cheapest programs still in the race that an optimizer can change."""
    watch = race.watch
    if watch is None:
        return []
    entrants = []
    for place in sorted(watch.racing, key=lambda place: (watch.prices[place], place)):
        entrant = race.watched[place].entrant
        if not entrant.program.foreign:
            entrants.append(entrant)
    return entrants[:SURVIVORS]


def _compile(
    plan: ContestPlan, entrant: Entrant, used: Sequence[Question], folder: Path, share: float
) -> Entrant:
    """Return a program of the race, compiled. Raises BudgetSpent, and UserError for one that cannot
    be compiled.
    """
    # Without a limit on time, which the books of the contest around the compilation keep.
    budget: Budget | None = replace(plan.budget or Budget(), seconds=None).part(share)
    if budget == Budget():
        budget = None
    compiled = compile_program(
        entrant.program,
        list(used),
        lm=entrant.lm,
        metric=plan.metric,
        optimizer="bootstrap_rs",
        budget=budget,
        seed=plan.request.seed,
        out=folder / IMPROVE / entrant.folder,
        concurrency=plan.request.concurrency,
        tracking=False,
        progress=False,
    )
    name = f"{entrant.name}, compiled"
    return replace(entrant, name=name, program=compiled, reference=False, fair=False)


def _tune_team(entrant: Entrant, program: Deliberation, race: Race) -> list[Entrant]:
    """Return the team with other rounds, or with a vote instead of its judge, if the replay of its
    dialogues is right more often; empty if it is not.
    """
    read = read_rows(race.runs[entrant.name].folder / RESULTS)
    rows = {row.id: row for row in read if not row.repeat}
    # The best of several settings looks better than it is on the questions that chose it; the
    # unseen questions will show how good it is.
    own = sum(bool(row.correct) for row in rows.values())
    best = max(
        talks_of(entrant, program, rows),
        key=lambda talk: sum(talk.scores.values()),
        default=None,
    )
    if best is None or sum(best.scores.values()) <= own:
        return []
    return [replace(entrant, name=best.name, program=program.voted(best.rounds))]


def confirm(
    plan: ContestPlan, entrants: Sequence[Entrant], folder: Path
) -> tuple[Comparison | None, str | None, bool]:
    """Ask these programs, of which the first is the reference, the unseen questions.

    Returns the comparison (None if too few questions were answered), the reason of an early stop,
    if any, and whether the contest has to go on later, because an endpoint or too many questions
    failed.
    """
    lanes: list[Lane] = []
    stopped, pauses = None, False
    try:
        for entrant in entrants:
            out = folder / CONFIRM / entrant.folder
            lanes.append(Lane.opened(entrant, plan.evaluation(entrant, plan.unseen, out)))
        ask_all(lanes, plan.unseen)
    except BudgetSpent as problem:
        stopped = str(problem)
    except EndpointDown as problem:
        stopped, pauses = paused(problem), True
    finally:
        # Also after an error, so that the answers so far are kept.
        runs = [lane.close(stopped) for lane in lanes]
    for lane in lanes:
        failed = lane.failed(plan.unseen)
        if too_many_failed(failed, len(lane.answers)):
            name, asked = lane.entrant.name, counted(len(lane.answers), "unseen question")
            why = f"{failed} of {asked} of {name} failed"
            return None, f"{why}; the same command asks them again", True
    # A budget may have stopped it when only some programs had answered a question.
    both = set.intersection(*(set(lane.answers) for lane in lanes))
    if len(both) < FEWEST_ANSWERS:
        return None, stopped, pauses
    return compare(*runs), stopped, pauses  # each is labelled with its name


def apply_confirmation(
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


def confirmation_words(comparison: Comparison, winner: str) -> str:
    """Return what the confirmation showed about the winner, as a clause; empty if it is the
    reference.
    """
    pair = next((each for each in comparison.against if each.a == winner), None)
    if pair is None:
        return ""
    if pair.cause:
        return f"no result on {counted(pair.n, 'unseen question')}, since {pair.cause}"
    scores = Scores.of(pair.metric, Scale(0.0, 1.0, pair.is_rate))
    gap, low, high = map(scores.gap, (pair.difference, *pair.interval))
    own, other = map(scores.value, (pair.score_a, pair.score_b))
    return (
        f"on {pair.n:,} unseen questions {own}{' right' * scores.rate} against {other} "
        f"({gap} {scores.unit}, {low} to {high})"
    )


def improvement_words(improved: Improved, comparison: Comparison, winner: str, before: str) -> str:
    """About improving, a sentence: the gain on unseen questions, the bill, and when it pays off."""
    right = {run.name: run.score.value for run in comparison.runs}
    gains, first = [], comparison.runs[0]
    scores = Scores.of(first.metric, Scale(0.0, 1.0, first.is_rate))
    for name, of in improved.made_of.items():
        if name in right and of in right:
            gains.append(f"{name}: {scores.gap(right[name] - right[of])} {scores.unit}")
    bill = "The price of improving is unknown"
    if improved.usd is not None:
        bill = f"Improving cost {money(improved.usd)}"
    clauses = [f"{bill}; on unseen questions {'; '.join(gains)}"]
    verdict = comparison.verdict
    if winner in improved.made_of and improved.usd and verdict.unit == NAMES["cost_usd"]:
        own, other = verdict.prices.get(winner), verdict.prices.get(before)
        if own is not None and other is not None and own < other:
            pays = counted(round(improved.usd / (other - own)), "question")
            clauses.append(f"it pays after {pays}")
    return "; ".join(clauses) + "."
