"""The gains of a team's dialogues, as `fm.controls` measures them: of a vote of first answers over
one answer, and of the talk over that vote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from operator import eq
from statistics import fmean

from ...modules.reading.row import ResultRow
from ...optimizers.statistics.controls import expected_vote, gain_part


def gains_in(rows: Iterable[ResultRow]) -> dict[str, object]:
    """`first_answer` (a share), `vote_gain` and `talk_gain` (differences with 95% intervals), each
    over `n` questions; empty without a dialogue.

    First answers are those of the first round. Each question counts once, by the mean over its
    repeats.
    """
    levels: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in rows:
        turns, gold = row["transcript"], row["gold"]
        if len(turns) < 2 or gold is None or row["error"]:
            continue
        begin = min(turn["round"] for turn in turns)
        answers = [turn["answer"] for turn in turns if turn["round"] == begin]
        first = fmean(answer == gold for answer in answers)
        vote = expected_vote(answers, partial(eq, gold))
        levels[row["id"]].append((first, vote, float(bool(row["correct"]))))
    if not levels:
        return {}
    means = ([fmean(level) for level in zip(*repeats, strict=True)] for repeats in levels.values())
    firsts, votes, teams = zip(*means, strict=True)
    n = {"n": len(firsts)}
    return {
        "first_answer": {"value": fmean(firsts), **n},
        "vote_gain": gain_part(firsts, votes)._asdict() | n,
        "talk_gain": gain_part(votes, teams)._asdict() | n,
    }
