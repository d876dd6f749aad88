"""Outcome tables: what is read from tables and from our own results, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import write
from outcome_tables import planted
from repeats import row as result_row

from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.runs.outcomes import outcome_of, outcomes_from, read_outcomes


def row(**fields: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"question_id": "q1", "question": "What holds soup?", "group": None}
    usual |= {"agent": "ann", "strategy": "cot", "answer": "A", "correct": True}
    return usual | fields


def test_a_table_becomes_arrays_in_the_order_of_its_rows(tmp_path: Path) -> None:
    rows = [row(), row(strategy="zero_shot", answer="B", correct=False)]
    rows += [row(agent="bob", answer="B", correct=False)]
    rows += [row(question_id="q2", question="And tea?", group="drinks", answer=None, correct=False)]
    table = read_outcomes(write(tmp_path / "t.jsonl", *rows))
    assert table.ids == ("q1", "q2")
    assert table.questions == ("What holds soup?", "And tea?")
    assert table.groups == (None, "drinks")
    assert (table.agents, table.strategies) == (("ann", "bob"), ("cot", "zero_shot"))
    assert table.answers.tolist() == [[[0, 1], [1, -1]], [[-1, -1], [-1, -1]]]
    none = [False, False]
    assert table.correct.tolist() == [[[True, False], none], [none, none]]
    one = [True, False]
    assert table.present.tolist() == [[[True, True], one], [one, none]]
    assert table.missing == 4


@pytest.mark.parametrize(
    ("rows", "line", "said"),
    [
        ([row(question=7)], 1, "'question' is missing or not valid"),
        ([row(), row(agent=" ")], 2, "'agent' is missing"),
        ([row(group=["a"])], 1, "'group"),
        ([row(correct=1)], 1, "'correct' is missing"),
        ([row(repeat=-1)], 1, "'repeat"),
        ([row(answer=None)], 1, "answer is null, but"),
        ([row(), row(agent="bob", correct=False)], 2, "right in one row and wrong in another"),
        ([row(), row()], 2, "'ann' has answered 'q1' with 'cot' before"),
        ([row(), row(agent="bob", question="Other?")], 2, "text or group than at {path}, line 1"),
        ([row(), row(agent="bob", strategy=None)], 2, "rows have a strategy and some have none"),
        ([{"agent": "ann"}], 1, "'question_id' is missing"),
    ],
)
def test_a_bad_row_is_refused_by_file_and_line(tmp_path, rows, line, said):
    path = write(tmp_path / "t.jsonl", *rows)
    with pytest.raises(UserError) as told:
        read_outcomes(path)
    assert f"{path}, line {line}" in str(told.value)
    assert said.replace("{path}", str(path)) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_table_takes_the_shape_of_another(tmp_path: Path) -> None:
    table = outcomes_from(outcome_of(one, "") for one in planted(6, 1, agents=("a", "b")))
    wider = table.like(["b", "c", "a"], ["zero_shot", "cot", "self_ask"])
    assert (wider.correct[:, 2, 1] == table.correct[:, 0, 0]).all()
    assert (wider.answers[:, 0, 0] == table.answers[:, 1, 2]).all()
    assert not wider.present[:, 1].any()
    with pytest.raises(UserError, match="the strategies zero_shot"):
        table.like(table.agents, ["cot", "self_ask"])


def result(turns: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return result_row(1, transcript=turns, **{"meta": {"topic": "money"}, **fields})


def turn(agent: str, answer: str | None, **fields: Any) -> dict[str, Any]:
    return {"agent": agent, "round": 1, "answer": answer, "text": "", "usage": {}} | fields


def test_members_of_an_ensemble_are_strategies_of_their_lm(tmp_path: Path) -> None:
    turns = [turn("cot.0", "B"), turn("cot.1", "A"), turn("zero_shot", None)]
    path = write(tmp_path / "results.jsonl", result(turns), result(turns, id="q2", meta={}))
    about = {"lms": {"*": {"name": "openai/small"}}, "settings": {"data": "my/asked.jsonl"}}
    (tmp_path / "run.json").write_text(json.dumps(about))
    for given_path in (path, tmp_path):
        table = read_outcomes(given_path)
        assert table.agents == ("openai/small", "openai/small #2")
        assert table.strategies == ("cot", "zero_shot")
        assert table.correct.tolist() == [[[False, False], [True, False]]] * 2
        assert table.present.tolist() == [[[True, True], [True, False]]] * 2
        assert table.groups == ("money", "asked")


def test_of_a_dialogue_last_answers_count_and_equal_ones_are_one(tmp_path: Path) -> None:
    span = {"kind": "span", "choices": None, "gold": "Nile", "answer": "nile", "em": 1.0, "f1": 1.0}
    turns = [turn("intuitive", "Congo"), turn("reasoner", "nile.")]
    turns.append(turn("intuitive", "The Nile", round=2))
    failed = result([], id="q2", error="it did not answer", answer=None, correct=False)
    table = read_outcomes(write(tmp_path / "results.jsonl", result(turns, **span), failed))
    assert (table.agents, table.strategies) == (("intuitive", "reasoner"), ())
    assert table.answers.tolist() == [[[0], [0]]]
    assert table.correct.all()
    assert (len(table), table.errors) == (1, 1)


def test_of_repeats_the_first_counts_and_the_others_are_counted(tmp_path: Path) -> None:
    rows = [row(repeat=2), row(repeat=1, answer="B", correct=False), row(agent="bob", repeat=3)]
    table = read_outcomes(write(tmp_path / "t.jsonl", *rows))
    assert (len(table), table.missing, table.repeats) == (1, 0, 1)
    assert table.correct.tolist() == [[[False], [True]]]
    runs = [result([turn("cot", "A")], repeat=number) for number in range(5)]
    table = read_outcomes(write(tmp_path / "results.jsonl", *runs))
    assert (len(table), table.repeats, table.correct.all()) == (1, 4, True)
    for repeat in (-1, 1.5, True, "1"):
        with pytest.raises(UserError, match=r"t\.jsonl, line 1: 'repeat' is"):
            read_outcomes(write(tmp_path / "t.jsonl", row(repeat=repeat)))
    with pytest.raises(UserError, match="line 2: 'ann' has answered 'q1' with 'cot' before"):
        read_outcomes(write(tmp_path / "t.jsonl", row(repeat=1), row(repeat=1)))
