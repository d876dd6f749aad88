"""What a run's summary makes of its rows: scores of pairs, and groups."""

from __future__ import annotations

from typing import Any

from folkmoot.pipelines.runs.summary import summarise

USAGE = {"calls": 1, "prompt_tokens": 1, "completion_tokens": 1, "cached_calls": 0, "cost_usd": 0.0}


def row(name: str, correct: bool, **meta: Any) -> dict[str, Any]:
    return {
        "id": name,
        "kind": "boolean",
        "answer": "yes",
        "correct": correct,
        "usage": USAGE,
        "seconds": 0.1,
        "error": None,
        "meta": meta,
    }


def summary_of(rows: list[dict[str, Any]]) -> Any:
    return summarise(rows, len(rows), lambda rows: {}, {})


def test_grades_are_grouped_in_the_two_bands_of_scienceqa() -> None:
    grades = [1, 6, "6", 7, 12, 0, 13, "K", None, -3]
    found = summary_of(
        [row(str(place), place < 2, grade=grade) for place, grade in enumerate(grades)]
    )
    bands = found.groups["grade_band"]
    assert {name: (band["value"], band["n"]) for name, band in bands.items()} == {
        "1-6": (2 / 3, 3),
        "7-12": (0.0, 2),
    }
