"""What a team's dialogues gained: a vote of first answers over one of them, and the talk over that vote."""

from __future__ import annotations

from collections import Counter

from ...optimizers.statistics.statistics import bootstrap_mean
from .answers import LogAnswer

SEED, RESAMPLES = 0, 100_000


class Gains:
    """Sums over the dialogues of a team, of which first answers are those of the first round.

    A first answer counts as right on average over the agents, and a vote as expected where answers are even.
    """

    def __init__(self) -> None:
        self._first: list[float] = []
        self._vote: list[float] = []
        self._final: list[float] = []

    def add(self, answered: LogAnswer) -> None:
        if not answered.turns or answered.gold is None or answered.error:
            return
        begin = min(round for round, *_ in answered.turns)
        answers = [answer for round, _, answer, _ in answered.turns if round == begin]
        votes = Counter(answer for answer in answers if answer is not None)
        top = [answer for answer, count in votes.items() if count == max(votes.values())]
        self._first.append(sum(answer == answered.gold for answer in answers) / len(answers))
        self._vote.append((answered.gold in top) / len(top) if top else 0.0)
        self._final.append(float(bool(answered.correct)))

    def report(self) -> dict[str, dict[str, float]]:
        """`first_answer` (a share), `vote_gain` and `talk_gain` (differences), each with its 95% interval."""
        if not self._first:
            return {}
        found = {
            "first_answer": self._first,
            "vote_gain": [vote - first for first, vote in zip(self._first, self._vote, strict=True)],
            "talk_gain": [final - vote for vote, final in zip(self._vote, self._final, strict=True)],
        }
        shown = {}
        for name, values in found.items():
            value, low, high = bootstrap_mean(values, seed=SEED, resamples=RESAMPLES)
            shown[name] = {"value": value, "low": low, "high": high, "n": len(values)}
        return shown
