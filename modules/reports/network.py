"""What a strategy network's rows say: single agents, the group, how sure it was, and who used what."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ..network.verdict import Contest, verdict
from ..reading.answers import Kind, answer_key, score
from ..reading.row import ResultRow

BINS = 10
TOPICS = ("subject", "topic", "domain", "type", "grade")
"""The fields of `meta` that questions are grouped by, each where it has between 2 and 30 values."""

_MOST_TOPICS = 30
_SURE = 1.96  # standard errors on each side of a 95 % interval


def network_report(rows: Iterable[ResultRow]) -> dict[str, Any]:
    """Sum up what the agents of a StrategyNetwork did (MARL-GAT, table 1, and more).

    Args:
        rows: rows of `results.jsonl`; read once, only counters are held.

    Returns nested dicts with text keys; rates are floats in 0 ... 1, counts are ints, and a rate over nothing
    is left out. Rows with an error count in `errors`; all else is about the others, `questions`.

    - `individual`: accuracy of one agent, the mean over agents; `consensus`: of the group; `majority`: what a
      plain vote over the same answers would have reached, ties by lot; `gain`: consensus less individual;
      `gain_over_majority`
    - `tied`: share of questions on which the plain vote is tied, and `gain_tied` and `gain_untied`: what the
      weights gained over it there
    - `confidence`: the mean of that in the group's answer, where it gave one; `ece`: the expected calibration
      error, the mean distance between confidence and accuracy over ten bins of equal width, each counted by
      its questions (Naeini et al. 2015); `reliability`: `count`, `confidence` and `accuracy` of the bins
    - `agent`: each one's `accuracy` and `unreadable` rate
    - `strategy`: how often each was used (`share`) and its `accuracy`
    - `differences`: the group less `majority` and less `best_agent`, the agent with the most right answers
      here, paired by question: `value`, `low` and `high` (95 %, of the normal distribution); `verdict`: the
      same in words. For two agents or more
    - `strategies_per_question`: how many different ones the agents chose, on average
    - `use`: share of each strategy by agent; `use_by_topic`: the same by topic
    """
    tally = _Tally()
    for row in rows:
        tally.count(row)
    return tally.report()


def plain_vote(keys: Sequence[str | None], right: Sequence[bool]) -> tuple[float, bool]:
    """The chance that a vote without weights is right, ties by lot, and whether it is tied.

    `keys[i]` is what agent i answered, None for nothing, and `right[i]` whether that is right.
    """
    votes = Counter(key for key in keys if key is not None)
    top = max(votes.values(), default=0)
    leaders = {key: right[keys.index(key)] for key, count in votes.items() if count == top}
    return (sum(leaders.values()) / len(leaders), len(leaders) > 1) if leaders else (0.0, False)


def confidence(keys: Sequence[str | None], weights: Sequence[float], answer: str) -> float:
    """The probability of an answer: softmax of the sums of supporters' weights (MARL-GAT, equation 5).

    `keys[i]` is what agent i answered, None for nothing; 0 for an answer that nobody gave.
    """
    scores: dict[str, float] = defaultdict(float)
    for key, weight in zip(keys, weights, strict=True):
        if key is not None:
            scores[key] += weight
    if answer not in scores:
        return 0.0
    return 1 / math.fsum(math.exp(min(score - scores[answer], 700.0)) for score in scores.values())


class Calibration:
    """How far a group's confidence is from its accuracy, answer by answer, in ten bins of equal width."""

    def __init__(self) -> None:
        self._bins: dict[int, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

    def add(self, confidence: float, right: float) -> None:
        """One answer: the confidence in it, and 1 if it was right, else 0, or its share of a tie."""
        place = self._bins[min(int(confidence * BINS), BINS - 1)]
        place[0] += 1
        place[1] += confidence
        place[2] += right

    def report(self) -> dict[str, Any]:
        """`ece` and `reliability`, as in `network_report`; nothing without an answer."""
        if not self._bins:
            return {}
        total = sum(count for count, _, _ in self._bins.values())
        away = sum(abs(confidence - right) for _, confidence, right in self._bins.values())
        bins = {
            f"{place / BINS:.1f}-{(place + 1) / BINS:.1f}": {
                "count": int(count),
                "confidence": confidence / count,
                "accuracy": right / count,
            }
            for place, (count, confidence, right) in sorted(self._bins.items())
        }
        return {"ece": away / total, "reliability": bins}


class _Tally:
    def __init__(self) -> None:
        self.errors = self.questions = 0
        self.sums: dict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()
        self.calibration = Calibration()
        self.agents: dict[str, Counter[str]] = defaultdict(Counter)
        self.strategies: dict[str, Counter[str]] = defaultdict(Counter)
        self.topics: dict[str, dict[str, Counter[str]]] = {}
        self.against: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

    def mean(self, name: str, value: float) -> None:
        self.sums[name] += value
        self.counts[name] += 1

    def count(self, row: ResultRow) -> None:
        if row["error"]:
            self.errors += 1
            return
        self.questions += 1
        turns = [turn for turn in row["transcript"] if turn.get("strategy") is not None]
        kind: Kind = row["kind"]
        right = [score(turn["answer"], row["gold"], kind, row.get("choices")).correct for turn in turns]
        keys = [None if turn["answer"] is None else answer_key(turn["answer"], kind) for turn in turns]
        consensus = float(bool(row["correct"]))
        self.mean("consensus", consensus)
        if not turns:
            return
        if row["answer"] is not None and all(turn.get("weight") is not None for turn in turns):
            weights = [float(turn["weight"]) for turn in turns]
            sure = confidence(keys, weights, answer_key(row["answer"], kind))
            self.mean("confidence", sure)
            self.calibration.add(sure, consensus)
        vote, tied = plain_vote(keys, right)
        self.mean("majority", vote)
        self.mean("tied", tied)
        self.mean("gain_tied" if tied else "gain_untied", consensus - vote)
        self._held("majority", consensus - vote)
        self.mean("strategies_per_question", len({turn["strategy"] for turn in turns}))
        meta = row.get("meta") or {}
        for turn, is_right in zip(turns, right, strict=True):
            self._held(f"/{turn['agent']}", consensus - is_right)
            name, strategy = turn["agent"], str(turn["strategy"])
            self.agents[name].update(
                {"asked": 1, "right": is_right, "unreadable": turn["answer"] is None, f"/{strategy}": 1}
            )
            self.strategies[strategy].update({"asked": 1, "right": is_right})
            for topic in TOPICS:
                if meta.get(topic) is not None:
                    use = self.topics.setdefault(topic, {}).setdefault(str(meta[topic]), Counter())
                    use[strategy] += 1

    def _held(self, rival: str, difference: float) -> None:
        place = self.against[rival]
        place[0] += 1
        place[1] += difference
        place[2] += difference**2

    def _difference(self, rival: str) -> dict[str, float]:
        """By how much the group is better than a rival, from the number, sum and sum of squares."""
        n, total, squares = self.against[rival]
        mean = total / n
        around = _SURE * math.sqrt(max(squares / n - mean**2, 0.0) / n)
        return {"value": mean, "low": mean - around, "high": mean + around}

    def _against(self) -> dict[str, Any]:
        best = max(self.agents, key=lambda name: self.agents[name]["right"] / self.agents[name]["asked"])
        found = {"majority": self._difference("majority"), "best_agent": self._difference(f"/{best}")}
        rivals = {"majority": "a plain vote over the same answers", "best_agent": f"the best agent, {best}"}
        contests = [Contest("the group's vote", rivals[name], found[name]) for name in found]
        return {"differences": found, "verdict": "; ".join(verdict(contests, "one agent alone"))}

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = {"questions": self.questions, "errors": self.errors}
        found |= {name: self.sums[name] / self.counts[name] for name in self.counts}
        if self.agents:
            shares = [tally["right"] / tally["asked"] for tally in self.agents.values()]
            found["individual"] = sum(shares) / len(shares)
            found["gain"] = found["consensus"] - found["individual"]
            found["gain_over_majority"] = found["consensus"] - found["majority"]
        if len(self.agents) > 1:
            found |= self._against()
        found |= self.calibration.report()
        used = sum(tally["asked"] for tally in self.strategies.values())
        found["agent"] = {
            name: {
                "accuracy": tally["right"] / tally["asked"],
                "unreadable": tally["unreadable"] / tally["asked"],
            }
            for name, tally in self.agents.items()
        }
        found["strategy"] = {
            name: {"share": tally["asked"] / used, "accuracy": tally["right"] / tally["asked"]}
            for name, tally in sorted(self.strategies.items())
        }
        found["use"] = {
            name: {strategy: tally[f"/{strategy}"] / tally["asked"] for strategy in sorted(self.strategies)}
            for name, tally in self.agents.items()
        }
        found["use_by_topic"] = {
            topic: {
                value: {strategy: use[strategy] / use.total() for strategy in sorted(self.strategies)}
                for value, use in sorted(values.items())
            }
            for topic, values in self.topics.items()
            if 1 < len(values) <= _MOST_TOPICS
        }
        return found
