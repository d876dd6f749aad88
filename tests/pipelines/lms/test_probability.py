"""The LM's own probability of its answer: read from logprobs, and used by votes and routers."""

import math
from typing import Any

import dspy
import pytest
from dspy.experimental import Choice

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.modules.protocols.router.calibration import sureness
from folkmoot.pipelines.lms.endpoint import answer_probability
from folkmoot.pipelines.testing.replies import text_of
from folkmoot.pipelines.testing.server import ScriptedServer

CHOICES = {"A": "here", "B": "there"}
ASKED = fm.Question(id="q", question="Where is it?", choices=CHOICES, answer="A")


def completion(answer: str, share: float | None) -> tuple[int, dict[str, str], dict[str, Any]]:
    """A reply in JSON, its answer one token with this probability; None: without logprobs."""
    tokens = ['{"reasoning": "the answer: \\"B\\"", "ans', 'wer": "', answer, '"}']
    message = {"role": "assistant", "content": "".join(tokens)}
    choice: dict[str, Any] = {"message": message, "finish_reason": "stop"}
    if share is not None:
        logprobs = [0.0, -0.1, math.log(share), -0.2]
        content = [{"token": t, "logprob": p} for t, p in zip(tokens, logprobs, strict=True)]
        choice["logprobs"] = {"content": content}
    return 200, {}, {"choices": [choice]}


@pytest.mark.parametrize(
    ("tokens", "probability"),
    [
        ([('{"answer": "', -1.0), ("A", math.log(0.25)), ('"}', -1.0)], 0.25),
        ([('{"answer": ', -1.0), ("4", math.log(0.5)), ("2", math.log(0.5)), ("}", -1.0)], 0.25),
        ([('{"answer": "the ba', math.log(0.5)), ('nk"}', math.log(0.5))], 0.25),
        ([('{"answer": "B", "answer": "', 0.0), ("A", math.log(0.25)), ('"}', 0.0)], 0.25),
        ([(" bank", math.log(0.25)), ("\n", -1.0)], 0.25),
        ([("since\nAnswer: ", -1.0), ("bank", math.log(0.25)), ("\n", -1.0)], 0.25),
        ([("It may be A,\nor else B.", -1.0)], None),
        ([('{"answer": ""}', -1.0)], None),
        ([], None),
    ],
)
def test_an_answers_probability(tokens: list[tuple[str, float]], probability: float | None) -> None:
    assert answer_probability(tokens) == probability


def panel(scripted: ScriptedServer, replies: dict[str, Any], vote: str) -> fm.Evaluation:
    """Three members, who reply by their strategy."""

    def reply(body: dict[str, Any]) -> Any:
        (own,) = [value for words, value in replies.items() if words in text_of(body)]
        return completion(*own)

    scripted.reply = reply
    lm = fm.lm("openai/scripted", api_base=scripted.url, logprobs=True)
    program = fm.Ensemble(["simple", "zero_shot", "cot"], vote=vote)
    return fm.evaluate(program, [ASKED], lm=lm, tracking=False, progress=False)


SURE = {"nothing else": ("A", 0.9), "with care": ("B", 0.3), "every calculation": ("B", 0.4)}


@pytest.mark.parametrize(("vote", "answer"), [("majority", "B"), ("probability", "A")])
def test_a_vote_may_go_to_the_surest(scripted: ScriptedServer, vote: str, answer: str) -> None:
    (row,) = panel(scripted, SURE, vote).rows
    assert scripted.bodies[0]["logprobs"] is True
    assert [turn.get("probability") for turn in row["transcript"]] == [0.9, 0.3, 0.4]
    assert (row["answer"], row["decided_by"]) == (answer, vote)
    # A router trusts an answer as far as the LM does.
    share = {"A": 0.9 / 3, "B": 0.7 / 3}[answer]
    assert sureness(row["answer"], row["transcript"], "choice", {}) == pytest.approx(share)


def test_an_lm_without_probabilities_is_named(scripted: ScriptedServer) -> None:
    with pytest.raises(UserError, match=r"the LM of 'cot' gave none: set logprobs=true"):
        panel(scripted, {**SURE, "every calculation": ("B", None)}, "probability")


def test_a_decision_output_brings_its_probability() -> None:
    """DSPy's own type for a choice, as the answer of a user's program."""

    class Decides(dspy.Module):  # type: ignore[misc]
        def forward(self, question: str) -> dspy.Prediction:
            sure: Any = {"value": "B", "confidence": 0.4, "probabilities": {"A": 0.3, "B": 0.7}}
            value = Choice[("A", "here"), ("B", "there")](**sure)
            return dspy.Prediction(answer=value)

    (row,) = fm.evaluate(Decides(), [ASKED], tracking=False, progress=False).rows
    assert row["answer"] == "B"
    assert [turn.get("probability") for turn in row["transcript"]] == [0.7]
