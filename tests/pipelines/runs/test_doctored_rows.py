"""Rows changed or merged by hand are refused by whoever reads them, with file and line."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import rows_of
from mortal import Constant, questions
from refusals import refused
from repeats import row, write_run

import folkmoot as fm
from folkmoot.pipelines.runs.outcomes import read_outcomes
from folkmoot.pipelines.runs.rows import read_rows

F1 = {"name": "f1", "spec": "f1", "code": None, "low": 0.0, "high": 1.0, "rate": False}
OWN = {"name": "stars", "spec": None, "code": "c0de", "low": 1.0, "high": 5.0, "rate": None}
FREE: dict[str, Any] = {"name": "words", "spec": "evilmod:words", "code": "c0de"}
FREE |= dict.fromkeys(("low", "high", "rate"))
BY_PATTERN = {**F1, "name": "regex", "spec": "regex:^A$", "rate": True}
SPAN = {"kind": "span", "choices": None, "gold": "Marie Curie"}
HALF = {**SPAN, "answer": "Pierre Curie", "em": 0.0, "f1": 0.5}
NUMBER = {"kind": "number", "choices": None, "gold": "1,250"}


def three_rows(**fields: Any) -> list[dict[str, Any]]:
    return [row(0), row(1, right=False), row(2) | fields]


TOLD = "'q1' has another text, other options or another gold answer"
STRICT = {"answer": "B", "correct": False, "score": 0.0, "strict": True}
LESS = "less than a question without an answer scores (0)"


@pytest.mark.parametrize(
    ("metric", "fields", "said"),
    [
        (None, {"answer": "B"}, "scores 1, but its answer 'B' (gold answer 'A') scores 0"),
        (None, {"answer": "B", "score": 0.0}, "scores 0 and is called right"),
        (None, {"gold": "C"}, "cannot be graded"),
        (None, {"gold": None}, "has no gold answer"),
        (None, {"error": "away"}, "has an error and is called right"),
        (None, {"score": 5.0}, "is 5, outside 0 to 1"),
        (None, {"score": 0.5}, "is 0.5: it must be right (1) or wrong (0)"),
        (None, {"score": 1e308}, "score is not valid"),
        (None, NUMBER | {"answer": "1250.5"}, "scores 0"),
        (None, STRICT, "in the strict form"),
        (None, HALF, "scores 0"),
        (None, HALF | {"score": 0.0, "correct": False, "f1": 1.0}, "`em` and `f1`"),
        (F1, HALF | {"score": 0.9, "correct": None}, "scores 0.9, but its answer"),
        (BY_PATTERN, {"answer": "BA"}, "scores 0"),
        (OWN, {"score": 6.0, "correct": None}, "is 6, outside 1 to 5"),
        (FREE, {"score": -1.0, "correct": None}, LESS),
        (None, {"id": "q1"}, "'q1' has its repeat 0 on line 2, too"),
        (None, {"id": "q1", "repeat": 1}, TOLD),
    ],
)
def test_every_reader_refuses_a_doctored_row(metric, fields, said, tmp_path):
    if metric in (F1, OWN):  # the other rows as such a metric scores them
        good = [each | {"correct": None, "score": 1.0, "answer": "A"} for each in three_rows()]
    else:
        good = three_rows()
    run = write_run(tmp_path / "run", [*good[:2], good[2] | fields], metric)
    other = write_run(tmp_path / "other", good, metric)
    readers = (
        lambda: fm.compare(other, run),
        lambda: fm.report(run, tracking=False),
        lambda: list(read_rows(run / "results.jsonl")),
        *([] if metric else [lambda: read_outcomes(run)]),
    )
    for read in readers:
        with pytest.raises(fm.UserError) as told:
            read()
        assert f"{run / 'results.jsonl'}, line 3" in str(told.value)
        assert said in str(told.value)
    assert fm.compare(other, other)[0].n == 3


def test_rows_that_evaluate_wrote_are_read_again(tmp_path: Path) -> None:
    asked = questions(3)
    for kind, answer in (("number", "1,250"), ("boolean", "no"), ("span", "Marie Curie")):
        asked.append(fm.Question(id=kind, question=f"A {kind}?", kind=kind, answer=answer))
    lm = fm.lm("openai/none", api_base="http://127.0.0.1:9/v1")
    for metric in ("accuracy", "em", "f1", "exact", "contains", "regex:A|B"):
        given: Any = {"metric": metric, "out": tmp_path / metric, "tracking": False}
        found = fm.evaluate(Constant(), asked, lm=lm, **given)
        assert len(list(found.rows)) == 6
        assert len(list(fm.compare(found, tmp_path / metric))) == 1


def test_a_run_is_not_resumed_upon_doctored_rows(tmp_path: Path) -> None:
    lm = fm.lm("openai/none", api_base="http://127.0.0.1:9/v1")
    fm.evaluate(Constant(), questions(3), lm=lm, out=tmp_path, tracking=False)
    lines = rows_of(tmp_path)
    lines[1]["score"] = 5.0
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = r"results\.jsonl, line 2: the score of the question 'q1' is 5"
    refused(said, fm.evaluate, Constant(), questions(3), lm=lm, out=tmp_path, tracking=False)


def test_what_a_log_calls_right_is_not_graded_again_but_stays_in_range(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("question_id,agent,answer,correct,gold\nq1,a,four,true,4\nq2,a,5,false,5\n")
    (run,) = fm.import_log(table, tmp_path / "out").runs.values()
    assert [each["correct"] for each in run.rows] == [True, False]
    rows = rows_of(run.folder)
    outside = ({"score": 3.0}, "is 3, outside 0 to 1")
    for fields, said in (outside, ({"id": "q1"}, "repeat 0 on line 1")):
        doctored = [rows[0], rows[1] | fields]
        lines = [json.dumps(each) + "\n" for each in doctored]
        (run.folder / "results.jsonl").write_text("".join(lines))
        refused(said, fm.compare, run.folder, run.folder)
