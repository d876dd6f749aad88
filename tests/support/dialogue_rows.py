"""Result rows, written down by what was answered."""

from collections.abc import Sequence
from typing import Any

Rounds = Sequence[Sequence[str | None]]


def result_row(
    transcript: Sequence[Any],
    answer: str | None,
    decided_by: str = "consensus",
    *,
    gold: str = "A",
    **fields: Any,
) -> dict[str, Any]:
    """A row of `results.jsonl` as an evaluation writes it; `fields` say what is otherwise."""
    return {
        "id": "q",
        "kind": "choice",
        "question": "Where?",
        "choices": {"A": "bank", "B": "mall", "C": "river", "D": "park"},
        "answer": answer,
        "gold": gold,
        "correct": answer == gold,
        "em": None,
        "f1": None,
        "decided_by": decided_by,
        "rounds": 1,
        "consensus_round": None,
        "transcript": list(transcript),
        "usage": {"calls": 10, "prompt_tokens": 100, "completion_tokens": 20, "cost_usd": 0.0},
        "seconds": 1.0,
        "error": None,
        "meta": {},
        **fields,
    }


def row(
    rounds: Rounds,
    *,
    roles: Sequence[str] = ("intuitive", "reasoner"),
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
    answer = fields.pop("answer", last[0] if agreed else judge)
    decided_by, consensus = ("consensus", len(rounds)) if agreed else ("judge", None)
    known = {"rounds": len(rounds), "consensus_round": consensus, **fields}
    return result_row(transcript, answer, decided_by, **known)


def error_row(**fields: Any) -> dict[str, Any]:
    """The row of a question that failed."""
    return result_row([], None, "error", rounds=0, error="no answer in time", **fields)
