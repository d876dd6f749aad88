"""Forecasts of a vote's gain: what they say of agents whose answers are known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import folkmoot

import folkmoot as fm


def table(agents: int, questions: int, *, alike: bool, seed: int = 0) -> list[dict[str, Any]]:
    """Answers of agents who are right on 60%: each by a coin of its own, or all by the same one."""
    random = np.random.default_rng(seed)
    rows = []
    for question in range(questions):
        shared = random.random() < 0.6
        for agent in range(agents):
            right = shared if alike else random.random() < 0.6
            wrong = "B" if alike else "BCD"[random.integers(3)]
            about: Any = {"question_id": f"q{question}", "question": f"Question {question}?"}
            about |= {"agent": f"agent {agent}", "strategy": None, "group": None}
            rows.append({**about, "answer": "A" if right else wrong, "correct": bool(right)})
    return rows


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """By day, where the interval itself does not matter."""
    monkeypatch.setattr("folkmoot.modules.statistics.vote_forecast.RESAMPLES", 8)


@pytest.mark.usefixtures("few_resamples")
def test_independent_agents_gain_and_copies_do_not() -> None:
    apart = fm.forecast(table(5, 200, alike=False), sizes=[3, 15])
    assert list(apart.gain.columns) == ["n", "value", "low", "high"]
    assert apart.gain["n"].tolist() == [3, 15]
    assert apart.gain["value"].iloc[1] > 0.25
    assert apart.effective > 4
    assert apart.ceiling > 0.95
    copies = fm.forecast(table(5, 200, alike=True), sizes=[15])
    low, high = copies.gain[["low", "high"]].iloc[0]
    assert low <= 0 <= high < 0.05
    assert copies.effective < 1.5
    assert copies.ceiling == pytest.approx(copies.accuracy, abs=1e-9)


@pytest.mark.nightly
def test_the_interval_holds_what_other_agents_gain() -> None:
    answers = table(20, 300, alike=False, seed=1)
    few = [row for row in answers if int(row["agent"].split()[1]) < 5]
    forecast = fm.forecast(few, sizes=[15])
    others = [row for row in answers if int(row["agent"].split()[1]) >= 5]
    votes: dict[str, list[str]] = {}
    for row in others:
        votes.setdefault(row["question_id"], []).append(row["answer"])
    right = np.mean([max("ABCD", key=said.count) == "A" for said in votes.values()])
    gain = right - np.mean([row["correct"] for row in others])
    low, high = forecast.gain[["low", "high"]].iloc[0]
    assert low <= gain <= high


@pytest.mark.nightly
def test_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in table(5, 60, alike=False)))
    said = folkmoot("forecast", "--outcomes", str(file), "--json", code=0)
    found = json.loads(said.stdout)
    assert [row["n"] for row in found["gain"]] == list(range(2, 31))
    assert {"effective", "ceiling", "accuracy"} <= found.keys()
    (alone,) = fm.forecast(file, sizes=[4]).to_dict()["gain"]
    assert alone == pytest.approx(found["gain"][2])
    shown = folkmoot("forecast", "--outcomes", str(file)).stdout
    assert "vote of 15: +" in shown
    assert "not covered: talk" in shown
    assert len(shown.splitlines()) <= 24


FEW = [(table(1, 30, alike=True), "2 agents"), (table(5, 5, alike=True), "10 questions")]


@pytest.mark.parametrize(("answers", "message"), [((), "give the folders"), *FEW])
def test_too_little_is_refused(answers: Any, message: str) -> None:
    with pytest.raises(fm.UserError, match=message):
        fm.forecast(answers)


@pytest.mark.usefixtures("few_resamples")
def test_runs_are_agents_whatever_their_programs(tmp_path: Path) -> None:
    known: Any = {"question": "Where?", "choices": {"A": "bank", "B": "mall"}, "answer": "A"}
    questions = [fm.Question(id=f"q{n}", **known) for n in range(30)]
    for name, right in (("first", 20), ("second", 15)):

        def answer(question: fm.Question, right: int = right) -> str:
            return "A" if int(question.id[1:]) < right else "B"

        fm.evaluate(answer, questions, out=tmp_path / name, tracking=False)
    forecast = fm.forecast([tmp_path / "first", tmp_path / "second"], sizes=[2])
    assert forecast.agents == ("first", "second")
    assert forecast.accuracy == pytest.approx(35 / 60)
    assert forecast.ceiling == pytest.approx(20 / 30)


def test_runs_without_an_answer_are_too_little(tmp_path: Path) -> None:
    def ends(_: fm.Question) -> str:
        raise ValueError("no answer")

    questions = fm.load("sample-choice", limit=4)
    failed = fm.evaluate(ends, questions, out=tmp_path, tracking=False)
    with pytest.raises(fm.UserError, match="there are 0 and 0"):
        fm.forecast([failed])
