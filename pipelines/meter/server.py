"""An OpenAI-compatible endpoint on loopback, with one address for each question in flight. A
request to a question's address goes to the run's LM like every other call: ledger, budget, records,
cache, retries and prices are the engine's. `http://127.0.0.1:PORT/q/TOKEN/v1` works only while its
question is in flight; no other request reaches an LM.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import dspy
from aiohttp import web

from ...modules.base.calls import CallError, FatalCallError, asking, note_transcribed
from ...modules.base.connections import of_loop
from ...modules.base.errors import UserError, said_by
from ...modules.reading.row import TurnFields
from ..base.budget import BudgetSpent
from ..lms.named import engine_of
from . import translate
from .translate import BadRequest, Json

MOST_BYTES = 64 * 2**20
"""The longest request body."""

LIMITS = frozenset(("max_tokens", "max_completion_tokens"))
COUNTS = (*sorted(LIMITS), "max_output_tokens", "n", "best_of")
"""What a request may say of how much comes back."""
"""The request fields that limit the length of a reply."""

GRACE_SECONDS = 10.0
"""The time that calls may still take which are in flight when their question ends."""


@dataclass(frozen=True)
class Endpoint:
    """The endpoint at which a program asks its LM while it works on one question.

    Args:
        base_url: the address up to `/v1`, for OpenAI's client and compatible ones. api_key: a token
            that is valid for this question; never the user's key. model: the name of the run's LM,
            which also answers requests for any other name.
    """

    base_url: str
    api_key: str
    model: str

    @property
    def anthropic_url(self) -> str:
        """The same address for Anthropic's client, which adds `/v1` itself."""
        return self.base_url.removesuffix("/v1")


@dataclass
class MeteredQuestion:
    """A question in flight: its LMs, its calls, and their results."""

    lms: Mapping[str, dspy.LM]
    rest: dspy.LM | None
    context: Context = field(default_factory=copy_context)
    turns: list[TurnFields] = field(default_factory=list)
    """The calls that the program made, as the turns of a transcript."""
    ended: FatalCallError | None = None
    """The error that stops all further calls of the run, such as a spent budget."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with `ended`."""
    under_way: set[asyncio.Task[Json]] = field(default_factory=set)
    _equal: Counter[str] = field(default_factory=Counter)

    @property
    def model(self) -> str:
        lms = [*([self.rest] if self.rest else []), *self.lms.values()]
        return str(lms[0].model) if lms else ""

    async def ask(self, body: Json) -> Json:
        """The reply to a request for a chat completion, or for embeddings if it has no messages.
        Raises BadRequest, and CallError as the engine does.
        """
        task = asyncio.get_running_loop().create_task(self._call(body), context=self.context.copy())
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)
        return await task

    async def _call(self, body: Json) -> Json:
        name = str(body.get("model") or "")
        embeds = "messages" not in body
        lm = self.lms.get(name) or self.lms.get(name.rpartition("/")[2])
        if lm is None and embeds:
            raise BadRequest(
                f"embeddings need an embedding model: give --lm {name or 'MODEL'}=openai/MODEL"
            )
        lm = lm or self.rest
        engine = engine_of(lm)
        if engine is None:
            raise FatalCallError(
                "the meter asks an LM that folkmoot made: give --lm NAME, or lm=fm.lm('NAME')"
            )
        # A request without a limit of its own has that of the run's LM, such as --max-tokens.
        most = None if lm is None or embeds else lm.kwargs.get("max_tokens")
        if most is not None and not LIMITS & body.keys():
            body = {**body, "max_tokens": most}
        # A streamed request is recorded like one that is not: both get the whole reply.
        compared = {key: value for key, value in body.items() if not key.startswith("stream")}
        text = json.dumps({**compared, "model": engine.model}, sort_keys=True)
        self._equal[text] += 1
        try:
            with asking(seat=name or None):
                reply, usage = await engine.chat(body, n=self._equal[text])
        except FatalCallError as problem:
            self.ended = self.ended or problem
            self.over.set()
            raise
        self.turns.append(
            {
                "agent": name or engine.model,
                "round": len(self.turns) + 1,
                "answer": None,
                "text": _text_of(reply),
                "usage": usage.to_dict(),
                "step": "call",
            }
        )
        note_transcribed(self.turns[-1]["usage"], usage)
        return reply

    async def settle(self) -> None:
        """Wait for calls in flight, which are paid for anyway, and cancel those that take too
        long.
        """
        waiting = set(self.under_way)
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


def _fault_of(body: Json) -> str:
    """Why a request cannot be sent, since its bill could not be foretold; empty for others."""
    for name in COUNTS:
        value = body.get(name)
        if value is not None and (type(value) is not int or value < 1):
            return f"{name} is {str(value)[:40]!r}: give a whole number of at least 1"
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        return "stream_options is no object"
    return ""


def _text_of(reply: Json) -> str:
    """A reply as a transcript shows it: its text, its tool calls, or its number of vectors."""
    if "data" in reply:
        return f"({len(reply['data'])} embeddings)"
    message = (reply.get("choices") or [{}])[0].get("message") or {}
    return str(message.get("content") or json.dumps(message.get("tool_calls") or ""))


class _Server:
    """The server of one event loop; it runs while a question is in flight."""

    def __init__(self) -> None:
        self.sessions: dict[str, MeteredQuestion] = {}
        self.port = 0
        self._runner: web.AppRunner | None = None
        self._starting = asyncio.Lock()

    async def open(self, session: MeteredQuestion) -> str:
        """Create the token of a question, and start the server with the first."""
        token = secrets.token_urlsafe(24)
        self.sessions[token] = session
        async with self._starting:
            if self._runner is None:
                app = web.Application(client_max_size=MOST_BYTES)
                app.router.add_route("*", "/q/{token}/{path:.*}", self._answer)
                runner = web.AppRunner(app, access_log=None)
                await runner.setup()
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                self.port, self._runner = runner.addresses[0][1], runner
        return token

    async def close(self, token: str) -> None:
        """Let a question's token expire, and stop the server after the last."""
        session = self.sessions.pop(token)
        await session.settle()
        async with self._starting:
            if not self.sessions and self._runner is not None:
                runner, self._runner = self._runner, None
                await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        session = self.sessions.get(request.match_info["token"])
        if session is None:
            return _problem(401, "this address was for a question that has ended or never began")
        # Anthropic's client adds /v1 itself; other clients get an address that has it.
        path = request.match_info["path"].removeprefix("v1/")
        if path == "models" and request.method == "GET":
            names = [session.model, *session.lms]
            models = [{"id": name, "object": "model", "owned_by": "folkmoot"} for name in names]
            return web.json_response({"object": "list", "data": models})
        protocol = translate.PROTOCOLS.get(path)
        if protocol is None or request.method != "POST":
            paths = ", ".join(f"/v1/{name}" for name in translate.PROTOCOLS)
            return _problem(404, f"the meter has no /{path} for {request.method}: it has {paths}")
        try:
            body = json.loads(await request.read())
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return _problem(400, "the request's body is not a JSON object")
        if fault := _fault_of(body):
            return _problem(400, fault)
        try:
            reply, events = await protocol(body, session.ask)
        except Exception as problem:
            return _problem(*_status_of(problem))
        if not body.get("stream"):
            return web.json_response(reply)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(event)
        await response.write_eof()
        return response


def _status_of(problem: Exception) -> tuple[int, str]:
    """The HTTP status and the message that a program gets instead of a reply."""
    if isinstance(problem, BadRequest):
        return 400, str(problem)
    if isinstance(problem, FatalCallError):
        return 402 if isinstance(problem, BudgetSpent) else 403, str(problem)
    if isinstance(problem, CallError):
        return 502, said_by(problem)
    # from a translator that gets a request of another form
    return 400, f"the request cannot be read: {said_by(problem)}"


def _problem(status: int, sentence: str) -> web.Response:
    error = {"message": sentence, "type": "folkmoot", "code": status}
    # OpenAI's and Anthropic's clients would repeat a request that the engine has given up, and the
    # repetition would be a new call.
    headers = {"x-should-retry": "false"}
    return web.json_response({"type": "error", "error": error}, status=status, headers=headers)


_SERVERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Server] = WeakKeyDictionary()


@asynccontextmanager
async def metered_endpoint(
    lms: Mapping[str, dspy.LM], rest: dspy.LM | None
) -> AsyncIterator[tuple[Endpoint, MeteredQuestion]]:
    """Serve one question: its endpoint, and the session that notes its calls.

    Args:
        lms: the LMs by the names that the program sends as `model`. rest: the LM of every other
            name.

    Raises UserError without an LM. When the block ends, raises the error that stopped its calls,
    such as a spent budget, even if the program caught it.
    """
    if rest is None and not lms:
        raise UserError("no LM is set: give --lm NAME, or lm=fm.lm('NAME')")
    loop = asyncio.get_running_loop()
    server = of_loop(_SERVERS, _Server)
    session = MeteredQuestion(lms, rest)
    token = await server.open(session)
    address = f"http://127.0.0.1:{server.port}/q/{token}/v1"
    try:
        yield Endpoint(address, token, session.model), session
    except Exception as problem:
        # Even if the program caught the error, the spent budget is what ended its question.
        raise (session.ended or problem) from None
    finally:
        # Sent calls are billed, even if the question is cancelled here.
        closing = loop.create_task(server.close(token))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise
    if session.ended is not None:
        raise session.ended
