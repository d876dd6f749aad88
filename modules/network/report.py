"""The report of a strategy network: its agents, the group, its confidence, strategies used."""

from __future__ import annotations

import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..reading.row import ResultRow
from ..reports.counting import Figures, Reading
from .selector import Embed

BINS = 10
TOPICS = ("subject", "topic", "domain", "type", "grade")
"""The fields of `meta` that questions are grouped by, each where it has between 2 and 30 values."""

CLUSTERS, FEWEST_CLUSTERED = 4, 16
"""How many clusters of questions stand in for topics, and from how many questions on."""

_MOST_TOPICS = 30

Use = dict[str, Counter[str]]
"""Counts of each strategy, by agent or by topic."""


def network_report(rows: Iterable[ResultRow], embed: Embed | None = None) -> dict[str, Any]:
    """Sum up what the agents of a StrategyNetwork did (MARL-GAT, table 1, and more).

    Args:
        rows: rows of `results.jsonl`; read once, only counters are held.
        embed: embeddings of questions, whose clusters are the topics where `meta` names none; the
            texts of questions are then held, too.

    Returns nested dicts with text keys; rates are floats in 0 ... 1, counts are ints, and a rate
    over nothing is left out. Rows with an error count in `errors`; all else is about the others,
    `questions`.

    - `individual`: accuracy of one agent, the mean over agents; `consensus`: of the group;
      `majority`: what a plain vote over the same answers would have reached, ties by lot; `gain`:
      consensus less individual; `gain_over_majority`
    - `tied`: share of questions on which the plain vote is tied; `gain_tied`, `gain_untied`: what
      the weights gained over it there
    - `confidence`: the mean of that in the group's answer, where it gave one; `ece`: the expected
      calibration error, the mean distance between confidence and accuracy over ten bins of equal
      width, each counted by its questions (Naeini et al. 2015); `reliability`: `count`,
      `confidence` and `accuracy` of the bins
    - `agent`: each one's `accuracy` and `unreadable` rate
    - `strategy`: how often each was used (`share`) and its `accuracy`
    - `use`: share of each strategy by agent; `use_by_topic`: the same by topic, a field of
      `meta` or else `cluster`
    """
    figures, calibration = Figures(), Calibration()
    use: Use = defaultdict(Counter)
    topics: dict[str, Use] = {}
    texts: dict[str, Counter[str]] = {}
    for row in map(ResultRow.of, rows):
        if not figures.finished(row):
            continue
        turns = [turn for turn in row.transcript if turn.strategy is not None]
        reading, consensus = Reading(row), float(bool(row.correct))
        right = [reading.right(turn.answer) for turn in turns]
        keys = [reading.key(turn.answer) for turn in turns]
        figures.mean(consensus, "consensus")
        if not turns:
            continue
        final = reading.key(row.answer)
        weights = [float(turn.weight) for turn in turns if turn.weight is not None]
        if final is not None and len(weights) == len(turns):
            sure = confidence(keys, weights, final)
            figures.mean(sure, "confidence")
            calibration.add(sure, consensus)
        vote, tied = plain_vote(keys, right)
        figures.mean(vote, "majority")
        figures.mean(tied, "tied")
        figures.mean(consensus - vote, "gain_tied" if tied else "gain_untied")
        meta = row.meta or {}
        if embed is not None:
            texts.setdefault(row.question, Counter()).update(str(t["strategy"]) for t in turns)
        for turn, is_right in zip(turns, right, strict=True):
            name, strategy = turn.agent, str(turn.strategy)
            figures.mean(is_right, "agent", name, "accuracy")
            figures.mean(turn.answer is None, "agent", name, "unreadable")
            figures.mean(is_right, "strategy", strategy, "accuracy")
            use[name][strategy] += 1
            for topic in TOPICS:
                if meta.get(topic) is not None:
                    values = topics.setdefault(topic, defaultdict(Counter))
                    values[str(meta[topic])][strategy] += 1
    report = figures.report()
    agents, strategies = report.setdefault("agent", {}), report.setdefault("strategy", {})
    if agents:
        report["individual"] = sum(agent["accuracy"] for agent in agents.values()) / len(agents)
        report["gain"] = report["consensus"] - report["individual"]
        report["gain_over_majority"] = report["consensus"] - report["majority"]
    report |= calibration.report()
    used = sum(use.values(), Counter[str]())
    report["strategy"] = {
        name: {"share": used[name] / used.total(), **figure}
        for name, figure in sorted(strategies.items())
    }
    report["use"] = _shares(use, strategies)
    by_topic = dict[str, dict[str, dict[str, float]]]()
    for topic, values in topics.items():
        if 1 < len(values) <= _MOST_TOPICS:
            by_topic[topic] = _shares(dict(sorted(values.items())), strategies)
    report["use_by_topic"] = by_topic
    if embed is not None and not by_topic and len(texts) >= FEWEST_CLUSTERED:
        by_cluster: Use = defaultdict(Counter)
        names = clusters(embed(list(texts)), list(texts))
        for name, counts in zip(names, texts.values(), strict=True):
            by_cluster[name].update(counts)
        by_topic["cluster"] = _shares(dict(sorted(by_cluster.items())), strategies)
    return report


def clusters(vectors: npt.NDArray[np.floating], texts: Sequence[str]) -> list[str]:
    """Return the cluster of each question, named by the question nearest to its centre
    (k-means).
    """
    from scipy.cluster.vq import kmeans2  # takes half a second

    wide = np.asarray(vectors, dtype=np.float64)
    centres, places = kmeans2(wide, CLUSTERS, minit="++", seed=0)
    names = {}
    for place in np.unique(places):
        members = np.flatnonzero(places == place)
        nearest = members[np.linalg.norm(wide[members] - centres[place], axis=1).argmin()]
        names[place] = f"like {textwrap.shorten(texts[nearest], 40, placeholder=' …')!r}"
    return [names[place] for place in places]


def plain_vote(keys: Sequence[str | None], right: Sequence[bool]) -> tuple[float, bool]:
    """Return the chance that an unweighted vote is right, with ties broken at random, and whether
    it is tied.

    `keys[i]` is what agent i answered, None for nothing, and `right[i]` whether that is right.
    """
    votes = Counter(key for key in keys if key is not None)
    top = max(votes.values(), default=0)
    leaders = [right[keys.index(key)] for key, count in votes.items() if count == top]
    if not leaders:
        return 0.0, False
    return sum(leaders) / len(leaders), len(leaders) > 1


def confidence(keys: Sequence[str | None], weights: Sequence[float], answer: str) -> float:
    """Return the probability of each answer: the softmax of its supporters' summed weights
    (MARL-GAT, equation 5).

    `keys[i]` is what agent i answered, None for nothing; 0 for an answer that nobody gave.
    """
    scores: dict[str, float] = defaultdict(float)
    for key, weight in zip(keys, weights, strict=True):
        if key is not None:
            scores[key] += weight
    if answer not in scores:
        return 0.0
    # A float holds no more than exp(709).
    return 1 / math.fsum(math.exp(min(score - scores[answer], 700.0)) for score in scores.values())


class Calibration:
    """How far a group's confidence is from its accuracy, answer by answer, in ten bins of equal
    width.
    """

    def __init__(self) -> None:
        self._bins: dict[int, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

    def add(self, confidence: float, right: float) -> None:
        """Add an answer: the confidence in it, and 1 if it was right, 0 if wrong, or its share of a
        tie.
        """
        place = self._bins[min(int(confidence * BINS), BINS - 1)]
        place[0] += 1
        place[1] += confidence
        place[2] += right

    def report(self) -> dict[str, object]:
        """Return `ece` and `reliability`, as in `network_report`; nothing without an answer."""
        if not self._bins:
            return {}
        total = sum(count for count, _, _ in self._bins.values())
        away = sum(abs(confidence - right) for _, confidence, right in self._bins.values())
        bins = dict[str, dict[str, float]]()
        for place, (count, confidence, right) in sorted(self._bins.items()):
            bins[f"{place / BINS:.1f}-{(place + 1) / BINS:.1f}"] = {
                "count": int(count),
                "confidence": confidence / count,
                "accuracy": right / count,
            }
        return {"ece": away / total, "reliability": bins}


def _shares(
    use: Mapping[str, Counter[str]], strategies: Iterable[str]
) -> dict[str, dict[str, float]]:
    names, shares = sorted(strategies), dict[str, dict[str, float]]()
    for user, used in use.items():
        shares[user] = {name: used[name] / used.total() for name in names}
    return shares
