"""`Question`: what it refuses, what it makes of a row, and that DSPy can use it as an Example."""

import copy
from typing import Any

import pytest

from folkmoot.modules.base.errors import UserError
from folkmoot.modules.reading.question import Question, from_row

CHOICES = {"A": "bank", "B": "library"}


def make(**fields: Any) -> Question:
    return Question(**{"id": "q1", "question": "Where are books?", **fields})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"id": ""}, "id"),
        ({"id": 7}, "int"),
        ({"question": ""}, "'q1' needs its text"),
        ({"question": None}, "missing"),
        ({"question": "half \ud800"}, "Unicode"),
        ({"choices": {"A": "one"}}, "1 choices"),
        ({"choices": {f"L{n}": f"t{n}" for n in range(27)}}, "27 choices"),
        ({"choices": {"A": "one", "": "two"}}, "label"),
        ({"choices": {"A": "one", "B": " "}}, "'B'"),
        ({"choices": {"A": "one", "a": "two"}}, "same label"),
        ({"choices": "bank, library"}, "str"),
        ({"choices": CHOICES, "answer": "C"}, "'C'"),
        ({"choices": {"A": "same", "B": "same"}, "answer": "same"}, "A and B"),
        ({"answer": "perhaps", "kind": "boolean"}, "yes, no"),
        ({"answer": "many", "kind": "number"}, "a number"),
        ({"kind": "essay"}, "choice, boolean, number, span"),
        ({"kind": "choice"}, "no choices"),
        ({"context": ["a", 3]}, "context"),
        ({"meta": {1: "x"}}, "meta"),
    ],
)
def test_bad_fields_are_refused_in_one_line(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        make(**fields)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "label"),
    [("B", "B"), ("b", "B"), ("library", "B"), ("Library ", "B"), (" A", "A"), (None, None)],
)
def test_a_gold_becomes_a_label(answer: str | None, label: str | None) -> None:
    assert make(choices=CHOICES, answer=answer).answer == label


def test_texts_that_differ_only_in_case_are_told_apart_by_case() -> None:
    choices = {"X": "Polish", "Y": "polish"}
    assert make(choices=choices, answer="polish").answer == "Y"
    with pytest.raises(UserError, match="X and Y"):
        make(choices=choices, answer="POLISH")


KIND_OF = {"yes": "boolean", "True": "boolean", "1,200": "number", "3/4": "number"}
KIND_OF |= {"Arthur's Magazine": "span", "1/0": "span", "1969-70": "span"}
KINDS = [({"answer": answer}, kind) for answer, kind in KIND_OF.items()]
KINDS += [({"choices": CHOICES, "answer": "A"}, "choice")]


@pytest.mark.parametrize(("fields", "kind"), [*KINDS, ({"answer": "1985", "kind": "span"}, "span")])
def test_kind_is_inferred_unless_given(fields: dict[str, Any], kind: str) -> None:
    assert make(**fields).kind == kind


def test_inputs_and_labels_are_what_evaluate_needs() -> None:
    question = make(choices=CHOICES, answer="B", context="A passage.", meta={"type": "easy"})
    shown = {"question": "Where are books?", "choices": CHOICES, "context": "A passage."}
    assert question.inputs().toDict() == {**shown, "kind": "choice"}
    assert question.labels().toDict() == {"id": "q1", "answer": "B", "meta": {"type": "easy"}}
    assert "answer" not in question.inputs()


def test_copies_stay_questions_and_parts_do_not() -> None:
    question = make(choices=CHOICES, answer="A", meta={"n": 1})
    copies = (question.copy(), copy.deepcopy(question))
    for same in (*copies, Question(question), Question(question.toDict())):
        assert type(same) is Question
        assert same == question
        assert same.inputs() == question.inputs()
    assert question.with_inputs("question").inputs().keys() == ["question"]
    assert type(question.with_inputs("question").copy()) is Question
    assert question.with_inputs("question").copy().inputs().keys() == ["question"]
    assert question.copy(answer="library").answer == "B"
    with pytest.raises(UserError):
        question.copy(answer="C")
    without = question.without("answer")
    assert "answer" not in without
    assert not isinstance(without, Question)
    assert without.inputs() == question.inputs()


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        ({"id": 12}, "id", "12"),
        ({"answer": 18}, "answer", "18"),
        ({"answer": 18.0}, "answer", "18"),
        ({"answer": True}, "answer", "true"),
        ({"choices": ["x", "y", "z"], "answer": "z"}, "choices", {"A": "x", "B": "y", "C": "z"}),
        ({"choices": {"label": [1, 2], "text": ["x", "y"]}, "answer": 2}, "answer", "2"),
        ({"choices": [3, 4], "answer": 4}, "answer", "B"),
        ({"context": ""}, "context", None),
        ({"subject": "physics", "meta": {"n": 1}}, "meta", {"n": 1, "subject": "physics"}),
    ],
)
def test_rows_have_the_shapes_of_files(row: dict[str, Any], field: str, value: Any) -> None:
    assert from_row({"id": "q1", "question": "What?", **row}, "f.jsonl, line 3")[field] == value
