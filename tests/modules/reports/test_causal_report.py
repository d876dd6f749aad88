"""The report of causal consistency against a table worked out by hand, its plot, and its name in
MLflow.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stores import new_store

import folkmoot as fm
from folkmoot.modules.reports.causal import causal_report
from folkmoot.pipelines.plots.evaluation import causal_plot

Answer = str | None
Round = tuple[Sequence[Answer], Sequence[tuple[Answer, Answer]]]
"""What reasoners answered, and for each evaluation the answer before and after."""


def row(rounds: Sequence[Round], answer: Answer, decided_by: str, **fields: Any) -> dict[str, Any]:
    """A row of gold A; consensus in the last round unless the way of deciding says otherwise."""
    transcript: list[dict[str, Any]] = []
    for number, (answers, evaluations) in enumerate(rounds, start=1):
        transcript += [
            {"agent": f"reasoner.{place}", "round": number, "answer": said, "text": "…"}
            for place, said in enumerate(answers)
        ]
        transcript += [
            {
                "agent": "evaluator",
                "round": number,
                "answer": after,
                "text": "…",
                "examined": {"agent": "reasoner.0", "answer": before, "counterfactual": "D"},
            }
            for before, after in evaluations
        ]
    agreed = decided_by in ("accepted", "evaluators")
    return {
        "id": "q",
        "kind": "choice",
        "answer": answer,
        "gold": "A",
        "correct": answer == "A",
        "decided_by": decided_by,
        "rounds": len(rounds),
        "consensus_round": len(rounds) if agreed else None,
        "transcript": transcript,
        "usage": {"calls": len(transcript), "prompt_tokens": 100, "completion_tokens": 10},
        "error": None,
        **fields,
    }


ERROR = row([], None, "error", error="no answer in time", usage={"calls": 1, "prompt_tokens": 7})

TABLE = [
    row([(["A", "A"], [("A", "A")])], "A", "accepted"),  # right at once
    row([(["B", "B"], [("B", "B")])], "B", "accepted"),  # wrong together
    row([(["B", "B"], [("B", "A")]), (["A", "A"], [("A", "A")])], "A", "accepted"),  # put right
    row([(["A", "B"], [("A", "B"), ("B", "B")])], "B", "evaluators"),  # made wrong
    row(
        [
            (["B", "C"], [("B", "C"), ("C", None)]),  # wrong to wrong, and unreadable
            ([None, None], []),
            (["B", "B"], [("B", "A")]),
        ],
        "A",
        "depth limit",
    ),
    row([([None, "A"], [("A", None)])], None, "none"),
    ERROR,
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
    # 0 + 1 of
    # them, unreadable two in row 5 and one in row 6. Rows 1, 2 and 3 are unanimous in the first
    # round.
    assert report["reasoner"] == {
        "accuracy": pytest.approx(6 / 18),
        "abstention_rate": pytest.approx(3 / 18),
        "unanimous_rate": pytest.approx(3 / 6),
    }
    # Evaluations: A→A, B→B, B→A, A→A, A→B, B→B, B→C, C→None, B→A, A→None.
    assert report["evaluator"] == {
        "evaluations": 10,
        "unreadable": 2,
        "changed": 4,
        "wrong_to_right": 2,
        "right_to_wrong": 1,
        "wrong_to_wrong": 1,
        "change_rate": pytest.approx(4 / 10),
        "change_right_rate": pytest.approx(2 / 4),
        "kept_right_rate": pytest.approx(2 / 4),
    }


def test_usage_is_the_mean_of_the_answered_questions() -> None:
    report = causal_report(TABLE)
    assert report["calls_per_question"] == pytest.approx((3 + 3 + 6 + 4 + 9 + 3) / 6)
    assert report["prompt_tokens_per_question"] == pytest.approx(100)
    assert report["completion_tokens_per_question"] == pytest.approx(10)


def test_nothing_to_report_gives_counts_and_no_rates() -> None:
    assert causal_report([]) == {"questions": 0, "errors": 0, "decided_by": {}}
    assert causal_report([ERROR]) == {
        "questions": 0,
        "errors": 1,
        "accuracy": 0.0,
        "decided_by": {},
    }


def test_answers_are_equal_by_meaning() -> None:
    span = row(
        [(["Tower", "the tower"], [("Tower", "tower!")])],
        "Tower",
        "accepted",
        kind="span",
        gold="Tower",
    )
    assert causal_report([span])["evaluator"]["changed"] == 0
    assert causal_report([span])["reasoner"] == {
        "accuracy": 1.0,
        "abstention_rate": 0.0,
        "unanimous_rate": 1.0,
    }
    number = row(
        [(["1,000"], [("1,000", "1000.0")])], "1000", "accepted", kind="number", gold="1000"
    )
    assert causal_report([number])["evaluator"]["kept_right_rate"] == 1.0


def test_options_with_one_text_are_no_change() -> None:
    twins = {"A": "bank", "B": "bank", "C": "mall"}
    report = causal_report([row([(["A", "B"], [("A", "B")])], "A", "accepted", choices=twins)])
    assert report["evaluator"]["changed"] == 0
    assert report["reasoner"]["unanimous_rate"] == report["reasoner"]["accuracy"] == 1.0


def test_it_agrees_with_the_rows_of_a_run(scripted: Any) -> None:
    def reply(body: dict[str, Any]) -> str:
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        answer = "A" if "check" in fields else "B"
        return json.dumps({name: answer if name == "answer" else "so" for name in fields})

    scripted.reply = reply
    question = fm.Question(id="1", question="Which?", choices={"A": "x", "B": "y"}, answer="A")
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    result = fm.evaluate(fm.CausalConsistency(), [question], lm=lm, tracking=False, cache=False)
    report = result.summary.report
    assert report == causal_report(result.rows)
    assert report["decided_by"] == {"depth limit": {"count": 1, "accuracy": 1.0}}
    assert report["evaluator"]["wrong_to_right"] == report["evaluator"]["evaluations"] == 3
    assert report["consensus_round"] == {"1": 0, "2": 0, "3": 0, "never": 1}
    assert report["calls_per_question"] == 9


# Odd rows
# --------------------------------------------------------------------------------------------------


# The plot
# --------------------------------------------------------------------------------------------------


@pytest.mark.plots
def test_the_plot_is_drawn_when_evaluators_were_asked(tmp_path: Path) -> None:
    assert causal_plot(causal_report(TABLE), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_plot_shows_rounds_and_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    drawn: list[tuple[list[str], list[float]]] = []
    bar = Axes.bar

    def noted(self: Axes, x: Any, height: Any, *args: Any, **more: Any) -> Any:
        drawn.append((list(x), list(height)))
        return bar(self, x, height, *args, **more)

    monkeypatch.setattr(Axes, "bar", noted)
    causal_plot(causal_report(TABLE), tmp_path / "plot.png")
    assert drawn == [
        (["1", "2", "3", "never"], [3, 1, 0, 2]),
        (["wrong to right", "right to wrong", "wrong to wrong"], [2, 1, 1]),
    ]


@pytest.mark.plots
def test_a_tracked_run_has_its_plot_and_name(
    scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    new_store(tmp_path)
    question = fm.Question(id="1", question="Which?", choices={"A": "x", "B": "y"}, answer="A")
    program = fm.CausalConsistency(without=["non_causal"], demonstration="scienceqa")
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    fm.evaluate(program, [question], lm=lm, out=tmp_path / "out", cache=False)
    assert len(list(tmp_path.glob("mlruns/folkmoot/*/artifacts/causal.png"))) == 1
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (experiment,) = [found for found in client.search_experiments() if found.name != "Default"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "100% · 2 reasoners + evaluat… · scripted"
    (summary,) = tmp_path.glob("mlruns/folkmoot/*/artifacts/summary.json")
    assert json.loads(summary.read_text())["report"]["evaluator"]["evaluations"] == 1
