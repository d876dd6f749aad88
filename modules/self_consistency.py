"""Self-consistency: one agent answers the same question several times over, and the answers are counted."""

from __future__ import annotations

import asyncio

import dspy

from .answers import answer_key
from .program import prediction_of
from .seat import Seat
from .transcript import Task
from .voting import majority

SAMPLES = 10
SAMPLED = {"temperature": 0.8, "top_p": 0.5}
"""How samples are drawn unless the seat is told otherwise (CaCo-CoT, its compared methods)."""


async def most_consistent(seat: Seat, task: Task, samples: int) -> dspy.Prediction:
    """The most frequent of `samples` answers, asked for at the same time.

    Each sample is a turn of round 1, in the order it was asked. A sample without a readable answer does not
    count; a tie goes to the answer of the earliest sample; `decided_by` is `majority`, or `none` when no
    sample counts. `tied` says whether there was a tie.
    """
    turns = await asyncio.gather(*(seat.ask(task, rollout=number) for number in range(1, samples + 1)))
    vote = majority([turn.answer for turn in turns], key=lambda answer: answer_key(answer, task.kind))
    decided_by = "none" if vote.answer is None else "majority"
    return prediction_of(task, vote.answer, decided_by, turns, tied=vote.tied)
