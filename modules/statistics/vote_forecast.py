"""Forecasts the gain of a vote of n agents over one of them, from a few agents on a few questions.

The model: the share of agents that are right on a question follows a beta distribution, and wrong
agents spread over the wrong answers as in a Dirichlet-multinomial distribution. The first is fitted
by maximum likelihood, the second by how often two wrong agents agree, both with a weak prior. The
plurality of n agents is then simulated, with the same random numbers for every fit, so that results
differ only by the fitted parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

ABSTAINED, RIGHT = -1, 0
"""The codes of a missing and of the right answer; wrong answers of a question are 1, 2, …"""

OPEN = 12
"""The number of distinct wrong answers in the simulation where a question has no options."""

SIMULATED, RESAMPLES = 4_000, 30

TOGETHER, TOGETHER_SCALE = 0.5, 0.5
"""The prior of log(right + wrong), its centre and scale; of other recorded tasks it is 0 to 2."""

PAIRS, BEYOND_CHANCE = 20, 0.3
"""The prior of two wrong agents' agreement counts as so many pairs, with so much more agreement
than chance."""

MODEL_ERROR = 0.005
"""The model error: one standard deviation, as a share of right answers."""


class VoteModel(NamedTuple):
    """A fit: Beta(`right`, `wrong`) over questions, the `spread` of wrong answers, and abstentions.

    `spread` is the Dirichlet's concentration: near 0, all wrong agents give the same answer.
    `options` is how many wrong answers a question has, and `abstaining` the share of wrong agents
    without one.
    """

    right: float
    wrong: float
    spread: float
    options: int
    abstaining: float

    @property
    def correlation(self) -> float:
        """The correlation of two agents' being right, 0 to 1."""
        return 1.0 / (self.right + self.wrong + 1.0)


@dataclass(frozen=True)
class VoteForecast:
    """The vote's accuracy minus the agents' mean accuracy, for each of `sizes`, in -1 to 1.
    `effective` is the number of independent agents that these are worth, `ceiling` the share of
    questions on which any of them is right, `accuracy` their mean.
    """

    sizes: tuple[int, ...]
    gain: Numbers
    low: Numbers
    high: Numbers
    accuracy: float
    effective: float
    ceiling: float


def forecast_vote(
    answers: Codes,
    options: int | None,
    sizes: Sequence[int],
    *,
    one_lm: bool = False,
    seed: int = 0,
) -> VoteForecast:
    """Forecast the gain of votes from coded answers, (questions, agents).

    Args:
        answers: 0 is right, 1, 2, … are the wrong answers of a question, -1 is none.
        options: how many wrong answers a question has; None where answers are free.
        sizes: the numbers of agents to forecast.
        one_lm: whether the agents are samples of one LM. seed: the seed of the bootstrap over
            questions.

    The 90% interval adds the variances of a bootstrap over questions, of leaving out one agent at a
    time, and of the model. Raises ValueError below 2 agents or 10 questions.
    """
    from scipy.special import stdtrit

    questions, agents = answers.shape
    if agents < 2 or questions < 10:
        raise ValueError(
            f"a forecast needs 2 agents and 10 questions at least, not {agents} and {questions}"
        )
    sizes = tuple(sizes)
    model = fit_vote_model(answers, options)
    gain = simulated_gain(model, sizes)

    def gain_from(part: Codes) -> Numbers:
        return simulated_gain(fit_vote_model(part, options), sizes)

    draws = np.random.default_rng(seed).integers(questions, size=(RESAMPLES, questions))
    resampled = [gain_from(answers[rows]) for rows in draws]
    variance = np.var(resampled, axis=0, ddof=1) + MODEL_ERROR**2
    if agents > 2:
        left_out = [gain_from(np.delete(answers, agent, axis=1)) for agent in range(agents)]
        # The jackknife's variance: other agents would have given another forecast.
        variance = variance + (agents - 1) * np.var(left_out, axis=0)
    freedom = min(agents - 1, 4) if one_lm else agents - 1
    half = float(stdtrit(freedom, 0.95)) * np.sqrt(variance)
    right = answers == RIGHT
    return VoteForecast(
        sizes=sizes,
        gain=gain,
        low=np.maximum(gain - half, -1.0),
        high=np.minimum(gain + half, 1.0),
        accuracy=float(right.mean()),
        # Kish's design effect: correlated agents are worth fewer independent ones.
        effective=agents / (1.0 + (agents - 1) * model.correlation),
        ceiling=float(right.any(axis=1).mean()),
    )


def fit_vote_model(answers: Codes, options: int | None) -> VoteModel:
    """Return the fit of the model to coded answers, (questions, agents)."""
    from scipy.optimize import minimize
    from scipy.special import betaln

    agents = answers.shape[1]
    hits = (answers == RIGHT).sum(axis=1)
    by_hits = np.bincount(hits, minlength=agents + 1)
    places = np.arange(agents + 1)

    def unlikely(logs: Numbers) -> float:
        right, wrong = np.exp(logs)
        fit = betaln(right + places, wrong + agents - places) - betaln(right, wrong)
        # Few questions say little about how alike the agents are: a Cauchy prior on log(right +
        # wrong), whose tails give way to agents that are independent or copies, and a far weaker
        # one on the accuracy.
        prior = np.log1p(((np.log(right + wrong) - TOGETHER) / TOGETHER_SCALE) ** 2)
        return float(prior + 0.02 * (logs[0] - logs[1]) ** 2 - (by_hits * fit).sum())

    share = (hits.sum() + 0.5) / (hits.size * agents + 1)
    start = np.log([max(share, 0.02), max(1 - share, 0.02)])
    optimum = minimize(unlikely, start, method="L-BFGS-B", bounds=[(-5, 5), (-5, 5)])
    right, wrong = np.exp(optimum.x)

    # How often each wrong answer was given, by question: (questions, wrong answers).
    top = max(int(answers.max()), 1)
    counts = np.stack([(answers == code).sum(axis=1) for code in range(1, top + 1)], axis=1)
    misses, abstained = counts.sum(axis=1), int((answers == ABSTAINED).sum())

    # The plurality depends on how often two wrong agents agree. Moments get this right also where
    # the wrong answers do not follow the Dirichlet distribution; maximum likelihood does not.
    chance = 1 / (options or OPEN)
    agreeing = (counts * (counts - 1)).sum() / 2 + PAIRS * (chance + BEYOND_CHANCE * (1 - chance))
    agreement = agreeing / ((misses * (misses - 1)).sum() / 2 + PAIRS)
    # The expected agreement is (1 + spread * chance) / (1 + spread).
    spread = (1 - agreement) / max(agreement - chance, 0.01)
    silent = abstained / max(int(misses.sum()) + abstained, 1)
    return VoteModel(float(right), float(wrong), float(spread), options or OPEN, silent)


@lru_cache(maxsize=4)
def _randoms(most: int, options: int) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the random numbers that all simulations share."""
    random = np.random.default_rng(20_240_229)
    # Evenly spread and not drawn, which leaves less noise.
    quantiles = (np.arange(SIMULATED) + 0.5) / SIMULATED
    return (
        quantiles,
        random.random((SIMULATED, most)),
        random.random((SIMULATED, most)),
        random.random((SIMULATED, options)),
    )


def simulated_gain(model: VoteModel, sizes: Sequence[int]) -> Numbers:
    """Return the accuracy of the plurality of n agents, with ties split, minus that of one
    agent.
    """
    from scipy.special import betaincinv

    most, options = max(sizes), model.options
    # The same shape for all usual sizes, so that the result for a size does not depend on the
    # others.
    quantiles, hit, which, sticks = _randoms(max(most, 30), options)
    chance = betaincinv(model.right, model.wrong, quantiles)
    weights = _wrong_shares(model, sticks)
    edges = np.cumsum(weights, axis=1)
    votes = np.zeros((SIMULATED, options + 1), dtype=np.int64)
    rows = np.arange(SIMULATED)
    shares = {}
    for n in range(1, most + 1):
        miss = hit[:, n - 1] >= chance
        # The rest of the random number decides which agents abstain.
        silent = miss & ((hit[:, n - 1] - chance) / (1 - chance + 1e-12) < model.abstaining)
        kind = (which[:, n - 1, None] > edges).sum(axis=1).clip(max=options - 1) + 1
        code = np.where(miss, kind, 0)
        votes[rows[~silent], code[~silent]] += 1
        best = votes.max(axis=1)
        wins = (votes[:, 0] == best) & (best > 0)
        shares[n] = float((wins / (votes == best[:, None]).sum(axis=1)).mean())
    return np.array([shares[n] for n in sizes]) - float(chance.mean())


def _wrong_shares(model: VoteModel, uniforms: Numbers) -> Numbers:
    """Return the shares of wrong agents by wrong answer of each question, (questions, options)."""
    from scipy.special import betaincinv

    options = model.options
    left = np.arange(options - 1, 0, -1)
    # Stick breaking: each answer takes a beta-distributed part of the rest.
    part = model.spread / options
    breaks = np.ones_like(uniforms)
    breaks[:, :-1] = betaincinv(part, part * left, uniforms[:, :-1])
    kept = np.concatenate([np.ones((len(breaks), 1)), 1 - breaks[:, :-1]], axis=1)
    rest = np.cumprod(kept, axis=1)
    return np.asarray(breaks * rest, dtype=np.float64)
