"""A pick: an LM says which of several answers is best (universal self-consistency, Chen et al.
2023).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from ..agents.seat import Seat
from ..agents.transcript import Task, Turn
from ..base.calls import metered
from ..reading.voting import same_if, supporters_of

MOST_SHOWN = 24_000
"""The most characters of all candidates together in the prompt; each gets an equal share."""


async def picked(
    picker: Seat, task: Task, turns: Sequence[Turn], seed: object, round: int
) -> Turn | None:
    """Return the turn of the picker, whose answer is that of the candidate it names; None if the
    turns have fewer than two different answers.

    Candidates are shown in an order drawn by the seed. If the picker twice names none of them, its
    turn has no answer.
    """
    supporters = supporters_of([turn.answer for turn in turns], same_if(task.kind))
    shown = [turns[places[0]] for places in supporters.values()]
    if len(shown) < 2:
        return None
    # Shuffled, since LMs prefer the first candidate, which would always be the same member's.
    random.Random(f"{seed} {task.key}").shuffle(shown)
    notes = []
    for number, turn in enumerate(shown, start=1):
        note: dict[str, object] = {"title": f"candidate {number}", "most": MOST_SHOWN // len(shown)}
        if task.kind == "task":  # its answer is the whole work
            note["text"] = str(turn.answer)
        else:
            note |= {"text": turn.text or str(turn.answer), "answer": turn.answer}
        notes.append(note)
    names = f"the candidates are 1 to {len(shown)}: give the number of one, alone"
    with metered() as usage:
        said = await picker.fill(task, notes=notes)
        place = _number(said.best, len(shown))
        if place is None:
            said = await picker.fill(task, notes=notes, correction=names)
            place = _number(said.best, len(shown))
    answer = None if place is None else shown[place - 1].answer
    return Turn(picker.name, round, answer, said.comparison, raw=said.best, usage=usage)


def _number(text: str, most: int) -> int | None:
    """Return the number of a candidate from 1 to `most`, in a reply that names one; else None."""
    named = set(map(int, re.findall(r"\d{1,4}", text or "")))
    if len(named) != 1:
        return None
    (number,) = named
    return number if 1 <= number <= most else None
