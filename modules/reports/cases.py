"""Finds case studies: rows on which talk, judge, evaluator or supervisor changed the outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..reading.row import ResultRow
from .counting import Reading
from .forensics import Move, answers_of, turns_of, votes_right

CASES = {
    "spoiled": "Spoiled by talk: the vote of the first answers was right, that of the last is "
    "wrong",
    "rescued": "Rescued by talk: the vote of the first answers was wrong, that of the last is "
    "right",
    "overruled": "The judge overrules the majority",
    "overturned": "An evaluator overturns what most reasoners agreed on",
    "advised": "The supervisor's advice helped: a worker that was sent back puts its answer right",
}
"""The kinds of case studies, and what each is."""


def cases(
    row: ResultRow, turned: Sequence[Move], reading: Reading, program: Mapping[str, object]
) -> tuple[str, ...]:
    """The kinds of `CASES` that a row is; none for a row without a dialogue.

    Args: row: a row of `results.jsonl` without an error. turned: its `moves`. reading: its answers.
        program: what `Program.describe` says, for the weights of its vote; empty counts every vote
        alike.
    """
    spoken = [turn for turn in turns_of(row) if not turn.get("step")]
    answers, final = answers_of(spoken), bool(row["correct"])
    kinds = set()
    examined = [turn for turn in spoken if isinstance(turn.get("examined"), Mapping)]
    if not examined and len(answers) > 1:  # reasoners start afresh: they do not talk
        first, last = votes_right(row, answers, program, reading)
        if first != last == final:
            kinds.add("rescued" if last else "spoiled")
    if str(row.get("decided_by")) == "judge" and row["answer"] is not None:
        keys = [reading.key(own[-1]) for own in answers.values()]
        held = Counter(key for key in keys if key is not None).most_common(2)
        others = held[1][1] if len(held) > 1 else 1
        if held and held[0][1] > others and held[0][0] != reading.key(row["answer"]):
            kinds.add("overruled")
    for turn in examined:
        before, after = turn["examined"].get("answer"), turn.get("answer")
        solutions = [
            reading.same(one.get("answer"), before)
            for one in spoken
            if one.get("round") == turn.get("round") and not one.get("examined")
        ]
        if (
            after is not None
            and 2 * sum(solutions) > len(solutions)
            and not reading.same(before, after)
        ):
            kinds.add("overturned")
    if final and any(
        move.towards == ("supervisor",) and move.now and not move.was for move in turned
    ):
        kinds.add("advised")
    return tuple(kind for kind in CASES if kind in kinds)
