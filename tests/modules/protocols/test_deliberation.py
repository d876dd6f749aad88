"""Every clause of the deliberation protocol, checked against what really went over the wire."""

from __future__ import annotations

import itertools
import json
import re
import time
from typing import Any

import pytest

import folkmoot as fm
from folkmoot.modules.protocols.deliberation import replay

CHOICES = {"A": "bank", "B": "library", "C": "mall"}
QUESTION = {"question": "Where do people keep their savings?", "choices": CHOICES}
MARKS = {
    "intuitive": "without overthinking",
    "reasoner": "strict order",
    "retriever": "facts that can be looked up",
    "critic": "look for what is wrong",
    "judge": "You decide",
}


def role_of(body: dict[str, Any]) -> str:
    """Who was asked, told by the instructions at the end of the request."""
    text = body["messages"][-1]["content"]
    return next(role for role, mark in MARKS.items() if mark in text)


def script(**answers: list[str]) -> Any:
    """A reply function: each role gives its answers in turn, with an argument that names role and
    turn.
    """
    given: dict[str, int] = {}

    def reply(body: dict[str, Any]) -> str:
        role = role_of(body)
        turn = given[role] = given.get(role, 0) + 1
        answer = answers[role][min(turn, len(answers[role])) - 1]
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        return json.dumps(
            {name: answer if name == "answer" else f"argument {turn} of {role}" for name in fields}
        )

    return reply


def run(scripted: Any, program: fm.Deliberation, **answers: list[str]) -> Any:
    scripted.reply = script(**answers)
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    return program(**QUESTION)


def asked(scripted: Any) -> list[str]:
    return [role_of(body) for body in scripted.bodies]


def test_agents_speak_in_order_and_consensus_stops_the_dialogue(scripted: Any) -> None:
    prediction = run(
        scripted,
        fm.Deliberation(["critic", "intuitive", "reasoner"]),
        critic=["A"],
        intuitive=["A"],
        reasoner=["A"],
    )
    assert asked(scripted) == ["critic", "intuitive", "reasoner"]
    assert (prediction.answer, prediction.decided_by) == ("A", "consensus")
    assert (prediction.rounds, prediction.consensus_round) == (1, 1)


def test_every_prompt_holds_the_question_the_options_and_the_whole_history(scripted: Any) -> None:
    run(
        scripted,
        fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=2),
        intuitive=["A"],
        reasoner=["B"],
        judge=["C"],
    )
    said: list[str] = []
    for body in scripted.bodies:
        text = body["messages"][-1]["content"]
        assert QUESTION["question"] in text
        assert all(f"{label}) {option}" in text for label, option in CHOICES.items())
        places = [text.index(argument) for argument in said]
        assert places == sorted(places)
        role = role_of(body)
        turn = sum(argument.endswith(role) for argument in said) + 1
        assert len(re.findall(r"argument \d of", text)) == len(said)
        said.append(f"argument {turn} of {role}")
    last = scripted.bodies[-1]["messages"][-1]["content"]
    assert [(m[0], m[1]) for m in re.findall(r"(\w+), round (\d)", last)] == [
        ("intuitive", "1"),
        ("reasoner", "1"),
        ("intuitive", "2"),
        ("reasoner", "2"),
    ]
    assert re.findall(r"^Answer: (\w)$", last, re.MULTILINE) == ["A", "B", "A", "B"]


def test_the_judge_decides_after_the_last_round(scripted: Any) -> None:
    prediction = run(
        scripted,
        fm.Deliberation(["intuitive", "reasoner"], max_rounds=3),
        intuitive=["A"],
        reasoner=["B"],
        judge=["C"],
    )
    assert asked(scripted) == ["intuitive", "reasoner"] * 3 + ["judge"]
    assert (prediction.answer, prediction.decided_by, prediction.consensus_round) == (
        "C",
        "judge",
        None,
    )
    assert prediction.rounds == 3


@pytest.mark.parametrize("role", ["intuitive", "reasoner"])
def test_the_strongest_agent_decides(scripted: Any, role: str) -> None:
    program = fm.Deliberation(
        ["intuitive", "reasoner"], tie_break=f"strongest:{role}", max_rounds=2
    )
    prediction = run(scripted, program, intuitive=["A"], reasoner=["B"])
    assert prediction.answer == {"intuitive": "A", "reasoner": "B"}[role]
    assert prediction.decided_by == f"strongest:{role}"
    assert len(scripted.bodies) == 4


def test_the_strongest_agents_last_valid_answer_counts(scripted: Any) -> None:
    program = fm.Deliberation(
        ["intuitive", "reasoner"], tie_break="strongest:reasoner", max_rounds=2
    )
    prediction = run(
        scripted, program, intuitive=["A"], reasoner=["B", "none of these", "none of these"]
    )
    assert prediction.answers["reasoner"] == ["B", None]
    assert (prediction.answer, prediction.decided_by) == ("B", "strongest:reasoner")


def test_majority_and_its_ties(scripted: Any) -> None:
    roles = ["critic", "intuitive", "reasoner"]
    program = fm.Deliberation(roles, tie_break="majority", max_rounds=1)
    prediction = run(scripted, program, critic=["C"], intuitive=["B"], reasoner=["B"])
    assert (prediction.answer, prediction.decided_by) == ("B", "majority")
    prediction = run(scripted, program, critic=["C"], intuitive=["B"], reasoner=["A"])
    assert prediction.answer == "C"


def test_an_unreadable_answer_is_asked_for_once_more_with_the_reason(scripted: Any) -> None:
    prediction = run(scripted, fm.Deliberation(["intuitive"]), intuitive=["the cloakroom", "A"])
    first, second = (body["messages"][-1]["content"] for body in scripted.bodies)
    assert "the cloakroom" not in first
    assert "the cloakroom" in second
    assert (prediction.answer, prediction.usage["calls"]) == ("A", 2)


def test_an_abstention_is_recorded_and_prevents_consensus(scripted: Any) -> None:
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority", max_rounds=2)
    prediction = run(scripted, program, intuitive=["A"], reasoner=["???"])
    assert asked(scripted) == ["intuitive", "reasoner", "reasoner"] * 2
    assert prediction.answers == {"intuitive": ["A", "A"], "reasoner": [None, None]}
    assert (prediction.answer, prediction.decided_by, prediction.consensus_round) == (
        "A",
        "majority",
        None,
    )
    assert prediction.transcript[1]["raw"] == "???"


def test_two_unreadable_answers_are_no_consensus_and_count_for_nothing(scripted: Any) -> None:
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority", max_rounds=1)
    prediction = run(scripted, program, intuitive=["???"], reasoner=["???"])
    assert (prediction.answer, prediction.decided_by, prediction.consensus_round) == (
        None,
        "none",
        None,
    )


def test_an_unreadable_judge_falls_back_to_the_majority(scripted: Any) -> None:
    program = fm.Deliberation(["intuitive", "reasoner"], max_rounds=1)
    prediction = run(scripted, program, intuitive=["B"], reasoner=["A"], judge=["???"])
    assert (prediction.answer, prediction.decided_by) == ("B", "fallback:majority")
    assert asked(scripted) == ["intuitive", "reasoner", "judge", "judge"]


def test_seats_may_have_their_own_lms(scripted: Any) -> None:
    scripted.reply = script(intuitive=["A"], reasoner=["B"], judge=["C"])
    lms = {
        seat: fm.lm(f"openai/{seat}-lm", api_base=scripted.url) for seat in ("reasoner", "judge")
    }
    program = fm.Deliberation(["intuitive", "reasoner"], max_rounds=1, lms=lms)
    fm.evaluate(
        program,
        [fm.Question(id="1", answer="C", **QUESTION)],
        lm=fm.lm("openai/common", api_base=scripted.url),
        tracking=False,
    )
    assert [body["model"] for body in scripted.bodies] == ["common", "reasoner-lm", "judge-lm"]


def test_the_retriever_sees_what_was_found_and_the_others_do_not(
    scripted: Any, tmp_path: Any
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    rows = [
        {
            "id": "1",
            "title": "Savings",
            "text": "Savings of people are kept in a vault at the bank.",
        },
        {"id": "2", "title": "Zebra", "text": "A zebra has stripes."},
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = fm.CorpusEnvironment(corpus, index_dir=tmp_path / "index")
    program = fm.Deliberation(
        ["retriever", "intuitive"], environment=environment, retrieval="question"
    )
    prediction = run(scripted, program, retriever=["A"], intuitive=["A"])
    first, second = (body["messages"][-1]["content"] for body in scripted.bodies)
    assert "a vault at the bank" in first
    assert "a vault at the bank" not in second
    assert prediction.transcript[0]["evidence"][0]["title"] == "Savings"


def test_later_turns_share_the_prefix_of_earlier_ones(scripted: Any) -> None:
    run(
        scripted,
        fm.Deliberation(["critic", "intuitive", "reasoner"], tie_break="majority"),
        critic=["A"],
        intuitive=["B"],
        reasoner=["C"],
    )
    texts = [body["messages"][-1]["content"] for body in scripted.bodies]
    for earlier, later in itertools.pairwise(texts):
        material = earlier[: earlier.rindex("\n\n")]
        assert later.startswith(material)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"roles": []}, "1 to 8"),
        ({"roles": ["intuitive", "intuitive"]}, "more than once"),
        ({"roles": ["wizard"]}, "wizard"),
        ({"roles": ["judge"]}, "judge"),
        ({"roles": ["intuitive"], "tie_break": "coin"}, "coin"),
        ({"roles": ["intuitive"], "tie_break": "strongest:reasoner"}, "reasoner"),
        ({"roles": ["intuitive"], "max_rounds": 0}, "max_rounds"),
        ({"roles": ["intuitive"], "lms": {"bishop": None}}, "bishop"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(fm.UserError, match=words):
        fm.Deliberation(**arguments)


def test_replay_gives_what_a_run_with_those_settings_gave(scripted: Any) -> None:
    answers = {"intuitive": ["A", "B", "A"], "reasoner": ["B", "C", "C"], "judge": ["B"]}
    recorded = run(scripted, fm.Deliberation(["intuitive", "reasoner"], max_rounds=3), **answers)
    calls = len(scripted.bodies)
    for rounds in (1, 2, 3):
        for rule in ("majority", "strongest:intuitive", "strongest:reasoner"):
            replayed = replay(recorded, max_rounds=rounds, tie_break=rule)
            real = run(
                scripted, fm.Deliberation(["intuitive", "reasoner"], rule, rounds), **answers
            )
            for name in ("answer", "decided_by", "rounds", "consensus_round", "answers"):
                assert replayed[name] == real[name], (rounds, rule, name)
            calls += 2 * rounds
            assert len(scripted.bodies) == calls
    assert replay(recorded).answer == recorded.answer
    assert replay(recorded).usage == recorded.usage
    assert replay(recorded, max_rounds=2, tie_break="majority").usage["calls"] == 4
    with pytest.raises(fm.UserError, match="whole number"):
        replay(recorded, max_rounds="1", tie_break="majority")  # type: ignore[arg-type]


def test_options_with_the_same_text_are_one_answer(scripted: Any) -> None:
    scripted.reply = script(intuitive=["C"], reasoner=["A"])
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority")
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    found = program(question="Which?", choices={"A": "x", "B": "y", "C": "x"})
    assert (found.answer, found.decided_by) == ("A", "consensus")


# A blind opening
# --------------------------------------------------------------------------------------------


def test_in_a_blind_opening_nobody_sees_the_round_and_all_are_asked_at_once(scripted: Any) -> None:
    scripted.delay = 0.2
    program = fm.Deliberation(
        ["intuitive", "reasoner"], tie_break="majority", max_rounds=2, opening="blind"
    )
    began = time.monotonic()
    prediction = run(scripted, program, intuitive=["A"], reasoner=["B"])
    assert time.monotonic() - began < 0.75  # three calls one after the other, not four
    seen = {
        (role_of(body), len(re.findall(r"argument \d of", body["messages"][-1]["content"])))
        for body in scripted.bodies
    }
    assert seen == {("intuitive", 0), ("reasoner", 0), ("intuitive", 2), ("reasoner", 3)}
    assert [turn.get("blind", False) for turn in prediction.transcript] == [
        True,
        True,
        False,
        False,
    ]
    assert program.describe()["opening"] == "blind"


def test_a_blind_dialogue_is_replayed_as_such_and_no_other_becomes_one(scripted: Any) -> None:
    roles = ["intuitive", "reasoner"]
    blind = run(
        scripted,
        fm.Deliberation(roles, "majority", 2, opening="blind"),
        intuitive=["A", "B"],
        reasoner=["B"],
    )
    short = replay(blind, max_rounds=1, tie_break="majority", opening="blind")
    shorter = run(
        scripted,
        fm.Deliberation(roles, "majority", 1, opening="blind"),
        intuitive=["A"],
        reasoner=["B"],
    )
    assert (short.answer, short.decided_by, short.transcript[0]["blind"]) == ("A", "majority", True)
    assert short.answers == shorter.answers
    assert short.usage["calls"] == shorter.usage["calls"] == 2
    in_turn = run(scripted, fm.Deliberation(roles, "majority", 2), intuitive=["A"], reasoner=["B"])
    with pytest.raises(fm.UserError, match=r"began in turn.*run it with opening='blind'"):
        replay(in_turn, opening="blind")
    with pytest.raises(fm.UserError, match="began blind"):
        replay(blind, opening="in_turn")


def test_blind_answers_are_no_conformity(scripted: Any) -> None:
    reports = {}
    for opening in ("in_turn", "blind"):
        program = fm.Deliberation(["intuitive", "reasoner"], "majority", 1, opening=opening)
        scripted.reply = script(intuitive=["A"], reasoner=["A"])
        asked = [fm.Question(id="q", answer="A", **QUESTION)]
        lm = fm.lm("openai/scripted", api_base=scripted.url)
        found = fm.evaluate(program, asked, lm=lm, tracking=False, cache=False, progress=False)
        reports[opening] = found.summary.report
        assert found.summary.forensics.get("blind", 0) == (opening == "blind")
    assert reports["in_turn"]["conformity"]["rate"] == 1
    assert "conformity" not in reports["blind"]
    assert (reports["blind"]["blind"], reports["in_turn"].get("blind")) == (1, None)
