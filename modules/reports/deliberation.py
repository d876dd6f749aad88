"""The report of a deliberation: who agreed, who gave way, and whether talking helped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, groupby, pairwise
from operator import attrgetter
from typing import Any

from ..reading.row import DECIDERS, ResultRow, TurnFields
from .counting import CHANGES, Figures, Reading, by_number, change

JUDGE = "judge"


def deliberation_report(rows: Iterable[ResultRow]) -> dict[str, Any]:
    """Sum up the dialogues of a Deliberation (Agents of Commonsense, metrics of section 4.1, and
    more).

    Args:
        rows: rows of `results.jsonl`; read once, only counters are held.

    Returns nested dicts with text keys; rates are floats in 0 … 1, counts are ints, and a rate over
    nothing is left out. Rows with an error count in `errors` and as wrong in `accuracy`; all else
    is about the others, `questions`:

    - `accuracy`, `accuracy_excluding_errors` of the group; `consensus_rate`
    - `agreement`: `all` and `FIRST-SECOND` for each pair, in the last round; an abstention agrees
      with none
    - `resolved_by_round`: share with consensus after round 1, 2, …
    - `first_consensus_round`: count for each round, and `never`
    - `tie_break`: `count`, `rate`, `accuracy`; `decided_by`: the same for each way of deciding
    - `role`: for each speaker `accuracy_first`, `accuracy_last`, `abstention_rate`, `revisions`
    - `revisions`, of all and by `round`: counts of wrong_to_right, right_to_wrong and
      wrong_to_wrong (to another wrong answer); `rate`, the share of an agent's later answers that
      are a revision of the one before; `share_to_right`, the share of revisions that put a wrong
      answer right. An abstention is wrong but no answer: a step between it and a wrong answer is no
      revision
    - `blind`: how many questions were opened blind, if any, so that first answers are what each
      agent knows
    - `calls_per_question`, `prompt_tokens_per_question`, `completion_tokens_per_question`
    """
    figures, consensus, longest = Figures(), Counter[int](), 0
    for row in map(ResultRow.of, rows):
        correct, first = bool(row.correct), row.consensus_round
        figures.mean(correct, "accuracy")
        if not figures.finished(row):
            continue
        figures.mean(correct, "accuracy_excluding_errors")
        longest = max(longest, row.rounds)
        # Under 0 are those that never agreed.
        consensus[first or 0] += 1
        figures.mean(first is not None, "consensus_rate")
        figures.count(first is None, "tie_break", "count")
        figures.mean(first is None, "tie_break", "rate")
        if first is None:
            figures.mean(correct, "tie_break", "accuracy")
        figures.decided(row, correct)
        _dialogue(figures, row)
        figures.usage(row)
    report = figures.report()
    if questions := report["questions"]:
        resolved, by_round = 0, dict[str, float]()
        for round in range(1, longest + 1):
            # A dialogue that ended earlier also stands resolved in all later rounds.
            resolved += consensus[round]
            by_round[str(round)] = resolved / questions
        report["resolved_by_round"] = by_round
        rounds = by_number(consensus, 1, longest)
        report["first_consensus_round"] = {**rounds, "never": consensus[0]}
        for way in report["decided_by"].values():
            way["rate"] = way["count"] / questions
    return report


def _dialogue(figures: Figures, row: ResultRow) -> None:
    reading = Reading(row)
    spoken = [turn for turn in row.transcript if turn.agent not in DECIDERS]
    by_role: dict[str, list[TurnFields]] = {}
    for turn in spoken:
        by_role.setdefault(turn.agent, []).append(turn)
        figures.mean(turn.answer is None, "role", turn.agent, "abstention_rate")
    last: Sequence[TurnFields] = ()
    for _, turns in groupby(spoken, key=attrgetter("round")):
        last = list(turns)
        if any(map(attrgetter("blind"), last)):
            figures.count(1, "blind")
    if last:
        figures.mean(reading.agreed(turn.answer for turn in last), "agreement", "all")
    for first, second in combinations(last, 2):
        same = reading.same(first.answer, second.answer)
        figures.mean(same, "agreement", f"{first.agent}-{second.agent}")
    for role, own in by_role.items():
        figures.mean(reading.right(own[0].answer), "role", role, "accuracy_first")
        figures.mean(reading.right(own[-1].answer), "role", role, "accuracy_last")
        for before, after in pairwise(own):
            revised = _revision(before.answer, after.answer, reading)
            by_round = ("revisions", "round", str(after.round))
            for path in (("revisions",), by_round, ("role", role, "revisions")):
                figures.mean(revised is not None, *path, "rate")
                if revised is not None:
                    figures.mean(revised == "wrong_to_right", *path, "share_to_right")
                figures.one_of(CHANGES, revised, *path)


def _revision(before: str | None, after: str | None, reading: Reading) -> str | None:
    """Return the change from one answer of an agent to its next, one of `CHANGES`, or None."""
    was, now = reading.right(before), reading.right(after)
    # An abstention is no answer, from which or to which one could change.
    differ = None not in (before, after) and not reading.same(before, after)
    if was != now or (differ and not was):
        return change(was, now)
    return None
