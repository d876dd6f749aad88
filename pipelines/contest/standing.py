"""The standings of a contest's programs (`places`), and its verdict (`race_verdict`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ...modules.base.usage import total
from ...modules.statistics.anytime import PairWatch, mean_sequence, sampled_interval
from ...modules.statistics.field import FieldWatch
from ...modules.statistics.prices import UNITS
from ...modules.statistics.statistics import FEWEST, Estimate, wilson
from ..base.wording import counted, rounded_money
from ..comparison.table import UNANSWERED
from ..reporting.contested import Outcome, Place
from ..runs.caveats import too_many_failed
from .free import Free
from .lane import Lane, unit_of
from .race import Race

FREE_ALPHA = 0.05
FAIR_OPPONENT = "one prompt asked k times"
PAYS_FOR_NO_MORE = ". The budget of {} pays for no more questions"


def places(race: Race, *, so_far: bool = False) -> list[Place]:
    """Return the standings of the programs that were asked: the reference first, then those that
    are racing. `so_far` also counts answers to questions that not all programs have answered yet.
    """
    # Scores over the same questions as the differences, which they would contradict otherwise.
    questions = race.questions[: race.seen] if race.seen and not so_far else race.questions
    # Programs that left in the pilot are not in the watch.
    others = [lane for name, lane in race.lanes.items() if name not in race.order]
    lanes = [*race.watched, *others]
    reference = next((lane for lane in lanes if lane.entrant.reference), lanes[0])
    unit = unit_of(lanes)
    base = reference.per_question(unit)
    rows, written = [], race.scores
    for place, lane in enumerate(lanes):
        scores = lane.right(questions)
        right, low, high = map(written.own, _rate(scores))
        costs, multiple = lane.per_question(unit), None
        if base and costs is not None:
            multiple = costs / base
        row = Place(
            name=lane.entrant.name,
            right=right,
            low=low,
            high=high,
            n=len(scores),
            usd=lane.per_question("cost_usd"),
            tokens=lane.per_question("tokens"),
            calls=lane.per_question("calls"),
            multiple=multiple,
            state="racing" if lane.out is None else "out",
            reason=lane.out or "",
            failed=lane.failed(questions),
            unread=lane.unread(questions),
            reference=lane.entrant.reference,
            fair=lane.entrant.fair,
            team=lane.entrant.team,
        )
        # Nothing can be compared before every program has answered a question.
        watch = race.watch if race.seen else None
        if lane is not reference and watch is not None and lane not in others:
            differences = watch.differences(place, lanes.index(reference))
            gap = watch.against(place, lanes.index(reference))
            listed = sampled_interval(differences, len(race.questions), watch.alpha)
            difference, low, high, *listed_ends = map(written.own_gap, (*gap, *listed))
            row = replace(
                row,
                difference=difference,
                difference_low=low,
                difference_high=high,
                listed_low=listed_ends[0],
                listed_high=listed_ends[1],
            )
        rows.append(row)
    return sorted(rows, key=lambda place: (not place.reference, place.state == "out"))


def free_places(race_places: Sequence[Place], free: Sequence[Free], asked: Lane) -> list[Place]:
    """Return the standings of free entrants, compared with the reference (the lane `asked`)."""
    reference = next(place for place in race_places if place.reference)
    table = []
    for entrant in free:
        share, n = _rate(list(entrant.scores.values())), len(entrant.scores)
        gaps, difference = [], None
        for name, score in entrant.scores.items():
            answer = asked.answers.get(name)
            if answer is not None and answer.error is None:
                gaps.append(score - answer.score)
        if gaps:
            difference = fmean(gaps)
        # An interval that holds at every number of questions, since the race may end at any.
        ends = mean_sequence(gaps, FREE_ALPHA)
        bill = total(entrant.bills.values())
        costs, multiple = {}, None
        for unit in UNITS:
            own, base = getattr(bill, unit), getattr(reference, unit.removeprefix("cost_"))
            if own is not None:
                costs[unit] = own / n
                # In the first unit in which both costs are known and the reference's is not 0.
                if multiple is None and base:
                    multiple = costs[unit] / base
        table.append(
            Place(
                name=entrant.name,
                right=share.value,
                low=share.low,
                high=share.high,
                n=n,
                difference=difference,
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
    """Return the mean with Wilson's interval, which is a little too wide if scores are not just 0
    or 1.
    """
    if not scores:
        return UNANSWERED
    low, high = wilson(round(sum(scores)), len(scores))
    mean = sum(scores) / len(scores)
    return Estimate(mean, min(low, mean), max(high, mean))


# The verdict
# ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RaceVerdict:
    """The verdict: the outcome, the program to take, and why.

    `advice` follows the winner's name and says why to take it. `open` is the program that may still
    be better, and by how much. For an undecided contest, `needed` predicts how many questions, and
    `needed_usd` how much more money, would decide it.
    """

    outcome: Outcome
    winner: str
    reason: str
    advice: str = ""
    open: str = ""
    needed: int | None = None
    needed_usd: float | None = None


def race_verdict(race: Race) -> RaceVerdict:
    """Return the verdict of a race as it stands. The program to take is "better" if it is shown to
    beat the reference and, if it is a team, also the fair opponent: one prompt that may cost as
    much.
    """
    watch, names, margin = race.watch, race.order, race.plan.margin
    if watch is None or not watch.seen:
        name = next(iter(names), race.plan.field[0].name)
        reason = "no question has been answered by every program yet"
        if race.short:
            reason += PAYS_FOR_NO_MORE.format(race.plan.budget)
        return RaceVerdict("undecided", name, reason)
    winner, seen = watch.recommended, counted(watch.seen, "question")
    team = race.watched[winner].entrant.team
    rivals = [place for place in race.kept if team or place == race.reference]
    beaten = [place for place in rivals if watch.better(winner, place)]
    if unread := _unread(race, winner, rivals):  # then nothing is shown, and the cheapest is taken
        winner, beaten = min([winner, *rivals], key=watch.prices.__getitem__), []
    others, left_out = sorted(watch.racing - {winner}), _not_compared(race)
    advice, reason = _advice(race, winner, beaten), ""
    if beaten:
        by, low, high = map(race.scores.gap, watch.against(winner, beaten[0]))
        than = " and than ".join(names[place] for place in beaten)
        gap = f"{by} {race.scores.unit}, {low} to {high}"
        reason = f"{names[winner]} is better than {than} ({gap}, {seen})"
    # If the money ended before there was a fair opponent, no team has won.
    fair = any(race.watched[place].entrant.fair for place in rivals)
    if beaten and beaten == rivals and fair >= team and not unread:
        leads = [place for place in others if watch.against(place, winner).difference > 0]
        still_open = _open(race, winner, leads)
        if leads:
            still_open += ", not shown to be better"
        return RaceVerdict("better", names[winner], reason, advice, still_open)
    worth = [place for place in others if not _not_worth_it(watch, place, margin)]
    if watch.seen >= FEWEST and not (worth or beaten or unread or left_out):
        reason = (
            f"no other program is shown to be worth more than {names[winner]}: none can be more "
            f"than {race.scores.size(margin)} {race.scores.unit} better than a cheaper one ({seen})"
        )
        return RaceVerdict("not worth it", names[winner], reason, advice)
    if beaten:
        missing = [names[place] for place in rivals if place not in beaten]
        reason += f", but not shown to be better than {' and '.join(missing) or FAIR_OPPONENT}"
    else:
        left = "; ".join(names[place] for place in [winner, *others])  # some names have a comma
        programs = f"{1 + len(others)} programs are" if others else "1 program is"
        reason = f"after {seen}, {programs} left: {left}"
    if unread:
        reason = f"{unread}, so nothing can be concluded"
    elif left_out:
        reason += f"; not compared: {left_out}"
    elif race.ended == "decided":
        reason += ". The other questions would hardly decide between them"
    elif race.short:
        reason += PAYS_FOR_NO_MORE.format(race.plan.budget)
    advice += "; nothing is shown to beat it"
    verdict = RaceVerdict("undecided", names[winner], reason, advice, _open(race, winner, others))
    if not others or unread:
        return verdict
    needed = watch.needed(_ahead(watch, winner, others), winner)
    costs = [lane.per_question("cost_usd") for lane in race.asked]
    known = [cost for cost in costs if cost is not None]
    if needed is None or len(known) < len(costs):
        return replace(verdict, needed=needed)
    usd = max(0, needed - watch.seen) * race.plan.request.times * sum(known)
    return replace(verdict, needed=needed, needed_usd=usd)


def _not_compared(race: Race) -> str:
    """Return the names of the programs that cannot be compared, since too many of their questions
    failed or could not be read.
    """
    names = [name for name in race.lanes if name not in race.order]
    names += [race.order[place] for place in sorted(race.watching.withdrawn)]
    return "; ".join(names)  # some names have a comma


def _advice(race: Race, winner: int, beaten: Sequence[int]) -> str:
    """Return how often the winner is right: against those that it beats, or else with its price."""
    lanes, questions = race.watched, race.questions[: race.seen]
    scores = [lane.right(questions) for lane in lanes]
    right = [race.scores.value(fmean(each or [0.0])) for each in scores]
    if beaten:
        others = " and ".join(f"{right[place]} for {race.order[place]}" for place in beaten)
        return f"{right[winner]}, against {others}, on {counted(len(scores[winner]), 'question')}"
    if usd := lanes[winner].per_question("cost_usd"):
        return f"{right[winner]}, {rounded_money(1000 * usd)} per 1,000"
    return right[winner]


def _ahead(watch: FieldWatch, winner: int, others: Sequence[int]) -> int:
    """Return the place of the program among the others that is furthest ahead of the winner."""
    return max(others, key=lambda place: sum(watch.differences(place, winner)))


def _open(race: Race, winner: int, others: Sequence[int]) -> str:
    """Return the program that most likely is better than the winner, with the difference and its
    interval; empty without others.
    """
    if not others:
        return ""
    best = _ahead(race.watching, winner, others)
    by, low, high = map(race.scores.gap, race.watching.against(best, winner))
    return f"{race.order[best]}, {by} [{low}, {high}]"


def _unread(race: Race, winner: int, rivals: Sequence[int]) -> str:
    """Return a clause on answers that were cut off or could not be read, if they are too many or
    may be the whole difference; else empty.
    """
    seen, lanes = race.questions[: race.seen], race.watched
    for place in {winner, *rivals}:
        unread = lanes[place].unread(seen)
        if too_many_failed(unread, len(seen)):
            answers = f"{unread} of {counted(len(seen), 'answer')} of {race.order[place]}"
            return f"{answers} could not be read"
    for place in rivals:
        unread = lanes[place].unread(seen) + lanes[winner].unread(seen)
        if not unread or not race.watching.better(winner, place):
            continue
        # Would the winner still be better, had its unread answers been wrong and the rival's right?
        again = PairWatch(race.planned or None, race.watching.alpha)
        own, other = lanes[winner].given_to(seen), lanes[place].given_to(seen)
        for question in seen:
            if question.id in own and question.id in other:
                won, lost = own[question.id], other[question.id]
                difference = won.score * (not won.unread) - max(lost.score, float(lost.unread))
                again.update(difference, race.cluster_of(question))
        if again.state != "a" and again.last_look() != "a":
            return f"{counted(unread, 'answer')} could not be read, which may be all the difference"
    return ""


def _not_worth_it(watch: FieldWatch, place: int, margin: float) -> bool:
    """Return whether a cheaper program is shown to be as good, up to the margin that does not
    matter.
    """
    rank = (watch.prices[place], place)
    for other in watch.racing:
        # Of programs with the same price, the first in the order counts as the cheaper.
        if (watch.prices[other], other) < rank and watch.at_most(place, other, margin):
            return True
    return False
