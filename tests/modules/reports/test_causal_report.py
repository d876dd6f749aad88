"""The report of causal consistency against a table by hand, its plot, its name in MLflow."""

from collections.abc import Sequence
from typing import Any

import pytest
from dialogue_rows import error_row, result_row

from folkmoot.modules.reports.causal import causal_report

Answer = str | None
Round = tuple[Sequence[Answer], Sequence[tuple[Answer, Answer]]]
"""What reasoners answered, and for each evaluation the answer before and after."""


def row(rounds: Sequence[Round], answer: Answer, decided_by: str, **fields: Any) -> dict[str, Any]:
    """A row of gold A; consensus in the last round unless the way of deciding says otherwise."""
    transcript: list[dict[str, Any]] = []
    for number, (answers, evaluations) in enumerate(rounds, start=1):
        for place, answered in enumerate(answers):
            said = {"agent": f"reasoner.{place}", "round": number, "answer": answered, "text": "…"}
            transcript.append(said)
        for before, after in evaluations:
            said = {"agent": "evaluator", "round": number, "answer": after, "text": "…"}
            seen = {"agent": "reasoner.0", "answer": before, "counterfactual": "D"}
            transcript.append({**said, "examined": seen})
    consensus = len(rounds) if decided_by in ("accepted", "evaluators") else None
    known: Any = {"rounds": len(rounds), "consensus_round": consensus, **fields}
    return result_row(transcript, answer, decided_by, **known)


# wrong to wrong, and unreadable
UNDECIDED: list[Round] = [(["B", "C"], [("B", "C"), ("C", None)]), ([None, None], [])]
UNDECIDED += [(["B", "B"], [("B", "A")])]
TABLE = [
    row([(["A", "A"], [("A", "A")])], "A", "accepted"),  # right at once
    row([(["B", "B"], [("B", "B")])], "B", "accepted"),  # wrong together
    row([(["B", "B"], [("B", "A")]), (["A", "A"], [("A", "A")])], "A", "accepted"),  # put right
    row([(["A", "B"], [("A", "B"), ("B", "B")])], "B", "evaluators"),  # made wrong
    row(UNDECIDED, "A", "depth limit"),
    row([([None, "A"], [("A", None)])], None, "none"),
    error_row(),
]


def test_a_table_worked_out_by_hand() -> None:
    report = causal_report(TABLE)
    assert (report["questions"], report["errors"]) == (6, 1)
    assert report["accuracy"] == pytest.approx(3 / 7)
    assert report["decided_by"] == {
        "accepted": {"count": 3, "accuracy": pytest.approx(2 / 3)},
        "depth limit": {"count": 1, "accuracy": 1.0},
        "evaluators": {"count": 1, "accuracy": 0.0},
        "none": {"count": 1, "accuracy": 0.0},
    }
    assert report["rounds"] == {"1": 4, "2": 1, "3": 1}
    assert report["rounds_mean"] == pytest.approx(9 / 6)
    assert report["consensus_round"] == {"1": 3, "2": 1, "3": 0, "never": 2}


def test_solutions_and_evaluations_of_that_table() -> None:
    report = causal_report(TABLE)
    # Solutions: rows 1, 2, 4 and 6 have two each, row 3 four, row 5 six; right are 2 + 0 + 2 + 1 +
    # 0 + 1 of them, unreadable two in row 5 and one in row 6.
    shares = {"accuracy": 6 / 18, "abstention_rate": 3 / 18}
    assert report["reasoner"] == pytest.approx(shares)
    # Evaluations: A→A, B→B, B→A, A→A, A→B, B→B, B→C, C→None, B→A, A→None.
    changes = {"wrong_to_right": 2, "right_to_wrong": 1, "wrong_to_wrong": 1}
    shares = {"change_rate": 4 / 10, "change_right_rate": 2 / 4, "kept_right_rate": 2 / 4}
    counts = {"evaluations": 10, "unreadable": 2, "changed": 4}
    assert report["evaluator"] == pytest.approx({**counts, **changes, **shares})


def test_answers_are_equal_by_meaning() -> None:
    said = (["Tower", "the tower"], [("Tower", "tower!")])
    span = row([said], "Tower", "accepted", kind="span", gold="Tower")
    assert causal_report([span])["evaluator"]["changed"] == 0
    assert causal_report([span])["reasoner"] == {"accuracy": 1.0, "abstention_rate": 0.0}
