"""The report of a team and its plots, against tables worked out by hand; its traces as a page."""

import json
from typing import Any

import pytest
from dialogue_rows import error_row, result_row

from folkmoot.modules.reports.team import team_report

Row = dict[str, Any]


def attempt(
    agent: str, answer: str | None, steps: int = 2, forced: bool = False, problems: Any = ()
) -> Row:
    """A worker's turn of so many steps, the first of which have these problems."""
    looked = {"action": "Search[x]", "observation": "seen"}
    trace = [{"thought": f"thought {n}", **looked} for n in range(1, steps + 1)]
    for step, problem in zip(trace, problems, strict=False):
        step["problem"] = problem
    turn = {"agent": agent, "round": 1, "answer": answer, "text": "…"}
    return {**turn, "trace": trace, "forced": forced, "usage": {}}


def judged(answer: str | None, worker: str | None = "bold", suggestion: str = "") -> Row:
    step = {} if answer is not None else {"step": "retry" if worker else "undecided"}
    said = {"worker": worker, "suggestion": suggestion} if worker else {}
    turn = {"agent": "supervisor", "round": 1, "answer": answer, "text": "fine"}
    return {**turn, **step, **said, "usage": {}}


def team(*turns: Row, answer: str = "Nile", by: str = "supervisor:bold") -> Row:
    return result_row(turns, answer, by, kind="span", gold="Nile", correct=answer == "Nile")


# The gold answer is Nile; "river Nile" has F1 2/3.
UNREAD, REPEATED = {"problems": ["unreadable"]}, {"problems": ["repeated"]}
# Bold is sent back and puts it right.
PUT_RIGHT = [
    attempt("bold", "Seine", 3, **UNREAD),
    attempt("cautious", "river Nile", 4, **REPEATED),
]
PUT_RIGHT += [judged(None), attempt("bold", "Nile", 1), judged("Nile")]
# Cautious is sent back twice, loses its answer and stays wrong; what bold had is not accepted.
LOST = [attempt("bold", "Nile", 4, forced=True), attempt("cautious", "Nile", 2)]
LOST += [judged(None, "cautious"), attempt("cautious", None, 4, forced=True)]
LOST += [judged(None, "cautious"), attempt("cautious", "Rhine", 4), judged("Rhine", "cautious")]
# Nobody is right, and the supervisor could not be read.
UNDECIDED = [attempt("bold", "Rhine", 1), attempt("cautious", "Seine", 4, forced=True)]
TABLE = [
    # Both right at once, in 2 and 4 steps.
    team(attempt("bold", "Nile"), attempt("cautious", "the Nile", 4), judged("Nile")),
    team(*PUT_RIGHT),
    team(*LOST, answer="Rhine", by="supervisor:cautious"),
    team(*UNDECIDED, judged(None, None), answer="Rhine", by="fallback:first"),
    error_row(kind="span", gold="Nile"),
]


def test_the_whole_report_by_hand() -> None:
    report = team_report(TABLE)
    worker = report.pop("worker")
    revised = dict.fromkeys(("wrong_to_right", "right_to_wrong", "wrong_to_wrong"), 1)
    per_question = {"calls": 10, "prompt_tokens": 100, "completion_tokens": 20}
    assert report == {
        "questions": 4,
        "errors": 1,
        "em": pytest.approx(2 / 5),
        "f1": pytest.approx(2 / 5),
        "em_excluding_errors": pytest.approx(2 / 4),
        "f1_excluding_errors": pytest.approx(2 / 4),
        "best_worker": pytest.approx({"em": 3 / 4, "f1": 3 / 4}),
        "decided_by": {
            "supervisor:bold": {"count": 2, "em": 1.0},
            "supervisor:cautious": {"count": 1, "em": 0.0},
            "fallback:first": {"count": 1, "em": 0.0},
        },
        "accepted": {"bold": 2, "cautious": 1},
        "retries": {"0": 2, "1": 1, "2": 1},
        "retries_mean": pytest.approx(3 / 4),
        "retry": {**revised, "right_to_right": 0},
        # First attempts not forced, by steps: bold 2, 3, 1; cautious 4, 4, 2. Eight in all.
        "first_attempts": {
            "1": pytest.approx({"em": 0, "f1": 0, "ended": 1 / 8}),
            "2": pytest.approx({"em": 2 / 8, "f1": 2 / 8, "ended": 3 / 8}),
            "3": pytest.approx({"em": 2 / 8, "f1": 2 / 8, "ended": 4 / 8}),
            "4": pytest.approx({"em": 3 / 8, "f1": (3 + 2 / 3) / 8, "ended": 6 / 8}),
        },
        **{f"{name}_per_question": count for name, count in per_question.items()},
    }
    bold = {"em": 2 / 4, "f1": 2 / 4, "em_last": 3 / 4, "steps_mean": (2 + 3 + 1 + 4 + 1) / 5}
    bold |= {"forced_rate": 1 / 5, "unreadable_rate": 1 / 11, "repeated_rate": 0.0}
    cautious = {"em": 2 / 4, "f1": (1 + 2 / 3 + 1 + 0) / 4, "em_last": 1 / 4}
    cautious |= {"steps_mean": (4 + 4 + 2 + 4 + 4 + 4) / 6, "forced_rate": 2 / 6}
    cautious |= {"unreadable_rate": 0.0, "repeated_rate": 1 / 22}
    assert worker == {"bold": pytest.approx(bold), "cautious": pytest.approx(cautious)}
    assert json.loads(json.dumps(report)) == report
