"""Improves programs between race and confirmation, on the questions of the race: compiles the two
cheapest that are left, and tunes teams by replaying their dialogues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...modules.base.errors import UserError
from ...modules.protocols.deliberation.deliberation import Deliberation
from ...modules.reading.grading import Scale
from ...modules.reading.question import Question
from ..base.budget import Budget, BudgetSpent
from ..base.wording import counted, money
from ..comparison.comparison import Comparison
from ..comparison.verdict import NAMES
from ..compilation.compile import compile as compile_program
from ..lms.ledger import totals
from ..runs.rows import RESULTS, read_rows
from .entrants import Entrant
from .free import talks_of
from .plan import ContestPlan
from .race import Race
from .scores import Scores

IMPROVE = "improve"
SURVIVORS = 2


class Improved(NamedTuple):
    """The result of improving: the new programs, new name → name of the program it was made from,
    the bill (None if unknown), and why it stopped early.
    """

    entrants: list[Entrant]
    made_of: dict[str, str]
    usd: float | None
    stopped: str | None = None


def improve(plan: ContestPlan, race: Race, folder: Path, share: float) -> Improved:
    """Compile the two cheapest survivors, and tune the rounds and the tie-break of a team, for at
    most `share` of the budget.
    """
    survivors = cheapest_survivors(race)
    # Not the unseen questions, which will judge the new programs.
    used = plan.race[: race.seen]
    entrants: list[Entrant] = []
    made_of: dict[str, str] = {}
    stopped = None
    for survivor in survivors:
        for made in _improve_entrant(plan, race, survivor, used, folder, share / len(survivors)):
            if isinstance(made, str):
                stopped = made
                continue
            entrants.append(made)
            made_of[made.name] = survivor.name
    paid = totals(*(folder / IMPROVE / each.folder for each in survivors))  # over all attempts
    return Improved(entrants, made_of, paid.cost_usd, stopped)


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


def _improve_entrant(
    plan: ContestPlan,
    race: Race,
    entrant: Entrant,
    used: Sequence[Question],
    folder: Path,
    share: float,
) -> list[Entrant | str]:
    """Return the programs made from one entrant, and a sentence for each failure."""
    made: list[Entrant | str] = []
    # Without a limit on time, which the books of the contest around the compilation keep.
    budget: Budget | None = replace(plan.budget or Budget(), seconds=None).part(share)
    if budget == Budget():
        budget = None
    if isinstance(entrant.program, Deliberation):
        made += _tune_team(entrant, entrant.program, race)
    try:
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
    except BudgetSpent as problem:
        return [*made, str(problem)]
    except UserError as problem:  # such as a program without a prompt to change
        return [*made, f"{entrant.name} was not compiled ({problem})"]
    name = f"{entrant.name}, compiled"
    return [*made, replace(entrant, name=name, program=compiled, reference=False, fair=False)]


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


def improvement_words(improved: Improved, comparison: Comparison, winner: str, before: str) -> str:
    """About improving, a sentence: the gain on unseen questions, the bill, and when it pays off."""
    prices = {run.name: run for run in comparison.runs}
    gains = []
    for name, of in improved.made_of.items():
        if name in prices and of in prices:
            gain = prices[name].score.value - prices[of].score.value
            scores = Scores.of(prices[name].metric, Scale(0.0, 1.0, prices[name].is_rate))
            gains.append(f"{name}: {scores.gap(gain)} {scores.unit}")
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
