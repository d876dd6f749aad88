"""Scores of a network on recorded answers, against tables worked out by hand."""

from typing import Any

import numpy as np
import pytest

from folkmoot.pipelines.training.scores import (
    Fixed,
    NetworkDraws,
    network_scores,
    network_use,
    verdict_of,
)

# Four questions, one LM, three strategies: its answers, -1 for none.
ANSWERS = np.array([[[0, 1, 0]], [[0, 0, 1]], [[0, 1, 2]], [[-1, 0, 0]]])
CORRECT = np.array([[[1, 0, 1]], [[1, 1, 0]], [[0, 1, 0]], [[0, 1, 1]]], dtype=bool)
ANSWERED = np.ones((4, 1, 3), dtype=bool)
GROUPS = ["x", "x", "y", None]


def scores(picks: Any, weights: Any, fixed: Fixed | None = None, **more: Any) -> Any:
    fixed = fixed or Fixed((0,), {"x": (0,), "y": (1,)})
    drawn = NetworkDraws(np.array(picks), np.array(weights, dtype=float))
    tables = {"answers": ANSWERS, "correct": CORRECT, "answered": ANSWERED} | more
    return network_scores(*tables.values(), GROUPS, drawn, fixed)


def test_each_figure_by_hand() -> None:
    # Three copies of the LM; on the third question they give three answers, on the fourth one says
    # nothing.
    picks = [[[0, 1, 2]] * 4]
    weights = [[[1, 1, 1], [1, 1, 1], [1, 2, 1], [1, 1, 1]]]
    found = scores(picks, weights)
    assert found["questions"] == 4
    assert found["draws"] == 1
    assert found["missing"] == 0
    # Right of three: 2, 2, 1, 2.
    assert found["individual"]["value"] == pytest.approx(7 / 12)
    assert found["individual"]["calls"] == 1
    # The heavier vote settles the third question for the right answer.
    assert found["consensus"]["value"] == 1
    assert found["majority"]["value"] == pytest.approx((1 + 1 + 1 / 3 + 1) / 4)
    assert found["consensus"]["calls"] == found["majority"]["calls"] == 3
    # Strategy 0 is right on the first two; by group strategy 1 is right on the third, 0 on the
    # fourth wrong.
    assert found["best_fixed"]["value"] == 0.5
    assert found["best_per_group"]["value"] == 0.75
    assert found["oracle"]["calls"] == 3
    assert found["oracle"]["value"] == 1
    assert found["differences"]["consensus"]["majority"]["value"] == pytest.approx(1 / 6)
    assert found["differences"]["individual"]["best_fixed"]["value"] == pytest.approx(7 / 12 - 0.5)
    assert found["ties"] == {"share": 0.25, "gain_tied": pytest.approx(2 / 3), "gain_untied": 0.0}


def test_draws_are_averaged_and_agents_that_are_not_asked_do_not_count() -> None:
    picks = [[[0, -1]] * 4, [[1, 1]] * 4]
    weights = [[[1, 0]] * 4, [[1, 1]] * 4]
    found = scores(picks, weights)
    # First draw: strategy 0 alone, right on 2 of 4; second: strategy 1 twice, right on 3 of 4.
    assert found["individual"]["value"] == found["consensus"]["value"] == pytest.approx(0.625)
    assert found["consensus"]["calls"] == 1.5
    assert found["ties"]["gain_tied"] is None


def test_without_strategies_the_choice_is_among_agents() -> None:
    answers, correct = ANSWERS.swapaxes(1, 2), CORRECT.swapaxes(1, 2)
    fixed = Fixed.of(correct, np.ones_like(correct), GROUPS)
    assert fixed.best == (1,)
    drawn = NetworkDraws(np.zeros((1, 4, 3), dtype=int), np.ones((1, 4, 3)))
    found = network_scores(answers, correct, np.ones_like(correct), GROUPS, drawn, fixed)
    assert found["best_fixed"]["value"] == 0.75


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-0.02, 0.01, "the graph adds nothing that is shown: -0.4 points [-2.0, +1.0]"),
        (0.001, 0.01, "the graph adds something: -0.4 points [+0.1, +1.0]"),
        (-0.02, -0.01, "the graph costs: -0.4 points [-2.0, -1.0]"),
    ],
)
def test_what_the_graph_added_is_said(low: float, high: float, said: str) -> None:
    found = scores([[[0, 1, 2]] * 4], [[[1, 1, 1]] * 4])
    found["differences"]["individual"]["regression"] = {"value": -0.004, "low": low, "high": high}
    names = (["m"], ["a", "b", "c"])
    sentences = verdict_of(found, Fixed((0,), {}), *names, "gat")
    assert sentences[-1].replace("\N{MINUS SIGN}", "-") == f"{said} against the regression"
    assert verdict_of(found, Fixed((0,), {}), *names, "regression") == sentences[:-1]


def test_use_and_calibration_by_hand() -> None:
    picks = np.array([[[0, 1, 2], [0, 0, 0], [0, 0, -1], [2, 0, 0]], [[0, 0, 0]] * 4])
    weights = np.array([[[1, 1, 1], [1, 1, 1], [2, 1, 0], [1, 1, 1]], [[1, 1, 1]] * 4], dtype=float)
    found = network_use(ANSWERS, CORRECT, GROUPS, NetworkDraws(picks, weights), ["a", "b", "c"])
    # Whatever was chosen, a is right on two of four, b on three, c on two.
    accuracies = {name: of["accuracy"] for name, of in found["strategy"].items()}
    assert accuracies == {"a": 0.5, "b": 0.75, "c": 0.5}
    # Of 23 choices 1 was b and 2 were c; an agent that was not asked has made none.
    assert found["strategy"]["b"]["share"] == pytest.approx(1 / 23)
    assert found["use"]["agent.2"] == {"a": pytest.approx(6 / 7), "b": 0, "c": pytest.approx(1 / 7)}
    shares = {"a": 10 / 12, "b": 1 / 12, "c": 1 / 12}
    assert found["use_by_group"]["x"] == pytest.approx(shares)
    # First question: two for answer 0, one for 1, and 0 is right: 1 / (1 + 1 / e). The second and
    # third are
    # unanimous, right and wrong. On the fourth only the first agent says something, and is right.
    sure = 1 / (1 + np.exp(-1))
    assert found["reliability"] == {
        "0.7-0.8": {"count": 1, "confidence": pytest.approx(sure), "accuracy": 1.0},
        "0.9-1.0": {"count": 3, "confidence": 1.0, "accuracy": pytest.approx(2 / 3)},
    }
    assert found["ece"] == pytest.approx((1 - sure + 3 * (1 - 2 / 3)) / 4)
    silent = np.where(np.arange(3) == 2, -1, picks[:1])
    draws = NetworkDraws(silent, weights[:1])
    quiet = network_use(ANSWERS, CORRECT, GROUPS, draws, ["a", "b", "c"])
    # one against one, where a third was not asked
    assert quiet["reliability"]["0.5-0.6"]["count"] == 1
    draws = NetworkDraws(picks * 0, weights)
    alone = network_use(ANSWERS[..., :1], CORRECT[..., :1], GROUPS, draws, [])
    assert set(alone) == {"ece", "reliability"}
