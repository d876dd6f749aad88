"""Runs become logs of other tools: what these read of them, and that an import gives the
same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import folkmoot as fm
from folkmoot.pipelines.cli.app import app
from folkmoot.pipelines.testing.replies import filled
from folkmoot.pipelines.testing.server import ScriptedServer


def reply(body: dict[str, Any]) -> Any:
    text = str(body["messages"])
    if "refused" in text:
        return 400, {}, {"error": {"message": "no"}}
    return filled(body, "B" if "reason" in text else "A", "it “fits”")


def questions() -> list[fm.Question]:
    choices = {"A": "<pot>", "B": "bank"}
    asked = ["soup?", "money?", "refused?", "a/b?"]
    return [
        fm.Question(
            id=f"dir/{place}",
            question=text,
            choices=choices,
            answer="A",
            meta={"subject": text, "n": place},
        )
        for place, text in enumerate(asked)
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fm.Evaluation]:
    folder = tmp_path_factory.mktemp("runs")
    spans = [
        fm.Question(id="s", question="Which city?", answer="A"),
        fm.Question(id="t", question="?", answer="C d"),
    ]
    numbers = [fm.Question(id=f"n{place}", question="How many?", answer="7") for place in range(2)]
    with ScriptedServer(reply) as server:
        lm = fm.lm("openai/scripted", api_base=server.url)

        def run(name: str, program: Any, data: Any, **more: Any) -> fm.Evaluation:
            out = folder / name
            return fm.evaluate(
                program, data, lm=lm, out=out, tracking=False, settings={"data": "d.csv"}, **more
            )

        team = fm.Deliberation(["intuitive", "reasoner"], max_rounds=2, tie_break="majority")
        return {
            "team": run("team", team, questions()),
            "one": run("one", fm.SingleAgent("cot"), questions()),
            "spans": run("spans", fm.SingleAgent("simple"), spans),
            "unread": run("unread", fm.SingleAgent("simple"), numbers),
            "f1": run("f1", fm.SingleAgent("simple"), spans, metric="f1"),
            "exact": run("exact", fm.SingleAgent("simple"), [*questions(), *spans], metric="exact"),
        }


@pytest.mark.parametrize("name", ["team", "one", "spans", "unread", "f1", "exact"])
@pytest.mark.parametrize("format", ["inspect", "jsonl", "csv"])
def test_an_export_is_imported_with_the_same_answers(
    name: str, format: str, runs: dict[str, fm.Evaluation], tmp_path: Path
) -> None:
    run = runs[name]
    logs = fm.export_log(run, tmp_path / "logs", format)
    before = logs[0].read_bytes()
    assert fm.export_log(run.folder, tmp_path / "logs", format) == logs
    assert logs[0].read_bytes() == before
    if name == "f1" and format != "inspect":  # tables have no column for such scores
        return
    ((agent, back),) = fm.import_log(logs, tmp_path / "back").runs.items()
    assert agent.startswith("openai/scripted ")
    assert back.score == run.score
    for field in ("id", "question", "gold", "answer", "error"):
        assert [row[field] for row in back.rows] == [row[field] for row in run.rows]  # type: ignore[literal-required]


def test_an_imported_run_is_exported_and_what_is_not_known_stays_so(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(
        "question_id,agent,strategy,answer,correct\nq1,a: b/c,cot,4,1\nq2,a: b/c,cot,5,0\n"
    )
    (run,) = fm.import_log(table, tmp_path / "in").runs.values()
    (log,) = fm.export_log(tmp_path / "in", tmp_path / "logs")
    (back,) = fm.import_log(log).runs.values()
    for field in ("id", "answer", "correct", "usage", "seconds", "gold"):
        assert [row[field] for row in back.rows] == [row[field] for row in run.rows]  # type: ignore[literal-required]
    assert back.summary.run["imported"]["strategy"] == "cot"
    with zipfile.ZipFile(log) as packed:
        sample = json.loads(packed.read("samples/q1_epoch_1.json"))
    assert sample["model_usage"] == {}
    assert "total_time" not in sample


def read_eval(path: Path) -> Callable[[str], Any]:
    packed = zipfile.ZipFile(path)
    return lambda name: json.loads(packed.read(name))


def test_a_log_of_inspect(runs: dict[str, fm.Evaluation], tmp_path: Path) -> None:
    run = runs["team"]
    (path,) = fm.export_log(run, tmp_path)
    log = read_eval(path)
    header, sample = log("header.json"), log("samples/dir/0_epoch_1.json")
    assert header["results"]["scores"][0]["metrics"]["accuracy"]["value"] == run.accuracy
    assert header["eval"]["model"] == "openai/scripted"
    assert "intuitive, reasoner" in header["eval"]["solver"]
    assert (
        header["stats"]["model_usage"]["openai/scripted"]["input_tokens"]
        == run.summary.usage["prompt_tokens"]
    )
    said = [one["content"].splitlines()[0] for one in sample["messages"]]
    assert said[:3] == ["soup?", "intuitive, round 1:", "reasoner, round 1:"]
    assert sample["scores"]["accuracy"]["value"] == "I"
    assert log("samples/dir/2_epoch_1.json")["error"]["message"]
    assert [one["id"] for one in log("summaries.json")] == [row["id"] for row in run.rows]
    (path,) = fm.export_log(runs["unread"], tmp_path)
    assert read_eval(path)("samples/n0_epoch_1.json")["scores"]["accuracy"]["value"] == "N"
    (path,) = fm.export_log(runs["f1"], tmp_path)
    assert (
        read_eval(path)("header.json")["results"]["scores"][0]["metrics"]["mean"]["value"]
        == runs["f1"].score
    )


@pytest.mark.parametrize("format", ["inspect", "jsonl", "csv"])
def test_half_a_surrogate_pair_and_long_names_stop_no_export(format: str, tmp_path: Path) -> None:
    row = {
        "question_id": "q\ud83d",
        "agent": "a" * 150,
        "strategy": "s" * 150,
        "answer": "x",
        "correct": True,
    }
    table = tmp_path / "t.jsonl"
    table.write_text(json.dumps(row | {"text": "so \ud83d it is", "question": "what? \udc00"}))
    (run,) = fm.import_log(table).runs.values()
    (log,) = fm.export_log(run, tmp_path / "out", format)
    (back,) = fm.import_log(log).runs.values()
    assert (back.rows[0]["id"], back.rows[0]["transcript"][0]["text"]) == ("q?", "so ? it is")


def test_the_command_and_its_faults(runs: dict[str, fm.Evaluation], tmp_path: Path) -> None:
    called = CliRunner().invoke(
        app, ["export", str(runs["one"].folder), "--out", str(tmp_path), "--json"]
    )
    assert called.exit_code == 0, called.output
    assert json.loads(called.stdout)["logs"] == [str(tmp_path / "one.eval")]
    with pytest.raises(fm.UserError, match="the formats are inspect, jsonl, csv"):
        fm.export_log(runs["one"], tmp_path, "html")
    assert fm.export_log(runs["one"], tmp_path / "new" / "mine.eval") == [
        tmp_path / "new" / "mine.eval"
    ]
    with pytest.raises(fm.UserError, match="names one log, and 2 runs are given"):
        fm.export_log([runs["one"], runs["team"]], tmp_path / "mine.eval")
    with pytest.raises(fm.UserError, match="no run is given"):
        fm.export_log([], tmp_path)
    with pytest.raises(fm.UserError, match="there is no folder"):
        fm.export_log(tmp_path / "none", tmp_path)


READ = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries, recompute_metrics
log = read_eval_log(sys.argv[1])
before = log.results.scores[0].metrics["accuracy"].value
recompute_metrics(log)
print(json.dumps([before, log.results.scores[0].metrics["accuracy"].value, len(log.samples),
    len(read_eval_log_sample_summaries(sys.argv[1])), [s.error is not None for s in log.samples]]))
"""


@pytest.mark.nightly
def test_inspect_itself_reads_the_log(runs: dict[str, fm.Evaluation], tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "inspect_ai"], capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip(f"inspect_ai cannot be installed: {installed.stderr[-200:]}")
    run = runs["team"]
    (log,) = fm.export_log(run, tmp_path)
    said = subprocess.run(
        [python, "-c", READ, log], capture_output=True, text=True, check=True
    ).stdout
    errors = [row["error"] is not None for row in run.rows]
    assert json.loads(said) == [run.accuracy, run.accuracy, len(errors), len(errors), errors]
