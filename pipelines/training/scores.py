"""The scores of a trained network on recorded answers, and of baselines without a network, and how
a user sees them. All functions are pure.

Answers of A agents to Q questions in S ways are whole numbers (Q, A, S), equal for equal answers to
a question, -1 where there is none; `correct` (Q, A, S) says which are right. Without strategies S
is 1. A network has N agents: as many, or copies of the only one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ...modules.base.keyed import Keyed
from ...modules.network.report import Calibration, confidence
from ...modules.network.weights import Answers, Expected, Numbers, Right, expected_votes
from ...modules.statistics.paired import paired_bootstrap
from ...modules.statistics.statistics import mean_estimate
from ..base.run_files import ScoreFields
from ..base.wording import as_sentence, percent, signed_interval

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ...modules.network.state import NetworkState

Cell = TypeVar("Cell", bound=np.generic)

_MOST_GROUPS = 30

_ONE_CALL, _ALL_CALLS = ("knn", "regression"), ("vote_plain", "vote_conditional")
_FIXED = ("best_fixed", "best_per_group")
RIVALS = {
    "consensus": ("majority", *_FIXED, "individual", *_ALL_CALLS),
    "individual": ("majority", *_FIXED, *_ONE_CALL),
    "majority": (*_FIXED, "individual"),
}
"""What each score is held against."""

_SHOWN = (
    *("individual", "consensus", "majority", "best_fixed", "best_per_group"),
    *("knn", "regression", "vote_plain", "vote_conditional", "oracle"),
)

_POLICIES = {"gat": "the graph", "knn": "kNN", "regression": "the regression"}


class NetworkScores(Keyed):
    """The scores of `network_scores` as `scores.json` has them, with their `verdict`."""

    __slots__ = ()
    consensus: dict[str, float]
    differences: dict[str, dict[str, ScoreFields]]
    missing: float = 0.0
    verdict: list[str] | None = None


class NetworkDraws(NamedTuple):
    """The network's choices in D draws: the strategy of each agent (D, Q, N), -1 for an agent that
    was not asked, and the weight of its vote (D, Q, N).
    """

    picks: Answers
    weights: Numbers


@dataclass(frozen=True)
class Fixed:
    """The best fixed choices on training outcomes, each as the index of a strategy or agent; the
    first of equals wins.

    Where agents have strategies, each has a choice of its own: `best` has A numbers, `by_group` A
    for each group. Where they have none, the choice is among the agents: `best` and each group have
    one number.
    """

    best: tuple[int, ...]
    by_group: Mapping[str | None, tuple[int, ...]]

    @classmethod
    def of(cls, correct: Right, answered: Right, groups: Sequence[str | None]) -> Fixed:
        """Return the best by `correct` (Q, A, S) where `answered` (Q, A, S); a group of None does
        not count.
        """
        right, there = choices_of(correct), choices_of(answered)
        by_group = dict[str | None, tuple[int, ...]]()
        for name in dict.fromkeys(groups):
            if name is not None:
                where = np.array([group == name for group in groups])
                by_group[name] = _best(right[where], there[where])
        return cls(_best(right, there), by_group)

    def to_dict(self) -> dict[str, object]:
        return {"best": self.best, "by_group": dict(self.by_group)}

    @classmethod
    def from_dict(cls, fixed: Mapping[str, Any]) -> Fixed:
        return cls(
            tuple(fixed["best"]), {name: tuple(best) for name, best in fixed["by_group"].items()}
        )


def network_scores(
    answers: Answers,
    correct: Right,
    answered: Right,
    groups: Sequence[str | None],
    drawn: NetworkDraws,
    fixed: Fixed,
    *,
    rivals: Mapping[str, Numbers] = MappingProxyType({}),
    seed: int = 0,
) -> dict[str, object]:
    """Return the scores of a network on test outcomes: expected values where ties are broken at
    random, means over draws.

    Returns `questions`, `draws`, `missing` (chosen answers that are not in the table and count as
    wrong), and these scores, each with `value`, `low` and `high` (95 %) and the `calls` per
    question:

    - `individual`: one agent with the strategy it chose, the mean over agents
    - `consensus`: the weighted vote of the agents
    - `majority`: the same answers with equal weights
    - `best_fixed`: the strategy that was best in training, for each agent its own, the mean over
      agents; without strategies the best agent. `best_per_group` likewise by group, a new group by
      `best_fixed`
    - `oracle`: whether any answer in the table is right
    - `rivals`, as `rival_values` gives them

    then `differences`: `consensus`, `individual` and `majority` less each of their `RIVALS`, paired
    by question, with 95 % bootstrap intervals; and `ties`: the share of questions on which the
    plain vote is tied, and the gain of the weights on tied and untied ones, None where there are
    none. Values are 0 ... 1.
    """
    questions = len(answers)
    codes, right = _picked(answers, drawn.picks), _picked(correct, drawn.picks)
    there = _picked(answered, drawn.picks)
    # Where an agent was not asked, `_picked` has the answer of the first strategy: it is taken out.
    asked = drawn.picks >= 0
    codes, right = np.where(asked, codes, -1), right & asked
    # Where nobody was asked, nobody is right.
    single = right.sum(axis=2) / np.maximum(asked.sum(axis=2), 1)
    group = _votes(codes, right, drawn.weights)
    plain = _votes(codes, right, np.ones(drawn.weights.shape))
    alone = choices_of(correct)
    values = {
        "individual": single.mean(axis=0),
        "consensus": group.right.mean(axis=0),
        "majority": plain.right.mean(axis=0),
        "best_fixed": _fixed(alone, fixed, [None] * questions),
        "best_per_group": _fixed(alone, fixed, groups),
        "oracle": correct.any(axis=(1, 2)).astype(float),
        **rivals,
    }
    # Who needs an answer of every strategy of every agent pays for all that are recorded.
    cells = float(answered.sum(axis=(1, 2)).mean())
    asked_mean = float(asked.sum(axis=2).mean())
    calls = dict.fromkeys(values, 1.0) | dict.fromkeys(_ALL_CALLS, cells)
    calls |= {
        "consensus": asked_mean,
        "majority": asked_mean,
        "oracle": cells,
    }
    scores: dict[str, object] = {
        "questions": questions,
        "draws": len(drawn.picks),
        "missing": round(float((asked & ~there).sum()) / len(drawn.picks), 6),
    }
    for name, value in values.items():
        scores[name] = {**mean_estimate(value.tolist(), seed=seed)._asdict(), "calls": calls[name]}
    differences: dict[str, dict[str, dict[str, float]]] = {}
    for team, against in RIVALS.items():
        known = filter(values.__contains__, against)
        differences[team] = {
            rival: _difference(values[team], values[rival], seed) for rival in known
        }
    return {**scores, "differences": differences, "ties": _ties(group, plain)}


def rival_values(
    rivals: Mapping[str, NetworkState],
    vectors: npt.NDArray[np.floating],
    answers: Answers,
    correct: Right,
) -> dict[str, Numbers]:
    """Return the expected scores on each question, (Q,), of what does without a graph, learned from
    the same training answers: `knn` and `regression`, one agent with the strategy that they choose,
    the mean over agents; `vote_plain` and `vote_conditional`, one answer of every strategy of every
    agent, with equal weights and with those that depend on the question.
    """
    questions, agents = correct.shape[:2]
    values = dict[str, Numbers]()
    for name, state in rivals.items():
        picks = state.logits(vectors)[:, :agents].argmax(axis=-1)
        right = np.take_along_axis(correct, picks[..., None], axis=2)[..., 0]
        values[name] = right.mean(axis=1)
        if state.vote is not None:
            # A network of one agent has several copies of it: these vote once.
            weights = np.stack([state.vote.at(vector)[:agents].ravel() for vector in vectors])
            votes = (answers.reshape(questions, -1), correct.reshape(questions, -1))
            values["vote_plain"] = expected_votes(*votes, np.ones(weights.shape)).right
            values["vote_conditional"] = expected_votes(*votes, weights).right
    return values


def verdict_of(
    scores: Mapping[str, object],
    fixed: Fixed,
    agents: Sequence[str],
    strategies: Sequence[str],
    policy: str,
) -> list[str]:
    """Return the result of `network_scores` in sentences: whether the group's vote (and, with
    strategies, an agent's own choice) beats a plain vote and the best fixed choice, what to use if
    it does not, and what the policy added to those without a graph.
    """
    read, plain = NetworkScores.of(scores), "a plain vote over the same answers"
    individual, consensus = read.differences["individual"], read.differences["consensus"]
    if not strategies:
        alone = f"the best single agent, {agents[fixed.best[0]]}"
    elif len(agents) == 1:
        alone = f"the best single strategy, {strategies[fixed.best[0]]}"
    else:
        alone = "every agent's best single strategy"
    group, single = "the group's vote", "one agent's own choice"
    contests = [(group, alone, consensus["best_fixed"])]
    if read.consensus["calls"] > 1:  # one voter alone is its own plain vote
        contests.insert(0, (group, plain, consensus["majority"]))
    if len(strategies) > 1:
        contests.append((single, alone, individual["best_fixed"]))
    # One of these is enough to keep the network: only where none is won, another choice is named.
    sentences, won = [], False
    for who, rival, difference in contests:
        verb = "does not beat"
        if difference.low > 0:
            verb, won = "beats", True
        elif difference.high < 0:
            verb = "is worse than"
        sentences.append(f"{who} {verb} {rival}: {_gain(difference)}")
    if not won:
        sentences.append(f"nothing that was learned helps on these questions: take {alone}")
    for rival in _ONE_CALL:
        shown = individual.get(rival)
        if shown is not None and rival != policy:
            added = "adds nothing that is shown"
            if shown.low > 0:
                added = "adds something"
            elif shown.high < 0:
                added = "costs"
            against = _POLICIES[rival]
            sentences.append(f"{_POLICIES[policy]} {added}: {_gain(shown)} against {against}")
    return sentences


def _gain(difference: ScoreFields) -> str:
    return signed_interval(difference.value, difference.low, difference.high, points=True)


def network_use(
    answers: Answers,
    correct: Right,
    groups: Sequence[str | None],
    drawn: NetworkDraws,
    strategies: Sequence[str],
) -> dict[str, object]:
    """Return the behaviour of a network, from the arrays of `network_scores`, over all draws unless
    noted.

    - `ece` and `reliability` as in `network_report`, of the first draw; equal scores go to the
      earlier agent
    - with two strategies or more: `strategy`, the `accuracy` of each on all test questions, and its
      `share` of the choices; `use`, the shares by agent, and `use_by_group` where there are between
      2 and 30 groups
    """
    use = _calibration(answers, correct, drawn)
    # One strategy alone is no choice.
    if len(strategies) < 2:
        return use
    picks = np.arange(len(strategies)) == drawn.picks[..., None]  # (D, Q, N, S)
    shares = _shares(picks, strategies)
    use["strategy"] = {
        name: {"share": shares[name], "accuracy": float(correct[:, :, s].mean())}
        for s, name in enumerate(strategies)
    }
    use["use"] = {f"agent.{i}": _shares(picks[:, :, i], strategies) for i in range(picks.shape[2])}
    names = sorted({group for group in groups if group is not None})
    # More bars than this cannot be told apart in a plot.
    if 1 < len(names) <= _MOST_GROUPS:
        by_group = dict[str, dict[str, float]]()
        for name in names:
            members = [group == name for group in groups]
            by_group[name] = _shares(picks[:, members], strategies)
        use["use_by_group"] = by_group
    return use


def _shares(picks: npt.NDArray[np.bool_], strategies: Sequence[str]) -> dict[str, float]:
    counts = picks.reshape(-1, len(strategies)).sum(axis=0)
    return dict(zip(strategies, (counts / max(int(counts.sum()), 1)).tolist(), strict=True))


def _calibration(answers: Answers, correct: Right, drawn: NetworkDraws) -> dict[str, object]:
    calibration = Calibration()
    agents = np.arange(answers.shape[1])
    if len(agents) == 1:
        # Copies of one agent all have its answers.
        agents = np.zeros(drawn.picks.shape[2], dtype=int)
    for q, (ways, weights) in enumerate(zip(drawn.picks[0], drawn.weights[0], strict=True)):
        codes = np.where(ways >= 0, answers[q, agents, np.maximum(ways, 0)], -1).tolist()
        keys = [str(code) if code >= 0 else None for code in codes]
        sure = {key: confidence(keys, weights.tolist(), key) for key in keys if key is not None}
        if sure:
            # Of equally sure answers the first one, which is the earlier agent's.
            best = max(sure, key=lambda key: sure[key])
            i = keys.index(best)
            calibration.add(sure[best], float(correct[q, agents[i], ways[i]]))
    return calibration.report()


def choices_of(cells: Right) -> Right:
    """Return the table (Q, A, S) arranged by choices: unchanged, or (Q, 1, A) without
    strategies.
    """
    if cells.shape[2] > 1:
        return cells
    return cells.swapaxes(1, 2)


def _picked(values: npt.NDArray[Cell], picks: Answers) -> npt.NDArray[Cell]:
    """Return the values (Q, A, S) at the picks (D, Q, N); where nothing was picked, the value of
    the first strategy.
    """
    each = np.broadcast_to(values, (len(values), picks.shape[2], values.shape[2]))
    at_picks = np.take_along_axis(each[None], np.maximum(picks, 0)[..., None], axis=3)
    return at_picks[..., 0]


def _votes(codes: Answers, right: Right, weights: Numbers) -> Expected:
    """Return the votes of all draws at once, each part (D, Q)."""
    shape, agents = codes.shape[:2], codes.shape[2]
    rows = expected_votes(
        codes.reshape(-1, agents), right.reshape(-1, agents), weights.reshape(-1, agents)
    )
    return Expected(rows.right.reshape(shape), rows.tied.reshape(shape))


def _best(right: Right, there: Right) -> tuple[int, ...]:
    # By the share of the answers there are; a choice without any is the last one to take.
    counts = there.sum(axis=0)
    shares = np.where(counts > 0, (right & there).sum(axis=0) / np.maximum(counts, 1), -1.0)
    return tuple(shares.argmax(axis=1).tolist())


def _fixed(right: Right, fixed: Fixed, groups: Sequence[str | None]) -> Numbers:
    """Return whether the fixed choices are right on each question, the mean over those who choose,
    (Q,).
    """
    chosen = np.array([fixed.by_group.get(group, fixed.best) for group in groups])
    mean: Numbers = np.take_along_axis(right, chosen[:, :, None], axis=2)[..., 0].mean(axis=1)
    return mean


def _difference(a: Numbers, b: Numbers, seed: int) -> dict[str, float]:
    difference, low, high = paired_bootstrap(a.tolist(), b.tolist(), seed=seed)
    return {"value": difference, "low": low, "high": high}


def _ties(group: Expected, plain: Expected) -> dict[str, float | None]:
    gain = group.right - plain.right
    return {
        "share": float(plain.tied.mean()),
        "gain_tied": float(gain[plain.tied].mean()) if plain.tied.any() else None,
        "gain_untied": float(gain[~plain.tied].mean()) if not plain.tied.all() else None,
    }


@dataclass(frozen=True)
class Rescored:
    """The scores of a network on recorded answers; see `network_scores`."""

    scores: Mapping[str, object]

    def to_dict(self) -> dict[str, object]:
        return dict(self.scores)

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        """Return the scores, the difference of each to its rivals, and the verdict."""
        read = NetworkScores.of(self.scores)
        lines = {}
        for name in _SHOWN:
            if name in read:
                lines[name.replace("_", " ")] = percent(read[name])
        if quiet:
            return {"consensus": lines["consensus"]}
        for team in ("consensus", "individual"):
            for rival, by in read.differences[team].items():
                difference = signed_interval(by.value, by.low, by.high)
                lines[f"{team} over {rival.replace('_', ' ')}"] = f"{difference} points"
        sentences = list(map(as_sentence, read.verdict or ()))
        if read.missing:
            missing = f"{read.missing:,.1f} chosen answers"
            sentences.append(f"{missing} are not in the test outcomes, and count as wrong.")
        return {**lines, "verdict": " ".join(sentences)}
