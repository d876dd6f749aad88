"""Single agents and static ensembles, as called, voted, copied, saved and compiled."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

import folkmoot as fm
from folkmoot.modules.agents.seat import Seat
from folkmoot.modules.agents.transcript import Task
from folkmoot.modules.protocols.program import Program, prediction_of
from folkmoot.modules.protocols.strategies import STRATEGIES
from folkmoot.signatures.roles import ROLES
from folkmoot.signatures.strategies import Simple

CHOICES = {"A": "bank", "B": "library", "C": "mall"}
QUESTION = {"question": "Where do people keep their savings?", "choices": CHOICES}


def question(i: int, answer: str = "A") -> fm.Question:
    return fm.Question(id=str(i), question=f"Question {i}?", choices=CHOICES, answer=answer)


def ready(scripted: Any, program: Program, **settings: Any) -> Any:
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url, **settings))
    return program


def last_text(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def by_model(
    **answers: str | Exception | tuple[int, dict[str, str], Any],
) -> Callable[[dict[str, Any]], Any]:
    """Each model gives its answer; a tuple is a status of its own."""

    def reply(body: dict[str, Any]) -> Any:
        answer = answers[body["model"]]
        if isinstance(answer, tuple):
            return answer
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        return json.dumps(
            {name: answer if name == "answer" else f"{name} of it" for name in fields}
        )

    return reply


def team(scripted: Any, *models: str, **settings: Any) -> fm.Ensemble:
    """An ensemble with a model of its own for each member."""
    members = [
        fm.SingleAgent(lm=fm.lm(f"openai/{model}", api_base=scripted.url)) for model in models
    ]
    return fm.Ensemble(members, **settings)


# One agent
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "instructions"),
    [
        ({"strategy": name}, strategy.signature.instructions)
        for name, strategy in STRATEGIES.items()
        if strategy.samples is None and not strategy.steps
    ]
    + [({"role": name}, signature.instructions) for name, signature in ROLES.items()],
)
def test_an_agent_is_told_what_its_signature_says(
    scripted: Any, arguments: dict[str, str], instructions: str
) -> None:
    program = ready(scripted, fm.SingleAgent(**arguments))
    prediction = program(**QUESTION)
    (body,) = scripted.bodies
    assert " ".join(instructions.split()) in last_text(body)
    assert "A) bank\nB) library\nC) mall" in last_text(body)
    assert prediction.answer == "A"
    assert prediction.decided_by == "single"
    assert (prediction.rounds, prediction.consensus_round) == (1, None)
    (turn,) = prediction.transcript
    assert turn["agent"] == next(iter(arguments.values()))
    assert turn["usage"] == prediction.usage


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"strategy": "wizardry"}, "wizardry"),
        ({"role": "jester"}, "jester"),
        ({"strategy": "cot", "role": "critic"}, "not both"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, str], words: str) -> None:
    with pytest.raises(fm.UserError, match=words):
        fm.SingleAgent(**arguments)


@pytest.mark.parametrize(
    ("kind", "reply", "answer"),
    [
        ("boolean", '{"answer": "yes"}', "yes"),
        ("boolean", '{"answer": true}', "yes"),
        ("boolean", '{"answer": "False."}', "no"),
        ("number", '{"answer": "1,250 dollars"}', "1250"),
        ("number", '{"answer": -0.50}', "-0.5"),
        ("number", "#### 42", "42"),
        ("span", '{"answer": " the Eiffel Tower "}', "the Eiffel Tower"),
        ("span", '{"answer": {"name": "x"}}', '{"name": "x"}'),
    ],
)
def test_the_other_kinds(scripted: Any, kind: str, reply: str, answer: str) -> None:
    scripted.reply = lambda _: reply
    prediction = ready(scripted, fm.SingleAgent())(question="What?", kind=kind)
    assert (prediction.answer, prediction.kind) == (answer, kind)


def test_the_second_request_names_the_reason_and_the_form(scripted: Any) -> None:
    replies = iter(['{"answer": "the cloakroom"}', '{"answer": "C"}'])
    scripted.reply = lambda _: next(replies)
    prediction = ready(scripted, fm.SingleAgent())(**QUESTION)
    first, second = map(last_text, scripted.bodies)
    assert second.startswith(first)
    assert "the cloakroom" in second.removeprefix(first)
    assert "A, B, C" in second.removeprefix(first)
    assert prediction.answer == "C"
    assert "raw" not in prediction.transcript[0]


def test_what_could_not_be_read_is_kept_in_its_own_words(scripted: Any) -> None:
    scripted.reply = lambda _: '{"answer": "either of A and B"}'
    prediction = ready(scripted, fm.SingleAgent())(**QUESTION)
    assert prediction.transcript[0]["raw"] == "either of A and B"


def test_an_answer_given_as_the_options_text_is_read(scripted: Any) -> None:
    scripted.reply = lambda _: '{"answer": "Library"}'
    assert ready(scripted, fm.SingleAgent())(**QUESTION).answer == "B"


def test_sampling_of_a_seat_goes_over_that_of_its_lm(scripted: Any) -> None:
    ready(scripted, fm.SingleAgent(sampling={"temperature": 0.7, "max_tokens": 5}))(**QUESTION)
    body = scripted.bodies[0]
    assert (body["temperature"], body["max_tokens"]) == (0.7, 5)


# Votes
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "winner", "decided_by"),
    [
        (["B", "A", "B"], "B", "majority"),
        (["C", "A", "B"], "C", "majority"),
        (["A", "B", "B", "A"], "A", "majority"),
        (["?", "B", "?"], "B", "majority"),
        (["?", "?", "A", "B", "B"], "B", "majority"),
        (["?", "?"], None, "none"),
    ],
)
def test_majority(scripted: Any, answers: list[str], winner: str | None, decided_by: str) -> None:
    models = [f"m{i}" for i in range(len(answers))]
    scripted.reply = by_model(**dict(zip(models, answers, strict=True)))
    prediction = team(scripted, *models)(**QUESTION)
    assert (prediction.answer, prediction.decided_by) == (winner, decided_by)
    assert [turn["answer"] for turn in prediction.transcript] == [
        None if answer == "?" else answer for answer in answers
    ]
    assert prediction.usage["calls"] == len(answers) + answers.count("?")


@pytest.mark.parametrize(
    ("answers", "weights", "winner"),
    [
        (["A", "B", "B"], [3, 1, 1], "A"),
        (["A", "B", "B"], [1, 1, 1], "B"),
        (["A", "B", "C"], [1, 3, 2], "B"),
        (["A", "B", "B"], [2, 1, 1], "A"),
        (["A", "B", "?"], [1, 1, 9], "A"),
        (["A", "B", "B"], [0.3, 0.1, 0.2], "A"),
        (["A", "?", "?"], [0, 1, 1], "A"),
    ],
)
def test_weighted(scripted: Any, answers: list[str], weights: list[float], winner: str) -> None:
    models = ["m0", "m1", "m2"]
    scripted.reply = by_model(**dict(zip(models, answers, strict=True)))
    prediction = team(scripted, *models, vote="weighted", weights=weights)(**QUESTION)
    assert (prediction.answer, prediction.decided_by) == (winner, "weighted")


def test_members_are_asked_at_the_same_time(scripted: Any) -> None:
    scripted.delay = 0.3
    members = [f"m{i}" for i in range(5)]
    scripted.reply = by_model(**dict.fromkeys(members, "A"))
    began = time.monotonic()
    prediction = team(scripted, *members)(**QUESTION)
    assert time.monotonic() - began < 0.9
    assert scripted.most_at_once == 5
    assert prediction.usage["calls"] == 5


def test_names_of_members_and_their_lms(scripted: Any) -> None:
    lms = {
        name: fm.lm(f"openai/{name.replace('.', '-')}", api_base=scripted.url)
        for name in ("simple", "simple.1", "cot")
    }
    program = ready(scripted, fm.Ensemble(["simple", "cot", "simple"]))
    assert list(program.seats()) == ["simple.0", "cot", "simple.1"]
    program.assign(lms)
    prediction = program(**QUESTION)
    assert [turn["agent"] for turn in prediction.transcript] == ["simple.0", "cot", "simple.1"]
    assert sorted(body["model"] for body in scripted.bodies) == ["cot", "simple", "simple-1"]
    with pytest.raises(fm.UserError, match=r"simple\.7.*simple\.0, cot, simple\.1"):
        program.assign({"simple.7": None})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"members": []}, "at least one"),
        ({"members": "simple"}, "list of members"),
        ({"members": ["simple"], "vote": "dice"}, "dice"),
        ({"members": ["nonsense"]}, "nonsense"),
        ({"members": ["simple"], "weights": [1, 2]}, "2 weights for 1 members"),
        ({"members": ["simple"], "weights": [-1]}, "at least 0"),
        ({"members": ["simple"], "weights": [float("nan")]}, "at least 0"),
        ({"members": ["simple"], "weights": [float("inf")]}, "at least 0"),
        ({"members": ["simple"], "weights": [0]}, "not all 0"),
        ({"members": ["simple"], "lms": {"cot": None}}, "cot"),
    ],
)
def test_bad_ensembles_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(fm.UserError, match=words):
        fm.Ensemble(**arguments)


def test_a_weighted_vote_without_weights_is_refused_before_any_call(scripted: Any) -> None:
    program = ready(scripted, fm.Ensemble(["simple", "cot"], "weighted"))
    with pytest.raises(fm.UserError, match="no weights"):
        program(**QUESTION)
    assert not scripted.bodies


def test_fitted_weights_come_from_recorded_rows(scripted: Any, tmp_path: Path) -> None:
    """m0 is right in 3 of 4, m1 in 1 of 4, m2 never readable."""
    right = {"m0": {0, 1, 2}, "m1": {3}}

    def reply(body: dict[str, Any]) -> str:
        i = int(re.search(r"Question (\d)", last_text(body))[1])  # type: ignore[index]
        if body["model"] == "m2":
            return "?"
        return json.dumps({"answer": "A" if i in right[body["model"]] else "B"})

    scripted.reply = reply
    program = team(scripted, "m0", "m1", "m2")
    rows = list(fm.evaluate(program, [question(i) for i in range(4)], tracking=False).rows)
    weights = program.fit_weights(rows)
    # log(2 * 3.5 / 1.5), of three options
    assert weights == pytest.approx([1.5404, 0.0, 0.0], abs=1e-4)
    assert program.vote == "weighted"
    assert program(question="Question 3?", choices=CHOICES).answer == "B"
    with pytest.raises(fm.UserError, match="not of this ensemble"):
        fm.Ensemble(["simple", "cot"]).fit_weights(rows)
    with pytest.raises(fm.UserError, match="no finished rows"):
        program.fit_weights([{**rows[0], "error": "x"}])


def test_an_ensemble_of_programs(scripted: Any) -> None:
    program = fm.Ensemble(
        [fm.SingleAgent(role="critic"), fm.Deliberation(["intuitive", "reasoner"])]
    )
    prediction = ready(scripted, program)(**QUESTION)
    assert prediction.answer == "A"
    assert [turn["agent"] for turn in prediction.transcript] == ["critic", "deliberation"]
    assert prediction.usage["calls"] == 3


# Demonstrations, copies, files
# ------------------------------------------------------------------------------


def test_labelled_demos_stand_before_the_question(scripted: Any) -> None:
    train = [question(i, "B") for i in range(3)]
    for program in (fm.SingleAgent("cot"), fm.Ensemble(["simple", "cot"])):
        shown = ready(scripted, fm.labelled_demos(program, train, 2))
        scripted.requests.clear()
        shown(**QUESTION)
        assert len(scripted.bodies) == len(shown.predictors())
        for body in scripted.bodies:
            roles = [message["role"] for message in body["messages"]]
            assert roles == ["system", *["user", "assistant"] * 2, "user"]
            assert "Question 0?" in body["messages"][1]["content"]
            assert json.loads(body["messages"][2]["content"]) == {"answer": "B"}
        assert not any(predictor.demos for predictor in program.predictors())


def exact(example: Any, prediction: Any, trace: Any = None) -> bool:
    return bool(example.answer == prediction.answer)


def test_optimizers_leave_seats_their_lms(scripted: Any) -> None:
    program = fm.Ensemble(
        ["simple", "cot"], lms={"cot": fm.lm("openai/own", api_base=scripted.url)}
    )
    compiled = dspy.LabeledFewShot(k=1).compile(program, trainset=[question(1)])
    with dspy.context(lm=fm.lm("openai/common", api_base=scripted.url)):
        compiled(**QUESTION)
    assert sorted(body["model"] for body in scripted.bodies) == ["common", "own"]


def test_dspys_own_evaluation_works_from_its_threads(scripted: Any) -> None:
    program = ready(scripted, fm.Ensemble(["simple", "cot"]))
    devset = [question(i, "A" if i % 2 else "B") for i in range(10)]
    result = dspy.Evaluate(devset=devset, metric=exact, num_threads=4, display_progress=False)(
        program
    )
    assert result.score == 50.0


# A protocol of one's own
# ------------------------------------------------------------------------------------


class Doubled(Program):
    """Two seats in a row, the second sees nothing of the first: the least a user's protocol has."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Seat("first", Simple), Seat("second", Simple)

    def describe(self) -> dict[str, Any]:
        return {"program": "doubled"}

    async def solve(self, task: Task) -> Any:
        turns = [await self.first.ask(task), await self.second.ask(task, rollout=1)]
        return prediction_of(task, turns[1].answer, "second", turns)


def test_a_protocol_of_ones_own(scripted: Any) -> None:
    program = ready(scripted, Doubled())
    result = fm.evaluate(program, [question(i) for i in range(3)], tracking=False)
    assert result.accuracy == 1.0
    assert [row["usage"]["calls"] for row in result.rows] == [2, 2, 2]
    assert len(scripted.bodies) == 6
    assert threading.active_count() < 50
