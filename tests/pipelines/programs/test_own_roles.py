"""Roles from a YAML file in every command: run, saved, compiled, tuned, shown, refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import dspy
import pytest
from cli_helpers import folkmoot, isolate, lm
from refusals import refused

import folkmoot as fm
from folkmoot.modules.protocols.roles import roles_given
from folkmoot.modules.protocols.short_names import full_name
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.testing.replies import text_of
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields
from folkmoot.pipelines.tuning.yaml_space import space_of

ROLES = """
lawyer:
  instruction: You argue from the text of the law.
  outputs: {paragraph: the paragraph that decides, answer: your answer}
  tools: [corpus:laws.jsonl]
doctor:
  instruction: You are a physician.
  outputs: {finding: what you see, answer: your answer}
judge:
  instruction: You are the magistrate.
  outputs: {weighing: who is right, answer: your answer}
"""
SIDES = ROLES.partition("judge:")[0]
MINE = '''
import dspy

class Lawyer(dspy.Signature):
    """You plead."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField()

def search(query):
    return f"The court on {query}."
'''


class Nurse(dspy.Signature):  # type: ignore[misc]
    """You are a nurse."""

    question: str = dspy.InputField()
    finding: str = dspy.OutputField()
    answer: str = dspy.OutputField()


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)
    Path("roles.yaml").write_text(ROLES)
    Path("laws.jsonl").write_text(json.dumps({"id": "1", "title": "Theft", "text": "It is theft."}))
    rows = []
    for number in range(20):
        asked = {"id": str(number), "question": f"Case {number}: was it theft?"}
        rows.append({**asked, "choices": {"A": "yes", "B": "no"}, "answer": "AB"[number % 2]})
    Path("train.jsonl").write_text("\n".join(map(json.dumps, rows[:10])))
    Path("test.jsonl").write_text("\n".join(map(json.dumps, rows[10:])))


def replied(body: dict[str, Any]) -> str:
    """Who quotes the law or weighs is right, everybody else says A."""
    fields = wanted_fields(body)
    asked = text_of(body).rpartition("Case ")[2].partition(":")[0]
    right = "AB"[int(asked) % 2] if asked.isdigit() else "A"
    said = {"queries": "theft", "answer": right if {"paragraph", "weighing"} & {*fields} else "A"}
    return json.dumps({name: said.get(name, f"some {name}") for name in fields})


def replied_after_examples(body: dict[str, Any]) -> str:
    """As `replied` where examples stand before the question, else always A."""
    shown = len(body["messages"]) > 2
    return replied(body) if shown else replied(body).replace('"B"', '"A"')


def run(scripted: Any, command: str, program: str, *words: Any, reply: Any = replied) -> Any:
    scripted.reply = reply
    end = [*lm(scripted), "--no-track", "--yes"]
    return folkmoot(command, program, "--roles", "roles.yaml", *words, *end, code=0)


def test_a_file_of_roles_is_evaluated_and_shown_by_name(scripted: ScriptedServer) -> None:
    run(scripted, "evaluate", "deliberation:lawyer,doctor:judge", "--data", "test.jsonl", "--out=r")
    assert json.loads(Path("r/summary.json").read_text())["scores"]["accuracy"]["value"] == 1.0
    shown = folkmoot("show", "r", "11").output
    assert all(words in shown for words in ("lawyer", "searched for: theft", "doctor", "judge"))
    described = fm.load_run("r").summary.run["program"]
    assert described["roles"] == ["lawyer", "doctor"]
    legend = "lawyer, doctor; at most 3 rounds; own roles: lawyer, doctor, judge"
    assert full_name(described) == f"2 agents + judge: {legend}"
    run(scripted, "evaluate", "single:role=lawyer", "--data", "test.jsonl", "--out", "alone")
    team = ("--set", "environment=corpus:laws.jsonl", "--set", "max_steps=1", "--out", "team")
    run(scripted, "evaluate", "team:lawyer,bold", "--data", "test.jsonl", *team)


def test_python_takes_roles_beside_a_spec(scripted: ScriptedServer) -> None:
    Path("roles.yaml").write_text(SIDES)
    scripted.reply = replied
    at = fm.lm("openai/scripted", api_base=scripted.url)
    for roles in ("roles.yaml", {"doctor": Nurse}, {**fm.roles("roles.yaml")}):
        team, given = "deliberation:doctor,critic:majority", {"lm": at, "tracking": False}
        result = fm.evaluate(team, "test.jsonl", roles=roles, **given)
        assert result.rows[0]["transcript"][0]["agent"] == "doctor"
        assert result.rows[0]["transcript"][0]["text"] == "some finding"


def test_the_lm_of_a_role_is_the_default_of_its_seat(scripted: ScriptedServer) -> None:
    Path("roles.yaml").write_text(SIDES.replace("tools: [corpus:laws.jsonl]", "lm: openai/other"))
    spec = ("deliberation:lawyer,doctor:majority", "--data", "test.jsonl", "--limit", "1")
    third = (["--lm", "lawyer=openai/third"], {"third"})
    for words, models in (([], {"other", "scripted"}), third):
        scripted.requests.clear()
        run(scripted, "evaluate", *spec, *words)
        assert {*models} <= {body["model"] for body in scripted.bodies}
        assert ("other" in {body["model"] for body in scripted.bodies}) == (not words)


@pytest.mark.nightly
def test_own_roles_are_whole_without_the_file(scripted: ScriptedServer, tmp_path: Path) -> None:
    program = program_of("deliberation:lawyer,doctor:judge", {"own_roles": "roles.yaml"})
    program.save("saved")
    Path("roles.yaml").unlink()
    prompts = "[s.predict.signature.instructions for s in p.seats().values()]"
    code = "import folkmoot as fm, json; p = fm.load_program('saved'); "
    code += f"print(json.dumps([p.describe(), {prompts}]))"
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path)
    described, told = json.loads(done.stdout.splitlines()[-1])
    assert described == program.describe()
    assert {"You are a physician.", "You are the magistrate."} <= {*told}
    again = fm.load_program("saved")
    for one in (program, again):
        one.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
        scripted.reply = replied
        one(question="Case 1: was it theft?", choices=["yes", "no"])
    bodies = scripted.bodies
    assert bodies[: len(bodies) // 2] == bodies[len(bodies) // 2 :]
    Path("laws.jsonl").write_text(json.dumps({"id": "1", "title": "Theft", "text": "None."}))
    refused("no longer what", fm.load_program, "saved")
    elsewhere = fm.load_program("saved", environment="corpus:laws.jsonl")
    assert elsewhere.describe()["own_roles"].keys() == {"lawyer", "doctor", "judge"}


def test_own_roles_are_compiled_and_stay(scripted: ScriptedServer) -> None:
    Path("roles.yaml").write_text(SIDES)
    spec, parts = "deliberation:lawyer,doctor:majority", ("--train", "train.jsonl")
    how = ("--validation", "test.jsonl", "--optimizer", "bootstrap", "--set", "max_rounds=1")
    words = (*parts, *how, "--out", "compiled")
    run(scripted, "compile", spec, *words, reply=replied_after_examples)
    Path("roles.yaml").unlink()
    program = fm.load_program("compiled")
    seats = program.seats()
    assert list(seats) == ["lawyer", "doctor", "lawyer.query"]
    assert all(seat.predict.demos for seat in seats.values())
    assert seats["lawyer"].predict.demos[0]["paragraph"] == "some paragraph"


@pytest.mark.nightly
def test_a_study_picks_among_own_roles(scripted: ScriptedServer) -> None:
    Path("space.yaml").write_text(
        "program: deliberation\nroles: [[doctor], [lawyer], [doctor, critic]]\n"
        "max_rounds: 1\ntie_break: majority\nsampling: {temperature: null}\n"
    )
    parts = ("--train", "train.jsonl", "--validation", "test.jsonl", "--sampler", "grid")
    run(scripted, "tune", "space.yaml", *parts, "--trials", "3", "--out", "study")
    Path("roles.yaml").unlink()
    winner = fm.load_program("study")
    assert winner.roles == ["lawyer"]
    assert winner.describe()["own_roles"]["lawyer"]["outputs"]["answer"] == "your answer"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("program", "name", "some"),
    [
        ("deliberation", "roles", [["lawyer", "doctor"], ["critic", "doctor", "lawyer"]]),
        ("team", "workers", [["lawyer", "lawyer"]]),
    ],
)
def test_a_space_has_own_and_known_roles(program: str, name: str, some: list[list[str]]) -> None:
    from folkmoot.pipelines.tuning.yaml_space import space_of

    sets = {"own_roles": "roles.yaml"}
    sets |= {"environment": "corpus:laws.jsonl"} if program == "team" else {}
    (branch,) = space_of(program, sets).branches
    assert all(chosen in branch.choices(name) for chosen in some)
    assert not any("judge" in chosen for chosen in branch.choices(name))
    assert branch.fixed["own_roles"].keys() == {"lawyer", "doctor", "judge"}


def test_programs_without_roles_pass_them_over_or_on(scripted: ScriptedServer) -> None:
    sets = {"own_roles": "roles.yaml"}
    assert "own_roles" not in program_of("single:cot", sets).describe()
    spec = {"program": "ensemble", "members": ["cot", "single:role=doctor"]}
    members = program_of(spec, sets).describe()["members"]
    assert members[1]["own_roles"]["doctor"]["instruction"] == "You are a physician."
    words = ("test.jsonl", "--with", "single:role=doctor", "--only", "single:role=doctor")
    scripted.reply = replied
    end = (*lm(scripted), "--roles", "roles.yaml", "--no-track", "--dry-run")
    assert "single:role=doctor" in folkmoot("try", *words, *end).output


ROLE = "a: {instruction: x, outputs: {answer: y}"
CODE = "bad.yaml names the environment mine:search, which is code.*--set environment="


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: {instruction: x, outputs: {why: y}}", "bad.yaml: the role 'a' gives no answer"),
        (ROLE + ", tools: [corpse:a]}", "did you mean 'corpus'"),
        (ROLE + ", tools: [corpus:a]}", "bad.yaml: a: there is no such corpus"),
        (ROLE + ", tools: corpus:a}", "bad.yaml: .*not a list"),
        (ROLE + ", tool: [b]}", r"did you mean 'tools'"),
        (ROLE + ", lm: mistral}", "'mistral' is not an LM name"),
        (ROLE + "}\na: {}", "line 2: the key 'a' is given twice"),
        ("critic: {instruction: x, outputs: {answer: y}}", "bad.yaml: there is a role 'critic'"),
        (ROLE + ", api_key: k}", "bad.yaml has 'api_key'"),
        ("a: mine:Lawyer", "bad.yaml names the role mine:Lawyer, which is code"),
        (ROLE + ", tools: [mine:search]}", CODE),
        ("[a]", "bad.yaml holds no role"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(content: str, words: str) -> None:
    Path("mine.py").write_text(MINE)
    Path("bad.yaml").write_text(content)
    refused(words, fm.roles, "bad.yaml")
    assert "mine" not in sys.modules
    refused(words, program_of, "single:role=a", {"own_roles": "bad.yaml"})


def test_no_file_names_code(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pleading.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    outputs = "outputs: {answer: y}, tools: [pleading:search]"
    Path("roles.yaml").write_text(f"advocate: {{instruction: You argue., {outputs}}}")
    named = ("--set", "environment=pleading:search", "--data", "test.jsonl", "--limit", "1")
    run(scripted, "evaluate", "deliberation:advocate:majority", *named, "--out", "r")
    (row,) = fm.load_run("r").rows
    assert row["transcript"][0]["evidence"][0]["text"] == "The court on theft."
    unused = {"own_roles": "roles.yaml", "environment": "corpus:laws.jsonl"}
    with pytest.raises(fm.UserError, match="has an environment but no retriever to use it"):
        program_of("single:role=advocate", unused)
    own = {"advocate": "pleading:Lawyer"}
    program = program_of("single:role=advocate", {"own_roles": own})
    assert program.describe()["own_roles"]["advocate"]["instruction"] == "You plead."


def test_defaults_of_a_file_stand_beside_a_file_of_roles(scripted: ScriptedServer) -> None:
    Path("roles.yaml").write_text(SIDES)
    own = Path("own/folkmoot/folkmoot.toml")
    own.parent.mkdir(parents=True)
    own.write_text('[evaluate]\nset = ["max_rounds=1"]\n')
    run(scripted, "evaluate", "deliberation:doctor:majority", "--data", "test.jsonl", "--out", "r")
    described = fm.load_run("r").summary.run["program"]
    assert (described["roles"], described["max_rounds"]) == (["doctor"], 1)


def test_one_file_of_roles_serves_a_pipeline(scripted: ScriptedServer) -> None:
    from folkmoot.pipelines.pipeline.plan import plan_pipeline
    from folkmoot.pipelines.pipeline.request import PipelineRequest

    document = {"data": {"train": "train.jsonl", "test": "test.jsonl"}, "roles": "roles.yaml"}
    document |= {"lm": ["openai/scripted"], "api_base": [scripted.url]}
    document["programs"] = ["single:role=doctor", "deliberation:lawyer,doctor:judge"]
    document |= {"compile": {"optimizer": "bootstrap"}, "contest": {"margin": 5}}
    plan = plan_pipeline(PipelineRequest(document))
    assert [step.title for step in plan.steps][-1] == "contest"
    with pytest.raises(fm.UserError, match="there is no role 'doctor'"):
        plan_pipeline(PipelineRequest({key: document[key] for key in document if key != "roles"}))


def test_judges_without_a_seat_and_roles_of_saved_are_refused(scripted: ScriptedServer) -> None:
    sides = fm.roles("roles.yaml")
    with pytest.raises(fm.UserError, match=r"the role 'judge' is not an agent.*tie_break=judge"):
        fm.Deliberation(sides, tie_break="majority")
    words = ("--data", "test.jsonl", "--roles", "roles.yaml", *lm(scripted), "--no-track", "--yes")
    done = folkmoot("evaluate", "deliberation:lawyer,doctor:majority", *words, code=2)
    assert "the role 'judge' is not an agent of this program" in done.output
    fm.Deliberation(sides).save("saved")
    done = folkmoot("evaluate", "saved", *words, code=2)
    assert "the saved program saved has its own roles" in " ".join(done.output.split())
    # a study may leave the judge out
    space = {"program": "deliberation:lawyer,doctor", "tie_break": ["judge", "majority"]}
    assert len(space_of({**space, "max_rounds": [1]}, {"own_roles": "roles.yaml"}).branches) == 1
    assert len(space_of({"program": "saved", "max_rounds": [1, 2]}).branches) == 1


def test_roles_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own = fm.roles("roles.yaml")
    made = list[object]()
    monkeypatch.setattr(dspy, "Signature", lambda *given: made.append(given))
    assert roles_given(own) == own
    assert not made
    roles_given({"physician": own["doctor"]})  # under another name it is checked again
    assert made
