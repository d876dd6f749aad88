"""Raw chat requests go through the engine as every other call: bill, budget, records, price."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import folkmoot as fm
from folkmoot.modules.base.calls import asking
from folkmoot.modules.base.sync import run_sync
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.lms.named import engine_of
from folkmoot.pipelines.runs.books import open_books
from folkmoot.pipelines.testing.server import ScriptedServer

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
REQUEST = {
    "model": "gpt-theirs",
    "stream": True,
    "n": 2,
    "tools": [TOOL],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Where?"}]}],
}


def tool_call(body: dict[str, Any]) -> Any:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choices = [
        {"index": place, "message": message, "finish_reason": "tool_calls"}
        for place in range(body["n"])
    ]
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    return 200, {}, {"id": "x", "object": "chat.completion", "choices": choices, "usage": usage}


@pytest.fixture
def server() -> Any:
    with ScriptedServer(tool_call) as running:
        yield running


def ask(engine: Any, n: int = 1, question: str = "q1", **changes: Any) -> Any:
    with asking(question=question, seat="crew"):
        return run_sync(lambda: engine.chat({**REQUEST, **changes}, n=n))


def test_the_whole_request_and_the_whole_reply_pass(server: ScriptedServer, tmp_path: Path) -> None:
    engine = engine_of(fm.lm("openai/m", api_base=server.url, price=(1e-3, 1e-2)))
    with open_books(tmp_path, records=[tmp_path / "record"], cache=False):
        body, usage = ask(engine)
        again, cached = ask(engine)
        other, _ = ask(engine, n=2)
        ask(engine, question="q2")
    (sent, *more) = server.bodies
    assert {key: sent[key] for key in ("model", "n", "tools", "messages")} == {
        **{key: REQUEST[key] for key in ("n", "tools", "messages")},
        "model": "m",
    }
    assert "stream" not in sent
    assert len(body["choices"]) == 2
    assert body["choices"][1]["message"]["tool_calls"][0]["function"]["name"] == "look"
    assert (usage.calls, usage.prompt_tokens, usage.cost_usd) == (1, 10, pytest.approx(0.05))
    assert (again, cached.cached_calls, cached.cost_usd) == (body, 1, 0.0)
    assert other == body
    assert len(more) == 2  # the second equal request of a question, and another question's
    assert [line["question"] for line in read_ledger(tmp_path)] == ["q1", "q1", "q2"]
    assert {line["seat"] for line in read_ledger(tmp_path)} == {"crew"}
    with open_books(replayed=tmp_path / "record", cache=False):
        assert ask(engine)[0] == body
    assert len(server.bodies) == 3
