"""Vote weights learned from agents' answers in training (the spec's options other than mean
trust).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ...modules.network import weights
from ...modules.network.config import NetworkConfig
from ...modules.network.weights import VoteWeights
from .known_answers import UNKNOWN, KnownAnswers

Choice = TypeVar("Choice")
_Rows = npt.NDArray[np.intp]

_PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
_SHRINKAGES = tuple((by_odds, slopes) for by_odds in (False, True) for slopes in (1.0, 10.0, 1e4))
"""Candidates for conditional weights: whether they start from the agents' log-odds, and the penalty
of their slopes.
"""
_FOLDS = 5


def fit_vote(
    config: NetworkConfig, vectors: npt.NDArray[np.floating], answers: KnownAnswers
) -> VoteWeights | None:
    """Return the weights of the kind `config.weight`, from answers to Q questions with embeddings
    (Q, D). Each pair of agent and strategy has its own weight; if all agents are copies of one LM,
    each strategy has. Answers that were not requested are ignored. None for mean trust, which is
    not fitted.
    """
    kind = config.weight
    if kind == "mean_trust":
        return None
    shape = (config.agents, len(config.strategies))
    if config.alike:
        codes, correct, vectors = _by_strategy(answers, vectors)
    else:
        codes = answers.codes.reshape(len(answers.codes), -1)
        correct = answers.correct.reshape(codes.shape)
    # an answer that was not requested is not a vote, like an abstention
    votes = np.maximum(codes, -1)
    if kind == "fitted":
        penalty = penalty_for(votes, correct)
        return VoteWeights(_whole(weights.logit_weights(votes, correct, penalty), shape))
    if kind == "conditional":
        model = conditional_weights(vectors, votes, correct)
        slopes = None if model.slopes is None else _whole(model.slopes, (*shape, vectors.shape[1]))
        return VoteWeights(_whole(model.base, shape), slopes, model.centre)
    # A share of the questions that each was asked: in a training, agents draw their strategies.
    asked = [correct[codes[:, arm] != UNKNOWN, arm][:, None] for arm in range(codes.shape[1])]
    if kind == "accuracy":
        by_arm = [weights.accuracy(right)[0] for right in asked]
    else:
        by_arm = [weights.log_odds_weights(right, _options(votes))[0] for right in asked]
    return VoteWeights(_whole(np.array(by_arm), shape))


def penalty_for(votes: weights.Answers, correct: weights.Right) -> float:
    """Return the penalty of `logit_weights`, which pulls weights towards equality, chosen by the
    likelihood of right answers to held-out questions; the middle one if there are too few
    questions.
    """

    def fit(rows: _Rows, penalty: float) -> VoteWeights:
        return VoteWeights(weights.logit_weights(votes[rows], correct[rows], penalty))

    return _likeliest(_PENALTIES, fit, np.zeros((len(votes), 0)), votes, correct, _PENALTIES[2])


def conditional_weights(
    vectors: npt.NDArray[np.floating], votes: weights.Answers, correct: weights.Right
) -> VoteWeights:
    """Return the weights of `fit_conditional`. How strongly they are pulled towards equal weights
    or log-odds, and towards the same weights on all questions, is chosen by the likelihood of right
    answers to held-out questions. A few agents of different quality are best weighted by accuracy
    alone, many answers of one LM by the question.
    """
    wide = np.asarray(vectors, dtype=np.float64)

    def fit(rows: _Rows, choice: tuple[bool, float]) -> VoteWeights:
        by_odds, slope_penalty = choice
        prior: npt.NDArray[np.float64] | float = weights.EQUAL
        if by_odds:
            # An agent that is worse than chance gets the weight 0 rather than a negative one.
            odds = weights.log_odds_weights(correct[rows], _options(votes[rows]))
            prior = np.maximum(odds, 0.0)
        table = (wide[rows], votes[rows], correct[rows])
        return weights.fit_conditional(*table, prior=prior, slope_penalty=slope_penalty)

    best = _likeliest(_SHRINKAGES, fit, wide, votes, correct, _SHRINKAGES[0])
    return fit(np.arange(len(votes)), best)


def _likeliest(
    choices: Sequence[Choice],
    fit: Callable[[_Rows, Choice], VoteWeights],
    vectors: npt.NDArray[np.float64],
    votes: weights.Answers,
    correct: weights.Right,
    unknown: Choice,
) -> Choice:
    """Return the choice with the highest likelihood of right answers to held-out questions, by
    cross-validation; `unknown` where agents disagree on too few questions.
    """
    telling = np.flatnonzero(correct.any(axis=1) & ((votes >= 0) & ~correct).any(axis=1))
    if len(telling) < 2 * _FOLDS:
        return unknown
    totals = []
    for choice in choices:
        total = 0.0
        for fold in range(_FOLDS):
            held, rest = telling[fold::_FOLDS], np.setdiff1d(telling, telling[fold::_FOLDS])
            fitted = fit(rest, choice)
            on_held = np.stack([fitted.at(vector) for vector in vectors[held]])
            total += weights.log_likelihood(votes[held], correct[held], on_held)
        totals.append(total)
    return choices[int(np.argmax(totals))]


def _whole(by_strategy: npt.NDArray[np.float64], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Broadcast weights by strategy, or by agent and strategy, to (N, S) or (N, S, D)."""
    by_agent = by_strategy.reshape(-1, *shape[1:])
    return np.broadcast_to(by_agent, shape).copy()


def _by_strategy(
    answers: KnownAnswers, vectors: npt.NDArray[np.floating]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_], npt.NDArray[np.floating]]:
    """Return the answers of copies of one LM as teams with one answer per strategy: the first
    copies asked are the first team on the question, the second copies the second team, and so on;
    equal teams count once.
    """
    codes, correct, questions = [], [], []
    for q, (picked, right) in enumerate(zip(answers.codes, answers.correct, strict=True)):
        order = np.argsort(picked == UNKNOWN, axis=0, kind="stable")
        teams = np.take_along_axis(picked, order, axis=0)
        rights = np.take_along_axis(right, order, axis=0)
        _, first = np.unique(teams, axis=0, return_index=True)
        kept = [team for team in sorted(first.tolist()) if (teams[team] != UNKNOWN).any()]
        codes.append(teams[kept])
        correct.append(rights[kept])
        questions += [q] * len(kept)
    return np.concatenate(codes), np.concatenate(correct), np.asarray(vectors)[questions]


def _options(votes: weights.Answers) -> int:
    """Return the mean number of possible answers to a question: the distinct answers, and one
    more.
    """
    distinct = [len(set(row[row >= 0].tolist())) for row in votes]
    return max(2, round(float(np.mean(distinct)) + 1)) if distinct else 2
