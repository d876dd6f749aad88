"""Pipelines: one file, steps that start from what the one before made, one budget, one folder."""

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import mlflow
import pytest
import yaml
from children import wait_for_requests
from cli_helpers import child, folkmoot, isolate, write
from refusals import refused
from stores import new_store

import folkmoot as fm
from folkmoot.modules.protocols.saved import hashes
from folkmoot.pipelines.lms.ledger import totals
from folkmoot.pipelines.pipeline.card import KIND
from folkmoot.pipelines.runs.study_file import StudyReport
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning.report import effect_lines

TEAM = "deliberation:intuitive,reasoner:judge"
OWN_ROLES = ("lawyer", "clerk")
TUNED = "tune-2-deliberation-intuitive-reasoner-judge"
SPACE = {"max_rounds": [1, 2], "tie_break": ["judge", "majority"]}


def steps_in(folder: Path) -> list[Path]:
    """The folders of the steps that have begun, in their order."""
    return KIND.card(folder).children


def rows(first: int, count: int) -> list[dict[str, Any]]:
    choices = {"A": "a flask", "B": "a sieve", "C": "a net"}
    text = "May a tenant keep {} dogs?"
    numbers = range(first, first + count)
    rows = [{"id": f"q{n}", "question": text.format(n), "answer": "ABC"[n % 3]} for n in numbers]
    return [{**row, "choices": choices} for row in rows]


@pytest.fixture
def document(tmp_path: Path, scripted: ScriptedServer) -> dict[str, Any]:
    write(tmp_path / "train.jsonl", *rows(0, 24))
    write(tmp_path / "test.jsonl", *rows(100, 16))
    data = {"train": str(tmp_path / "train.jsonl"), "test": str(tmp_path / "test.jsonl")}
    asked = {"data": data, "lm": "openai/scripted", "api_base": scripted.url}
    steps = {"compile": {"optimizer": "bootstrap"}, "tune": {"space": SPACE, "trials": 2}}
    return {**asked, "programs": ["single:cot", TEAM], **steps, "contest": {"margin": 5}}


def run(document: dict[str, Any], **given: Any) -> Any:
    return fm.pipeline(document, **{"tracking": False, "progress": False, **given})


def test_each_step_starts_from_what_the_one_before_made(document, tmp_path, scripted):
    out = tmp_path / "out"
    result = run(document, out=out)
    asked = len(scripted.bodies)
    again = run(document, out=out)
    assert (again.winner, again.sentences) == (result.winner, result.sentences)
    assert (again.calls, len(scripted.bodies)) == (result.calls, asked)
    refused("holds another pipeline", run, {**document, "seed": 1}, out=out)
    write(tmp_path / "train.jsonl", *rows(0, 23))
    refused("its data differs", run, document, out=out)
    for folder in steps_in(out)[:3]:  # no question of the test is learned from
        for file in folder.rglob("results.jsonl"):
            ids = {json.loads(line)["id"] for line in file.read_text().splitlines()}
            assert not ids & {row["id"] for row in rows(100, 16)}
    team = "compile-2-deliberation-intuitive-reasoner-judge"
    names = [folder.name for folder in steps_in(out)]
    assert names == ["compile-1-single-cot", team, TUNED, "contest"]
    study = (steps_in(out)[2] / "study.json").read_text()
    assert "compile-2-deliberation" in study
    report = json.loads(study)
    by_choice = {effect["choice"]: effect for effect in report["effects"]}
    assert set(by_choice) == set(SPACE)
    # The scripted LM answers alike whatever is set; replays make pairs of all settings.
    for effect in by_choice.values():
        assert (effect["difference"], effect["questions"]) == (0, 17)
        assert effect["pairs"] > 0
    effect = effect_lines(StudyReport.of(report))[0]
    assert effect.startswith("max_rounds 2 instead of 1: 0.0 points [")
    contest = json.loads((out / "contest" / "contest.json").read_text())
    assert set(contest["field"]) == {"one prompt", "one prompt, 3 times", "single:cot", TEAM}
    known = (("single:cot", "compile-1-single-cot/program"), (TEAM, f"{TUNED}/winner"))
    for name, program in known:
        made = fm.load_program(out / program)
        assert contest["field"][name]["program_hash"] == hashes(made)["program_hash"]
    assert result.winner in ("one prompt", "single:cot", TEAM)
    assert isinstance(fm.load_program(out), fm.Program)
    assert len(result.sentences) == 4
    assert all(line.endswith(".") for line in result.sentences)
    paid = totals(*steps_in(out))
    assert result.calls == paid.calls > 0
    page = fm.report(out, tracking=False)  # the contest's verdict, and the runs of other steps
    assert page.headline.startswith("Take ")
    assert len(page.figures["groups"]) > 1
    card = result.card
    assert (card.calls, len(card.children), card.kind) == (paid.calls, 4, "pipeline")


@pytest.mark.nightly
def test_what_the_contest_adds_runs_beside_it(document: dict[str, Any], tmp_path: Path) -> None:
    del document["tune"], document["compile"]
    for programs in (["single:cot"], ["single:cot", TEAM]):
        out = tmp_path / str(len(programs))
        run({**document, "programs": programs, "contest": {"added": ["single:simple"]}}, out=out)
        field = json.loads((out / "contest" / "contest.json").read_text())["field"]
        assert {*programs, "single:simple"} <= set(field)


def test_steps_share_a_budget_and_more_goes_on(document: dict[str, Any], tmp_path: Path) -> None:
    short = run({**document, "budget": "120 calls"}, out=tmp_path / "out")
    assert 0 < short.calls <= 120
    assert re.search(r"stopped early: .*; the next step began .* --out$", str(short.stopped))
    longer = run({**document, "budget": "2000 calls"}, out=tmp_path / "out")
    assert longer.sentences[1:] == short.sentences[1:]
    assert short.calls < longer.calls <= 2000
    assert longer.winner is not None


@pytest.mark.parametrize("fails_in", [0, pytest.param(100, marks=pytest.mark.nightly)])
def test_a_pipeline_goes_on_where_the_account_was_empty_from_the_start_of_a_step(
    fails_in, document, tmp_path, scripted
):
    """Of the compilation (0), or of the contest (100), before anything is answered there."""
    answer = scripted.reply
    broke = 402, {}, {"error": {"message": "the account is empty", "type": "insufficient_quota"}}
    questions = [row["question"] for row in rows(fails_in, 24)]
    asks = re.compile("|".join(map(re.escape, questions)))
    scripted.reply = lambda body: broke if asks.search(str(body["messages"])) else answer(body)
    document |= {"concurrency": 1, "programs": ["single:cot"]}
    del document["tune"]
    with pytest.raises(Exception, match="the account is empty"):
        run(document, out=tmp_path / "out")
    assert not (tmp_path / "out" / "winner").exists()
    scripted.reply = answer
    done = run(document, out=tmp_path / "out")
    assert (done.stopped, len(done.sentences)) == (None, 2)


@pytest.mark.nightly
def test_a_pipeline_whose_endpoint_fails_pauses_and_has_no_winner(document, tmp_path, scripted):
    answer = scripted.reply
    broke = 402, {}, {"error": {"message": "the account is empty", "type": "insufficient_quota"}}
    of_contest = [row["question"] for row in rows(100, 16)]
    asked = []

    def empty_after_some(body: dict[str, Any]) -> Any:
        if any(text in str(body["messages"]) for text in of_contest):
            asked.append(body)
        return broke if len(asked) > 12 else answer(body)

    scripted.reply = empty_after_some
    # One call at a time: else the account may be empty before the first answer is noted.
    document["concurrency"] = 1
    paused = run(document, out=tmp_path / "out")
    assert (paused.paused, paused.winner) == (True, None)
    assert "paused" in str(paused.stopped)
    assert not (tmp_path / "out" / "winner").exists()
    scripted.reply = answer
    done = run(document, out=tmp_path / "out")
    assert (done.paused, done.stopped, len(done.sentences)) == (False, None, 4)
    assert done.sentences[1:] == paused.sentences[1:]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"program": []}, r"unknown key 'program' \(did you mean 'programs'\?\)"),
        ({"compile": {"optimiser": "x"}}, r"compile has an unknown key 'optimiser' \(did you mean"),
        ({"data": {"test": "x"}}, "data has no train"),
        ({"data": {"training": "x"}}, r"unknown key 'training' \(did you mean 'train'"),
        ({"programs": []}, "give a list of different programs"),
        ({"programs": "single:cot"}, "give a list of different programs"),
        ({"programs": ["single:cot"] * 2}, "give a list of different programs"),
        ({"contest": {"margin": 5, "seed": "one"}}, "seed is 'one': give a whole number"),
        ({"tune": {"trials": 0}}, "tune: trials is 0: give a whole number of at least 1"),
        ({"compile": "bootstrap"}, "give its options"),
        ({"compile": False}, "compile is False: give its options, .* or leave the key out"),
        ({"programs": ["single:cot", {"program": "single"}]}, "give a list of different programs"),
        ({"register": 5}, "the model cannot be registered as 5"),
        ({"tune": {"space": "max_rounds"}}, "give parameters of the pipeline's programs"),
        ({"tune": {"space": {"program": "single"}}}, "give parameters of the pipeline's programs"),
        ({"tune": {"space": {"max_rouns": [1]}}}, r"be tuned: .*\(did you mean 'max_rounds'\?\)"),
        (
            {"tune": {"space": {"strategy": ["cot", "simple"]}}, "programs": ["single:cot"]},
            "with strategy set, the program in single:cot would have other agents",
        ),
        ({"lm_set": ["jugde.top_p=0.5"]}, "there is no agent 'jugde'"),
        ({"lm": {"*": "openai/scripted", "jugde": "openai/m"}}, "jugde its own LM, and no program"),
        ({"register": "x"}, "register needs MLflow"),
        ({"contest": {"with": ["single:cot"]}}, r"key 'with' \(it is 'added' here\)"),
        ({"contest": {"added": "single:no"}}, "no strategy 'no'"),
        ({"price": {"openai/scripted": 5}}, "'openai/scripted=5' is not MODEL=IN,OUT"),
        ({"budget": "5"}, "cannot be read"),
        (
            {"budget": "5 USD", "lm": "openai/unpriced"},
            r"compile single:cot: the price of openai/unpriced is unknown.*\(options are keys of",
        ),
        ({"api_base": True}, "api_base is True: give text in quotes, or a list of it"),
        ({"lm_set": [None]}, r"lm_set is \[None\]: give text in quotes, or a list of it"),
        ({"tune": {"storage": ["x"]}}, r"tune: storage is \['x'\]: give text in quotes"),
        ({"tune": {"storage": "x y", "space": {"max_rounds": [1]}}}, "storage 'x y' is not a URL"),
        ({"compile": {"kind": {"a": "b"}}}, "compile: kind is {'a': 'b'}: give text in quotes"),
        ({"tune": {"compile": True}}, "tune: compile is True: give text in quotes"),
        ({"compile": {"kind": "span"}}, "no validation: .* compile and tune say differently"),
        ({key: {"columns": "question=q"} for key in ("compile", "tune")}, "no column 'q'"),
        ({"price": {"openai/scripted": "0.00000015,0.0000006"}}, "multiply USD per token by"),
        ({"price": [1, 2]}, "--price '1' is not MODEL=IN,OUT"),
    ],
)
def test_faults_are_one_sentence(document, change, said, tmp_path):
    refused(said, run, {**document, **change}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_question_of_the_contest_may_be_learned_from(document: dict[str, Any]) -> None:
    data = {**document["data"], "test": document["data"]["train"]}
    refused("test questions are training questions", run, {**document, "data": data})


def test_the_plan_has_every_step_and_asks_nothing(document, tmp_path, scripted, monkeypatch):
    document["budget"] = "5 USD"
    document["price"] = ["openai/scripted=1,2"]
    monkeypatch.setenv("FOLKMOOT_LM", document.pop("lm"))
    monkeypatch.setenv("OPENAI_API_KEY", "no key")
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(document))
    done = folkmoot("pipeline", tmp_path / "p.yaml", "--dry-run", "--no-track", code=0)
    for words in ("compile single:cot", f"tune {TEAM}", "contest", "budget of all together"):
        assert words in done.stderr
    assert "single:cot is not tuned: it has no max_rounds" in done.stderr
    assert not scripted.bodies


def test_a_new_file_names_known_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "no key")
    done = folkmoot("pipeline", "--new")
    document = yaml.safe_load(done.stdout)
    write(tmp_path / "train.jsonl", *rows(0, 24))
    write(tmp_path / "test.jsonl", *rows(100, 16))
    (tmp_path / "pipeline.yaml").write_text(done.stdout)
    known = ("data", "lm", "budget", "programs", "compile", "tune", "contest", "register")
    assert set(document) == set(known)
    done = folkmoot("pipeline", "pipeline.yaml", "--dry-run", code=0)
    assert "the winner is registered as support-bot" in done.stderr


@pytest.mark.nightly
def test_mlflow_has_a_parent_with_a_run_for_each_step_and_the_winner_is_registered(
    document, tmp_path, monkeypatch
):
    isolate(tmp_path, monkeypatch)
    store = new_store(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    mlflow.set_tracking_uri(store)
    del document["tune"]
    document["programs"] = ["single:cot"]
    result = run({**document, "register": "legal"}, out=tmp_path / "out", tracking=True)
    assert result.registered == "legal"
    client = mlflow.MlflowClient(store)
    version = client.get_model_version_by_alias("legal", "champion")
    assert set(version.tags) == {"accuracy", "data", "outcome"}
    assert "contest: " in version.description
    run({**document, "register": "second name"}, out=tmp_path / "out", tracking=True)
    assert client.get_model_version_by_alias("second name", "champion").tags == version.tags
    experiments = [each.experiment_id for each in client.search_experiments()]
    runs = client.search_runs(experiments)
    parents = [each for each in runs if each.data.tags.get("folkmoot.kind") == "pipeline"]
    assert len(parents) == 1
    of_parent = f"tags.mlflow.parentRunId = '{parents[0].info.run_id}'"
    below = client.search_runs(experiments, of_parent)
    kinds = sorted(each.data.tags["folkmoot.kind"] for each in below)
    assert kinds == ["compile", "try"]


@pytest.mark.nightly
def test_a_killed_pipeline_goes_on_and_pays_nothing_twice(document, tmp_path, scripted):
    whole = run(document, out=tmp_path / "whole")
    expected = len(scripted.bodies)
    scripted.delay = 0.02
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({**document, "cache": False}))
    words = ["pipeline", tmp_path / "p.yaml", "--out", tmp_path / "out", "--no-track", "--yes"]
    for _ in range(2):
        more = len(scripted.bodies) + expected // 4
        with subprocess.Popen(child(*words)) as started:
            wait_for_requests(scripted, more)
            started.send_signal(signal.SIGKILL)
    done = subprocess.run(child(*words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert fm.load_program(tmp_path / "out").describe() == whole.program.describe()
    # What was in flight at a kill is asked again.
    assert len(scripted.bodies) <= 2 * expected + 2 * 64


def test_an_lm_of_an_agent_is_for_the_programs_that_have_it(document, tmp_path, scripted):
    del document["tune"]
    lms = {"*": "openai/scripted", "judge": "openai/big"}
    document |= {"lm": lms, "api_base": {"*": scripted.url, "judge": scripted.url}}
    document |= {"lm_set": ["judge.top_p=0.5"]}
    run({**document, "price": ["openai/scripted=1,2", "openai/big=3,4"]}, out=tmp_path / "out")
    asked = {}
    for folder in steps_in(tmp_path / "out")[:2]:
        asked[folder.name] = json.loads((folder / "compile.json").read_text())["lms"]
    (played,) = (tmp_path / "out/contest/runs").glob("deliberation-*")
    judged = json.loads((played / "run.json").read_text())["lms"]
    single, team = asked.values()
    assert set(single) == {"*"}
    for lms_of_team in (team, judged):
        judge = lms_of_team["judge"]
        assert (judge["name"], judge["settings"]["top_p"]) == ("openai/big", 0.5)


def test_own_roles_stand_in_a_file_beside_it(document: dict[str, Any], tmp_path: Path) -> None:
    outputs = {"reason": "what decides", "answer": "your answer"}
    roles = {name: {"instruction": f"You are a {name}.", "outputs": outputs} for name in OWN_ROLES}
    home = tmp_path / "home"
    home.mkdir()
    (home / "roles.yaml").write_text(yaml.safe_dump(roles, sort_keys=False))
    team = f"deliberation:{','.join(OWN_ROLES)}:judge"
    document |= {"roles": "roles.yaml", "programs": [team]}
    del document["compile"]
    (home / "p.yaml").write_text(yaml.safe_dump(document))
    result = fm.pipeline(home / "p.yaml", out=tmp_path / "out", tracking=False)
    (home / "roles.yaml").unlink()
    assert len(result.sentences) == 2
    winner = fm.load_program(tmp_path / "out/tune-1-deliberation-lawyer-clerk-judge")
    assert set(winner.seats()) >= set(OWN_ROLES)


@pytest.mark.nightly
@pytest.mark.parametrize("saved", [False, True])
def test_a_file_or_folder_is_tuned(saved: bool, document: dict[str, Any], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "talk.yaml").write_text("program: deliberation\nroles: [intuitive, reasoner]\n")
    fm.Deliberation(["intuitive", "reasoner"]).save(home / "talk")
    del document["compile"]
    document |= {"programs": ["talk" if saved else "talk.yaml"]}
    (home / "p.yaml").write_text(yaml.safe_dump(document))
    result = fm.pipeline(home / "p.yaml", out=tmp_path / "out", tracking=False)
    assert len(result.sentences) == 2
    (study,) = (tmp_path / "out").glob("tune-1-*")
    assert fm.load_program(study).describe()["roles"] == ["intuitive", "reasoner"]
    field = json.loads((tmp_path / "out/contest/contest.json").read_text())["field"]
    assert document["programs"][0] in field


def test_files_without_the_parameters_are_left(document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "cot.yaml").write_text("program: single\nstrategy: cot\n")
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({**document, "programs": [TEAM, "cot.yaml"]}))
    done = folkmoot("pipeline", tmp_path / "p.yaml", "--dry-run", "--no-track")
    assert "cot.yaml is not tuned: it has no max_rounds" in done.stderr
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({**document, "programs": ["cot.yaml"]}))
    done = folkmoot("pipeline", tmp_path / "p.yaml", "--dry-run", "--no-track", code=2)
    assert "single has no parameter 'max_rounds'" in done.stderr
