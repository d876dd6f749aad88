"""Reading a reply in another form than asked for: cases, headings, prose around an object."""

from typing import Any

import pytest

import folkmoot as fm
from folkmoot.modules.agents.profile import Profile
from folkmoot.modules.agents.prompt import plain_prompt
from folkmoot.modules.agents.reply import parse_reply
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.signatures.roles import Judge
from folkmoot.signatures.strategies import Simple
from folkmoot.signatures.team import Bold, Supervising

CHAT = Profile()


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"Thought": "hm", "ACTION": "Finish[a]"}', ("hm", "Finish[a]")),
        ("Thought: I know.\nAction: Finish[Paris]", ("I know.", "Finish[Paris]")),
        ("I know.\n**Action 1:** Search[Paris]", ("I know.", "Search[Paris]")),
        ("Action: Search[Nile]", ("", "Search[Nile]")),
    ],
)
def test_thought_and_action_are_read_without_the_schema(text: str, fields: tuple[str, str]) -> None:
    said = parse_reply(Bold, text, CHAT)
    assert (said["thought"], said["action"]) == fields


def test_a_decision_is_read_from_headings() -> None:
    said = parse_reply(Supervising, "Judgement: fine\nDecision: accept\nWorker: bold", CHAT)
    assert said == {"judgement": "fine", "decision": "accept", "worker": "bold", "suggestion": ""}


@pytest.mark.parametrize(
    ("text", "answer"),
    [('{"Answer": "B"}', "B"), ('Answer: B {"confidence": 0.9}', 'Answer: B {"confidence": 0.9}')],
)
def test_an_object_about_something_else_hides_no_answer(text: str, answer: str) -> None:
    assert parse_reply(Simple, text, CHAT)["answer"] == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": "New', ""),
        ('{"argument": "so", "answer": "New Yor', ""),
        ('{"argument": "so", "Answer" : "a \\" b', ""),
        ('{"argument": "so", "answer": "New York"', "New York"),
        ('{"answer": "New York", "argument": "since it', "New York"),
        ('{"argument": "a 5" pipe", "answer": "New York"}', "New York"),
    ],
)
def test_an_answer_within_which_a_reply_ends_is_missing(text: str, answer: str) -> None:
    assert parse_reply(Simple, text, CHAT)["answer"] == answer


def test_the_beginning_of_a_long_answer_alone_is_kept(scripted: ScriptedServer) -> None:
    scripted.reply = lambda body: '{"answer": "New'
    program = fm.SingleAgent("simple")
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url, api_key="k"))
    assert program(question="Which city?").answer is None
    assert program(question="Write of a city.", kind="open").answer == "New"


def test_a_plain_prompt_has_the_whole_question_and_a_whole_trace() -> None:
    plain = Profile(layout="plain", answer_form="text", list_options=False)
    asked: dict[str, Any] = {"question": "x " * 4000 + "What is it?", "kind": "span"}
    assert "What is it?" in plain_prompt(Simple, [], asked, plain)
    noted = [{"title": "trace", "text": "y " * 4000 + "the end"}]
    assert "the end" in plain_prompt(Judge, [], {**asked, "notes": noted}, plain)
