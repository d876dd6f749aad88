"""The report of an ensemble: its members, their agreement, and the value of their vote."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from ..reading.row import ResultRow
from .counting import Figures, Reading


def ensemble_report(rows: Iterable[ResultRow]) -> dict[str, object]:
    """Sum up the votes of an Ensemble (Agents of Commonsense, section 4.2.2, and more).

    Args:
        rows: rows of `results.jsonl`; read once, only counters are held.

    Returns nested dicts with text keys; rates are floats in 0 … 1, counts are ints, and a rate over
    nothing is left out. Rows with an error count in `errors`; all else is about the others,
    `questions`:

    - `accuracy` of the vote
    - `member_accuracy`, of each
    - `agreement`: `all` and `FIRST-SECOND` for each pair; an abstention agrees with none
    - `best_member`: its name, the first of equally good ones; `gain`, the vote's accuracy less this
      member's
    - `ceiling`: the share of questions that any member had right; `lost`, that share less the
      vote's accuracy
    - `decided_by`: `count` and `accuracy` for each way of deciding
    - `calls_per_question`, `prompt_tokens_per_question`, `completion_tokens_per_question`
    """
    figures = Figures()
    for row in map(ResultRow.of, rows):
        if not figures.finished(row):
            continue
        correct, reading = bool(row.correct), Reading(row)
        votes = (turn for turn in row.transcript if turn.round == 1)  # round 2 is the pick
        answers = {str(turn.agent): turn.answer for turn in votes}
        right = {name: reading.right(answer) for name, answer in answers.items()}
        figures.mean(correct, "accuracy")
        for name in answers:
            figures.mean(right[name], "member_accuracy", name)
        figures.mean(reading.agreed(answers.values()), "agreement", "all")
        for first, second in combinations(answers, 2):
            same = reading.same(answers[first], answers[second])
            figures.mean(same, "agreement", f"{first}-{second}")
        figures.mean(any(right.values()), "ceiling")
        figures.decided(row, correct)
        figures.usage(row)
    report = figures.report()
    members: dict[str, float] = report.get("member_accuracy", {})
    if members:
        # `max` keeps the first of equally good members.
        best = max(members, key=members.__getitem__)
        report["best_member"] = best
        report["gain"] = report["accuracy"] - members[best]
        report["lost"] = report["ceiling"] - report["accuracy"]
    return report
