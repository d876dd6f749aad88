"""Runs whose questions were asked several times, written down by which answers are right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dialogue_rows import result_row

CHOICES = {"A": "yes it is", "B": "no it is not"}
Right = npt.NDArray[np.bool_]
"""Whether each answer is right, a row for each repeat and a column for each question."""


def row(question: int, repeat: int = 0, right: bool = True, **fields: Any) -> dict[str, Any]:
    """A row of `results.jsonl`."""
    known = {
        "id": f"q{question}",
        "repeat": repeat,
        "question": f"Is this number {question}?",
        "choices": CHOICES,
        "score": float(right),
        "usage": {
            "calls": 1,
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "cached_calls": 0,
            "cost_usd": 0.001,
        },
        "meta": {"subject": f"s{question % 5}"},
    }
    return {**result_row([], "A" if right else "B", "single"), **known, **fields}


def write_run(folder: Path, rows: list[dict[str, Any]], metric: Any = None, **about: Any) -> Path:
    """A folder as `evaluate` writes one, with these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    run = {
        "program": {"program": "single", "strategy": folder.name},
        "program_hash": folder.name,
        "lms": {"*": {"name": "openai/scripted", "endpoint": "e", "profile": {}, "settings": {}}},
        "data_fingerprint": "0",
        "questions": len({row["id"] for row in rows}),
        "metric": metric,
        "settings": {},
        "versions": {"python": "3.12"},
        **about,
    }
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def repeated_run(folder: Path, right: Right, **about: Any) -> Path:
    """A run with `right.shape[0]` answers to each of `right.shape[1]` questions."""
    repeats, asked = right.shape
    rows = [row(q, r, bool(right[r, q])) for q in range(asked) for r in range(repeats)]
    return write_run(folder, rows, **about)


def null_pair(rng: np.random.Generator, n: int, repeats: int) -> tuple[Right, Right]:
    """Two agents that are equally good on average, each better than the other on some questions."""
    chances = rng.beta(0.7, 0.35, size=(2, 1, n))
    one, other = rng.random((2, repeats, n)) < chances
    return one, other
