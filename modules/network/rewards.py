"""The rewards of agents for their answers (MARL-GAT, sections 4.7 and 5.2). All pure.

Answers of N agents are coded as whole numbers, equal for equal answers, -1 for an abstention;
`correct` says whether each is right. An abstention is wrong.
"""

from dataclasses import dataclass

import numpy as np

from .settings import CheckedFields, Size
from .weights import Answers, Numbers, Right, expected_votes

RIGHT, WRONG = 1.0, -0.5


@dataclass(frozen=True)
class ConsensusBonus(CheckedFields):
    """The amounts of consensus-aware rewards, each at least 0; the paper gives no values.

    Raises UserError for a negative or infinite one.
    """

    delta_plus: Size = 0.2
    delta_minus: Size = 0.2
    delta_minor: Size = 0.1


def individual(correct: Right) -> Numbers:
    """Return +1 for a right answer, -0.5 for a wrong one (MARL-GAT, equation 6), in the given
    shape.
    """
    return np.where(correct, RIGHT, WRONG)


def consensus_addition(
    answers: Answers, correct: Right, consensus_right: bool, bonus: ConsensusBonus
) -> Numbers:
    """Return the consensus-aware reward of each of N agents (MARL-GAT, equation 9).

    +delta_plus for a right agent when the consensus is wrong, -delta_minus for a wrong one; when
    the consensus is right, +delta_minor for an agent whose answer is right but was given by fewer
    than half of all N agents; else 0.
    """
    if not consensus_right:
        return np.where(correct, bonus.delta_plus, -bonus.delta_minus)
    supporters = (answers[:, None] == answers[None, :]).sum(axis=1)
    minority = correct & (2 * supporters < len(answers))
    return np.where(minority, bonus.delta_minor, 0.0)


def difference(answers: Answers, correct: Right, weights: Numbers) -> Numbers:
    """Return the contribution of each of N agents, -1 to 1: how right the consensus is with its
    vote, minus how right it is without it.

    The consensus is the vote with these weights (N,); a tie counts as the share of right answers
    among the leaders, and nobody left to vote as wrong. The difference reward of Wolpert and Tumer
    (2002), "Optimal payoff functions for members of collectives".
    """
    n = len(answers)
    # Row 0 is the whole group, row i + 1 the group without agent i.
    without = np.vstack([answers, np.where(np.eye(n, dtype=bool), -1, answers)])
    correct_there = np.broadcast_to(correct, (n + 1, n)) & (without >= 0)
    right = expected_votes(without, correct_there, weights).right
    added: Numbers = right[0] - right[1:]
    return added
