"""Vote weights: expected votes over ties, the fitted weights by hand, and what they recover."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from folkmoot.modules.network.weights import expected_votes, fit_conditional, logit_weights

Ints = npt.NDArray[np.int64]
TABLES = st.tuples(st.integers(0, 5), st.integers(1, 5)).flatmap(
    lambda shape: npst.arrays(np.int64, shape, elements=st.integers(-1, 3))
)


def table(seed: int, questions: int, *skills: float, options: int = 4) -> Ints:
    """Answers of agents with these chances of the right answer, 0; errors spread evenly."""
    rng = np.random.default_rng(seed)
    wrong = rng.integers(1, options, (questions, len(skills)))
    return np.where(rng.random(wrong.shape) < skills, 0, wrong)


def test_expected_votes_by_hand() -> None:
    answers = np.array([[0, 0, 1], [0, 1, -1], [0, 1, 2], [-1, -1, -1], [1, 1, 0], [7, 0, 7]])
    right, tied = expected_votes(answers, answers == 0, np.ones(3))
    assert right == pytest.approx([1, 1 / 2, 1 / 3, 0, 0, 0])
    assert tied.tolist() == [False, True, True, False, False, False]
    # Weights: 0.1 + 0.2 against 0.3 is a tie; one row of weights a question.
    answers = np.array([[0, 0, 1], [0, 0, 1]])
    votes = np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.4]])
    right, tied = expected_votes(answers, answers == 0, votes)
    assert right.tolist() == [0.5, 0]
    assert tied.tolist() == [True, False]
    # Negative weights: the lesser evil.
    said, right = np.array([[0, 1]]), np.array([[True, False]])
    assert expected_votes(said, right, np.array([-1.0, -2])).right == [1]


@settings(deadline=None)
@given(TABLES)
def test_fitted_weights_are_the_likeliest(answers: Ints) -> None:
    correct = answers == 0
    best = logit_weights(answers, correct, penalty=0.7)

    def loss(weights: npt.NDArray[np.float64]) -> float:
        value = 0.35 * float(((weights - 1) ** 2).sum())
        for row in answers:
            if (row == 0).any():
                score = {int(code): float(weights[row == code].sum()) for code in set(row) - {-1}}
                value += math.log(sum(map(math.exp, score.values()))) - score[0]
        return value

    for step in np.random.default_rng(0).normal(0, 0.05, (20, len(best))):
        assert loss(best) <= loss(best + step) + 1e-6


def test_conditional_weights_know_who_knows_what() -> None:
    # Each of two kinds of question has one agent who knows; no fixed weights can tell.
    kind = np.arange(400) % 2
    embeddings = np.eye(2)[kind] + np.random.default_rng(0).normal(0, 0.1, (400, 2))
    first, second = table(2, 400, 0.9, 0.3, 0.3), table(3, 400, 0.3, 0.9, 0.3)
    answers = np.where(kind[:, None] == 0, first, second)
    correct = answers == 0
    model = fit_conditional(embeddings[:200], answers[:200], correct[:200])
    weights = np.stack([model.at(one) for one in embeddings[200:]])
    assert weights.shape == (200, 3)
    assert model.at(embeddings[:200].mean(axis=0)) == pytest.approx(model.base)
    assert (weights[:, 0] > weights[:, 1]).tolist() == (kind[200:] == 0).tolist()
    chosen = expected_votes(answers[200:], correct[200:], weights).right.mean()
    learned = logit_weights(answers[:200], correct[:200])
    fixed = expected_votes(answers[200:], correct[200:], learned).right.mean()
    assert chosen > fixed + 0.1
    # With slopes that may not move, or embeddings that say nothing, it is `logit_weights`.
    stiff = fit_conditional(embeddings[:200], answers[:200], correct[:200], slope_penalty=1e9)
    for one in embeddings[:5]:
        assert stiff.at(one) == pytest.approx(learned, abs=1e-3)
    same = fit_conditional(np.ones((200, 2)), answers[:200], correct[:200])
    assert same.base == pytest.approx(learned, abs=1e-4)
    assert same.slopes.tolist() == [[0, 0]] * 3
