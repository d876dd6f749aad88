"""What the meter passes through: paths that an endpoint serves itself, streams, and refusals."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from completions import USAGE, completion
from openai import APIStatusError, AsyncOpenAI
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from wire_server import Server
from wire_server import quick as quick

import folkmoot as fm
from folkmoot.pipelines.lms.endpoint import events_in
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.meter.native import CHAT, MOST_RETURNED, PATHS
from folkmoot.pipelines.testing.server import LoopbackServer

ASKED: Any = {"model": "x", "messages": [{"role": "user", "content": "Is it?"}]}
QUESTION = [fm.Question(id="a", question="Is it?", choices={"A": "x", "B": "y"}, answer="A")]
HEAD = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


JSON, SSE = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}


class Provider(LoopbackServer):
    """A provider that streams slowly, has responses if `native`, and refuses the unknown."""

    def __init__(self, native: bool = True) -> None:
        routes = [web.post("/v1/chat/completions", self.chat)]
        routes += [web.post("/v1/responses", self.responses)] if native else []
        super().__init__(*routes)
        self.bodies: list[dict[str, Any]] = []
        self.delay = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        await asyncio.sleep(self.delay)
        if "answered" in body:  # with status 200, whatever it is
            return web.json_response(body["answered"])
        if "refused" in body:
            return web.json_response({"error": {"message": "no", "code": "odd"}}, status=422)
        if not body.get("stream"):
            return web.json_response({**completion("A"), "later": 7})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for part in "A.":
            choice = {"index": 0, "delta": {"content": part}, "finish_reason": None}
            await response.write(_event({**HEAD, "choices": [choice], "later": 7}))
            await asyncio.sleep(0.3)
        if (body.get("stream_options") or {}).get("include_usage"):
            await response.write(_event({**HEAD, "choices": [], "usage": USAGE}))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def responses(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        part = {"type": "output_text", "text": "A", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        about = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
        tools = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        usage = {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8}
        said = {"status": "completed", "output": [{**item, "content": [part]}], "usage": usage}
        return web.json_response({**about, **tools, **said})


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def evaluated(crew: Any, server: Any, **options: Any) -> fm.Evaluation:
    lm = options.pop("lm", None) or fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
    return fm.evaluate(crew, QUESTION, lm=lm, tracking=False, progress=False, **options)


def run(crew: Any, server: Any, **options: Any) -> Any:
    (row,) = evaluated(crew, server, **options).rows
    return row


def client(endpoint: fm.Endpoint) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key)


async def post(
    endpoint: fm.Endpoint, body: Any, path: str = "chat/completions", timeout: float = 60
) -> httpx.Response:
    async with httpx.AsyncClient() as ai:
        return await ai.post(f"{endpoint.base_url}/{path}", json=body, timeout=timeout)


def test_a_stream_passes_as_it_comes_and_is_billed() -> None:
    seen: dict[str, Any] = {}

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        loop, text = asyncio.get_running_loop(), ""
        began = loop.time()
        async with client(endpoint) as ai:
            stream = await ai.chat.completions.create(**ASKED, stream=True)
            async for chunk in stream:
                seen.setdefault("first", loop.time() - began)
                seen.setdefault("later", (chunk.model_extra or {}).get("later"))
                seen["usage"] = chunk.usage or seen.get("usage")
                text += "".join(choice.delta.content or "" for choice in chunk.choices)
        seen["whole"] = loop.time() - began
        return text

    with Provider() as provider:
        row = run(crew, provider)
        assert provider.bodies[0]["stream_options"] == {"include_usage": True}
    assert row["answer"] == "A"
    assert seen["first"] < seen["whole"] - 0.3
    assert (seen["later"], seen["usage"]) == (7, None)
    assert (row["usage"]["prompt_tokens"], row["usage"]["completion_tokens"]) == (10, 2)


def test_a_refusal_comes_back_as_the_provider_wrote_it() -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client(endpoint) as ai:
            said = await ai.chat.completions.create(**ASKED)
            assert (said.model_extra or {})["later"] == 7
            with pytest.raises(APIStatusError) as refused:
                await ai.chat.completions.create(**ASKED, extra_body={"refused": True})
            assert (refused.value.status_code, refused.value.code) == (422, "odd")
        return "A"

    with Provider() as provider:
        row = run(crew, provider)
        assert len(provider.bodies) == 2
    assert row["usage"]["calls"] == 1
    assert "422: no" in row["transcript"][1]["failed"]


@pytest.mark.parametrize(
    ("answered", "status", "words", "requests"),
    [
        ([1], 502, "answered 200 with something that is not a reply (1)", 3),
        ({"error": {"message": "odd", "code": 400}}, 400, "odd", 1),
        ({"error": {"message": "odd", "code": "context_length_exceeded"}}, 400, "odd", 1),
    ],
)
def test_failures_of_status_200(answered: Any, status: int, words: str, requests: int) -> None:
    said: list[Any] = []

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        reply = await post(endpoint, {**ASKED, "answered": answered})
        said.append((reply.status_code, reply.json()["error"]["message"]))
        return "A"

    with Provider() as provider:
        row = run(crew, provider)
        assert len(provider.bodies) == requests
    assert said[0][0] == status
    assert words in said[0][1]
    assert row["usage"]["calls"] == 0


@pytest.mark.parametrize("native", [True, False])
def test_responses_go_on_from_each_other(native: bool) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client(endpoint) as ai:
            first = await ai.responses.create(model="x", input="Is it?", store=True)
            reference = {"type": "item_reference", "id": first.output[0].id}
            again: Any = [reference, {"role": "user", "content": "Sure?"}]
            for more in ({"previous_response_id": first.id, "input": "Sure?"}, {"input": again}):
                said = await ai.responses.create(model="x", **more)
                assert said.output_text == "A"
        return "A"

    with Provider(native) as provider:
        row = run(crew, provider)
        assert row["error"] is None
        bodies = provider.bodies
    assert row["usage"]["calls"] == 3
    if native:
        assert bodies[1]["previous_response_id"] == "resp_1"
        return
    assert [message["role"] for message in bodies[1]["messages"]] == ["user", "assistant", "user"]
    assert [message["role"] for message in bodies[2]["messages"]] == ["assistant", "user"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"detail": "Not Found"}'),
        (404, b"<html><title>Not Found</title>Our models</html>"),
        (200, b"<!doctype html><html><body></body></html>"),
        (200, b'{"error": "Unexpected endpoint or method. (POST /v1/responses)"}'),
        (500, b'{"error": {"message": "not implemented (request id: 1)", "type": "api_error"}}'),
        (400, b'{"error": {"message": "The Responses API is enabled only for api-version 2"}}'),
        (400, b'{"error": {"message": "The model `m` does not support the Responses API."}}'),
        (401, b'{"error": {"message": "Model m is not supported for format openai"}}'),
    ],
)
def test_a_path_that_an_endpoint_lacks_is_translated(status: int, body: bytes) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client(endpoint) as ai:
            return (await ai.responses.create(model="x", input="Is it?")).output_text

    whole = json.dumps({**WHOLE, "choices": [{"message": {"content": "A"}}]}).encode()
    said = {f"/v1/{CHAT}": (200, JSON, whole), "/v1/responses": (status, {}, body)}
    with Server(lambda asked: said[asked.path]) as server:
        row = run(crew, server)
        assert server.paths == ["/v1/responses", f"/v1/{CHAT}"]
    assert (row["answer"], row["usage"]["calls"]) == ("A", 1)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"tools": [{"type": "web_search"}]}, "the tool 'web_search' runs at the provider"),
        ({"prompt": {"id": "p"}}, "'prompt' of /responses has no counterpart"),
        ({"max_tool_calls": 3}, "'max_tool_calls' of /responses has no counterpart"),
        ({"previous_response_id": "resp_9"}, "there is no response 'resp_9' of this question"),
    ],
)
def test_what_would_be_lost_is_refused_before_it_is_paid(body: dict[str, Any], words: str) -> None:
    said: list[Any] = []

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        reply = await post(endpoint, {"model": "x", "input": "Is it?", **body}, "responses")
        said.append((reply.status_code, reply.json()["error"]["message"]))
        return "A"

    with Provider(native=False) as provider:
        run(crew, provider)
        assert provider.bodies == []
    assert said[0][0] == 400
    assert words in said[0][1]


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_nobody_received_is_that_of_the_next_equal_request(stream: bool) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        with pytest.raises(httpx.ReadTimeout):
            await post(endpoint, {**ASKED, "stream": stream}, timeout=0.2)
        said = await post(endpoint, {**ASKED, "stream": stream}, timeout=10)
        assert said.text.count("data: [DONE]") == stream
        return "A" if '"content": "A"' in said.text else "B"

    with Provider() as provider:
        provider.delay = 0.8
        row = run(crew, provider, cache=False)
        assert len(provider.bodies) == 1
    assert (row["answer"], row["usage"]["calls"]) == ("A", 1)


@pytest.mark.parametrize(
    "path",
    ["v1/chat/completions", "chat/completions/", "v1/v1/chat/completions", "/chat//completions"],
)
def test_a_path_is_found_however_a_client_writes_it(path: str) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        base = endpoint.anthropic_url
        async with httpx.AsyncClient() as ai:
            said = await ai.post(f"{base}/{path}", json=ASKED, timeout=30)
            model = await ai.get(f"{base}/v1/models/theirs")
            count = await ai.post(f"{base}/v1/messages/count_tokens", json=ASKED)
        assert (model.json()["id"], count.json()["input_tokens"] > 0) == ("theirs", True)
        return str(said.json()["choices"][0]["message"]["content"])

    with Provider() as provider:
        assert run(crew, provider)["answer"] == "A"


LISTED = {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "A"}]}
OBJECT = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": {"x": 1}}}]}
ODD = [{"choices": [{"delta": None}]}, {"choices": {}}]
REFUSED = {"error": {"message": "slow", "code": 429}}
WHOLE = {**HEAD, "choices": [], "usage": {**USAGE, "cost": 0.5}}
PART = {**HEAD, "choices": [{"index": 0, "delta": {"content": "A"}}]}
PRICE = 10 * 1e-6 + 2 * 1e-5


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("said", "status", "paid"),
    [
        ((200, JSON, b"\xef\xbb\xbf" + json.dumps(WHOLE).encode()), 200, (1, 0.5)),
        ((200, JSON, json.dumps({**WHOLE, "choices": ["A"]}).encode()), 200, (1, 0.5)),
        ((200, JSON, b""), 502, (0, 0.0)),  # three may be billed, which is said apart
        ((200, JSON, json.dumps(REFUSED).encode()), 429, (0, 0.0)),
        *(
            ((status, JSON, json.dumps(REFUSED).encode()), status, (0, 0.0))
            for status in (429, 503, 529)
        ),
        ((200, SSE, b": on its way\n\n" + b"".join(map(_event, [WHOLE]))), 200, (1, 0.5)),
        ((200, SSE, b"".join(map(_event, ODD))), 200, (1, None)),
        *(
            ((200, SSE, b"".join(map(_event, events))), 200, paid)
            for events, paid in (
                ([REFUSED], (0, 0.0)),
                ([PART, REFUSED], (0, 0.0)),
                ([PART, REFUSED, WHOLE], (1, 0.5)),
                ([{"type": "error", "code": "rate_limit_exceeded", "message": "slow"}], (0, 0.0)),
                ([{"type": "response.failed", "response": REFUSED}], (0, 0.0)),
                ([{**HEAD, "choices": [{"index": 0, **REFUSED}]}], (0, 0.0)),
                ([PART, {"x_groq": {"usage": USAGE}}], (1, PRICE)),
                *(
                    ([{"choices": [{"index": 0, "delta": delta}]}, WHOLE], (1, 0.5))
                    for delta in (LISTED, OBJECT, {"tool_calls": ["odd"]})
                ),
                ([{**HEAD, "choices": [{**PART["choices"][0], "usage": USAGE}]}], (1, PRICE)),
            )
        ),
        ((200, SSE, b'error: {"code": 500, "message": "odd"}\n\n'), 200, (0, 0.0)),
    ],
)
def test_odd_answers_pass_or_are_named_and_billed(said, status, paid):
    got: list[int] = []

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        reply = await post(endpoint, {"model": "x", "messages": [], "stream": said[1] == SSE})
        got.append(reply.status_code)
        # An error in a stream is told once, in the provider's words.
        assert said[1] != SSE or reply.text.count("error") == said[2].count(b"error")
        return "A"

    with Server(lambda _: said) as server:
        summary = evaluated(crew, server, cache=False).summary
    bill = summary.paid
    assert summary.lost.calls == (3 if not said[2] else 0)
    assert (got, (bill.calls, bill.cost_usd)) == ([status], pytest.approx(paid))


def test_a_stream_is_asked_for_without_options_that_a_server_refuses(tmp_path: Path) -> None:
    asked: list[bool] = []

    def answer(handler: Any) -> Any:
        asked.append("stream_options" in json.loads(handler.body))
        said = {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs"}]}
        return (422, JSON, json.dumps(said).encode()) if asked[-1] else (200, SSE, _event(PART))

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        for text in "ab":
            body = {"messages": [{"role": "user", "content": text}], "stream": True}
            assert '"content": "A"' in (await post(endpoint, body)).text
        return "A"

    with Server(answer) as server:
        row = run(crew, server, out=tmp_path)
    assert asked == [True, False, False]
    assert (row["error"], row["usage"]["calls"]) == (None, 2)
    assert run(crew, server, lm=f"replay/{tmp_path}")["error"] is None


@pytest.mark.parametrize("kind", ["text/plain", "Text/Event-Stream; charset=utf-8"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("ended", [True, False])
def test_a_stream_is_one_by_what_it_holds(kind: str, stream: bool, end: bytes, ended: bool) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        reply = await post(endpoint, {"model": "x", "messages": [], "stream": stream})
        assert (reply.headers["Content-Type"], reply.text.count('"A"')) == ("text/event-stream", 1)
        # Whoever has not asked for the usage does not get it.
        assert reply.text.count('"usage"') == (not stream)
        assert reply.text.endswith("}\n\n")
        return "A"

    body = _event(PART) + _event(WHOLE)
    body = (body if ended else body.rstrip()).replace(b"\n", end)
    with Server(lambda _: (200, {"Content-Type": kind}, body)) as server:
        row = run(crew, server)
        assert len(server.bodies) == 1
    assert (row["error"], row["usage"]["cost_usd"]) == (None, 0.5)


@pytest.mark.parametrize(("ended", "kept"), [(None, False), ("stop", True)])
def test_a_stream_cut_off_is_in_no_cache(ended: str | None, kept: bool, tmp_path: Path) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        await post(endpoint, {"model": "x", "messages": [], "stream": True})
        return "A"

    choice = {**PART["choices"][0], "finish_reason": ended}
    with Server(lambda _: (200, SSE, _event({**PART, "choices": [choice]}))) as server:
        run(crew, server, out=tmp_path)
    (entry,) = read_ledger(tmp_path)
    assert entry["kept"] is kept


ONE_BAD = "core.ValidationError: 1 validation error for Answer\nanswer"


@pytest.mark.parametrize(
    ("complaint", "reason"),
    [
        ("Error: no route\n    at main (x.js:1)\n\nNode.js v20.20.2", "Error: no route"),
        ("| Traceback |\n| ValueError: bad |\n+------------+", "ValueError: bad"),
        ("it broke", "it broke"),
        ("ValueError: these lack:\n  name, age\nbye", "ValueError: these lack: name, age"),
        (
            "x.RetryError: <tries>\n\n<try>\n    1 is bad\n</try>",
            "x.RetryError: <tries> <try> 1 is bad",
        ),
        (f"{ONE_BAD}\n  Not a number\n    See https", f"{' '.join(ONE_BAD.split())} Not a number"),
    ],
)
def test_an_error_row_names_the_error(complaint: str, reason: str, tmp_path: Path) -> None:
    script = tmp_path / "team.py"
    script.write_text(f"import sys\nprint({complaint!r}, file=sys.stderr)\nsys.exit(1)")
    with Provider() as provider:
        row = run(fm.Command(f"python {script}"), provider)
    assert row["error"] == f"the command ended with code 1: {reason}"


TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
ONE_TOOL = [{"type": "function", "name": "look"}]
CALL, RESULT = {"id": "c1", "name": "look"}, {"tool_use_id": "c1", "content": "yes"}
RESPONSES: dict[str, Any] = {
    "model": "x",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Is it?"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}", "id": None},
        {"type": "function_call_output", "call_id": "c1", "output": "yes"},
    ],
    "instructions": "Be brief.",
    "max_output_tokens": 50,
    "parallel_tool_calls": False,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_logprobs": 2,
    "text": {"verbosity": "low"},
    "tools": [{"type": "function", "strict": None, **TOOL}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": ONE_TOOL},
    "prompt_cache_key": "k",
    "safety_identifier": "s",
    "service_tier": "auto",
    "user": "u",
    "store": True,
    "metadata": {"a": "b"},
    "include": ["reasoning.encrypted_content"],
    "truncation": "disabled",
    "conversation": None,
}
MESSAGES: dict[str, Any] = {
    "model": "x",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Is it?"},
        {"role": "assistant", "content": [{"type": "tool_use", **CALL, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", **RESULT}]},
    ],
    "stop_sequences": ["###"],
    "temperature": 0.5,
    "top_p": 0.9,
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 4000},
    "metadata": {"user_id": "u"},
}
KEPT = ("top_logprobs", "prompt_cache_key", "safety_identifier", "service_tier")
SHARED = {"parallel_tool_calls": False, "max_tokens": 50}
WANTED: dict[str, dict[str, Any]] = {
    "responses": {**SHARED, "verbosity": "low", "logprobs": True},
    "messages": {**SHARED, "reasoning_effort": "medium", "user": "u", "stop": ["###"]},
}
WANTED["responses"] |= {name: RESPONSES[name] for name in KEPT}


def _nulls(value: Any) -> bool:
    if isinstance(value, dict):
        return any(one is None or _nulls(one) for one in value.values())
    return isinstance(value, list) and any(map(_nulls, value))


@pytest.mark.parametrize(("path", "body"), [("responses", RESPONSES), ("messages", MESSAGES)])
def test_a_strict_endpoint_takes_translated_requests(path: str, body: dict[str, Any]) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        said = await post(endpoint, body, path)
        assert said.status_code == 200, said.text
        return "A"

    with Provider(native=False) as provider:
        assert run(crew, provider)["error"] is None
        (sent,) = provider.bodies
    known = set(CompletionCreateParamsBase.__annotations__)
    assert set(sent) <= known | {"stream"}
    assert not _nulls(sent)
    assert {name: sent.get(name) for name in WANTED[path]} == WANTED[path]
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."} or (
        sent["messages"][0]["content"][0]["text"] == "Be brief."
    )
    assert [message["role"] for message in sent["messages"][-2:]] == ["assistant", "tool"]


PARTS = [{"type": "thinking", "thinking": [{"text": "B?"}]}, {"type": "text", "text": "A"}]
BAD_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{bad"}}


@pytest.mark.parametrize("path", ["responses", "messages"])
@pytest.mark.parametrize(
    ("odd", "message", "status"),
    [
        ({"usage": None}, {}, 200),
        ({"created": 1.5, "system_fingerprint": 5}, {}, 200),
        ({}, {"content": PARTS}, 200),
        ({}, {"reasoning_content": 5}, 200),
        ({}, {"content": None, "tool_calls": [BAD_CALL]}, {"responses": 200, "messages": 502}),
    ],
)
def test_odd_answers_are_translated_or_named(path, odd, message, status):
    """They were paid for, and the client was told that its request could not be read."""
    choice = {"message": {"role": "assistant", "content": "A", **message}, "finish_reason": "stop"}
    whole = {**HEAD, "choices": [choice], "usage": USAGE, **odd}
    answer = (200, JSON, json.dumps(whole).encode())
    said = {f"/v1/{CHAT}": answer, f"/v1/{path}": (404, JSON, b"{}")}

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        reply = await post(endpoint, RESPONSES if path == "responses" else MESSAGES, path)
        wanted = status if isinstance(status, int) else status[path]
        assert reply.status_code == wanted, reply.text
        assert ('"A"' in reply.text) or message.get("tool_calls")
        assert wanted == 200 or "the reply of openai/m cannot be translated" in reply.text
        return "A"

    with Server(lambda asked: said[asked.path]) as server:
        row = run(crew, server)
    assert (row["error"], row["usage"]["calls"]) == (None, 1)


# Of the package `anthropic` 2.14, whose clients have other requirements than LiteLLM.
OF_MESSAGES = {
    *("billing_policy", "cache_control", "compaction", "container", "context_management"),
    *("diagnostics", "fallback_credit_token", "fallbacks", "inference_geo", "mcp_servers"),
    *("output_config", "service_tier", "speed", "thread", "top_k", "user_profile_id"),
    *("workspace_id", "a_field_of_tomorrow"),
}


@pytest.mark.parametrize(
    ("path", "known", "carried"),
    [
        (
            "responses",
            set(ResponseCreateParamsBase.__annotations__) - set(RESPONSES),
            {"stream_options", "prompt_cache_retention", "reasoning"},
        ),
        ("messages", OF_MESSAGES, {"service_tier", "cache_control"}),
    ],
)
def test_every_field_is_carried_or_refused(path: str, known: set[str], carried: set[str]) -> None:
    """A field of the installed package that this test does not know is refused by name."""
    chat = {"max_tokens": 9, "messages": [{"role": "user", "content": "Is it?"}]}
    asked: dict[str, Any] = {"responses": {"input": "Is it?"}, "messages": chat}[path]
    refused: dict[str, int] = {}

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        for name in sorted(known):
            said = await post(endpoint, {"model": "x", **asked, name: {"a": "b"}}, path)
            refused[name] = said.status_code
            assert said.status_code != 400 or name in said.text
        return "A"

    with Provider(native=False) as provider:
        run(crew, provider)
    assert {name for name, status in refused.items() if status != 400} <= carried


ASKS_TOOLS: dict[str, dict[str, Any]] = {
    "chat/completions": {
        "messages": [
            {"role": "user", "content": "Is it?"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c0"}]},
            {"role": "tool", "tool_call_id": "c0", "content": "older"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "yes"},
        ]
    },
    "responses": {"input": RESPONSES["input"]},
    "messages": {"messages": MESSAGES["messages"], "max_tokens": 9},
}


@pytest.mark.parametrize("path", ASKS_TOOLS)
def test_a_transcript_has_what_tools_gave_back(path: str) -> None:
    assert PATHS[path].tools(ASKS_TOOLS[path]) == ["yes"]
    for damaged in (None, 3, "text", [None], [{"role": "tool"}], [{"content": [3]}], [[]]):
        assert len(PATHS[path].tools({PATHS[path].field: damaged})) <= 1
    long = json.loads(json.dumps(ASKS_TOOLS[path]).replace('"yes"', json.dumps("y" * 9000)))
    assert len(PATHS[path].tools(long)[0]) == MOST_RETURNED


def test_a_transcript_of_a_tool_loop_reads_as_what_was_done() -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        await post(endpoint, {"model": "x", **ASKS_TOOLS["chat/completions"]})
        return "A"

    with Provider() as provider:
        row = run(crew, provider)
    assert [turn["text"] for turn in row["transcript"]] == ["← yes\nA"]


@pytest.mark.parametrize("native", [True, False])
def test_a_record_answers_what_was_passed_or_translated(native: bool, tmp_path: Path) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client(endpoint) as ai:
            first = await ai.responses.create(model="x", input="Is it?", store=True)
            more = {"input": "Sure?", "previous_response_id": first.id}
            return (await ai.responses.create(model="x", **more)).output_text

    with Provider(native) as provider:
        assert run(crew, provider, out=tmp_path, cache=False)["answer"] == "A"
    again = run(crew, provider, lm=f"replay/{tmp_path}")
    assert (again["answer"], again["error"]) == ("A", None)


def test_a_stream_is_read_with_any_text_in_it() -> None:
    """A text may hold other ends of lines, and other choices come between those of the first."""
    pieces = [(0, "a\u2028b"), (1, "other"), (0, "\x85c")]
    events = [
        json.dumps({"choices": [{"index": number, "delta": {"content": text}}]}, ensure_ascii=False)
        for number, text in pieces
    ]
    text = "".join(f"data: {event}\r\n\r\n" for event in events)
    assert PATHS[CHAT].text(PATHS[CHAT].joined(events_in(text))) == "a\u2028b\x85c"


def test_calls_of_tools_are_told_apart_where_all_have_one_number() -> None:
    called = [("c1", "look", "{"), (None, None, "}"), ("c2", "read", "{}")]
    calls = [
        {"index": 0, "id": number, "function": {"name": name, "arguments": arguments}}
        for number, name, arguments in called
    ]
    events = [{"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls]
    assert PATHS[CHAT].text(PATHS[CHAT].joined(events)) == "look({})\nread({})"


class Anthropic(LoopbackServer):
    """Anthropic's API, as far as it goes."""

    def __init__(self) -> None:
        super().__init__(web.post("/v1/messages", self.messages))
        self.seen: list[tuple[Any, dict[str, Any]]] = []

    async def messages(self, request: web.Request) -> web.Response:
        self.seen.append((request.headers.copy(), await request.json()))
        content = [{"type": "text", "text": "A"}]
        usage = {"input_tokens": 10, "output_tokens": 2}
        about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
        said = {"content": content, "stop_reason": "end_turn", "usage": usage}
        return web.json_response({**about, **said, "later": 7})


def test_messages_to_anthropics_own_lm_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-key")
    asked = {**MESSAGES, "top_k": 5, "thinking": {"type": "adaptive"}}

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        head = {"anthropic-beta": "new-2027", "x-api-key": endpoint.api_key}
        async with httpx.AsyncClient(headers=head) as ai:
            said = await ai.post(f"{endpoint.base_url}/messages", json=asked, timeout=60)
        assert said.json()["later"] == 7
        return "A"

    with Anthropic() as server:
        lm = fm.lm("anthropic/claude-sonnet-4-5", api_base=f"http://127.0.0.1:{server.port}")
        row = run(crew, server, lm=lm, cache=False)
        ((headers, body),) = server.seen
    assert body == {**asked, "model": "claude-sonnet-4-5"}
    assert (headers["x-api-key"], headers["anthropic-beta"]) == ("the-key", "new-2027")
    assert headers["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in headers
    assert (row["error"], row["usage"]["prompt_tokens"]) == (None, 10)
    assert "the-key" not in str(row)


def test_a_wrong_key_is_called_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-key")

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        await post(endpoint, MESSAGES, "messages")
        return "A"

    with Server(lambda _: (401, JSON, b"{}")) as server:
        lm = fm.lm("anthropic/claude-sonnet-4-5", api_base=server.url)
        with pytest.raises(fm.UserError, match="set ANTHROPIC_API_KEY to a valid key"):
            run(crew, server, lm=lm)


def test_a_reply_that_only_calls_tools_is_kept(tmp_path: Path) -> None:
    """Some servers say `stop`: it passed for an empty reply, and was paid for again."""

    class Calls(Provider):
        async def chat(self, request: web.Request) -> web.StreamResponse:
            self.bodies.append(await request.json())
            call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            return web.json_response(completion(None, tool_calls=[call]))

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client(endpoint) as ai:
            await ai.responses.create(model="x", input="Is it?")
        return "A"

    with Calls(native=False) as provider:
        for place in ("first", "again"):
            run(crew, provider, out=tmp_path / place, record=tmp_path / "record", cache=False)
        assert len(provider.bodies) == 1
