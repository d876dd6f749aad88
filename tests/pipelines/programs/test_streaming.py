"""`dspy.streamify` of programs and modules whose LM is one of `fm.lm`."""

import asyncio
from typing import Any

import dspy
import pytest
from dspy.streaming import StatusMessage

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

ASKED: dict[str, Any] = {"question": "What barks?", "choices": {"A": "a dog", "B": "a cat"}}


def streamed(
    program: Any, server: ScriptedServer, asked: dict[str, Any] = ASKED, **options: Any
) -> list[Any]:
    async def collect() -> list[Any]:
        return [value async for value in dspy.streamify(program, **options)(**asked)]

    with dspy.context(lm=fm.lm("openai/scripted", api_base=server.url)):
        return asyncio.run(collect())


def chunks(values: list[Any]) -> list[str]:
    chunks = [value for value in values if type(value).__name__ == "EngineChunk"]
    texts = [chunk.choices[0].delta.content for chunk in chunks]
    return [text for text in texts if text]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_dialogue_streams_turns_replies_and_the_prediction(is_async: bool) -> None:
    # More values than the stream holds: they have to be read while the dialogue goes on.
    order = ["intuitive", "reasoner", "critic"]
    answers = iter("ABA" * 3 + "B")
    reply = '{{"reasoning": "it fits", "answer": "{}"}}'
    with ScriptedServer(lambda body: reply.format(next(answers))) as server:
        program = fm.Deliberation(order, tie_break="judge", max_rounds=3)
        values = streamed(program, server, is_async_program=is_async)
        said = [value.message for value in values if isinstance(value, StatusMessage)]
        assert said == [f"asking {seat}" for seat in [*order * 3, "judge"]]
        assert chunks(values) == [reply.format(answer) for answer in "ABA" * 3 + "B"]
        (prediction,) = (value for value in values if isinstance(value, dspy.Prediction))
        assert (prediction.answer, prediction.decided_by) == ("B", "judge")
        assert prediction.usage["calls"] == len(server.requests) == 10


@pytest.mark.parametrize("is_async", [False, True])
def test_a_module_of_ones_own_streams(is_async: bool) -> None:
    with ScriptedServer(lambda body: "[[ ## answer ## ]]\nso\n\n[[ ## completed ## ]]") as server:
        module = dspy.Predict("question -> answer")
        values = streamed(module, server, {"question": "Why?"}, is_async_program=is_async)
    assert len(chunks(values)) == 1
    assert values[-1].answer == "so"
