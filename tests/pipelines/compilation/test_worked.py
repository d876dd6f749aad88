"""A question that an LM has worked is the demonstration of every method of a comparison."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_helpers import folkmoot

import folkmoot as fm
from folkmoot.modules.agents.demonstration import worked_example

ASKED: Any = {"question": "What is a dormant shrub?", "choices": ["a stone", "a plant"]}
SHOWN = fm.Question(id="shown", answer="B", **ASKED)
ASKED = {"id": "1", "question": "Where is milk cold?", "choices": ["oven", "fridge"], "answer": "B"}
METHODS = [
    *("single:cot", "single:self_ask", "single:plan_and_solve", "single:decomposition"),
    *("single:least_to_most", "single:self_consistency", "single:complexity", "causal:R2E1"),
]


def says(answer: str) -> Any:
    """Replies with this answer, and to every other field with the field's name."""

    def reply(body: dict[str, Any]) -> str:
        names = body["response_format"]["json_schema"]["schema"]["properties"]
        values = {"answer": answer, "parts": "first part\nsecond part"}
        return json.dumps({name: values.get(name, f"the {name}") for name in names})

    return reply


@pytest.fixture
def file(scripted: Any, home: Path) -> Path:
    scripted.reply = says("B")
    (home / "asked.jsonl").write_text(json.dumps(ASKED) + "\n")
    return fm.worked(SHOWN, lm=fm.lm("openai/scripted", api_base=scripted.url))


def test_every_method_shows_the_same_question(scripted: Any, file: Path) -> None:
    calls = 4 + 2 + 3
    assert len(scripted.bodies) == calls
    for method in METHODS:
        done = folkmoot(
            *("evaluate", method, "--demonstration", str(file), "--data", "asked.jsonl"),
            *("--lm", "openai/scripted", "--api-base", scripted.url, "--no-track", "--yes"),
            *("--out", method.replace(":", "-")),
        )
        assert done.exit_code == 0, done.output
    assert len(scripted.bodies) > calls + len(METHODS)
    for body in scripted.bodies[calls:]:
        _, shown, reply, asked = (message["content"] for message in body["messages"])
        assert SHOWN.question in shown
        assert ASKED["question"] in asked
        assert json.loads(reply).get("answer", "B") == "B"
        assert all(json.loads(reply).values())


def test_a_program_keeps_it_without_the_file(scripted: Any, file: Path, tmp_path: Path) -> None:
    program = fm.CausalConsistency(demonstration=file)
    program.save(tmp_path / "saved")
    with pytest.raises(fm.UserError, match=r"worked\.yaml exists"):
        fm.worked(SHOWN, lm="openai/scripted", out=file)
    file.unlink()
    again = fm.load_program(tmp_path / "saved")
    assert again.describe() == program.describe()
    assert again.describe()["demonstration"]["question"] == SHOWN.question
    ready = fm.lm("openai/scripted", api_base=scripted.url)
    asked = [fm.Question(ASKED), SHOWN]
    with pytest.raises(fm.UserError, match="the demonstration is a test question"):
        fm.evaluate(again, asked, lm=ready, tracking=False)


def test_a_wrong_answer_writes_no_file(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = says("A")
    teacher = fm.lm("openai/scripted", api_base=scripted.url)
    with pytest.raises(fm.UserError, match="answers 'A' and not 'B': choose another question"):
        fm.worked(SHOWN, lm=teacher, out=tmp_path / "worked.yaml")
    assert not (tmp_path / "worked.yaml").exists()
    unlabelled = fm.Question(SHOWN, answer=None)
    with pytest.raises(fm.UserError, match="has no answer"):
        fm.worked(unlabelled, lm=teacher)


@pytest.mark.parametrize(
    ("changed", "sentence"), [({"fields": None}, "fields"), ({"answer": "C"}, "'C'")]
)
def test_an_unsound_file_is_refused(file: Path, changed: dict[str, Any], sentence: str) -> None:
    assert worked_example(file).other == "A"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | changed))
    with pytest.raises(fm.UserError, match=sentence):
        fm.SingleAgent("cot", demonstration=file)
