"""Questions that are asked several times: rows, calls, scores, and options in other orders."""

import json
import random
from pathlib import Path
from typing import Any

import dspy
import pytest
from mortal import questions

import folkmoot as fm
from folkmoot.modules.reading.row import row_key
from folkmoot.modules.statistics.clusters import clustered_mean
from folkmoot.modules.statistics.repeats import spread_of


def lm(server: Any, **options: Any) -> Any:
    return fm.lm("openai/scripted", api_base=server.url, **options)


def run(server: Any, out: Path | None, asked: Any, **options: Any) -> fm.Evaluation:
    program = options.pop("program", "single:simple")
    return fm.evaluate(program, asked, lm=lm(server), out=out, tracking=False, **options)


def test_every_question_is_asked_k_times_and_counts_once(scripted: Any, tmp_path: Path) -> None:
    draw = random.Random(0)
    scripted.reply = lambda _: json.dumps({"answer": draw.choice("AB")})
    asked = questions(12)
    result = run(scripted, tmp_path / "run", asked, repeats=5)
    assert len(scripted.bodies) == 60
    keys = [row_key(row) for row in result.rows]
    assert keys == [(question.id, repeat) for question in asked for repeat in range(5)]
    assert (result.summary.counts.rows, result.summary.main["n"]) == (60, 12)
    right = [[bool(row["correct"]) for row in result.rows if row["id"] == q.id] for q in asked]
    means = [sum(one) / 5 for one in right]
    mean, low, high, *_ = clustered_mean(means, range(12))
    assert result.score == pytest.approx(mean)
    assert result.summary.main["low"] == pytest.approx(max(0.0, low))
    assert result.summary.main["high"] == pytest.approx(min(1.0, high))
    flips = {one.id: one for one in result.summary.flaky}
    assert flips.keys() == {q.id for q, one in zip(asked, right, strict=True) if 0 < sum(one) < 5}
    for name, one in flips.items():
        times = sum(right[int(name.removeprefix("q"))])
        assert (one.repeats, one.right, one.flips) == (5, times, min(times, 5 - times) / 5)
    assert any("of their repeats: " in line for line in result.lines())
    hits = [[float(hit) for hit in one] for one in right]
    assert result.summary.spread == spread_of(hits)._asdict()
    assert "new questions come first" in result.in_words()["repeats"]


def test_a_repeat_is_not_answered_by_the_cache_and_a_stopped_run_goes_on(
    scripted, tmp_path, monkeypatch
):
    monkeypatch.setenv("FOLKMOOT_CALLS_MB", "10")
    asked = questions(4)
    run(scripted, tmp_path / "one", asked, repeats=3)
    assert len(scripted.bodies) == 12
    run(scripted, tmp_path / "two", asked, repeats=3)
    assert len(scripted.bodies) == 12 + 8  # the first of each question is in the cache
    path = tmp_path / "two" / "results.jsonl"
    path.write_text("".join(path.read_text().splitlines(True)[:5]))
    again = run(scripted, tmp_path / "two", asked, repeats=3)
    assert len(scripted.bodies) == 20  # the run's own records have the others
    assert len(again.rows) == 12
    more = run(scripted, tmp_path / "two", asked, repeats=4)
    assert (len(scripted.bodies), len(more.rows)) == (24, 16)
    fewer = run(scripted, tmp_path / "two", asked)
    assert (len(scripted.bodies), len(fewer.rows)) == (24, 16)  # what was paid for is kept


def test_permuted_options_are_mapped_back(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = lambda body: '{"answer": "A"}'
    asked = questions(6)
    result = run(scripted, tmp_path / "run", asked, repeats=3, permute=True)
    for question in asked:
        rows = [row for row in result.rows if row["id"] == question.id]
        # who always takes the first of three options takes each of them once
        assert sorted(str(row["answer"]) for row in rows) == ["A", "B", "C"]
        assert sum(bool(row["correct"]) for row in rows) == 1
        assert all(row["choices"] == question.choices for row in rows)
        assert all(row["gold"] == question.answer for row in rows)
        assert [row["transcript"][-1]["answer"] for row in rows] == [row["answer"] for row in rows]
    texts = {body["messages"][-1]["content"] for body in scripted.bodies}
    assert len(texts) == 18
    assert fm.load_run(tmp_path / "run").score == result.score
    with pytest.raises(fm.UserError, match="add --permute"):
        run(scripted, tmp_path / "run", asked, repeats=3)


def test_repeats_go_past_the_cache_of_dspy(scripted: Any) -> None:
    other = dspy.LM("openai/other", api_base=scripted.url, api_key="none", temperature=1.0)
    scripted.reply = lambda _: "[[ ## answer ## ]]\nA\n\n[[ ## completed ## ]]"
    module = dspy.Predict("question -> answer")
    result = fm.evaluate(module, questions(2), lm=other, repeats=3, tracking=False)
    cached = [row["usage"]["cached_calls"] for row in result.rows if row["repeat"]]
    assert cached == [0] * 4
    assert len(scripted.bodies) >= 4
