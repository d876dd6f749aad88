"""The standings of a contest's programs, and its verdict: numbers and reasons in one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ...modules.base.usage import price_unit, total
from ...modules.statistics.anytime import mean_sequence, sampled_interval
from ...modules.statistics.field import FEWEST, FieldWatch
from ...modules.statistics.statistics import wilson
from ..base.wording import counted, signed, too_many_failed
from ..reporting.contested import Outcome, Place
from .free import Free
from .lane import Lane
from .race import Race

FREE_ALPHA = 0.05


def places(race: Race) -> list[Place]:
    """The standings of the programs that were asked, those that are racing first."""
    lanes = [race.lanes[name] for name in race.order] or list(race.lanes.values())
    reference = next((lane for lane in lanes if lane.entrant.reference), lanes[0])
    unit = price_unit([lane.bill for lane in lanes])
    base = reference.per_question(unit)
    rows = []
    for place, lane in enumerate(lanes):
        scores = lane.right(race.questions)
        mean, low, high = _rate(scores)
        gap = listed = None
        if lane is not reference and race.watch is not None:
            differences = race.watch.differences(place, lanes.index(reference))
            ends = race.watch.interval(place, lanes.index(reference))
            gap = (fmean(differences) if differences else 0.0, ends.low, ends.high)
            listed = sampled_interval(differences, len(race.questions), race.watch.alpha)
        rows.append(
            Place(
                name=lane.entrant.name,
                right=mean,
                low=low,
                high=high,
                n=len(scores),
                difference=gap and gap[0],
                difference_low=gap and gap[1],
                difference_high=gap and gap[2],
                listed_low=listed and listed.low,
                listed_high=listed and listed.high,
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
        )
    return sorted(rows, key=lambda place: (not place.reference, place.state == "out"))


def free_places(race_places: Sequence[Place], free: Sequence[Free], asked: Lane) -> list[Place]:
    """The standings of free entrants beside the reference's answers."""
    reference = next(place for place in race_places if place.reference)
    table = []
    for entrant in free:
        mean, low, high = _rate(list(entrant.scores.values()))
        gaps = [
            score - asked.answers[name].score
            for name, score in entrant.scores.items()
            if name in asked.answers
        ]
        # Computed at whatever number of questions the race ended, so that the interval has to hold
        # at every one.
        ends = mean_sequence(gaps, FREE_ALPHA)
        bill = total(list(entrant.bills.values()))
        n = len(entrant.scores)
        usd, tokens, calls = (
            None if getattr(bill, unit) is None else getattr(bill, unit) / n
            for unit in ("cost_usd", "tokens", "calls")
        )
        # In the first unit that both are known in, and in which the reference costs something.
        pairs = ((usd, reference.usd), (tokens, reference.tokens), (calls, reference.calls))
        multiple = next((own / base for own, base in pairs if own is not None and base), None)
        table.append(
            Place(
                name=entrant.name,
                right=mean,
                low=low,
                high=high,
                n=n,
                difference=sum(gaps) / len(gaps) if gaps else None,
                difference_low=ends.low,
                difference_high=ends.high,
                listed_low=None,
                listed_high=None,
                usd=usd,
                tokens=tokens,
                calls=calls,
                multiple=multiple,
                state="free",
                free=True,
            )
        )
    return table


def _rate(scores: Sequence[float]) -> tuple[float, float, float]:
    """Mean and Wilson's interval, which for scores between right and wrong is a little wide."""
    if not scores:
        return 0.0, 0.0, 1.0
    low, high = wilson(round(sum(scores)), len(scores))
    mean = sum(scores) / len(scores)
    return mean, min(low, mean), max(high, mean)


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
        name = names[0] if names else race.plan.field[0].name
        return RaceVerdict("undecided", name, "there are no answers to go by yet")
    lanes = [race.lanes[name] for name in names]
    kept = [place for place, lane in enumerate(lanes) if lane.entrant.kept]
    winner = watch.recommended
    seen = counted(watch.seen, "question")
    others = sorted(watch.racing - {winner})
    advice = _advice(race, watch, lanes, winner)
    points = f"{100 * margin:g} points"
    unread = _unread(race, [lanes[place] for place in {winner, *kept}])
    beats_all = winner not in kept and all(watch.better(winner, place) for place in kept)
    if beats_all and not unread:
        beaten = " and than ".join(names[place] for place in kept)
        gap = watch.differences(winner, kept[0])
        ends = watch.interval(winner, kept[0])
        by, low, high = (signed(end, decimals=0) for end in (fmean(gap), *ends))
        reason = f"{names[winner]} is better than {beaten} ({by} points, {low} to {high}, {seen})"
        return RaceVerdict("better", names[winner], reason, advice)
    bound = _bound(race, watch, lanes, winner)
    if watch.seen >= FEWEST and all(_not_worth_it(watch, place, margin) for place in others):
        reason = (
            f"no other program is shown to be worth more than {names[winner]}: none can be more "
            f"than {points} better than a cheaper one ({seen})"
        )
        return RaceVerdict("not worth it", names[winner], reason, advice, bound)
    left = "; ".join(names[place] for place in [winner, *others])  # some names have a comma
    programs = counted(1 + len(others), "program")
    reason = f"after {seen}, {programs} {'are' if others else 'is'} left: {left}"
    if beats_all:
        reason = f"{unread}, so nothing can be concluded"
    if race.ended == "decided":
        reason += ". The other questions would hardly decide between them"
    needed = None
    if others:
        challenger = max(others, key=lambda place: sum(watch.differences(place, winner)))
        needed = watch.needed(challenger, winner)
    usd = None
    if needed is not None:
        each = [lanes[place].per_question("cost_usd") for place in watch.racing]
        if None not in each:
            times = race.plan.request.times
            usd = max(0, needed - watch.seen) * times * sum(cost or 0.0 for cost in each)
    return RaceVerdict("undecided", names[winner], reason, advice, bound, needed, usd)


def _advice(race: Race, watch: FieldWatch, lanes: Sequence[Lane], winner: int) -> str:
    """Why to take the winner, to be read after its name."""
    place = next(place for place, lane in enumerate(lanes) if lane.entrant.reference)
    name = race.order[place]
    if winner == place or not watch.better(winner, place):
        return "it is the cheapest that nothing is shown to beat"
    gaps = watch.differences(winner, place)
    by, low, high = (
        signed(end, decimals=0) for end in (fmean(gaps), *watch.interval(winner, place))
    )
    own, other = (fmean(lanes[each].right(race.questions)) for each in (winner, place))
    return (
        f"it beats {name}, {own:.0%} right against {other:.0%} ({by} points, {low} to {high}, "
        f"{counted(len(gaps), 'question')}), and nothing dearer is shown to beat it"
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
    cheaper = [other for other in watch.racing if (watch.prices[other], other) < rank]
    return any(watch.at_most(place, other, margin) for other in cheaper)


def _bound(race: Race, watch: FieldWatch, lanes: Sequence[Lane], winner: int) -> str:
    """A bound on how much better than the program to take any team may be."""
    teams = [place for place, lane in enumerate(lanes) if lane.entrant.team and place != winner]
    if not teams:
        return ""
    highest = {team: watch.interval(team, winner).high for team in teams}
    best = max(teams, key=lambda team: highest[team])
    high = highest[best]
    if high <= 0:
        return f"{race.order[best]} is no better than {race.order[winner]}"
    return f"{race.order[best]} may be up to {100 * high:.0f} points better, not more"
