"""Roles of one's own: what they are told and see, where they sit, and what cannot take a seat."""

import json
from typing import Any, Literal

import dspy
import pytest
from refusals import refused

import folkmoot as fm
from folkmoot.modules.protocols.roles import ROLES, SPEAKERS, WORKERS
from folkmoot.pipelines.testing.replies import text_of
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

ASKED = {"question": "Is it theft?", "choices": {"A": "yes", "B": "no"}}
LAWS = [{"title": "Theft", "text": "Whoever takes a thing commits theft."}]
OUTPUTS = {"finding": "what you see", "answer": "your answer"}
DOCTOR = {"instruction": "You are a physician.", "outputs": OUTPUTS}


class Lawyer(dspy.Signature):  # type: ignore[misc]
    """You argue from the text of the law."""

    question: str = dspy.InputField()
    paragraph: str = dspy.OutputField(desc="the paragraph that decides")
    answer: str = dspy.OutputField()


class Clerk(dspy.Signature):  # type: ignore[misc]
    """You look up one file after the other."""

    question: str = dspy.InputField()
    thought: str = dspy.OutputField()
    action: str = dspy.OutputField()


def replied(body: dict[str, Any]) -> str:
    """Who writes a paragraph says A, everybody else B; workers finish with A at once."""
    fields = wanted_fields(body)
    ours = bool({"paragraph", "weighing", "doubt"} & fields.keys())
    said = {"answer": "A" if ours else "B", "queries": "theft", "action": "Finish[A]"}
    made = {name: (one.get("enum") or [f"some {name}"])[0] for name, one in fields.items()}
    return json.dumps({name: said.get(name, usual) for name, usual in made.items()})


def answered(program: Any, scripted: ScriptedServer) -> Any:
    scripted.reply = replied
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    return program(**ASKED)


def test_the_table_has_the_roles_of_the_papers() -> None:
    named = [name for name in ROLES if ":" not in name]  # others are of other tests
    assert named == ["intuitive", "reasoner", "retriever", "critic", *WORKERS]
    assert SPEAKERS == ("intuitive", "reasoner", "retriever", "critic")
    assert WORKERS == ("bold", "cautious", "neutral")


def test_own_roles_speak_in_order_in_their_words_and_hear_all(scripted: ScriptedServer) -> None:
    program = fm.Deliberation({"lawyer": Lawyer, "critic": "critic", "doctor": DOCTOR}, "majority")
    prediction = answered(program, scripted)
    assert [turn["agent"] for turn in prediction.transcript[:3]] == ["lawyer", "critic", "doctor"]
    first, _, third = (text_of(body) for body in scripted.bodies[:3])
    assert "You argue from the text of the law." in first
    assert '"paragraph" (the paragraph that decides), "answer"' in first
    assert "You are a physician." in third
    assert "some paragraph" in third  # of the lawyer
    assert "some paragraph" not in first
    assert prediction.answer == "B"
    assert program.describe()["roles"] == ["lawyer", "critic", "doctor"]
    assert [*program.describe()["own_roles"]] == ["lawyer", "doctor"]


def test_a_role_called_like_a_seat_takes_that_seat(scripted: ScriptedServer) -> None:
    def role(instruction: str, field: str) -> dict[str, Any]:
        return {"instruction": instruction, "outputs": {field: "", "answer": "yours"}}

    own = {"judge": role("You are the magistrate.", "weighing")}
    own |= {"supervisor": role("You preside.", "opinion"), "evaluator": role("You doubt.", "doubt")}
    told = {
        "You are the magistrate.": fm.Deliberation(["critic", "reasoner"], own_roles=own),
        "You preside.": fm.SupervisedTeam(["bold"], fm.CorpusEnvironment(LAWS), own_roles=own),
        "You doubt.": fm.CausalConsistency(2, 1, own_roles=own),
    }
    scripted.reply = replied
    for words, program in told.items():
        scripted.requests.clear()
        if isinstance(program, fm.Deliberation):
            scripted.reply = lambda body: replied(body).replace(
                '"B"', '"A"' if "critique" in wanted_fields(body) else '"B"'
            )
        program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
        prediction = program(**ASKED)
        assert sum(words in text_of(body) for body in scripted.bodies) >= 1, words
        assert prediction.answer is not None
        assert len(program.describe()["own_roles"]) == 1
    last = [body for body in scripted.bodies if "You doubt." in text_of(body)][-1]
    assert list(wanted_fields(last)) == ["doubt", "answer"]
    assert "some rationale" in text_of(last)  # what it examines


def test_a_role_alone_and_in_several_seats(scripted: ScriptedServer) -> None:
    own = {"lawyer": fm.Role(Lawyer, repeats=2), "doctor": DOCTOR}
    alone = fm.SingleAgent(role="lawyer", own_roles=own)
    prediction = answered(alone, scripted)
    assert (prediction.answer, prediction.decided_by) == ("A", "majority")
    assert len(scripted.bodies) == alone.most_turns() == 2
    several = fm.Deliberation(["lawyer", "doctor"], "strongest:lawyer.1", own_roles=own)
    assert list(several.seats()) == ["lawyer.0", "lawyer.1", "doctor"]
    prediction = answered(several, scripted)
    assert (prediction.answer, prediction.decided_by) == ("A", "strongest:lawyer.1")
    assert prediction.rounds == 3
    assert fm.Deliberation({f"role_{n}": DOCTOR for n in range(8)}).most_turns() == 25
    refused("1 to 8 agents, not 9", fm.Deliberation, {f"role_{n}": DOCTOR for n in range(9)})


def test_seats_of_one_role_who_hear_nobody_are_samples_apart(scripted: ScriptedServer) -> None:
    own = {"lawyer": fm.Role(Lawyer, repeats=2)}
    program = fm.Deliberation(["lawyer"], "majority", 1, opening="blind", own_roles=own)
    scripted.reply = replied
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url))
    prediction = program(**ASKED)
    assert prediction.usage["calls"] == len(scripted.bodies) == 2


def test_a_role_looks_things_up_where_its_tools_say(scripted: ScriptedServer) -> None:
    asked: list[str] = []

    def search(query: str) -> list[str]:
        asked.append(query)
        return [f"The court on {query}."]

    async def nothing(query: str) -> None:
        return None

    tools = [fm.CorpusEnvironment(LAWS), search, nothing]
    own = {"lawyer": fm.Role(Lawyer, tools=tools), "doctor": DOCTOR}
    program = fm.Deliberation(["lawyer", "doctor"], "majority", 1, own_roles=own)
    prediction = answered(program, scripted)
    assert asked == ["theft"]
    (turn, other) = prediction.transcript
    assert turn["queries"] == ["theft"]
    found = [item["text"] for item in turn["evidence"]]
    assert found == ["Whoever takes a thing commits theft.", "The court on theft."]
    assert "evidence" not in other
    assert list(program.seats()) == ["lawyer", "doctor", "lawyer.query"]
    assert program.most_turns() == 3
    worker = fm.SupervisedTeam(["lawyer"], own_roles=own, max_retries=0)
    assert answered(worker, scripted).answer == "A"
    needs = {"lawyer": fm.Role(Lawyer, tools=["environment"])}
    with pytest.raises(fm.UserError, match="a team looks things up: give it an environment"):
        fm.SupervisedTeam(["lawyer"], own_roles=needs)
    with pytest.raises(fm.UserError, match="a supervisor looks nothing up"):
        fm.SupervisedTeam(["lawyer"], own_roles={**own, "supervisor": own["lawyer"]})


def test_workers_in_a_role_act(scripted: ScriptedServer) -> None:
    places = fm.CorpusEnvironment(LAWS)
    own = {"lawyer": fm.Role(Lawyer, repeats=2), "clerk": Clerk}
    program = fm.SupervisedTeam(["lawyer", "clerk", "bold"], places, own_roles=own)
    prediction = answered(program, scripted)
    assert prediction.answer == "A"
    workers = ["lawyer.0", "lawyer.1", "clerk", "bold"]
    assert [turn["agent"] for turn in prediction.transcript] == [*workers, "supervisor"]
    acting = [body for body in scripted.bodies if "action" in wanted_fields(body)]
    told = [text_of(body) for body in acting]
    assert sum("You argue from the text of the law. If the supervisor" in text for text in told)
    assert sum("You look up one file after the other." in text for text in told) == 1
    assert all(list(wanted_fields(body)) == ["thought", "action"] for body in acting)
    shown = text_of(scripted.bodies[-1])
    assert "what bold did, who guesses early" in shown
    assert "what clerk did\n" in shown  # of whose style nothing is known
    refused("'clerk' is a worker and gives no answer", fm.Deliberation, {"clerk": Clerk})


def test_a_roles_lm_is_that_of_its_seats_unless_one_is_given(scripted: ScriptedServer) -> None:
    mine, other = (fm.lm(f"openai/{name}", api_base=scripted.url) for name in ("mine", "other"))
    own = {"lawyer": fm.Role(Lawyer, tools=[fm.CorpusEnvironment(LAWS)], lm=mine, repeats=2)}
    program = fm.Deliberation(["lawyer", "critic"], own_roles=own, lms={"lawyer.1": other})
    lms = {name: seat.predict.lm for name, seat in program.seats().items()}
    assert lms["lawyer.0"] is lms["lawyer.0.query"] is mine
    assert lms["lawyer.1"] is lms["lawyer.1.query"] is other
    assert lms["critic"] is lms["judge"] is None
    assert fm.SingleAgent(role="lawyer", own_roles=own).seat.predict.lm is mine
    assert fm.SingleAgent(role="lawyer", own_roles=own, lm=other).seat.predict.lm is other


class Typed(dspy.Signature):  # type: ignore[misc]
    """You weigh."""

    question: str = dspy.InputField()
    verdict: Literal["guilty", "free"] = dspy.OutputField()
    answer: str = dspy.OutputField()


class Client(Lawyer):
    """You know your client."""

    client: str = dspy.InputField()


def written(**more: Any) -> dict[str, Any]:
    return {"instruction": "You argue.", "outputs": {"answer": "yours"}, **more}


@pytest.mark.parametrize(
    ("role", "words"),
    [
        (written(outputs={"reason": "why"}), "'mine' gives no answer: make 'answer' its last"),
        (written(outputs={"answer": "", "reason": "why"}), "'mine' gives no answer"),
        (written(outputs={}), "gives no answer"),
        (written(outputs=["answer"]), "'mine' has no outputs"),
        (written(outputs={"question": "", "answer": ""}), "the output 'question'"),
        (written(outputs={"two words": "", "answer": ""}), "the output 'two words'"),
        (written(outputs={"why": 3, "answer": ""}), "the output 'why': 3"),
        ({"outputs": {"answer": ""}}, "'mine' has no instruction"),
        (written(instruction="  "), "'mine' has no instruction"),
        (written(instructon="x"), r"no 'instructon' \(did you mean 'instruction'"),
        (written(repeats=0), "repeats of the role 'mine' is 0"),
        (written(repeats=9), "9 repeats: give 8 at most"),
        (written(repeats=True), "repeats of the role 'mine' is True"),
        (written(lm="openai/x"), "the lm 'openai/x': give one such as fm.lm"),
        (written(tools=["corpus:laws.jsonl"]), "the tool 'corpus:laws.jsonl': give an environment"),
        ("critical", "the role 'mine' is 'critical': give a dspy.Signature"),
        (None, "the role 'mine' is None: give a dspy.Signature"),
        (Typed, "the field 'verdict': its inputs are some of .*, and its outputs text"),
        (Client, "the field 'client': its inputs are some of question"),
        (fm.Role(Lawyer, repeats=10**9), "1000000000 repeats: give 8 at most"),
    ],
)
def test_what_cannot_take_a_seat_is_said_in_one_sentence(role: Any, words: str) -> None:
    refused(words, fm.Deliberation, {"mine": role})


TWO_EVALUATORS = {"evaluator": fm.Role(Lawyer, repeats=2)}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fm.Deliberation(["lawer"], own_roles={"lawyer": Lawyer}), "did you mean 'lawyer'"),
        (lambda: fm.Deliberation(["critik"]), r"no role 'critik' \(did you mean 'critic'\?\)"),
        (lambda: fm.SingleAgent(role="critik"), "did you mean 'critic'"),
        (lambda: fm.SupervisedTeam(["bald"]), r"no worker 'bald' \(did you mean 'bold'\?\)"),
        (lambda: fm.Deliberation(["bold"]), "there is no role 'bold': choose among intuitive"),
        (lambda: fm.Deliberation({"critic": Lawyer}), "there is a role 'critic' already"),
        (lambda: fm.Deliberation(["a", "a"], own_roles={"a": Lawyer}), "more than once"),
        (lambda: fm.Deliberation(["judge"], own_roles={"judge": Lawyer}), "no role 'judge'"),
        (lambda: fm.Deliberation({"a:b": Lawyer}), "'a:b' needs a name of letters"),
        (lambda: fm.Deliberation(["a"], own_roles="roles.yaml"), "fm.roles"),
        (lambda: fm.CausalConsistency(own_roles=TWO_EVALUATORS), "has 2 repeats: give 1 at most"),
    ],
)
def test_names_of_roles_are_checked(make: Any, words: str) -> None:
    refused(words, make)


def test_a_role_added_to_the_table_is_known_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROLES._entries, "lawyer", fm.Role(Lawyer))
    program = fm.Deliberation(["lawyer", "critic"])
    assert "own_roles" not in program.describe()
    assert "paragraph" in program.agents[0].predict.signature.output_fields
    assert "discussion" in program.agents[0].predict.signature.input_fields
    program.word({"lawyer": "You are brief."})
    assert program.agents[0].predict.signature.instructions == "You are brief."
