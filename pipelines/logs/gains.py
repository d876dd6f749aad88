"""The gains of a team's dialogues: of a vote of first answers over one answer, and of the talk over
that vote.
"""

from __future__ import annotations

from collections import Counter

from ...optimizers.statistics.statistics import bootstrap_mean
from ..runs.summary import QuestionMeans
from .answers import LogAnswer

SEED, RESAMPLES = 0, 100_000


class Gains:
    """Sums over the dialogues of a team, of which first answers are those of the first round.

    A first answer counts as right on average over the agents, and a vote as expected where answers
    are even.
    """

    def __init__(self) -> None:
        self._first, self._vote, self._talk = (QuestionMeans() for _ in range(3))

    def add(self, answered: LogAnswer, question: int) -> None:
        """Add a dialogue; the question is a number."""
        if not answered.turns or answered.gold is None or answered.error:
            return
        begin = min(round for round, *_ in answered.turns)
        answers = [answer for round, _, answer, _ in answered.turns if round == begin]
        votes = Counter(answer for answer in answers if answer is not None)
        top = [answer for answer, count in votes.items() if count == max(votes.values())]
        first = sum(answer == answered.gold for answer in answers) / len(answers)
        vote = (answered.gold in top) / len(top) if top else 0.0
        self._first.add(question, first)
        self._vote.add(question, vote - first)
        self._talk.add(question, bool(answered.correct) - vote)

    def report(self) -> dict[str, dict[str, float]]:
        """`first_answer` (a share), `vote_gain` and `talk_gain` (differences), each with its 95%
        interval.
        """
        figures = {"first_answer": self._first, "vote_gain": self._vote, "talk_gain": self._talk}
        shown = {}
        for name, values in figures.items():
            if means := values.means():
                value, low, high = bootstrap_mean(means, seed=SEED, resamples=RESAMPLES)
                shown[name] = {"value": value, "low": low, "high": high, "n": len(means)}
        return shown
