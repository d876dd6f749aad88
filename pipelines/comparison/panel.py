"""Whether a vote of several runs would beat the best of them, computed from their rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from operator import itemgetter

from ...modules.statistics.panels import PanelScores, best_panel
from .compared import SURE, Compared
from .tested import VotedAnswer
from .words import Sentence

MOST_MEMBERS = 5


@dataclass(frozen=True)
class Panel(PanelScores):
    """The panel of runs whose majority vote is most often right, and the gain over the best run.

    `members` and `single` are names of runs: the best panel of at most `most`, and the best run of
    all `n` questions. The scores are cross-validated: the questions are halved in five ways, and
    both are chosen on one half and judged on the other.
    """

    members: tuple[str, ...]
    single: str
    most: int
    n: int

    @property
    def better(self) -> bool:
        return self.p < SURE and self.difference > 0

    sentence = Sentence("panel", "Whether a vote is shown to beat the best run, and its members.")

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "members": list(self.members), "sentence": self.sentence}


def panel_of(
    runs: Sequence[Compared],
    votes: Sequence[Sequence[Sequence[VotedAnswer]]],
    most: int,
    clusters: Sequence[Hashable] | None,
    seed: int,
) -> Panel | None:
    """Return the best panel of the runs; None for fewer than three runs or two members.

    `votes[i][q]` are the votes of run i on question q, one for each repeat. Every question has as
    many ballots as the largest number of repeats. In each ballot a run casts its next vote, and
    starts again after its last. So each question counts once, and its ballots stay together as one
    cluster.
    """
    # What a majority of two runs says, one of them says alone.
    if len(runs) < 3 or most < 2:
        return None
    n = len(votes[0])
    ballots = max(len(own) for run in votes for own in run)
    answers, right = list[list[Hashable]](), list[list[bool]]()
    for run in votes:
        cast = list[VotedAnswer]()
        for own in run:
            # With fewer repeats than ballots, a run starts again after its last vote.
            cast += islice(cycle(own), ballots)
        answers.append([vote.answer for vote in cast])
        right.append([vote.right for vote in cast])
    together = list[Hashable]()
    for cluster in clusters or range(n):
        together += [cluster] * ballots
    best = best_panel(answers, right, most, seed=seed, clusters=together)
    names = [run.name for run in runs]
    members = {"members": itemgetter(*best.members)(names), "single": names[best.single]}
    return Panel(**vars(best) | members, most=most, n=n)
