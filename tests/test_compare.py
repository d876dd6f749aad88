"""Comparing two runs: the figures by hand, and a verdict that claims no more than they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy
import pytest

import folkmoot as fm
from folkmoot.modules.program import Program, prediction_of
from folkmoot.modules.transcript import Task

CHOICES = {"A": "yes it is", "B": "no it is not"}


class Knows(Program):
    """Right on the questions whose number is among those given; makes no call."""

    def __init__(self, right: set[int]) -> None:
        super().__init__()
        self.right = right

    def describe(self) -> dict[str, Any]:
        return {"program": "knows", "right": sorted(self.right)}

    async def solve(self, task: Task) -> dspy.Prediction:
        return prediction_of(task, "A" if int(task.question.split()[-1]) in self.right else "B", "single", [])


def run(right: set[int], n: int, folder: Path | None = None) -> fm.Evaluation:
    questions = [
        fm.Question(id=str(i), question=f"Is this number {i}", choices=CHOICES, answer="A") for i in range(n)
    ]
    return fm.evaluate(Knows(right), questions, lm=dspy.LM("openai/none"), out=folder, tracking=False)


def test_the_figures_of_a_pair() -> None:
    (pair,) = fm.compare(run(set(range(50)), 100), run(set(range(40, 100)), 100), names=["base", "team"])
    assert (pair.a, pair.b, pair.n) == ("team", "base", 100)
    assert (pair.accuracy_a, pair.accuracy_b) == (0.6, 0.5)
    assert pair.difference == pytest.approx(0.1)
    assert pair.low < 0 < pair.high
    assert set(pair.only_a) == {str(i) for i in range(50, 100)}
    assert set(pair.only_b) == {str(i) for i in range(40)}
    assert pair.p == pytest.approx(0.343, abs=0.001)  # two-sided binomial of 40 against 50
    assert (pair.token_ratio, pair.cost_ratio) == (None, None)


def test_a_clear_difference_is_said_in_the_right_direction() -> None:
    better, worse = run(set(range(90)), 100), run(set(range(50)), 100)
    (up,) = fm.compare(worse, better, names=["base", "team"])
    (down,) = fm.compare(better, worse, names=["base", "team"])
    assert up.verdict.startswith("team beats base by 40.0 points")
    assert down.verdict.startswith("team does worse than base by 40.0 points")


def test_no_difference_is_not_called_a_win() -> None:
    (pair,) = fm.compare(run(set(range(50)), 100), run(set(range(1, 55)), 100), names=["base", "team"])
    assert pair.verdict.startswith("No difference between team and base is shown")
    assert "n = 100" in pair.verdict


def test_p_values_are_corrected_for_the_number_of_comparisons() -> None:
    base, some = run(set(range(40)), 100), run(set(range(50)), 100)
    one = fm.compare(base, some)[0]
    three = fm.compare(base, some, some, some)[0]
    assert one.p == three.p == one.p_adjusted
    assert three.p_adjusted == pytest.approx(3 * one.p)


def test_runs_over_other_questions_are_refused() -> None:
    with pytest.raises(fm.UserError, match="differ in 10 questions"):
        fm.compare(run({1}, 10), run({1}, 20))
    with pytest.raises(fm.UserError, match="two runs"):
        fm.compare(run({1}, 10))
