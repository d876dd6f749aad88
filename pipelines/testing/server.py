"""A scripted OpenAI-compatible endpoint: real HTTP on loopback, scripted answers, all requests
kept.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any, Self

from aiohttp import web

Reply = Callable[[dict[str, object]], "str | tuple[int, dict[str, str], object]"]

TEXT = "because it fits"


def wanted_fields(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schema of each field that a request wants; none where it says nothing of its
    reply.
    """
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
    return dict(schema.get("properties", {}))


def filled(body: dict[str, Any], answer: str | None = None, text: str = TEXT) -> str:
    """Return a reply with every field that the request wants: its first option, or `text` where it
    is open; `answer` in the field of that name, unless it is None.
    """
    fields = wanted_fields(body) or {"answer": {}}
    values = {name: (spec.get("enum") or [text])[0] for name, spec in fields.items()}
    if answer is not None and "answer" in values:
        values["answer"] = answer
    return json.dumps(values)


first_option = filled
"""What a scripted LM replies unless it is told otherwise."""


class LoopbackServer:
    """A real HTTP server on a free port of 127.0.0.1, in a thread of its own, inside a `with`
    block.
    """

    def __init__(self, *routes: web.RouteDef) -> None:
        self.port = 0
        self._routes = routes
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="loopback-server", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.add_routes(self._routes)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        # With port 0 the system chooses a free one.
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._ended.wait()
        await runner.cleanup()


class ScriptedServer(LoopbackServer):
    """An LM endpoint inside a `with` block: give `url` to `fm.lm("openai/ANY-NAME",
    api_base=server.url)`.

    Args: reply: gets a request's body and returns the text of the completion, or (status, headers,
        JSON body) for anything else, such as embeddings.
        delay: seconds that an answer takes, or a function that says so for each answer.

    `requests` holds `{"body", "headers"}` in order of arrival, `bodies` the bodies alone;
    `in_flight` is how many wait for their answer, `most_at_once` the largest number so far;
    `prompt_tokens` and `completion_tokens` are the billed totals: one token per word.
    """

    def __init__(
        self, reply: Reply = first_option, delay: float | Callable[[], float] = 0.0
    ) -> None:
        paths = ("/v1/chat/completions", "/v1/embeddings")
        super().__init__(*(web.post(path, self._complete) for path in paths))
        self.reply = reply
        self.delay = delay
        self.requests: list[dict[str, Any]] = []
        self.in_flight = 0
        self.most_at_once = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request["body"] for request in self.requests]

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append({"body": body, "headers": dict(request.headers)})
        self.in_flight += 1
        self.most_at_once = max(self.most_at_once, self.in_flight)
        try:
            delay = self.delay() if callable(self.delay) else self.delay
            if delay:
                await asyncio.sleep(delay)
            reply = self.reply(body)
        finally:
            self.in_flight -= 1
        if isinstance(reply, tuple):
            status, headers, content = reply
            return web.json_response(content, status=status, headers=headers)
        words = sum(len(str(message["content"]).split()) for message in body["messages"])
        self.prompt_tokens += words
        self.completion_tokens += len(reply.split())
        return web.json_response(
            {
                "id": "1",
                "object": "chat.completion",
                "model": body["model"],
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": reply},
                        "finish_reason": "stop",
                    }
                ],
                "usage": {"prompt_tokens": words, "completion_tokens": len(reply.split())},
            }
        )
