"""`fm.train` and `StrategyNetwork.from_outcomes`: as the command, from any outcomes."""

import json
from pathlib import Path
from typing import Any

import dspy
import pandas as pd
import pytest
from cli_helpers import folkmoot, question, write
from outcome_tables import embed_words, planted
from refusals import refused

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

pytestmark = pytest.mark.usefixtures("quick_rivals", "no_figures")
SMALL = {"hidden": 8, "heads": 2, "lr": 0.01, "epochs": 2}
ASKING = {"agents": 2, "strategies": ["cot", "zero_shot"], "epochs": 2, "hidden": 8, "heads": 2}
MODEL = "all-MiniLM-L6-v2"


@pytest.fixture(autouse=True)
def _embedded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_words(monkeypatch)


def trained(outcomes: Any, **options: Any) -> fm.StrategyNetwork:
    given = {"embedding": MODEL, "settings": SMALL, "tracking": False}
    return fm.train(outcomes, **{**given, **options})


def asked(server: ScriptedServer, **options: Any) -> fm.StrategyNetwork:
    questions = [fm.Question(question(i)) for i in range(6)]
    known: Any = {"train": questions, "lm": fm.lm("openai/scripted", api_base=server.url)}
    if "program" not in options:
        known |= {"settings": ASKING, "embedding": MODEL}
    return fm.train(**known | {"tracking": False, **options})


@pytest.mark.nightly
def test_it_gives_what_the_command_gives(tmp_path: Path) -> None:
    table = write(tmp_path / "train.jsonl", *planted(24, 1))
    test = write(tmp_path / "test.jsonl", *planted(16, 2))
    sets = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    files = ("--outcomes", table, "--test", test, "--out", tmp_path / "cli")
    words = ("--no-track", "--json", "--embedding", MODEL, "--seed", 3)
    done = folkmoot("train", *files, *words, *sets, code=0)
    network = trained(table, out=tmp_path / "python", seed=3, test=test)
    for name in ("tensors.safetensors", "scores.json", "training_log.json"):
        ours, theirs = ((tmp_path / way / name).read_bytes() for way in ("python", "cli"))
        assert ours == theirs, name
    assert network.training.scores["consensus"] == json.loads(done.stdout)["consensus"]
    again = trained(table, out=tmp_path / "cli", seed=3)  # either goes on in the other's folder
    assert again.state.identity == network.state.identity
    refused("another training", trained, table, out=tmp_path / "cli", seed=4)


def test_outcomes_may_be_a_table_rows_or_a_frame(tmp_path: Path) -> None:
    rows = planted(12, 1)
    numbered = [{**row, "question_id": int(row["question_id"].split("-")[1])} for row in rows]
    table = write(tmp_path / "t.jsonl", *rows)
    given = [table, [str(table)], rows, pd.DataFrame(rows)]
    learnt = {trained(outcomes).state.identity for outcomes in given}
    assert len(learnt) == 1
    found = trained(pd.DataFrame(numbered)).state.config.strategies
    assert found == ("cot", "self_ask", "zero_shot")


def test_agents_without_strategies_teach_weights_unasked(scripted: ScriptedServer) -> None:
    rows = planted(40, 1, strategies=False)
    network = trained(rows, test=planted(30, 2, strategies=False))
    assert network.training.scores["consensus"]["value"] > 0.3
    assert network.state.config.agents == 3
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    with dspy.context(lm=lm), pytest.raises(fm.UserError, match="not asked"):
        network(question="Which?", choices={"A": "this", "B": "that"})


def test_a_program_of_ones_own_is_taught_and_stays_as_it_is(scripted: ScriptedServer) -> None:
    other = fm.lm("openai/other", api_base=scripted.url)
    config = fm.NetworkConfig(agents=2, strategies=("cot", "zero_shot"), hidden=8, heads=2)
    program = fm.StrategyNetwork.untrained(config, fm.Embedder(MODEL), lms={"agent.1": other})
    before = program.state.identity
    network = asked(scripted, program=program, settings={"epochs": 1})
    assert program.state.identity == before != network.state.identity
    assert {body["model"] for body in scripted.bodies} == {"scripted", "other"}
    assert network.seats()["agent.1.cot"].predict.lm.model == other.model
    taught = trained(planted(40, 1), program=program, embedding=None, settings={"epochs": 2})
    assert program.state.identity == before != taught.state.identity
    assert taught.seats()["agent.1.cot"].predict.lm.model == other.model
    assert taught.state.config.strategies == ("cot", "zero_shot")
    with pytest.raises(fm.UserError, match="agents is a setting of the program"):
        asked(scripted, program=program, settings={"agents": 5})


ONE = {"train": [fm.Question(question(1))]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either outcomes, or questions"),
        ({"outcomes": []}, "not outcomes"),
        ({"outcomes": planted(4, 1), "embedding": lambda texts: [[1.0]]}, "returned no vectors of"),
        ({"outcomes": planted(4, 1), "budget": "1 USD"}, "budget is for training by asking"),
        ({**ONE, "program": fm.SingleAgent("cot")}, "a SingleAgent cannot"),
        ({**ONE, "preset": "beyond"}, "full_information"),
    ],
)
def test_what_cannot_be_learned_from_is_said_in_one_sentence(options: Any, said: str) -> None:
    refused(said, fm.train, **{"tracking": False, "embedding": MODEL, **options})


def test_a_network_keeps_the_users_prompts(scripted: ScriptedServer, tmp_path: Path) -> None:
    scripted.reply = lambda body: json.dumps(dict.fromkeys(wanted_fields(body), "A"))
    worded = {**ASKING, "prompts": {"cot": "Count.\n\nThen say."}, "prompt_layout": "role_first"}
    network = asked(scripted, settings=worded, out=tmp_path / "net")
    assert network.wording() == {"prompt_layout": "role_first", "prompts": worded["prompts"]}
    systems = {body["messages"][0]["content"].split("\n\nThese")[0] for body in scripted.bodies}
    assert "Count.\n\nThen say." in systems
    assert fm.load_program(tmp_path / "net").wording() == network.wording()
    refused("other prompts", asked, scripted, out=tmp_path / "net")
