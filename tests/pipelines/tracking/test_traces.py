"""Traces: which questions have one, what is in it, once each and on the run it belongs to."""

import itertools
import json
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import mlflow
import mlflow.genai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mortal import questions
from sqlalchemy import event
from stores import new_store

import folkmoot as fm
from folkmoot.pipelines.base.run_files import BOOKS
from folkmoot.pipelines.evaluation import card as evaluation
from folkmoot.pipelines.runs.traces import TRACES, traced_ids
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tracking import push
from folkmoot.pipelines.tracking import traces as traces_send
from folkmoot.pipelines.tracking.cursor import CURSOR
from folkmoot.pipelines.tracking.traces import otel_spans

CANARY = "sk-canary-5b2f90c1"


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One store for all tests; each uses an experiment of its own."""
    folder = tmp_path_factory.mktemp("store")
    uri = new_store(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", uri)
        patch.setenv("FOLKMOOT_CACHE", str(folder / "cache"))
        patch.setattr(evaluation, "drawings", lambda program, report: {})
        yield uri


def team() -> fm.Deliberation:
    return fm.Deliberation(["intuitive", "reasoner"], max_rounds=1, tie_break="majority")


def traced(url: str, out: Path, n: int = 4, rate: float | None = 1.0, **more: Any) -> fm.Evaluation:
    lm = fm.lm("openai/scripted", api_base=url)
    name = more.pop("name", out.parent.name)
    given: Any = {"traces": rate, "settings": {"data": name}, **more}
    return fm.evaluate(team(), questions(n), lm=lm, out=out, **given)


def run_id(out: Path) -> str:
    return str(json.loads((out / "run.json").read_text())["mlflow_run_id"])


def found(out: Path, query: str | None = None) -> dict[str, Any]:
    """The traces of the folder's run by question, as the run's page finds them."""
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_run(run_id(out)).info.experiment_id
    whose: Any = {"locations": [experiment], "run_id": run_id(out), "filter_string": query}
    traces = client.search_traces(max_results=500, **whose)
    names = [trace.info.tags["folkmoot.question"] for trace in traces]
    assert len(names) == len(set(names))
    return dict(zip(names, traces, strict=True))


@given(st.sets(st.text(max_size=8), max_size=60), st.floats(0, 1), st.floats(0, 1), st.randoms())
def test_a_sample_grows_with_the_rate(ids: set[str], low: float, high: float, random: Any) -> None:
    low, high = sorted((low, high))
    names = sorted(ids)
    one = traced_ids(names, high)
    random.shuffle(names)
    assert traced_ids(names, high) == one
    assert traced_ids(names, low) <= one <= ids
    assert high * len(ids) - 1e-6 <= len(one) < high * len(ids) + 1


def test_every_question_has_a_trace_with_its_turns_and_calls(
    scripted, tmp_path, monkeypatch, store
):
    """The store has all of it when the evaluation returns, and no key."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    result = traced(scripted.url, tmp_path / "out")
    assert not any(thread.name == "folkmoot-push" for thread in threading.enumerate())
    assert json.loads((tmp_path / "out" / BOOKS / CURSOR).read_text())["clean"] is True
    assert result.summary.counts.errors == 0
    traces = found(tmp_path / "out")
    rows = {row["id"]: row for row in result.rows}
    assert traces.keys() == rows.keys()
    for name, trace in traces.items():
        root, *others = trace.data.spans
        row = rows[name]
        assert root.parent_id is None
        assert root.inputs["question"] == row["question"]
        assert root.outputs == {"answer": f"{row['answer']}: {row['choices'][row['answer']]}"}
        agents = [span for span in others if span.span_type == "AGENT"]
        calls = [span for span in others if span.span_type == "CHAT_MODEL"]
        assert [span.name for span in agents] == ["intuitive, round 1", "reasoner, round 1"]
        assert [span.parent_id for span in agents] == [root.span_id] * 2
        assert [span.parent_id for span in calls] == [span.span_id for span in agents]
        for turn, agent, call in zip(row["transcript"], agents, calls, strict=True):
            assert agent.outputs["text"] == turn["text"]
            assert row["question"] in json.dumps(call.inputs["messages"])
            assert turn["text"] in call.outputs["choices"][0]["message"]["content"]
            usage = call.attributes["mlflow.chat.tokenUsage"]
            assert usage["input_tokens"] == turn["usage"]["prompt_tokens"]
            assert root.start_time_ns <= agent.start_time_ns <= call.start_time_ns
            assert call.start_time_ns < call.end_time_ns <= agent.end_time_ns <= root.end_time_ns
        assert trace.info.state == "OK"
        bills = [turn["usage"] for turn in row["transcript"]]
        tokens = sum(bill["prompt_tokens"] + bill["completion_tokens"] for bill in bills)
        assert trace.info.token_usage["total_tokens"] == tokens
        assert trace.info.tags["mlflow.traceName"] == row["question"]
        # the price is unknown, and not nothing
        assert "mlflow.trace.cost" not in trace.info.trace_metadata
        known = {one.name: one for one in trace.info.assessments}
        assert known.keys() == {"correct", "expected_response"}
        assert known["correct"].source.source_type == "CODE"
        assert known["correct"].feedback.value is row["correct"]
        gold = f"{row['gold']}: {row['choices'][row['gold']]}"
        assert known["expected_response"].expectation.value == gold
    wrong = {name for name, row in rows.items() if not row["correct"]}
    assert 0 < len(wrong) < len(rows)
    assert found(tmp_path / "out", "feedback.correct = 'false'").keys() == wrong
    places = [*tmp_path.rglob("*"), *Path(store.removeprefix("sqlite:///")).parent.rglob("*")]
    files = [path for path in places if path.is_file()]
    assert any(path.name == TRACES for path in files)
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def test_a_resumed_run_has_each_trace_once(scripted: ScriptedServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = traced(scripted.url, out, n=6, budget="5 calls", concurrency=2)
    assert 0 < first.summary.counts.rows < 6
    assert found(out).keys() == {row["id"] for row in first.rows}
    with open(out / BOOKS / TRACES, "ab") as file:
        file.write(b'{"row": {"id": "q5"')  # as a killed process leaves it
    traced(scripted.url, out, n=6)
    traced(scripted.url, out, n=6)
    assert found(out).keys() == {f"q{number}" for number in range(6)}


def test_a_failed_question_has_a_failed_trace(scripted: ScriptedServer, tmp_path: Path) -> None:
    out, reply = tmp_path / "out", scripted.reply

    def failing(body: Any) -> Any:
        if "Question 1?" in json.dumps(body):
            return 400, {}, {"error": {"message": "no such thing"}}
        return reply(body)

    scripted.reply = failing
    traced(scripted.url, out, n=3)
    trace = found(out)["q1"]
    assert trace.info.state == "ERROR"
    assert any(span.status.status_code == "ERROR" for span in trace.data.spans[1:])
    scripted.reply = reply
    traced(scripted.url, out, n=3, retry_errors=True)
    traces = found(out)
    assert len(traces) == 3
    assert traces["q1"].info.state == "OK"
    assert all(span.status.status_code == "OK" for span in traces["q1"].data.spans)


def test_a_trace_that_was_cut_off_from_its_spans_is_sent_again(scripted, tmp_path, monkeypatch):
    def away(*_: Any, **__: Any) -> None:
        raise OSError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(SqlAlchemyStore, "log_spans", away)
        patched.setattr("mlflow.MlflowClient.delete_traces", away)
        patched.setattr("folkmoot.pipelines.tracking.live.PAUSES", (0.0,))
        with pytest.warns(RuntimeWarning, match="the store is away"):
            traced(scripted.url, tmp_path / "out", n=3)
    push.push(tmp_path / "out")
    traces = found(tmp_path / "out").values()
    assert [len(trace.info.assessments) for trace in traces] == [2, 2, 2]
    assert all(trace.data.spans for trace in traces)


def test_a_database_takes_a_batch_in_one_transaction(scripted, tmp_path, monkeypatch):
    """Checked with MLflow 3.14 to 3.18, which by itself takes a transaction for each trace."""
    written: list[list[str]] = []
    log = traces_send._log

    def counted(*batch: Any) -> None:
        engine = traces_send.TracingClient(mlflow.get_tracking_uri()).store.engine
        statements: list[str] = []
        hooks: Any = [("before_cursor_execute", lambda *told: statements.append(told[2]))]
        hooks += [("commit", lambda _: statements.append("COMMIT"))]
        for name, hook in hooks:
            event.listen(engine, name, hook)
        log(*batch)
        for name, hook in hooks:
            event.remove(engine, name, hook)
        written.append(statements)

    monkeypatch.setattr(traces_send, "_log", counted)
    traced(scripted.url, tmp_path / "out", n=6)
    ((*statements, last),) = written
    assert last == "COMMIT"
    assert statements.count("COMMIT") == 1  # the experiment is read before
    assert sum("FROM experiments" in told for told in statements) == 2  # with its tags
    assert not any("request_preview=" in told for told in statements)


def test_traces_that_are_there_are_sent_whole(scripted: ScriptedServer, tmp_path: Path) -> None:
    """As when a process ends between the store's answer and the note of it."""
    traced(scripted.url, tmp_path / "out", n=3)
    cursor = tmp_path / "out" / BOOKS / CURSOR
    cursor.write_text(re.sub(r'"traces": [1-9]\d*', '"traces": 0', cursor.read_text()))
    assert push.push(tmp_path / "out").missing == {}
    traces = found(tmp_path / "out").values()
    assert [len(trace.info.assessments) for trace in traces] == [2, 2, 2]
    assert [len(trace.data.spans) for trace in traces] == [5, 5, 5]


def test_one_trace_that_is_refused_keeps_no_other_back(scripted, tmp_path, monkeypatch):
    def poisoned(record: Any, *rest: Any) -> Any:
        if record["row"]["id"] == "q2":
            raise ValueError("what is this?")
        return otel_spans(record, *rest)

    monkeypatch.setattr(traces_send, "otel_spans", poisoned)
    with pytest.warns(RuntimeWarning, match="traces .it refuses 1 of them: what is this"):
        traced(scripted.url, tmp_path / "out", n=5)
    assert found(tmp_path / "out").keys() == {"q0", "q1", "q3", "q4"}


def test_samples_asked_at_once_have_own_calls(scripted: ScriptedServer, tmp_path: Path) -> None:
    numbers = itertools.count()
    scripted.reply = lambda _: json.dumps({"reasoning": f"way {next(numbers)}", "answer": "A"})
    scripted.delay = lambda: random.random() / 50
    program, lm = fm.SingleAgent("self_consistency"), fm.lm("openai/x", api_base=scripted.url)
    out, about = tmp_path / "out", {"data": tmp_path.name}
    fm.evaluate(program, questions(1), lm=lm, out=out, traces=1, settings=about)
    (trace,) = found(out).values()
    agents = [span for span in trace.data.spans if span.span_type == "AGENT"]
    assert len(agents) == len({span.outputs["text"] for span in agents}) > 2
    for agent in agents:
        (call,) = (span for span in trace.data.spans if span.parent_id == agent.span_id)
        assert agent.outputs["text"] in call.outputs["choices"][0]["message"]["content"]


class Looks(dspy.Module):  # type: ignore[misc]
    """A DSPy module with an agent and a tool."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = dspy.ReAct("question -> answer", tools=[look_up])

    def forward(self, question: str) -> Any:
        return self.agent(question=question)


def look_up(thing: str) -> str:
    """Looks a thing up."""
    return f"{thing} is known"


def test_a_dspy_module_shows_its_own_steps(scripted: ScriptedServer, tmp_path: Path) -> None:
    steps = iter([("look_up", '{"thing": "it"}'), ("finish", "{}")])

    def reply(body: dict[str, Any]) -> Any:
        said = {"next_thought": "so", "reasoning": "so", "answer": "A"}
        if "next_tool_name" in json.dumps(body):
            name, given = next(steps)
            said |= {"next_tool_name": name, "next_tool_args": given}
        system = body["messages"][0]["content"].partition("output fields")[2]
        wanted = re.findall(r"`(\w+)`", system)
        names = [name for name in dict.fromkeys(wanted) if name in said]
        return "\n\n".join([f"[[ ## {name} ## ]]\n{said[name]}" for name in names])

    scripted.reply = reply
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    asked = [fm.Question(id="q0", question="Is it?", choices=["a", "b"], answer="A")]
    fm.evaluate(Looks(), asked, lm=lm, out=tmp_path / "out", progress=False)
    (trace,) = found(tmp_path / "out").values()
    spans = {span.span_id: span for span in trace.data.spans}

    def path(span: Any) -> str:
        above = spans.get(span.parent_id)
        return f"{path(above)}/{span.name}" if above else span.name

    paths = [path(span) for span in trace.data.spans]
    assert any(one.endswith("Looks/ReAct/look_up") for one in paths), paths
    assert any("ReAct/" in one and one.endswith("/openai/scripted") for one in paths), paths
    kinds = {path(span).rpartition("/")[2]: span.span_type for span in trace.data.spans}
    assert kinds["ReAct"] == "AGENT"
    assert (kinds["look_up"], kinds["Predict"]) == ("TOOL", "LLM")
    (react,) = (span for span in trace.data.spans if span.name == "ReAct")
    assert react.outputs["answer"] == "A", "the fields, as MLflow's own traces show them"
    assert not any("foreign" in one.casefold() for one in paths)


@pytest.mark.skipif(
    not hasattr(mlflow.genai, "compare_evaluations"), reason="MLflow compares runs from 3.18 on"
)
def test_mlflows_own_comparison_agrees(scripted: ScriptedServer, tmp_path: Path) -> None:
    """MLflow 3.18 pairs the traces of two runs by their inputs, and tests what is `correct`."""
    known: Any = {"choices": ["a", "b"], "answer": "A"}
    asked = [fm.Question(id=f"q{n}", question=f"Is it {n}?", **known) for n in range(40)]
    runs = {}
    for name, share in (("worse", 20), ("better", 36)):

        def reply(body: dict[str, Any], share: int = share) -> str:
            number = int(re.findall(r"Is it (\d+)", str(body))[-1])
            return json.dumps({"answer": "A" if number < share else "B"})

        scripted.reply, lm = reply, fm.lm("openai/scripted", api_base=scripted.url)
        given: Any = {"out": tmp_path / name, "cache": False, "progress": False}
        runs[name] = fm.evaluate("single:simple", asked, lm=lm, **given)
    (ours,) = fm.compare(runs["worse"], runs["better"], exact=True)
    theirs = mlflow.genai.compare_evaluations(runs["better"].run_id, runs["worse"].run_id)
    judged = theirs.scorers["correct"]
    assert judged.diff == pytest.approx(ours.difference)
    assert judged.p_value == pytest.approx(ours.p)
