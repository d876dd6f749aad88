"""Rewards: each equation by hand, and what the difference reward adds up to."""

import numpy as np

from folkmoot.modules.network.rewards import ConsensusBonus, consensus_addition, difference

BONUS = ConsensusBonus(delta_plus=0.3, delta_minus=0.2, delta_minor=0.1)


def test_when_the_consensus_is_wrong() -> None:
    answers = np.array([0, 1, 1, -1])
    added = consensus_addition(answers, answers == 0, False, BONUS)
    assert added.tolist() == [0.3, -0.2, -0.2, -0.2]


def test_when_the_consensus_is_right_only_a_right_minority_gains() -> None:
    # Two of five gave the right answer and won by weight: fewer than half.
    answers = np.array([0, 0, 1, 2, -1])
    assert consensus_addition(answers, answers == 0, True, BONUS).tolist() == [0.1, 0.1, 0, 0, 0]
    # Exactly half is no minority.
    answers = np.array([0, 0, 1, 2])
    assert consensus_addition(answers, answers == 0, True, BONUS).tolist() == [0, 0, 0, 0]


def test_the_difference_reward_by_hand() -> None:
    # Two right, one wrong: without a right agent a tie, 0.5; without the wrong one nothing changes.
    answers = np.array([0, 0, 1])
    assert difference(answers, answers == 0, np.ones(3)).tolist() == [0.5, 0.5, 0.0]
    # One right, one wrong: a tie, 0.5. Without the right agent 0, without the wrong one 1.
    answers = np.array([0, 1, -1])
    assert difference(answers, answers == 0, np.ones(3)).tolist() == [0.5, -0.5, 0.0]
    # A heavy agent decides alone.
    answers = np.array([0, 1, 1])
    assert difference(answers, answers == 0, np.array([3.0, 1, 1])).tolist() == [1.0, 0.0, 0.0]
    assert difference(np.array([0]), np.array([True]), np.ones(1)).tolist() == [1.0]
