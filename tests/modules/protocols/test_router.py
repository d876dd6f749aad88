"""The router: the contract of every protocol, its rule, its report."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import folkmoot as fm
from folkmoot.modules.protocols.program import Program
from folkmoot.modules.protocols.router.router import EARLIER
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.testing.contract import ProtocolContract
from folkmoot.pipelines.testing.replies import filled
from folkmoot.pipelines.testing.server import ScriptedServer

TEAM = ["intuitive", "reasoner"]


class TestOneAnswer(ProtocolContract):
    def program(self) -> Program:
        return fm.Router("simple", fm.Deliberation(TEAM))


def says(*answers: str) -> Any:
    """Every agent gives these answers in turn, over and over."""
    turns = itertools.cycle(answers)
    return lambda body: filled(body, next(turns))


def ask(server: ScriptedServer, rule: Any, *answers: str) -> Any:
    server.reply = says(*answers)
    router = fm.Router(fm.SingleAgent("self_consistency", samples=2), fm.SingleAgent("cot"), rule)
    router.assign({name: fm.lm("openai/scripted", api_base=server.url) for name in router.seats()})
    return router("Where is it?", choices={"A": "here", "B": "there", "C": "nowhere"})


@pytest.mark.parametrize(
    ("rule", "answers", "answer", "by", "calls", "parts"),
    [
        ("disputed", "BBC", "B", "cheap:majority", 2, "cc"),  # samples that agree stand
        ("disputed", "BAC", "C", "team:single", 3, "cct"),
        # a team that cannot be read leaves the cheap answer
        ("disputed", "BA??", "AB", "cheap:majority", 4, "cct"),
        ("never", "BA", "AB", "cheap:majority", 2, "cc"),
        ("always", "B", "B", "team:single", 1, "t"),
    ],
)
def test_who_is_asked_and_who_decides(scripted, rule, answers, answer, by, calls, parts):
    found = ask(scripted, rule, *answers)
    assert found.answer in answer
    assert (found.decided_by, found.usage["calls"], len(scripted.bodies)) == (by, calls, calls)
    assert "".join(turn["part"][0] for turn in found.transcript) == parts


def test_what_cannot_be_followed_is_refused() -> None:
    refused("no rule 'sometimes': .*disputed", fm.Router, "simple", "cot", "sometimes")
    refused("team: int is not a program", fm.Router, "simple", 3)
    refused("no strategy 'wit'", fm.Router, "wit", fm.Deliberation(TEAM))


def test_short_specs_and_yaml_and_saved_folders(tmp_path: Path) -> None:
    short = program_of("router:self_consistency:deliberation:intuitive,reasoner:majority")
    assert isinstance(short, fm.Router)
    assert short.describe()["team"]["tie_break"] == "majority"
    (tmp_path / "r.yaml").write_text(
        "program: router\ncheap: {program: single:self_consistency, samples: 3}\n"
        "team: {program: 'deliberation:intuitive,reasoner', max_rounds: 2}\n"
        "rule: always\n"
    )
    written = program_of(tmp_path / "r.yaml")
    assert isinstance(written, fm.Router)
    assert written.cheap.describe()["samples"] == 3
    assert written.rule == "always"
    written.save(tmp_path / "saved")
    for again in (fm.load_program(tmp_path / "saved"), program_of(written.describe())):
        assert again.describe() == written.describe()
    document = json.loads((tmp_path / "saved/program.json").read_text())
    document["program"]["rule"] = EARLIER
    disputed = program_of(document["program"])
    assert disputed.rule == disputed.describe()["rule"] == "disputed"


def test_its_report_counts_branches(scripted: ScriptedServer) -> None:
    def reply(body: dict[str, Any]) -> str:
        number = int(re.findall(r"number (\d)", body["messages"][-1]["content"])[-1])
        answer = "A" if body.get("top_p") is None or number < 3 else "AB"[body["seed"] % 2]
        return json.dumps({"reasoning": "so", "answer": answer})

    scripted.reply = reply
    known: Any = {"choices": {"A": "a", "B": "b"}}
    questions = []
    for i, answer in enumerate("AAAAB"):
        asked = fm.Question(id=str(i), question=f"Is it number {i}", answer=answer, **known)
        questions.append(asked)
    router = fm.Router(fm.SingleAgent("self_consistency", samples=2), "cot")
    lm = fm.lm("openai/scripted", api_base=scripted.url, seed=1)
    found = fm.evaluate(router, questions, lm=lm, tracking=False).summary.report
    assert found["routed"] == 2
    assert found["share_routed"] == 0.4
    assert found["cheap"] == {"questions": 3, "accuracy": 1.0}
    assert found["team"] == {"questions": 2, "accuracy": 0.5}
    empty = {"routed": 0, "cheap": {"questions": 0}, "team": {"questions": 0}}
    assert router.report([{"error": "no"}]) == empty
