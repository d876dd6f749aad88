"""Every clause of the deliberation protocol, checked against what really went over the wire."""

import itertools
import re
from typing import Any

import pytest
from refusals import refused

import folkmoot as fm
from folkmoot.modules.protocols.deliberation.replay import replay
from folkmoot.pipelines.testing.replies import filled

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
    """A reply function: each role gives its answers in turn, with an argument that names both."""
    turns: dict[str, int] = {}

    def reply(body: dict[str, Any]) -> str:
        role = role_of(body)
        turn = turns[role] = turns.get(role, 0) + 1
        answer = answers[role][min(turn, len(answers[role])) - 1]
        return filled(body, answer, f"argument {turn} of {role}")

    return reply


def run(scripted: Any, program: fm.Deliberation, **answers: list[str]) -> Any:
    scripted.reply = script(**answers)
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    return program(**QUESTION)


def asked(scripted: Any) -> list[str]:
    return [role_of(body) for body in scripted.bodies]


def test_every_prompt_holds_the_question_the_options_and_the_whole_history(scripted: Any) -> None:
    team = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=2)
    run(scripted, team, intuitive=["A"], reasoner=["B"], judge=["C"])
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
    heard = [f"{name} {round}" for name, round in re.findall(r"(\w+), round (\d)", last)]
    assert heard == ["intuitive 1", "reasoner 1", "intuitive 2", "reasoner 2"]
    assert re.findall(r"^Answer: (\w)$", last, re.MULTILINE) == ["A", "B", "A", "B"]


CHANGED = {"reasoner": ["C", "B", "none"]}


@pytest.mark.parametrize(
    ("roles", "tie_break", "answers", "outcome", "speakers"),
    [
        ("ir", "judge", {"judge": ["C"]}, ("C", "judge"), "iririrj"),
        ("ir", "judge", {"judge": ["???"]}, ("A", "fallback:majority"), "iririrjj"),
        ("ir", "strongest:intuitive", {}, ("A", "strongest:intuitive"), "ir" * 3),
        ("ir", "strongest:reasoner", {}, ("B", "strongest:reasoner"), "ir" * 3),
        # the strongest agent's last valid answer counts
        ("ir", "strongest:reasoner", CHANGED, ("B", "strongest:reasoner"), "iririrr"),
        ("cir", "majority", {"critic": ["C"], "reasoner": ["A"]}, ("A", "majority"), "cir" * 3),
        # a tie goes to the earliest speaker
        ("cir", "majority", {"critic": ["C"]}, ("C", "majority"), "cir" * 3),
        # an abstention equals nothing, not even another one
        ("ir", "majority", {"reasoner": ["???"]}, ("A", "majority"), "irr" * 3),
        ("ir", "majority", {"intuitive": ["???"], "reasoner": ["???"]}, (None, "none"), "iirr" * 3),
    ],
)
def test_without_consensus_the_tie_break_decides_after_the_last_round(
    scripted, roles, tie_break, answers, outcome, speakers
):
    names = {"c": "critic", "i": "intuitive", "r": "reasoner"}
    program = fm.Deliberation([names[role] for role in roles], tie_break)
    prediction = run(scripted, program, **{"intuitive": ["A"], "reasoner": ["B"], **answers})
    assert (prediction.answer, prediction.decided_by) == outcome
    assert (prediction.rounds, prediction.consensus_round) == (3, None)
    assert "".join(role[0] for role in asked(scripted)) == speakers
    for turn in prediction.transcript:
        assert turn.get("raw") == (None if turn["answer"] else answers[turn["agent"]][-1])


def test_later_turns_share_the_prefix_of_earlier_ones(scripted: Any) -> None:
    team = fm.Deliberation(["critic", "intuitive", "reasoner"], tie_break="majority")
    run(scripted, team, critic=["A"], intuitive=["B"], reasoner=["C"])
    texts = [body["messages"][-1]["content"] for body in scripted.bodies]
    for earlier, later in itertools.pairwise(texts):
        material = earlier[: earlier.rindex("\n\n")]
        assert later.startswith(material)


def test_replay_gives_what_a_run_with_those_settings_gave(scripted: Any) -> None:
    answers = {"intuitive": ["A", "B", "A"], "reasoner": ["B", "C", "C"], "judge": ["B"]}
    recorded = run(scripted, fm.Deliberation(["intuitive", "reasoner"], max_rounds=3), **answers)
    calls = len(scripted.bodies)
    for rounds in (1, 2, 3):
        for rule in ("majority", "strongest:intuitive", "strongest:reasoner"):
            replayed = replay(recorded, max_rounds=rounds, tie_break=rule)
            team = fm.Deliberation(["intuitive", "reasoner"], rule, rounds)
            real = run(scripted, team, **answers)
            for name in ("answer", "decided_by", "rounds", "consensus_round", "answers"):
                assert replayed[name] == real[name], (rounds, rule, name)
            calls += 2 * rounds
            assert len(scripted.bodies) == calls
    assert replay(recorded).answer == recorded.answer
    assert replay(recorded).usage == recorded.usage
    assert replay(recorded, max_rounds=2, tie_break="majority").usage["calls"] == 4
    refused("whole number", replay, recorded, max_rounds="1", tie_break="majority")


def test_options_with_the_same_text_are_one_answer(scripted: Any) -> None:
    scripted.reply = script(intuitive=["C"], reasoner=["A"])
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority")
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    prediction = program(question="Which?", choices={"A": "x", "B": "y", "C": "x"})
    assert (prediction.answer, prediction.decided_by) == ("A", "consensus")
    assert (prediction.rounds, prediction.consensus_round) == (1, 1)
    assert asked(scripted) == ["intuitive", "reasoner"]


def test_in_a_blind_opening_nobody_sees_the_round_and_all_are_asked_at_once(scripted: Any) -> None:
    scripted.delay = 0.5
    how: Any = {"tie_break": "majority", "max_rounds": 2, "opening": "blind"}
    program = fm.Deliberation(["intuitive", "reasoner"], **how)
    prediction = run(scripted, program, intuitive=["A"], reasoner=["B"])
    assert scripted.most_at_once == 2
    asked = [(role_of(body), body["messages"][-1]["content"]) for body in scripted.bodies]
    seen = {(role, len(re.findall(r"argument \d of", text))) for role, text in asked}
    assert seen == {("intuitive", 0), ("reasoner", 0), ("intuitive", 2), ("reasoner", 3)}
    blind = [turn.get("blind", False) for turn in prediction.transcript]
    assert blind == [True, True, False, False]
    assert program.describe()["opening"] == "blind"


def test_a_blind_dialogue_is_replayed_as_such_and_no_other_becomes_one(scripted: Any) -> None:
    roles = ["intuitive", "reasoner"]
    team = fm.Deliberation(roles, "majority", 2, opening="blind")
    blind = run(scripted, team, intuitive=["A", "B"], reasoner=["B"])
    short = replay(blind, max_rounds=1, tie_break="majority", opening="blind")
    team = fm.Deliberation(roles, "majority", 1, opening="blind")
    shorter = run(scripted, team, intuitive=["A"], reasoner=["B"])
    assert (short.answer, short.decided_by, short.transcript[0]["blind"]) == ("A", "majority", True)
    assert short.answers == shorter.answers
    assert short.usage["calls"] == shorter.usage["calls"] == 2
    in_turn = run(scripted, fm.Deliberation(roles, "majority", 2), intuitive=["A"], reasoner=["B"])
    refused(r"began in turn.*run it with opening='blind'", replay, in_turn, opening="blind")
    refused("began blind", replay, blind, opening="in_turn")


def test_a_vote_instead_of_the_judge_keeps_prompts_roles_and_lms(scripted: Any) -> None:
    """An improved contest asked another program: without the user's roles, prompts and LMs."""
    other = fm.lm("openai/other", api_base=scripted.url)
    mine = {"instruction": "You bake.", "outputs": {"answer": "the answer"}}
    own: Any = {"own_roles": {"baker": mine, "judge": mine}, "prompts": {"intuitive": "Be quick."}}
    talk = fm.Deliberation(["intuitive", "baker"], lms={"baker": other}, opening="blind", **own)
    voted = talk.voted(1)
    roles = {"baker": talk.describe()["own_roles"]["baker"]}
    changed = {"own_roles": roles, "tie_break": "majority", "max_rounds": 1}
    assert voted.describe() == {**talk.describe(), **changed}
    assert list(voted.seats()) == ["intuitive", "baker"]
    assert voted.seats()["baker"].predict.lm.model == other.model
