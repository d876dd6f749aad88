"""The standings of a contest's programs, and its verdict: numbers and reasons in one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from ...modules.base.usage import UNITS, total
from ...modules.statistics.anytime import mean_sequence, sampled_interval
from ...modules.statistics.field import FEWEST, FieldWatch
from ...modules.statistics.statistics import Difference, Estimate, wilson
from ..base.wording import counted, signed, too_many_failed
from ..reporting.contested import Outcome, Place
from .free import Free
from .lane import Lane, unit_of
from .race import Race

FREE_ALPHA = 0.05


def places(race: Race) -> list[Place]:
    """The standings of the programs that were asked, those that are racing first."""
    lanes = race.watched or list(race.lanes.values())
    reference = next((lane for lane in lanes if lane.entrant.reference), lanes[0])
    unit = unit_of(lanes)
    base = reference.per_question(unit)
    rows = []
    for place, lane in enumerate(lanes):
        scores = lane.right(race.questions)
        share = _rate(scores)
        row = Place(
            name=lane.entrant.name,
            right=share.value,
            low=share.low,
            high=share.high,
            n=len(scores),
            usd=lane.per_question("cost_usd"),
            tokens=lane.per_question("tokens"),
            calls=lane.per_question("calls"),
            multiple=(lane.per_question(unit) or 0.0) / base if base else None,
            state="racing" if lane.out is None else "out",
            reason=lane.out or "",
            failed=lane.failed(race.questions),
            reference=lane.entrant.reference,
            fair=lane.entrant.fair,
            team=lane.entrant.team,
        )
        if lane is not reference and race.watch is not None:
            differences = race.watch.differences(place, lanes.index(reference))
            gap = race.watch.against(place, lanes.index(reference))
            listed = sampled_interval(differences, len(race.questions), race.watch.alpha)
            row = replace(
                row,
                difference=gap.difference,
                difference_low=gap.low,
                difference_high=gap.high,
                listed_low=listed.low,
                listed_high=listed.high,
            )
        rows.append(row)
    return sorted(rows, key=lambda place: (not place.reference, place.state == "out"))


def free_places(race_places: Sequence[Place], free: Sequence[Free], asked: Lane) -> list[Place]:
    """The standings of free entrants beside the reference's answers."""
    reference = next(place for place in race_places if place.reference)
    table = []
    for entrant in free:
        share, n = _rate(list(entrant.scores.values())), len(entrant.scores)
        shared = [name for name in entrant.scores if name in asked.answers]
        gaps = [entrant.scores[name] - asked.answers[name].score for name in shared]
        # Computed at whatever number of questions the race ended, so that the interval has to hold
        # at every one.
        ends = mean_sequence(gaps, FREE_ALPHA)
        bill = total(entrant.bills.values())
        costs, multiple = {}, None
        for unit in UNITS:
            own, base = getattr(bill, unit), getattr(reference, unit.removeprefix("cost_"))
            if own is not None:
                costs[unit] = own / n
                # In the first unit that both are known in, and in which the reference costs
                # something.
                if multiple is None and base:
                    multiple = costs[unit] / base
        table.append(
            Place(
                name=entrant.name,
                right=share.value,
                low=share.low,
                high=share.high,
                n=n,
                difference=fmean(gaps) if gaps else None,
                difference_low=ends.low,
                difference_high=ends.high,
                usd=costs.get("cost_usd"),
                tokens=costs.get("tokens"),
                calls=costs.get("calls"),
                multiple=multiple,
                state="free",
                free=True,
            )
        )
    return table


def _rate(scores: Sequence[float]) -> Estimate:
    """Mean and Wilson's interval, which for scores between right and wrong is a little wide."""
    if not scores:
        return Estimate(0.0, 0.0, 1.0)
    low, high = wilson(round(sum(scores)), len(scores))
    mean = sum(scores) / len(scores)
    return Estimate(mean, min(low, mean), max(high, mean))


# The verdict
# ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RaceVerdict:
    """The verdict: the outcome, the program to take, and why.

    `advice` says why to take the winner. `bound` says how much better the dearest team may be. For
    an undecided contest, `needed` and `needed_usd` predict how many more questions and dollars
    would decide it.
    """

    outcome: Outcome
    winner: str
    reason: str
    advice: str = ""
    bound: str = ""
    needed: int | None = None
    needed_usd: float | None = None


def race_verdict(race: Race) -> RaceVerdict:
    """The verdict of a race as it stands."""
    watch, names, margin = race.watch, race.order, race.plan.margin
    if watch is None or not watch.seen:
        name = next(iter(names), race.plan.field[0].name)
        return RaceVerdict("undecided", name, "there are no answers to go by yet")
    lanes, kept, winner = race.watched, race.kept, watch.recommended
    seen = counted(watch.seen, "question")
    others = sorted(watch.racing - {winner})
    advice = _advice(race, watch, lanes, winner)
    unread = _unread(race, [lanes[place] for place in {winner, *kept}])
    beats_all = winner not in kept and all(watch.better(winner, place) for place in kept)
    if beats_all and not unread:
        beaten = " and than ".join(names[place] for place in kept)
        by = _points(watch.against(winner, kept[0]))
        reason = f"{names[winner]} is better than {beaten} ({by}, {seen})"
        return RaceVerdict("better", names[winner], reason, advice)
    bound = _bound(race, watch, lanes, winner)
    if watch.seen >= FEWEST and all(_not_worth_it(watch, place, margin) for place in others):
        reason = (
            f"no other program is shown to be worth more than {names[winner]}: none can be more "
            f"than {100 * margin:g} points better than a cheaper one ({seen})"
        )
        return RaceVerdict("not worth it", names[winner], reason, advice, bound)
    left = "; ".join(names[place] for place in [winner, *others])  # some names have a comma
    reason = f"after {seen}, 1 program is left: {left}"
    if others:
        reason = f"after {seen}, {1 + len(others)} programs are left: {left}"
    if beats_all:
        reason = f"{unread}, so nothing can be concluded"
    if race.ended == "decided":
        reason += ". The other questions would hardly decide between them"
    verdict = RaceVerdict("undecided", names[winner], reason, advice, bound)
    if not others:
        return verdict
    challenger = max(others, key=lambda place: sum(watch.differences(place, winner)))
    needed = watch.needed(challenger, winner)
    costs: list[Any] = [lanes[place].per_question("cost_usd") for place in watch.racing]
    if needed is None or None in costs:
        return replace(verdict, needed=needed)
    usd = max(0, needed - watch.seen) * race.plan.request.times * sum(costs)
    return replace(verdict, needed=needed, needed_usd=usd)


def _points(gap: Difference) -> str:
    by, low, high = (signed(end, decimals=0) for end in gap)
    return f"{by} points, {low} to {high}"


def _advice(race: Race, watch: FieldWatch, lanes: Sequence[Lane], winner: int) -> str:
    """Why to take the winner, to be read after its name."""
    place = race.reference
    if winner == place or not watch.better(winner, place):
        return "it is the cheapest that nothing is shown to beat"
    both = counted(len(watch.differences(winner, place)), "question")
    own, other = (fmean(lanes[each].right(race.questions)) for each in (winner, place))
    return (
        f"it beats {race.order[place]}, {own:.0%} right against {other:.0%} "
        f"({_points(watch.against(winner, place))}, {both}), and nothing dearer is shown to beat it"
    )


def _unread(race: Race, lanes: Sequence[Lane]) -> str:
    """A clause on the program of whose answers too many could not be read; empty without one."""
    seen = race.questions[: race.seen]
    for lane in lanes:
        unread = lane.unread(seen)
        if too_many_failed(unread, len(seen)):
            answers = counted(len(seen), "answer")
            return f"{unread} of {answers} of {lane.entrant.name} could not be read"
    return ""


def _not_worth_it(watch: FieldWatch, place: int, margin: float) -> bool:
    """Whether some cheaper program is shown to be as good, but for what does not matter."""
    rank = (watch.prices[place], place)
    return any(
        (watch.prices[other], other) < rank and watch.at_most(place, other, margin)
        for other in watch.racing
    )


def _bound(race: Race, watch: FieldWatch, lanes: Sequence[Lane], winner: int) -> str:
    """A bound on how much better than the program to take any team may be."""
    teams = [place for place, lane in enumerate(lanes) if lane.entrant.team and place != winner]
    if not teams:
        return ""
    best = max(teams, key=lambda team: watch.interval(team, winner).high)
    high = watch.interval(best, winner).high
    if high <= 0:
        return f"{race.order[best]} is no better than {race.order[winner]}"
    return f"{race.order[best]} may be up to {100 * high:.0f} points better, not more"
