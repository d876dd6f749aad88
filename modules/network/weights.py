"""How much each agent's vote counts, learned from the answers of N agents to Q past questions. All
pure.

Answers are coded per question as whole numbers (Q, N), equal for equal answers, -1 for an
abstention; `correct` (Q, N) says whether each is right, an abstention never. Embeddings of the
questions are (Q, D). The paper's own weight, mean trust, is part of `trust_consensus`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..protocols.votes import log_odds

Answers = npt.NDArray[np.integer]
Right = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]

EQUAL = 1.0
"""The weight of every agent before anything is known about them: a plain majority."""

_TIE = 1e-12


class Expected(NamedTuple):
    """Per question, (Q,): the chance that the vote is right, ties drawn by lot, and whether it was
    tied.
    """

    right: Numbers
    tied: Right


@dataclass(frozen=True)
class VoteWeights:
    """The weight of every vote: agent i with strategy s weighs base[i, s] and, where weights depend
    on the question's embedding e, slopes[i, s] . (e - centre) more.

    `base` (N, S); `slopes` (N, S, D) and `centre` (D,), or neither. Without strategies (N,) and (N,
    D).
    """

    base: Numbers
    slopes: Numbers | None = None
    centre: Numbers | None = None

    def at(self, vector: npt.NDArray[np.floating]) -> Numbers:
        """Return the weights (N, S), or without strategies (N,), for a question's embedding
        (D,).
        """
        if self.slopes is None or self.centre is None:
            return self.base
        away = np.asarray(vector, dtype=np.float64) - self.centre
        weights: Numbers = self.base + self.slopes @ away
        return weights


def expected_votes(answers: Answers, correct: Right, weights: Numbers) -> Expected:
    """Return the weighted vote on each question, random ties; weights are (N,) or, per question,
    (Q, N).

    An answer's score is the sum of its supporters' weights. When several share the top score,
    `right` is the share of right ones among them. Nobody voted: 0, not tied. Scores that differ by
    rounding alone are equal.
    """
    groups = _grouped(answers, correct)
    by_vote = np.broadcast_to(np.asarray(weights, dtype=np.float64), answers.shape)
    right, tied = np.zeros(len(answers)), np.zeros(len(answers), dtype=bool)
    if groups.first.size:
        scores = groups.sums(by_vote)
        top = groups.spread(np.maximum.reduceat(scores, groups.first))
        leads = scores >= top - _TIE * np.maximum(1.0, np.abs(top))
        leaders = np.add.reduceat(leads.astype(int), groups.first)
        asked = groups.question[groups.first]
        right[asked] = np.add.reduceat((leads & groups.right).astype(int), groups.first) / leaders
        tied[asked] = leaders > 1
    return Expected(right, tied)


def accuracy(correct: Right) -> Numbers:
    """Return the share of the questions that each agent got right, (N,); 0.5 without a question."""
    return correct.mean(axis=0) if len(correct) else np.full(correct.shape[1], 0.5)


def log_odds_weights(correct: Right, options: int) -> Numbers:
    """log((K - 1) p / (1 - p)) for each agent's share p of right answers, (N,), with K = `options`
    choices.

    Smoothed as in `votes.log_odds`.
    """
    shares = accuracy(correct)
    return np.array([log_odds(float(p), len(correct), options=options) for p in shares])


def logit_weights(answers: Answers, correct: Right, penalty: float = 10.0) -> Numbers:
    """Return the weights (N,) that make the right answers likeliest: a conditional logit over
    agents.

    P(a | q) = exp(S_a) / sum_b exp(S_b) over the answers given to q, S_a = the sum of the weights
    of those who gave a (McFadden 1974, "Conditional logit analysis of qualitative choice
    behavior"). Maximises sum_q log P(right | q) - penalty / 2 sum_i (w_i - 1)^2, so that nothing
    known means a plain majority. Questions that all or none got right say nothing.
    """
    return _fit(answers, correct, np.ones((len(answers), 1)), np.array([penalty]))[:, 0]


def fit_conditional(
    embeddings: npt.NDArray[np.floating],
    answers: Answers,
    correct: Right,
    *,
    prior: Numbers | float = EQUAL,
    penalty: float = 10.0,
    slope_penalty: float = 1.0,
) -> VoteWeights:
    """As `logit_weights`, but linear in the question's embedding: w_i(q) = base_i + slopes_i (e -
    c).

    A regularised multinomial logistic classifier of the right answer on the embedding, all agents
    at once; c is the mean embedding. `penalty` holds the base weights to `prior`, one number or
    (N,), and `slope_penalty` holds the slopes to 0.
    """
    wide = np.asarray(embeddings, dtype=np.float64)
    centre = wide.mean(axis=0) if len(wide) else np.zeros(wide.shape[1])
    features = np.hstack([np.ones((len(wide), 1)), wide - centre])
    strength = np.array([penalty] + [slope_penalty] * wide.shape[1])
    fitted = _fit(answers, correct, features, strength, prior)
    return VoteWeights(fitted[:, 0], fitted[:, 1:], centre)


def log_likelihood(answers: Answers, correct: Right, weights: Numbers) -> float:
    """sum_q log P(right | q) of `logit_weights` with weights (N,) or, per question, (Q, N),
    over questions with a right answer.
    """
    groups = _grouped(answers, correct)
    scores = groups.sums(np.broadcast_to(weights, answers.shape))
    right = _softmax(np.where(groups.right, scores, -np.inf), groups)[0]
    return float((right - _softmax(scores, groups)[0]).sum())


class _Groups(NamedTuple):
    """The G different answers given, ordered by question: whose they are and where each question
    begins.
    """

    question: npt.NDArray[np.intp]  # (G,)
    right: Right  # (G,)
    first: npt.NDArray[np.intp]  # the first group of each question with an answer
    voted: Right  # (Q, N)
    of_vote: npt.NDArray[np.intp]  # the group of each vote, in the order of voted

    def sums(self, weights: Numbers) -> Numbers:
        """Return the sum of the supporters' weights (Q, N) for each group, (G,)."""
        return np.bincount(self.of_vote, weights[self.voted], len(self.question)).astype(np.float64)

    def spread(self, values: Numbers) -> Numbers:
        """Return each question's value at each of its groups, (G,)."""
        return np.repeat(values, np.diff(self.first, append=len(self.question)))


def _grouped(answers: Answers, correct: Right) -> _Groups:
    voted = answers >= 0
    _, codes = np.unique(answers[voted], return_inverse=True)
    base = int(codes.max(initial=0)) + 1
    # One number for each answer to each question, in the order of the questions.
    keys, of_vote = np.unique(np.nonzero(voted)[0] * base + codes, return_inverse=True)
    question = keys // base
    right = np.zeros(len(keys), dtype=bool)
    right[of_vote[correct[voted]]] = True
    first = np.flatnonzero(np.diff(question, prepend=-1))
    return _Groups(question, right, first, voted, of_vote)


def _fit(
    answers: Answers,
    correct: Right,
    features: Numbers,
    penalty: Numbers,
    prior: Numbers | float = EQUAL,
) -> Numbers:
    """Return the coefficients (N, P) of weights w_i(q) = features(q) . coefficients_i, features (Q,
    P); without anything to learn from, `prior` and no slopes.
    """
    start = np.zeros((answers.shape[1], features.shape[1]))
    start[:, 0] = prior
    telling = correct.any(axis=1) & ((answers >= 0) & ~correct).any(axis=1)
    if not telling.any():
        return start
    groups, inputs = _grouped(answers[telling], correct[telling]), features[telling]

    scale = np.sqrt(penalty)  # every direction then has the same penalty, and the search is quick

    def loss(flat: Numbers) -> tuple[float, Numbers]:
        away = flat.reshape(start.shape)
        coefficients = start + away / scale
        scores = groups.sums(inputs @ coefficients.T)
        total, share = _softmax(scores, groups)
        right_total, right_share = _softmax(np.where(groups.right, scores, -np.inf), groups)
        by_vote = np.zeros(groups.voted.shape)
        # The gradient: what a vote adds to all answers, less what it adds to the right ones.
        by_vote[groups.voted] = (share - right_share)[groups.of_vote]
        value = (total - right_total).sum() + 0.5 * (away**2).sum()
        return float(value), (by_vote.T @ inputs / scale + away).ravel()

    from scipy.optimize import minimize  # takes half a second

    optimum = minimize(
        loss, np.zeros(start.size), jac=True, method="L-BFGS-B", options={"maxiter": 1000}
    )
    best: Numbers = start + optimum.x.reshape(start.shape) / scale
    return best


def _softmax(scores: Numbers, groups: _Groups) -> tuple[Numbers, Numbers]:
    """Return each question's log of the sum of exp(scores), and each group's share of that sum,
    (G,).
    """
    # The largest is taken out of the exponential, which would overflow for large weights.
    top = np.maximum.reduceat(scores, groups.first)
    powers = np.exp(scores - groups.spread(top))
    whole = np.add.reduceat(powers, groups.first)
    return top + np.log(whole), powers / groups.spread(whole)
