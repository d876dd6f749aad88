"""Result rows, written down by what was answered."""

from collections.abc import Sequence
from typing import Any

Answer = str | None


def result_row(
    transcript: Sequence[Any], answer: Answer, decided_by: str = "consensus", **fields: Any
) -> dict[str, Any]:
    """A row of `results.jsonl` as an evaluation writes it; `fields` say what is otherwise."""
    row: dict[str, Any] = {"id": "q", "kind": "choice", "question": "Where?"}
    row["choices"] = {"A": "bank", "B": "mall", "C": "river", "D": "park"}
    row |= {"answer": answer, "gold": "A", "correct": answer == fields.get("gold", "A")}
    row |= {"em": None, "f1": None, "decided_by": decided_by, "rounds": 1, "consensus_round": None}
    row["transcript"] = list(transcript)
    row["usage"] = {"calls": 10, "prompt_tokens": 100, "completion_tokens": 20, "cost_usd": 0.0}
    return row | {"seconds": 1.0, "error": None, "meta": {}} | fields


def row(rounds: Sequence[Sequence[Answer]], judge: Answer = None, **fields: Any) -> dict[str, Any]:
    """A result row of a dialogue: the answers of each round, in speaking order."""
    last, roles = rounds[-1], fields.pop("roles", ("intuitive", "reasoner"))
    agreed = None not in last and len(set(last)) == 1
    transcript = []
    for number, answers in enumerate(rounds, start=1):
        for role, said in zip(roles, answers, strict=True):
            transcript.append({"agent": role, "round": number, "answer": said, "text": "…"})
    if judge is not None:
        transcript.append({"agent": "judge", "round": len(rounds), "answer": judge, "text": "…"})
    answer = fields.pop("answer", last[0] if agreed else judge)
    decided_by, consensus = ("consensus", len(rounds)) if agreed else ("judge", None)
    known = {"rounds": len(rounds), "consensus_round": consensus, **fields}
    return result_row(transcript, answer, decided_by, **known)


def error_row(**fields: Any) -> dict[str, Any]:
    """The row of a question that failed."""
    return result_row([], None, "error", rounds=0, error="no answer in time", **fields)
