"""The report of causal consistency: rounds until an answer was accepted, changes by evaluators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..reading.mentions import same_text
from ..reading.row import ResultRow, answering
from .counting import CHANGES, Figures, Reading, by_number, change, whole


def causal_report(rows: Iterable[ResultRow]) -> dict[str, object]:
    """Sum up the rounds of a CausalConsistency (CaCo-CoT, Tables 1 to 3 and Figure 3, and more).

    Args: rows: rows of `results.jsonl`; read once, only counters are held. What an odd row lacks
        counts nowhere.

    Returns nested dicts with text keys; rates are floats in 0 … 1, counts are ints, and a rate over
    nothing is left out. Rows with an error count in `errors` and as wrong in `accuracy`; all else
    is about the others, `questions`:

    - `accuracy`; `decided_by`: `count` and `accuracy` for each way of deciding
    - `rounds`: how many questions took 1, 2, … rounds; `rounds_mean`
    - `consensus_round`: how many reached consensus in round 1, 2, …, or `never`, when evaluators
      were asked
    - `reasoner`: `accuracy` and `abstention_rate` of single solutions
    - `evaluator`: `evaluations`; `unreadable`; `changed`, how often the answer examined was
      changed, and as `change_rate`; the changes by what they did (`wrong_to_right`,
      `right_to_wrong`, `wrong_to_wrong`); `change_right_rate`, the share of changes that put a
      wrong answer right; `kept_right_rate`, the share of kept answers that are right
    - `calls_per_question`, `prompt_tokens_per_question`, `completion_tokens_per_question`
    """
    figures, rounds, consensus = Figures(), Counter[int](), Counter[int]()
    for row in map(ResultRow.of, rows):
        correct = bool(row.correct)
        figures.mean(correct, "accuracy")
        if not figures.finished(row):
            continue
        figures.decided(row, correct)
        if taken := whole(row.rounds):
            rounds[taken] += 1
            figures.mean(taken, "rounds_mean")
        # Under 0 are those that never reached one.
        consensus[whole(row.consensus_round)] += 1
        turns, reading = answering(row.transcript), Reading(row)
        for turn in turns:
            if not turn.examined:
                figures.mean(reading.right(turn.answer), "reasoner", "accuracy")
                figures.mean(turn.answer is None, "reasoner", "abstention_rate")
        # What never happens is reported as 0.
        for name in ("evaluations", "unreadable", "changed", *CHANGES):
            figures.count(0, "evaluator", name)
        for turn in turns:
            if turn.examined:
                _evaluation(figures, row, reading, turn.examined.answer, turn.answer)
        figures.usage(row)
    report = figures.report()
    report.setdefault("decided_by", {})
    if report["questions"]:
        longest = max([*rounds, *consensus])
        report["rounds"] = by_number(rounds, 1, longest)
        if report["evaluator"]["evaluations"]:
            report["consensus_round"] = {**by_number(consensus, 1, longest), "never": consensus[0]}
    return report


def _evaluation(
    figures: Figures, row: ResultRow, reading: Reading, before: str | None, after: str | None
) -> None:
    changed = after is not None and not _same(row, reading, before, after)
    figures.count(1, "evaluator", "evaluations")
    figures.count(after is None, "evaluator", "unreadable")
    figures.count(changed, "evaluator", "changed")
    figures.mean(changed, "evaluator", "change_rate")
    if changed:
        figures.count(1, "evaluator", change(reading.right(before), reading.right(after)))
        figures.mean(reading.right(after), "evaluator", "change_right_rate")
    elif after is not None:
        figures.mean(reading.right(after), "evaluator", "kept_right_rate")


def _same(row: ResultRow, reading: Reading, one: object, other: object) -> bool:
    """Return whether two answers are the same, compared as in the run: two options with the same
    text are one answer.
    """
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    options = row.choices or {}
    return reading.same(one, other) or (row.kind == "choice" and same_text(one, other, options))
