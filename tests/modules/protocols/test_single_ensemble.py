"""Single agents and static ensembles, as called, voted, copied, saved and compiled."""

import asyncio
import gc
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from refusals import refused

import folkmoot as fm
from folkmoot.modules.base.calls import with_usage
from folkmoot.modules.protocols.program import Program
from folkmoot.modules.protocols.roles import ROLES, SPEAKERS
from folkmoot.pipelines.testing.replies import filled, text_of

CHOICES = {"A": "bank", "B": "library", "C": "mall"}
QUESTION = {"question": "Where do people keep their savings?", "choices": CHOICES}


def question(i: int, answer: str = "A") -> fm.Question:
    return fm.Question(id=str(i), question=f"Question {i}?", choices=CHOICES, answer=answer)


def ready(scripted: Any, program: Program, **settings: Any) -> Any:
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url, **settings))
    return program


def by_model(**answers: str) -> Callable[[dict[str, Any]], Any]:
    """Each model gives its answer."""
    return lambda body: filled(body, answers[body["model"]])


def team(scripted: Any, *models: str, **settings: Any) -> fm.Ensemble:
    """An ensemble with a model of its own for each member."""
    lms = [fm.lm(f"openai/{model}", api_base=scripted.url) for model in models]
    members = [fm.SingleAgent(lm=lm) for lm in lms]
    return fm.Ensemble(members, **settings)


@pytest.mark.parametrize("role", SPEAKERS)
def test_an_agent_is_told_what_the_signature_of_its_role_says(scripted: Any, role: str) -> None:
    prediction = ready(scripted, fm.SingleAgent(role=role))(**QUESTION)
    (body,) = scripted.bodies
    assert " ".join(ROLES[role].signature.instructions.split()) in text_of(body)
    assert "A) bank\nB) library\nC) mall" in text_of(body)
    assert prediction.answer == "A"
    assert prediction.decided_by == "single"
    assert (prediction.rounds, prediction.consensus_round) == (1, None)
    (turn,) = prediction.transcript
    assert turn["agent"] == role
    assert turn["usage"] == prediction.usage


def test_the_second_request_names_the_reason_and_the_form(scripted: Any) -> None:
    replies = iter(['{"answer": "the cloakroom"}', '{"answer": "C"}'])
    scripted.reply = lambda _: next(replies)
    prediction = ready(scripted, fm.SingleAgent())(**QUESTION)
    first, second = map(text_of, scripted.bodies)
    assert second.startswith(first)
    assert "the cloakroom" in second.removeprefix(first)
    assert "A, B, C" in second.removeprefix(first)
    assert prediction.answer == "C"
    assert "raw" not in prediction.transcript[0]


@pytest.mark.parametrize(
    ("answers", "weights", "winner", "decided_by"),
    [
        ("BAB", None, "B", "majority"),
        ("CAB", None, "C", "majority"),
        ("??ABB", None, "B", "majority"),
        ("??", None, None, "none"),
        ("ABB", [3, 1, 1], "A", "weighted"),
        ("ABB", [1, 1, 1], "B", "weighted"),
        ("ABB", [0.3, 0.1, 0.2], "A", "weighted"),  # a tie
        ("AAB", [1, 1, 2], "B", "weighted"),  # a tie, for the heaviest member
        ("AB?", [1, 1, 9], "A", "weighted"),
        ("A??", [0, 1, 1], "A", "weighted"),
    ],
)
def test_members_are_asked_at_the_same_time_and_vote(
    scripted, answers, weights, winner, decided_by
):
    at_once = answers in ("BAB", "AAB")
    scripted.delay = 0.5 if at_once else 0
    models = [f"m{i}" for i in range(len(answers))]
    scripted.reply = by_model(**dict(zip(models, answers, strict=True)))
    vote = "weighted" if weights else "majority"
    prediction = team(scripted, *models, vote=vote, weights=weights)(**QUESTION)
    assert (prediction.answer, prediction.decided_by) == (winner, decided_by)
    assert [turn["answer"] or "?" for turn in prediction.transcript] == list(answers)
    assert prediction.usage["calls"] == len(answers) + answers.count("?")
    assert scripted.most_at_once == len(answers) or not at_once


@pytest.mark.parametrize(
    "work",
    [
        lambda part: (with_usage(part, number) for number in range(9)),
        lambda part: list(map(part, range(9))),
    ],
    ids=["as it is begun", "before"],
)
def test_a_part_that_fails_while_others_are_begun_leaves_no_coroutine_behind(work, recwarn):
    for turns in range(8):

        async def part(number: int, turns: int = turns) -> None:
            for _ in range(99 if number else turns):
                await asyncio.sleep(0)
            raise fm.UserError("the budget is spent")

        with pytest.raises(fm.UserError):
            asyncio.run(fm.together(work(part)))
    gc.collect()
    assert not [str(warning.message) for warning in recwarn]


def test_names_of_members_and_their_lms(scripted: Any) -> None:
    names = {name: name.replace(".", "-") for name in ("simple", "simple.1", "cot")}
    lms = {seat: fm.lm(f"openai/{name}", api_base=scripted.url) for seat, name in names.items()}
    program = ready(scripted, fm.Ensemble(["simple", "cot", "simple"]))
    assert list(program.seats()) == ["simple.0", "cot", "simple.1"]
    program.assign(lms)
    prediction = program(**QUESTION)
    assert [turn["agent"] for turn in prediction.transcript] == ["simple.0", "cot", "simple.1"]
    assert sorted(body["model"] for body in scripted.bodies) == ["cot", "simple", "simple-1"]
    refused(r"simple\.7.*simple\.0, cot, simple\.1", program.assign, {"simple.7": None})


def test_a_budget_that_ends_among_members_leaves_none_unawaited(scripted, recwarn):
    scripted.reply = by_model(m0="A", m1="A", m2="B", m3="B")
    given = {"choices": ["a", "b"], "answer": "A"}
    asked = [fm.Question(id=str(i), question=f"{i}?", **given) for i in range(9)]
    members = team(scripted, "m0", "m1", "m2", "m3")
    result = fm.evaluate(members, asked, budget="10 calls", tracking=False)
    assert 0 < len(result.rows) < 9
    gc.collect()
    assert not [one for one in recwarn.list if issubclass(one.category, RuntimeWarning)]


def test_a_weighted_vote_without_weights_is_refused_before_any_call(scripted: Any) -> None:
    program = ready(scripted, fm.Ensemble(["simple", "cot"], "weighted"))
    refused("no weights", program, **QUESTION)
    assert not scripted.bodies


def test_fitted_weights_come_from_recorded_rows(scripted: Any, tmp_path: Path) -> None:
    """m0 is right in 3 of 4, m1 in 1 of 4, m2 never readable."""
    right = {"m0": {0, 1, 2}, "m1": {3}}

    def reply(body: dict[str, Any]) -> str:
        i = int(re.search(r"Question (\d)", text_of(body))[1])  # type: ignore[index]
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
    refused("no finished rows", program.fit_weights, [{**rows[0], "error": "x"}])


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


def test_dspys_own_evaluation_works_from_its_threads(scripted: Any) -> None:
    program = ready(scripted, fm.Ensemble(["simple", "cot"]))
    devset = [question(i, "A" if i % 2 else "B") for i in range(10)]

    def exact(example: Any, prediction: Any, trace: Any = None) -> bool:
        return bool(example.answer == prediction.answer)

    evaluate = dspy.Evaluate(devset=devset, metric=exact, num_threads=4, display_progress=False)
    result = evaluate(program)
    assert result.score == 50.0
