"""Metrics: DSPy's kind, named ones, free text; what they say in rows, comparisons, studies."""

import inspect
import json
import math
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest
from mortal import open_questions as asked

import folkmoot as fm
from folkmoot.modules.reading.metrics import source_of


def says(answer: Callable[[int], str]) -> Callable[[dict[str, Any]], str]:
    def reply(body: dict[str, Any]) -> str:
        number = int(body["messages"][-1]["content"].split("Why ")[1].split("?")[0])
        return json.dumps({"reasoning": "so", "answer": answer(number)})

    return reply


@pytest.fixture
def run(scripted: Any) -> Any:
    """An evaluation of open questions; each third answer differs from the gold one."""
    scripted.reply = says(lambda i: f"since {i} apples fell" if i % 3 else "no idea")

    def evaluate(metric: Any, program: Any = None, **more: Any) -> Any:
        lm = fm.lm("openai/scripted", api_base=scripted.url)
        program = program or fm.SingleAgent()
        given = {"lm": lm, "metric": metric, "tracking": False, **more}
        return fm.evaluate(program, given.pop("asked", asked()), **given)

    return evaluate


def overlap(example: Any, prediction: Any, trace: Any = None) -> float:
    assert example.rubric.startswith("apples")  # what meta holds is a field of its own
    gold = set(example.answer.split())
    return len(gold & set(prediction.answer.split())) / len(gold)


def test_a_score_of_ones_own_is_in_rows_and_summary(run: Any) -> None:
    found = run(overlap)
    row = found.rows[0]
    assert (row["score"], row["correct"], row["error"]) == (4 / 7, None, None)
    score = found.summary.scores["overlap"]
    assert math.isclose(score["value"], 8 / 12 * 4 / 7)
    assert score["low"] < score["value"] < score["high"]
    assert list(found.summary.scores) == ["overlap"]
    assert found.summary.counts.correct is None
    assert found.score == score["value"]
    with pytest.raises(fm.UserError, match="read score instead"):
        _ = found.accuracy
    assert "overlap 0.381" in repr(found)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("exact", {"A b": True, "a b": False}),
        ("contains", {"so: A  B.": True, "b": False}),
        ("em", {"the a b!": True, "a": False}),
        ("f1", {"b c": 0.5}),
        (r"regex:^[ab ]+$", {"a b": True, "c": False}),
    ],
)
def test_named_metrics(scripted: Any, name: str, right: dict[str, Any]) -> None:
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    for number, (answer, wanted) in enumerate(right.items()):
        scripted.reply = says(lambda _, said=answer: said)  # type: ignore[misc]
        gold = "A b" if name != "f1" else "b d"
        question = fm.Question(id="1", question=f"Why {number}?", answer=gold, kind="open")
        given: Any = {"metric": name, "tracking": False, "cache": False}
        (row,) = fm.evaluate(fm.SingleAgent(), [question], lm=lm, **given).rows
        assert row["score"] == float(wanted), (name, answer)
        assert row["correct"] == (wanted if name != "f1" else None)


@pytest.mark.parametrize(
    ("gold", "returned", "right"),
    [
        (True, True, True),
        ("FALSE", "no.", True),
        ("Yes", False, False),
        ("1,250", 1250.0, True),
        (["x", "y"], "y", True),
        (["x", "y"], "z", False),
    ],
)
def test_answers_that_are_equal_are_equal_texts(gold: Any, returned: Any, right: bool) -> None:
    def same(example: Any, prediction: Any, trace: Any = None) -> bool:
        golds = example.answer if isinstance(example.answer, list) else [example.answer]
        return prediction.answer in golds

    told = [dspy.Example(question="Is it?", answer=gold).with_inputs("question")]
    found = fm.evaluate(lambda question: returned, told, metric=same, tracking=False)
    assert found.rows[0]["correct"] is right


def test_open_questions_need_a_metric_before_the_first_call(run: Any, scripted: Any) -> None:
    for metric in (None, "accuracy"):
        with pytest.raises(fm.UserError, match=r"question '1' is open.*give a metric"):
            run(metric)
    train = asked(4)
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    with pytest.raises(fm.UserError, match="give a metric"):
        fm.compile(fm.SingleAgent(), train, asked(9)[5:], lm=lm, tracking=False)
    with pytest.raises(fm.UserError, match="give a metric"):
        fm.tune("single", train, asked(9)[5:], lm=lm, tracking=False)
    assert scripted.bodies == []


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "returned None"),
        (math.nan, "returned nan"),
        ("0.7", "returned a str"),
        (-0.5, r"returned -0.5, less than a question without an answer scores \(0\)"),
        (dspy.Prediction(score=None), "returned None"),
        (ValueError("bad\nthing"), r"raised ValueError \(bad thing\)"),
    ],
)
def test_what_is_no_score_is_an_error_that_says_so(run: Any, returned: Any, said: str) -> None:
    def broken(example: Any, prediction: Any, trace: Any = None) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    found = run(broken, asked=asked(2))
    for row in found.rows:
        assert row["score"] is None
        assert row["correct"] is False
        assert row["answer"] == f"since {row['id']} apples fell"  # what there was to score
    assert re.search(f"the metric broken {said}", found.rows[0]["error"])
    assert found.summary.counts.errors == 2


def test_a_declared_metric_stays_within_its_limits(run: Any) -> None:
    def stars(example: Any, prediction: Any) -> int:
        return -3 if "no idea" in prediction.answer else 7

    metric = fm.Metric(stars, "stars", low=1, high=10)
    found = run(metric, asked=asked(3))
    errors = [row["error"] for row in found.rows]
    assert errors == [None, None, "the metric stars returned -3, outside 1 to 10"]
    # an error counts as the worst there is
    assert found.summary.scores["stars"]["value"] == (7 + 7 + 1) / 3
    with pytest.raises(fm.UserError, match="must be less"):
        fm.Metric(overlap, low=1, high=1)


def test_forms_of_metrics(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gepa(gold: Any, pred: Any, trace: Any, pred_name: Any, pred_trace: Any) -> Any:
        return dspy.Prediction(score=0.25, feedback="say more")

    async def waiting(example: Any, prediction: Any) -> bool:
        return True

    class Judge(dspy.Module):
        def forward(self, example: Any, pred: Any, trace: Any = None) -> float:
            return 0.5

    found = run(gepa, asked=asked(1)).rows[0]
    assert (found["score"], found["feedback"], found["correct"]) == (0.25, "say more", None)
    assert run(waiting, asked=asked(1)).rows[0]["correct"] is True
    assert run(Judge(), asked=asked(1)).summary.scores["Judge"]["value"] == 0.5
    half = "def half(example, prediction, trace=None):\n    return 0.5\n"
    (tmp_path / "her_metric.py").write_text(half)
    monkeypatch.chdir(tmp_path)
    assert run("her_metric:half", asked=asked(1)).summary.scores["half"]["value"] == 0.5


def test_a_pattern_that_takes_for_ever_is_an_error(run: Any, scripted: Any) -> None:
    scripted.reply = says(lambda _: "a" * 80 + "b")
    began = time.monotonic()
    (row,) = run(r"regex:^(a|aa)+$", asked=asked(1)).rows
    assert row["error"] is not None
    assert "took more than" in row["error"]
    assert time.monotonic() - began < 60


def test_scores_are_compared_by_means_and_a_paired_t_test(run: Any, scripted: Any) -> None:
    good = run(overlap, asked=asked(30))
    scripted.reply = says(lambda i: f"since {i}" if i % 7 else f"since {i} apples fell")
    other = run(overlap, fm.SingleAgent("zero_shot"), asked=asked(30), cache=False)
    found = fm.compare(other, good, names=("other", "good"))
    (pair,) = found
    a, b = ([row["score"] for row in one.rows] for one in (good, other))
    assert pair.test == "paired t-test"
    assert math.isclose(pair.difference, sum(a) / 30 - sum(b) / 30)
    assert pair.low < pair.difference < pair.high
    assert (pair.accuracy_a, pair.accuracy_b, pair.right_or_wrong) == (None, None, False)
    assert f"{pair.difference:+.3g} in overlap" in pair.verdict or pair.outcome == "undecided"
    assert pair.to_dict()["score_a"] == pair.score_a
    assert found.recommendation is not None
    assert found.recommendation.run == "good" or pair.outcome == "undecided"
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_metrics_own_calls_are_billed_apart(run: Any, scripted: Any) -> None:
    asker = fm.lm("openai/judge", api_base=scripted.url)
    plain = scripted.reply

    def graded(example: Any, prediction: Any, trace: Any = None) -> float:
        said = asker(messages=[{"role": "user", "content": f"grade {example.id}"}])
        return float(len(said) == 1)

    scripted.reply = lambda body: "fine" if body["model"] == "judge" else plain(body)
    found = run(graded, asked=asked(2), cache=False)
    for row in found.rows:
        assert row["usage"]["calls"] == 1
        assert row["metric_usage"]["calls"] == 1
    assert found.summary.usage["calls"] == 2
    assert found.summary.metric_usage["calls"] == 2
    assert found.summary.paid is not None
    assert found.summary.paid["calls"] == 4


class Judged(dspy.Module):  # type: ignore[misc]
    """A metric of a user's own that is a module."""

    def __init__(self) -> None:
        super().__init__()
        self.grade = dspy.Predict("gold, said -> recall: float")

    async def aforward(self, example: Any, prediction: Any, trace: Any = None) -> float:
        asked = {"gold": example.answer, "said": prediction.answer}
        return float((await self.grade.acall(**asked)).recall)


async def waits(example: Any, prediction: Any, trace: Any = None) -> float:
    asked = {"gold": example.answer, "said": prediction.answer}
    return float(dspy.Predict("gold, said -> recall: float")(**asked).recall)


@pytest.mark.parametrize(
    "metric",
    [
        dspy.evaluate.SemanticF1(),
        dspy.evaluate.SemanticF1(decompositional=True),
        dspy.evaluate.CompleteAndGrounded(),
        lambda example, prediction: dspy.evaluate.SemanticF1()(example, prediction),
        Judged(),
        waits,
    ],
)
def test_metrics_that_ask_an_lm(run: Any, scripted: Any, metric: Any) -> None:
    plain = scripted.reply
    grades = ("recall", "precision", "completeness", "groundedness")

    def reply(body: dict[str, Any]) -> Any:
        asked = re.findall(r"\[\[ ## (\w+) ## \]\]", body["messages"][0]["content"])
        given = {name: 0.5 if name in grades else "so" for name in asked}
        fields = (f"[[ ## {name} ## ]]\n{value}" for name, value in given.items())
        return "\n\n".join(fields) if asked else plain(body)

    scripted.reply = reply
    found = run(metric, asked=asked(2), cache=False)
    assert [row["error"] for row in found.rows] == [None, None]
    assert found.score == 0.5
    assert found.summary.usage["calls"] == 2
    assert found.summary.metric_usage["calls"] == len(scripted.bodies) - 2


def test_compilations_and_studies_go_by_the_metric(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = says(lambda i: f"since {i} apples fell" if i % 2 else f"since {i}")
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    own = {"metric": overlap, "lm": lm, "tracking": False}
    train, held_out = asked(8), asked(14)[8:]

    def compiled(**changed: Any) -> Any:
        given = {"optimizer": "bootstrap", "out": tmp_path / "compiled", **own, **changed}
        return fm.compile(fm.SingleAgent(), train, held_out, **given).compilation

    result = compiled()
    assert 0 < result.before["scores"]["overlap"]["value"] < 4 / 7
    assert 0 < result.selection["given"]["value"] < 4 / 7
    with pytest.raises(fm.UserError, match="its metric differs"):
        compiled(metric="f1")
    study = fm.tune("single:cot", train, held_out, trials=2, out=tmp_path / "study", **own)
    assert 0 < study.report.best.scores["overlap"]["value"] < 1
    assert study.report.objectives == ["overlap"]
    with pytest.raises(fm.UserError, match="no objective 'accuracy'"):
        fm.tune("single:cot", train, held_out, objectives="accuracy", **own)


def test_the_source_of_a_class_is_read_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    read, readers, most = inspect.getsource, [], []

    def watched(thing: Any) -> str:
        readers.append(thing)
        most.append(len(readers))
        time.sleep(0.01)
        source = read(thing)
        readers.remove(thing)
        return source

    class Mine:
        """Read for the first time here."""

    monkeypatch.setattr(inspect, "getsource", watched)
    with ThreadPoolExecutor(4) as pool:
        sources = set(pool.map(source_of, [Mine, fm.Question] * 4))
    assert len(sources) == 2
    assert "Read for the first time here." in "".join(sources)
    assert len(most) <= 2
    assert set(most) == {1}
