"""Folders that folkmoot wrote before its parts were moved: each is loaded, gone on with or clearly refused.

`saved/before-house` was written by the commit a9e594c and is never made anew: users have such folders on
disk. Only what users have is used here: `import folkmoot`, the command line, and the scripted LM.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from before_house import ADDRESS, SPACE, TEAM, Relay, questions, reply, vector_of
from cli_helpers import folkmoot, isolate, rows_of

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

FOLDERS = Path(__file__).parents[1] / "saved" / "before-house"
EXPECTED: dict[str, Any] = json.loads((FOLDERS / "expected.json").read_text())
LM = ["--lm", "openai/scripted", "--api-base", ADDRESS]
STEADY = ["--no-track", "--no-cache", "--concurrency", "1"]
CALLS = ("calls.jsonl", "ledger.jsonl", "proposals.jsonl")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Copies the folder of a kind and makes it the working folder; its embedding model is stood in for."""
    isolate(tmp_path, monkeypatch)
    monkeypatch.setattr(
        "folkmoot.pipelines.data.embeddings.Embedder._encode",
        lambda self, texts: np.array([vector_of(text) for text in texts], dtype=np.float32),
    )

    def copied(kind: str) -> Path:
        place = shutil.copytree(FOLDERS / kind, tmp_path / kind)
        monkeypatch.chdir(place)
        return place

    return copied


@pytest.fixture
def served() -> Iterator[ScriptedServer]:
    """The LM that the folders know, at its address."""
    with ScriptedServer(reply) as server, Relay(server.port):
        yield server


def lm(address: str = ADDRESS) -> Any:
    return fm.lm("openai/scripted", api_base=address)


def printed(*words: Any, code: int = 0) -> Any:
    """What the command prints as JSON."""
    done = folkmoot(*words, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def paid(folder: str | Path) -> dict[str, bytes]:
    """Every record of calls and bills under the folder."""
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.name in CALLS}


def lines(folder: str | Path) -> list[str]:
    return (Path(folder) / "results.jsonl").read_text().splitlines()


def answers(rows: Any) -> dict[str, Any]:
    rows = list(rows)
    assert all(row["error"] is None for row in rows)
    return {row["id"]: row["answer"] for row in rows}


def rounded(value: Any) -> Any:
    """The value with its floats at twelve digits: limits that are found by search differ in the last ones."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def refused(act: Callable[[], Any], said: str) -> None:
    """Fail unless it raises a UserError that says so in one sentence."""
    with pytest.raises(fm.UserError, match=said) as problem:
        act()
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 500


# Runs -------------------------------------------------------------------------------------------------------

RUN = ["evaluate", TEAM, "--set", "max_rounds=2", "--data", "questions.jsonl", *LM, *STEADY]


def deliberation() -> Any:
    return fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=2)


def evaluated(out: str, program: Any = None, address: str = ADDRESS, **options: Any) -> Any:
    given = {"cache": False, "tracking": False, "concurrency": 1, **options}
    return fm.evaluate(program or deliberation(), questions(0, 6), lm=lm(address), out=out, **given)


def test_a_finished_run_stands_as_it_is(home: Any) -> None:
    home("evaluate")
    before, rows = paid("finished"), lines("finished")
    run = evaluated("finished")
    assert answers(run.rows) == EXPECTED["evaluate"]["answers"]
    assert rounded(run.summary.scores["accuracy"]) == rounded(EXPECTED["evaluate"]["accuracy"])
    shown = printed(*RUN, "--out", "finished")["scores"]["accuracy"]
    assert rounded(shown) == rounded(EXPECTED["evaluate"]["accuracy"])
    assert (paid("finished"), lines("finished")) == (before, rows)


@pytest.mark.parametrize("way", ["python", "command"])
def test_a_stopped_run_goes_on_and_asks_nothing_again(home: Any, served: ScriptedServer, way: str) -> None:
    home("evaluate")
    known = EXPECTED["evaluate"]
    kept = lines("stopped")
    assert [json.loads(line)["id"] for line in kept] == known["stopped"]["rows"]
    if way == "python":
        assert evaluated("stopped").summary.stopped is None
    else:
        printed(*RUN, "--out", "stopped")
    assert lines("stopped")[: len(kept)] == kept
    assert answers(rows_of(Path("stopped"))) == known["answers"]
    assert len(served.bodies) == known["calls"] - known["stopped"]["calls"]
    summary = json.loads(Path("stopped/summary.json").read_text())
    assert rounded(summary["scores"]["accuracy"]) == rounded(known["accuracy"])
    assert summary["paid"]["calls"] == known["calls"]


def test_a_budget_counts_what_was_paid_before(home: Any, served: ScriptedServer) -> None:
    home("evaluate")
    assert evaluated("stopped", budget="12 calls").summary.stopped
    assert len(served.bodies) == 12 - EXPECTED["evaluate"]["stopped"]["calls"]


def test_a_folder_of_another_run_is_refused(home: Any) -> None:
    home("evaluate")
    refused(lambda: evaluated("finished", fm.SingleAgent("cot")), "another run .its program differs")
    refused(lambda: evaluated("finished", address="http://127.0.0.1:9/v1"), "another run .its LM differs")
    given = {"lm": lm(), "out": "finished", "tracking": False}
    refused(lambda: fm.evaluate(deliberation(), questions(1, 6), **given), "its data differs")


def test_runs_are_compared_and_reported(home: Any) -> None:
    home("evaluate")
    (pair,) = fm.compare("single", "finished").pairs
    assert len(pair.only_a) + len(pair.only_b) <= pair.n == 6
    assert "finished" in json.dumps(printed("compare", "single", "finished"))
    page = fm.report(["single", "finished"], tracking=False)
    assert page.path.stat().st_size > 10_000
    half = fm.compare("single", "stopped")
    assert half.pairs[0].n == len(EXPECTED["evaluate"]["stopped"]["rows"])


def test_a_recorded_run_is_replayed_without_a_call(home: Any) -> None:
    home("evaluate")
    given = {"lm": fm.lm("replay/finished"), "out": "again", "tracking": False, "cache": False}
    run = fm.evaluate(deliberation(), questions(0, 6), **given)
    assert answers(run.rows) == EXPECTED["evaluate"]["answers"]


# Tracked runs -----------------------------------------------------------------------------------------------

TWO = ("finished", "stopped")
TRACKED = ["evaluate", TEAM, "--set", "max_rounds=1", "--data", "questions.jsonl", *LM]
TRACKED += ["--no-cache", "--concurrency", "1", "--out"]


@pytest.fixture
def tracked(home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of the MLflow store of two runs, from the dump of its `mlflow.db`."""
    folder = home("tracked")
    dump = (folder / "mlflow.sql").read_text().replace("/home/somebody/folkmoot", str(folder))
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        database.executescript(dump)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
    return pytest.importorskip("mlflow").MlflowClient()


def logged(client: Any, out: str) -> Any:
    """The MLflow run of a folder; there is no other that the folders do not know."""
    known = {name: json.loads(Path(name, "run.json").read_text())["mlflow_run_id"] for name in TWO}
    experiments = [each.experiment_id for each in client.search_experiments()]
    assert {run.info.run_id for run in client.search_runs(experiments)} == set(known.values())
    return client.get_run(known[out])


def test_a_finished_tracked_run_stands_as_it_is(tracked: Any) -> None:
    before, noted = paid("finished"), logged(tracked, "finished")
    assert printed(*TRACKED, "finished")["stopped"] is None
    again = logged(tracked, "finished")
    assert again.info.status == noted.info.status == "FINISHED"
    assert again.data.metrics.items() >= noted.data.metrics.items()
    assert again.data.params.items() >= noted.data.params.items()
    for part in ("inputs", "outputs"):
        assert getattr(again, part).to_dictionary() == getattr(noted, part).to_dictionary()
    assert paid("finished") == before


def test_a_logged_program_of_an_old_store_answers(tracked: Any, served: ScriptedServer) -> None:
    (kept,) = logged(tracked, "finished").outputs.model_outputs
    model = pytest.importorskip("mlflow").pyfunc.load_model(
        f"models:/{kept.model_id}", model_config={"api_base": ADDRESS}
    )
    asked = [{"question": one.question, "choices": one.choices} for one in questions(0, 6)]
    found = model.predict(asked)
    assert list(found["answer"]) == list(EXPECTED["tracked"]["answers"].values())
    assert len(served.bodies) == EXPECTED["tracked"]["calls"]


def test_a_stopped_tracked_run_goes_on_in_its_mlflow_run(tracked: Any, served: ScriptedServer) -> None:
    assert logged(tracked, "stopped").info.status == "KILLED"
    sent = json.loads(Path("stopped/traces_sent.json").read_text())
    printed(*TRACKED, "stopped")
    known, run = EXPECTED["tracked"], logged(tracked, "stopped")
    assert len(served.bodies) == known["stopped"]["calls"] - known["stopped"]["paid"]
    assert (run.info.status, run.data.metrics["rows"]) == ("FINISHED", 6)
    assert answers(rows_of(Path("stopped"))) == known["answers"]
    traces = tracked.search_traces(locations=[run.info.experiment_id], run_id=run.info.run_id)
    assert len(traces) == 6
    again = json.loads(Path("stopped/traces_sent.json").read_text())
    assert (again["run_id"], again["offset"] > sent["offset"]) == (sent["run_id"], True)


# Compilations -----------------------------------------------------------------------------------------------


def compiled(name: str, **options: Any) -> Any:
    given = {"lm": lm(), "out": name, "cache": False, "concurrency": 1, "tracking": False, **options}
    program = fm.SingleAgent("simple" if name == "copro" else "cot")
    return fm.compile(program, questions(0, 5), questions(8, 10), optimizer=name, **given)


def check_compiled(program: Any, name: str) -> None:
    result, known = program.compilation, EXPECTED[f"compile/{name}"]
    assert (result.winner, result.verdict, result.stopped) == (known["winner"], known["verdict"], None)
    assert result.after["scores"]["accuracy"]["value"] == known["after"]
    assert result.calls_made == known["calls"]


def test_a_finished_compilation_stands_as_it_is(home: Any) -> None:
    home("compile")
    before = paid("bootstrap")
    program = compiled("bootstrap")
    check_compiled(program, "bootstrap")
    assert paid("bootstrap") == before
    assert fm.load_program("bootstrap/program").describe() == program.describe()
    refused(lambda: compiled("bootstrap", seed=1), "another compilation .*seed")


def test_an_interrupted_compilation_goes_on(home: Any, served: ScriptedServer) -> None:
    home("compile")
    fm.load_program("copro/program")
    program = compiled("copro")
    check_compiled(program, "copro")
    assert len(served.bodies) == EXPECTED["compile/copro"]["calls"] - EXPECTED["compile/copro"]["paid"]


# Studies ----------------------------------------------------------------------------------------------------


def tuned(out: str, space: Any = SPACE, **options: Any) -> Any:
    given = {"lm": lm(), "trials": 3, "sampler": "tpe", "concurrency": 1, "cache": False, "tracking": False}
    return fm.tune(space, questions(0, 5), questions(12, 14), out=out, **{**given, **options})


def check_study(study: Any, known: Any) -> None:
    best = study.report["best"]
    assert best["setting"] == known["setting"]
    assert best["scores"]["accuracy"]["value"] == known["accuracy"]
    assert study.validation.accuracy == known["validation"]
    assert sum("scores" in each for each in study.trials) == known["scored"]
    assert study.report["paid"]["calls"] == known["calls"]
    assert study.report["stopped"] is None


def test_a_finished_study_stands_as_it_is(home: Any) -> None:
    home("tune")
    before, report = paid("finished"), json.loads(Path("finished/study.json").read_text())
    study = tuned("finished")
    check_study(study, EXPECTED["tune"]["finished"])
    assert rounded(study.trials) == rounded(report["table"])
    assert paid("finished") == before
    assert fm.load_program("finished/winner").describe() == study.best.describe()
    refused(lambda: tuned("finished", {**SPACE, "max_rounds": 2}), "another study|other")


def test_a_stopped_study_goes_on(home: Any, served: ScriptedServer) -> None:
    home("tune")
    done = [one for one in json.loads(Path("stopped/study.json").read_text())["table"] if "scores" in one]
    study = tuned("stopped", budget="2000 calls")
    known = EXPECTED["tune"]["stopped"]
    check_study(study, known)
    assert len(served.bodies) == known["calls"] - known["paid"]
    assert done
    assert all(rounded(one) in rounded(study.trials) for one in done)


def test_a_study_whose_workers_were_killed_goes_on(home: Any, served: ScriptedServer) -> None:
    """One was killed before it asked anything in trial 1; the next took it up, and was killed in trial 2."""
    home("tune")
    study, known = tuned("killed"), EXPECTED["tune"]["killed"]
    check_study(study, known)
    assert len(served.bodies) == known["calls"] - known["paid"]
    assert [entry["place"] for entry in study.trials if "lost" in entry] == [1, 2]
    table = [[each["place"], each["state"], each["setting"]] for each in study.trials]
    assert [each for each in table if each[1] != "given back"] == known["table"]


def test_a_study_is_continued_with_more_trials(home: Any, served: ScriptedServer) -> None:
    home("tune")
    trials = tuned("finished").trials
    assert tuned("finished", trials=4).trials[: len(trials)] == trials


# Distillations ----------------------------------------------------------------------------------------------


def test_a_distillation_stands_as_it_is(home: Any, scripted: ScriptedServer) -> None:
    home("distil")
    before, known = paid("."), EXPECTED["distil"]
    report = json.loads(Path("found/distil.json").read_text())
    found = fm.distil("team", lm=lm(), margin=0.1, out="found", cache=False, tracking=False, concurrency=1)
    assert (found.keep, found.report["chosen"]) == (known["keep"], known["chosen"])
    for name in ("candidates", "programs", "parts", "sentences"):
        assert rounded(found.report[name]) == rounded(report[name]), name
    shown = printed("distil", "team", "--margin", 10, *LM, *STEADY, "--out", "found")
    assert shown["keep"] == known["keep"]
    assert paid(".") == before
    refused(lambda: fm.distil("team", lm=lm(), margin=0.2, out="found", tracking=False), "margin")
    scripted.reply = reply
    for name in ("single", "router"):
        program = fm.load_program(f"found/{name}")
        run = fm.evaluate(program, questions(0, 2), lm=lm(scripted.url), tracking=False, cache=False)
        assert set(answers(run.rows)) == {"q0", "q1"}


# Reproductions ----------------------------------------------------------------------------------------------


def test_a_stopped_reproduction_goes_on(
    home: Any, served: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home("reproduce")
    monkeypatch.setenv("FOLKMOOT_DATA", "data")
    spec, known = "agents-of-commonsense/table-1/mistral-7b", EXPECTED["reproduce"]
    found = printed("reproduce", spec, "--limit", 3, *LM, *STEADY, "--out", "out")
    assert found["stopped"] is None
    assert [[line["row"], line["n"], line["measured"]] for line in found["rows"]] == [
        [row, n, pytest.approx(value)] for row, n, value in known["lines"]
    ]
    assert len(served.bodies) == known["calls"] - known["paid"]
    given = {"api_base": ADDRESS, "limit": 3, "out": "out", "tracking": False, "cache": False}
    assert [line.measured for line in fm.reproduce(spec, lm="openai/scripted", **given).lines] == [
        line["measured"] for line in found["rows"]
    ]
    assert len(served.bodies) == known["calls"] - known["paid"]


# Programs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(EXPECTED["programs"]))
def test_a_saved_program_loads_and_asks_as_it_did(
    name: str, home: Any, tmp_path: Path, scripted: ScriptedServer
) -> None:
    home("programs")
    scripted.reply = reply
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other versions of what it was saved with
        program = fm.load_program(name)
    saved = json.loads(Path(name, "program.json").read_text())
    assert saved["program"].items() <= program.describe().items()
    run = fm.evaluate(program, questions(30, 32), lm=lm(scripted.url), tracking=False, cache=False)
    known = EXPECTED["programs"][name]
    assert list(answers(run.rows).values()) == known["answers"]
    assert run.summary.usage["calls"] == known["calls"]
    program.save(tmp_path / "again")
    again = json.loads((tmp_path / "again" / "program.json").read_text())
    assert (again["predictors"], again["program_hash"]) == (saved["predictors"], saved["program_hash"])


def test_dspys_own_state_file_loads(home: Any) -> None:
    home("programs")
    program = fm.Deliberation(["intuitive", "reasoner"], max_rounds=1)
    program.load("state.json")
    assert [demo["question"] for demo in program.seats()["judge"].predict.demos] == ["Question 20?"]


def test_what_was_looked_up_is_replayed(home: Any, scripted: ScriptedServer) -> None:
    home("programs")
    scripted.reply = reply
    looked_up = fm.ReplayEnvironment("looked-up.jsonl")
    program = fm.SingleAgent(role="retriever", environment=looked_up, retrieval="question")
    fm.evaluate(program, questions(30, 31), lm=lm(scripted.url), tracking=False, cache=False)
    assert [body["messages"] for body in scripted.bodies] == [EXPECTED["looked_up"]]
    assert "A bank keeps money." in json.dumps(EXPECTED["looked_up"])


# MLflow -----------------------------------------------------------------------------------------------------


def test_an_mlflow_model_loads_and_answers(home: Any, scripted: ScriptedServer) -> None:
    home("mlflow")
    scripted.reply = reply
    mlflow = pytest.importorskip("mlflow")
    model = mlflow.pyfunc.load_model("model", model_config={"api_base": scripted.url})
    assert type(model.unwrap_python_model().program) is fm.Deliberation
    asked = questions(0, 2)
    found = model.predict([{"question": one.question, "choices": one.choices} for one in asked])
    assert found["error"].isna().all()
    assert list(found["answer"]) == ["A", "B"]
    assert {body["model"] for body in scripted.bodies} <= {"scripted", "wise"}
