"""Several samples of one agent's answer, counted: self-consistency, and complexity-based voting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import dspy

from ..agents.seat import Seat
from ..agents.transcript import Task, Turn
from ..base.together import together
from ..reading.steps import reasoning_steps
from ..reading.voting import vote_among
from .program import prediction_of

SAMPLES = 10
SAMPLED = {"temperature": 0.8, "top_p": 0.5}
"""How samples are drawn unless settings say otherwise (CaCo-CoT, its compared methods)."""


async def most_consistent(seat: Seat, steps: Mapping[str, Seat], task: Task, samples: int) -> dspy.Prediction:
    """The most frequent of `samples` answers, asked for at the same time.

    Each sample is a turn of round 1, in the order it was asked. A sample without a readable answer does not
    count; a tie goes to the answer of the earliest sample; `decided_by` is `majority`, or `none` when no
    sample counts. `tied` says whether there was a tie.
    """
    turns = await _sampled(seat, task, samples)
    return _counted(task, turns, turns)


async def most_complex(seat: Seat, steps: Mapping[str, Seat], task: Task, samples: int) -> dspy.Prediction:
    """The most frequent answer among the more complex half of `samples` chains (Fu et al.; CaCo-CoT).

    Of `samples` chains the ⌈samples / 2⌉ with the most reasoning steps vote, among those whose answer can be
    read; of equally long ones the earlier.
    """
    turns = await _sampled(seat, task, samples)
    readable = [place for place, turn in enumerate(turns) if turn.answer is not None]
    longest_first = sorted(readable, key=lambda place: -reasoning_steps(turns[place].text))
    voting = sorted(longest_first[: math.ceil(samples / 2)])
    return _counted(task, turns, [turns[place] for place in voting])


async def _sampled(seat: Seat, task: Task, samples: int) -> list[Turn]:
    return await together(seat.ask(task, rollout=number) for number in range(1, samples + 1))


def _counted(task: Task, turns: Sequence[Turn], voting: Sequence[Turn]) -> dspy.Prediction:
    vote = vote_among([turn.answer for turn in voting], task.kind)
    return prediction_of(task, vote.answer, "majority", turns, tied=vote.tied)
