"""Prompts of the user's own and where they stand, for every protocol, over the wire and on disk."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import folkmoot as fm
from folkmoot.modules.protocols.program import Program
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.testing.server import ScriptedServer

CHOICES = {"A": "bank", "B": "library"}
OWN = "You are a bookkeeper.\n\n1. Read.\n2. Answer."


def pages(folder: Path) -> str:
    path = folder / "pages.jsonl"
    path.write_text(json.dumps({"title": "Soup", "text": "Soup is hot."}) + "\n")
    return str(path)


def reply(body: dict[str, Any]) -> str:
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    known = {"answer": "A", "action": "Finish[A]", "decision": "accept", "worker": "bold"}
    return json.dumps({name: known.get(name, "so") for name in fields})


TALKERS, WORKERS = ["reasoner", "critic"], ["bold", "cautious"]
MAKES: dict[str, tuple[str, Callable[..., Program]]] = {
    "single": ("cot", lambda where, **told: fm.SingleAgent("cot", **told)),
    "role": ("reasoner", lambda where, **told: fm.SingleAgent(role="reasoner", **told)),
    "deliberation": ("reasoner", lambda where, **told: fm.Deliberation(TALKERS, **told)),
    "causal": ("reasoner", lambda where, **told: fm.CausalConsistency(2, 1, **told)),
    "team": (
        "bold",
        lambda where, **told: fm.SupervisedTeam(WORKERS, fm.CorpusEnvironment(where), **told),
    ),
    "ensemble": ("cot", lambda where, **told: fm.Ensemble(["cot", "simple"], **told)),
    "router": ("cot", lambda where, **told: fm.Router("cot", "simple", "never", **told)),
}


@pytest.mark.parametrize("protocol", MAKES)
@pytest.mark.parametrize("layout", ["role_first", "role_last"])
def test_every_protocol_says_what_the_user_wrote_where_the_layout_puts_it(
    scripted, tmp_path, protocol, layout
):
    seat, make = MAKES[protocol]
    scripted.reply = reply
    program = make(pages(tmp_path), prompts={seat: OWN}, prompt_layout=layout)
    program.save(tmp_path / "kept")
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    program(question="Where is money kept?", choices=CHOICES)
    sent = [body["messages"] for body in scripted.bodies]
    found = [messages for messages in sent if any(OWN in one["content"] for one in messages)]
    assert found
    for system, *_, last in found:
        first, then = (system, last) if layout == "role_first" else (last, system)
        assert OWN in first["content"]
        assert OWN not in then["content"]
        assert ("Where is money kept?" in system["content"]) is False
    if layout == "role_first":
        systems = [messages[0]["content"] for messages in sent]
        told = {system.split("\n\nThese are your instructions")[0] for system in systems}
        assert not any(text in messages[-1]["content"] for text in told for messages in sent)
    again = fm.load_program(tmp_path / "kept")
    assert again.describe() == program.describe()
    again.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    again(question="Where is money kept?", choices=CHOICES)
    asked = sorted(json.dumps(body["messages"]) for body in scripted.bodies)
    assert asked == sorted(2 * [json.dumps(messages) for messages in sent])


def test_a_file_serves_every_program_and_an_unknown_name_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prompts.yaml"
    critic = "critic: |\n  Find flaws.\n\n  All of them.\n"
    file.write_text(f"reasoner: Weigh.\n{critic}judge: Decide.\n")
    two = program_of("deliberation:reasoner,intuitive:majority", {"prompts": str(file)})
    assert two.seats()["reasoner"].predict.signature.instructions == "Weigh."
    assert "instinct" in two.seats()["intuitive"].predict.signature.instructions
    assert two.describe()["prompts"]["critic"] == "Find flaws.\n\nAll of them."
    mine = fm.SingleAgent("simple", prompts={"simple": "One.\nTwo."})
    both = fm.Ensemble([mine, fm.SingleAgent("cot")], prompts={"cot": "Three.\nFour."})
    told = {name: seat.predict.signature.instructions for name, seat in both.seats().items()}
    assert told == {"simple": "One.\nTwo.", "cot": "Three.\nFour."}
    file.write_text("resoner: Weigh.\n")
    with pytest.raises(fm.UserError, match="no agent 'resoner' in this program: the agents are"):
        fm.Deliberation(["reasoner"], prompts=file)
    empty, no_prompts = ("reasoner: ''", "no instructions"), ("- a", "holds no prompts")
    for text, words in (empty, no_prompts, ("a: [", "line 1")):
        file.write_text(text)
        refused(words, fm.Deliberation, ["reasoner"], prompts=file)
    words = r"no prompt layout 'first' \(did you mean 'role_first'\?\): choose"
    refused(words, fm.SingleAgent, "cot", prompt_layout="first")


def test_a_network_takes_a_strategys_prompt_for_all_its_agents() -> None:
    np = pytest.importorskip("numpy")
    network = fm.StrategyNetwork.untrained(
        fm.NetworkConfig(agents=2, strategies=("cot", "decomposition")),
        lambda texts: np.ones((len(texts), 4), dtype=np.float32),
        prompts={"cot": "All.", "agent.1.cot": "One.", "split": "Cut."},
        prompt_layout="role_first",
    )
    told = {name: seat.predict.signature.instructions for name, seat in network.seats().items()}
    assert (told["cot"], told["agent.1.cot"]) == ("All.", "One.")
    assert {told[f"{own}decomposition.split"] for own in ("", "agent.1.")} == {"Cut."}
    assert all(member.prompt_layout == "role_first" for member in network.members.values())


def test_a_last_line_of_the_users_names_the_fields(scripted: ScriptedServer) -> None:
    scripted.reply = reply
    fields = 'Fields: "reasoning" (short), "answer"'
    for own, shown in ((f"Think.\n{fields}", fields), (f"{fields}\nThink.", "whole solution")):
        program = fm.SingleAgent("cot", prompts={"cot": own})
        program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
        program(question="Where is money kept?", choices=CHOICES)
        last_line = scripted.bodies[-1]["messages"][-1]["content"].splitlines()[-1]
        assert last_line.startswith("Fields: ")
        assert shown in last_line
