"""Panels are chosen by what they get right, and judged where they were not chosen."""

from itertools import combinations

import numpy as np
import pytest

from folkmoot.modules.statistics.panels import best_panel


def guessing(seed: int) -> tuple[list[list[int]], list[list[bool]]]:
    answers = np.random.default_rng(seed).integers(0, 2, (8, 80))
    return answers.tolist(), (answers == 0).tolist()


def vote(answers: list[list[int | None]], members: tuple[int, ...]) -> float:
    """The share right of a majority vote, 0 being right, as one would count it by hand."""
    right = 0.0
    for question in zip(*answers, strict=True):
        said = [question[member] for member in members if question[member] is not None]
        most = max((said.count(answer) for answer in said), default=0)
        top = {answer for answer in said if said.count(answer) == most}
        right += (0 in top) / len(top) if top else 0
    return right / len(answers[0])


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_all_panels_of_three_is_found(seed: int) -> None:
    drawn = np.random.default_rng(seed).integers(-1, 4, (7, 40))
    answers = [[None if one < 0 else one for one in agent] for agent in drawn.tolist()]
    found = best_panel(answers, (drawn == 0).tolist(), 3, seed=0)
    panels = [members for size in (2, 3) for members in combinations(range(7), size)]
    best = max(vote(answers, members) for members in panels)
    assert found.seen == pytest.approx(best)
    assert vote(answers, found.members) == pytest.approx(best)


def test_agents_who_guess_are_not_made_better_by_picking() -> None:
    found = [best_panel(*guessing(seed), 5, seed=seed) for seed in range(16)]
    assert np.mean([one.seen for one in found]) > 0.57  # on the questions that it was picked by
    assert np.mean([one.score for one in found]) == pytest.approx(0.5, abs=0.03)
    assert np.mean([one.difference for one in found]) == pytest.approx(0, abs=0.03)
    assert sum(one.p < 0.05 and one.difference > 0 for one in found) <= 2


def test_a_planted_panel_is_found_and_its_gain_is_shown() -> None:
    rng = np.random.default_rng(0)
    common = rng.random(600) < 0.6  # nine agents fail together, three each on their own
    answers = [np.where(common, 0, 1 + rng.integers(0, 2, 600)) for _ in range(9)]
    answers += [np.where(rng.random(600) < 0.75, 0, 1 + rng.integers(0, 6, 600)) for _ in range(3)]
    right = [(one == 0).tolist() for one in answers]
    found = best_panel([one.tolist() for one in answers], right, 3, seed=0)
    assert found.members == (9, 10, 11)
    assert found.chosen == 1
    assert found.low > 0.05
    assert found.p < 0.001
