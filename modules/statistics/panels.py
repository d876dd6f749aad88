"""Chooses a panel of agents for a majority vote, and judges it on questions not used for the
choice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .clusters import clustered_mean

Whole = npt.NDArray[np.int64]

SPLITS = 5
"""The number of random halvings of the questions. With ten folds, whose training parts overlap,
panels of guessing agents were called better in 10% of trials (8 of 60, 13 of 150); with halves in
4% (5 of 60, 3 of 150).
"""

_BEAM = 8
"""The beam width: this many panels of each size are extended."""


@dataclass(frozen=True)
class PanelScores:
    """How often a panel is right, and its gain over one agent. `seen` is its share of right answers
    on the questions that it was chosen on, which is biased upwards. `score` and `single_score` are
    shares of right answers on held-out questions, `difference` is `score` minus `single_score` with
    its 95% interval and two-sided p, and `chosen` the share of choices that fell on the same
    members.
    """

    seen: float
    score: float
    single_score: float
    difference: float
    low: float
    high: float
    p: float
    chosen: float


@dataclass(frozen=True)
class PanelEstimate(PanelScores):
    """A panel, its `members`, and the best agent, `single`, both by all questions: indices of
    agents.
    """

    members: tuple[int, ...]
    single: int


def best_panel(
    answers: Sequence[Sequence[Hashable | None]],
    correct: Sequence[Sequence[bool]],
    most: int,
    *,
    seed: int,
    clusters: Sequence[Hashable] | None = None,
) -> PanelEstimate:
    """Return the best panel of 2 to `most` agents by a majority vote, with nested selection.

    Args: answers: one list of answers per agent; None abstains. At least three agents. correct:
        whether each is right. Right answers to a question count as the same vote in any spelling.
        most: the largest number of members, at least 2. seed: the seed of the halvings. clusters:
        which questions belong together; they are in one half, and count as one for the interval.

    Ties count as the expected score of a random choice. The questions are halved in five ways.
    Panel, size and best agent are chosen anew on one half, by the same search (forward from each
    agent, the best 8 panels of a size kept), and judged on the other, each half once, so
    `difference` has no selection bias.

    Raises ValueError for fewer than three agents, lengths that differ, or fewer than two clusters.
    """
    if len(answers) < 3 or most < 2:
        raise ValueError("a panel is chosen of at least three agents, and has two members or more")
    right = np.array(correct, dtype=bool)
    codes = _codes(answers, right)
    n = codes.shape[1]
    groups = list(range(n)) if clusters is None else list(clusters)
    panel, single = np.zeros(n), np.zeros(n)
    members, seen = _search(codes, np.ones(n, dtype=bool), most)
    same = 0
    for half in _halves(groups, seed):
        chosen_panel, _ = _search(codes, ~half, most)
        same += chosen_panel == members
        panel[half] += _votes(codes[:, half], chosen_panel) / SPLITS
        best_agent = right[:, ~half].mean(axis=1).argmax()
        single[half] += right[best_agent, half] / SPLITS
    gained = clustered_mean((panel - single).tolist(), groups)
    return PanelEstimate(
        seen,
        float(panel.mean()),
        float(single.mean()),
        *gained[:4],
        chosen=same / (2 * SPLITS),
        members=members,
        single=int(right.mean(axis=1).argmax()),
    )


def _codes(answers: Sequence[Sequence[Hashable | None]], right: npt.NDArray[np.bool_]) -> Whole:
    """Return answers as numbers per question: 0 is right, and -1 abstains."""
    codes = np.full(right.shape, -1)
    for place, question in enumerate(zip(*answers, strict=True)):
        numbers: dict[Hashable, int] = {}
        for agent, answer in enumerate(question):
            if right[agent, place]:
                codes[agent, place] = 0
            elif answer is not None:
                codes[agent, place] = numbers.setdefault(answer, len(numbers) + 1)
    return codes


def _halves(groups: Sequence[Hashable], seed: int) -> Iterator[npt.NDArray[np.bool_]]:
    """Yield each half of the questions once for every split."""
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    of = np.array([places[group] for group in groups])
    rng = np.random.default_rng(seed)
    for _ in range(SPLITS):
        # Even places of a permutation: as many groups in one half as in the other, up to one.
        half = (rng.permutation(len(places)) % 2)[of] == 0
        yield half
        yield ~half


class _Ballots(NamedTuple):
    """A panel's votes on each question: the votes of every answer, the largest number, and how many
    answers have it.
    """

    counts: Whole
    top: Whole
    ties: Whole


def _search(codes: Whole, seen: npt.NDArray[np.bool_], most: int) -> tuple[tuple[int, ...], float]:
    """Return the panel with the highest share of right answers on the seen questions (of equal ones
    the smaller), and that share.
    """
    codes = codes[:, seen]
    agents = len(codes)
    beam: list[tuple[tuple[int, ...], _Ballots]] = [((), _no_votes(codes))]
    best: tuple[tuple[int, ...], float] = ((), -1.0)
    for size in range(1, min(most, agents) + 1):
        scored: dict[tuple[int, ...], tuple[float, _Ballots, int]] = {}
        for members, ballots in beam:
            shares = _with_each(codes, ballots).mean(axis=1)
            for agent in range(agents):
                panel = tuple(sorted((*members, agent)))
                if agent not in members and panel not in scored:
                    scored[panel] = (float(shares[agent]), ballots, agent)
        # A panel of two scores as its members do on average, so all agents are extended to panels
        # of three.
        width = {1: agents, 2: agents * _BEAM}.get(size, _BEAM)
        kept = sorted(scored.items(), key=lambda item: -item[1][0])[:width]
        panel, (share, _, _) = kept[0]
        if size > 1 and share > best[1] + 1e-12:  # by more than rounding
            best = (panel, share)
        if size < most:
            beam = [(panel, _added(ballots, codes[agent])) for panel, (_, ballots, agent) in kept]
    return best


def _with_each(codes: Whole, ballots: _Ballots) -> npt.NDArray[np.float64]:
    """Return the panel vote's scores with each agent added, one row per agent; ties count in
    part.
    """
    counts, top, ties = ballots
    # Only the answer of the agent that is added gains a vote: it stays below the top, draws level
    # with it, or is alone there. -1 for one that abstains, which leaves all as it was.
    votes = np.where(codes >= 0, counts[np.arange(counts.shape[0]), codes] + 1, -1)
    before = np.divide(counts[:, 0] == top, ties, out=np.zeros(len(top)), where=ties > 0)
    even = ((counts[:, 0] == top) & (top > 0) | (codes == 0)) / (ties + 1)
    right: npt.NDArray[np.float64] = np.where(
        votes > top, codes == 0, np.where(votes == top, even, before)
    )
    return right


def _added(ballots: _Ballots, codes: Whole) -> _Ballots:
    counts = ballots.counts.copy()
    voted = np.flatnonzero(codes >= 0)
    counts[voted, codes[voted]] += 1
    top = counts.max(axis=1)
    return _Ballots(counts, top, np.where(top > 0, (counts == top[:, None]).sum(axis=1), 0))


def _votes(codes: Whole, members: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return the score of the members' vote per question."""
    ballots = _no_votes(codes)
    for agent in members:
        ballots = _added(ballots, codes[agent])
    won = (ballots.counts[:, 0] == ballots.top) & (ballots.top > 0)
    return np.where(won, 1 / np.maximum(ballots.ties, 1), 0.0)


def _no_votes(codes: Whole) -> _Ballots:
    n, answers = codes.shape[1], max(0, int(codes.max())) + 1
    return _Ballots(np.zeros((n, answers), dtype=np.int64), np.zeros(n, int), np.zeros(n, int))
