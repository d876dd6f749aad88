"""Result rows of dialogues, written down by their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Rounds = Sequence[Sequence[str | None]]


def row(
    rounds: Rounds,
    *,
    roles: Sequence[str] = ("intuitive", "reasoner"),
    gold: str = "A",
    answer: str | None = None,
    decided_by: str | None = None,
    judge: str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A result row of a dialogue: the answers of each round, in speaking order."""
    last = rounds[-1]
    agreed = None not in last and len(set(last)) == 1
    transcript = [
        {"agent": role, "round": number, "answer": said, "text": "…"}
        for number, answers in enumerate(rounds, start=1)
        for role, said in zip(roles, answers, strict=True)
    ]
    if judge is not None:
        transcript.append({"agent": "judge", "round": len(rounds), "answer": judge, "text": "…"})
    final = last[0] if agreed else judge or answer
    return {
        "id": "q",
        "kind": "choice",
        "answer": final,
        "gold": gold,
        "correct": final == gold,
        "decided_by": decided_by or ("consensus" if agreed else "judge"),
        "rounds": len(rounds),
        "consensus_round": len(rounds) if agreed else None,
        "transcript": transcript,
        "usage": {"calls": len(transcript), "prompt_tokens": 100, "completion_tokens": 10},
        "error": None,
        **fields,
    }


def error_row() -> dict[str, Any]:
    return {
        "id": "e",
        "kind": "choice",
        "answer": None,
        "gold": "A",
        "correct": False,
        "decided_by": "error",
        "rounds": 0,
        "consensus_round": None,
        "transcript": [],
        "usage": {"calls": 1, "prompt_tokens": 7, "completion_tokens": 0},
        "error": "no answer in time",
    }
