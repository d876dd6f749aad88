"""An OpenAI-compatible endpoint, on loopback unless it is for workers of a cluster, with one
address for each question in flight.

A request to a question's address goes to the run's LM like every other call: ledger, budget,
records, cache, retries and prices are the engine's. `http://127.0.0.1:PORT/q/TOKEN/v1` works only
while its question is in flight; no other request reaches an LM.
"""

from __future__ import annotations

import asyncio
import codecs
import io
import json
import logging
import os
import re
import secrets
import socket
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import dspy
from aiohttp import web

from ...modules.base.calls import (
    BillingError,
    CallError,
    FatalCallError,
    Usage,
    asking,
    note_transcribed,
)
from ...modules.base.connections import of_loop
from ...modules.base.errors import UserError, said_by
from ...modules.reading.row import TurnFields
from ..base.budget import BudgetSpent
from ..lms.client import NoSuchPathError, Sink
from ..lms.endpoint import UNREADABLE, Reply
from ..lms.engine import Engine, NotRecordedError
from ..lms.failures import Change, RefusedRequest
from ..lms.named import engine_of, is_reasoning_model
from ..lms.store import METERS, at_meter
from ..tasks.relay import relay
from .native import CHAT, PATHS, NativePath, is_error, is_usage_only
from .translate import PROTOCOLS, BadRequest, Conversation, Json, stream_of

_LOG = logging.getLogger("folkmoot")
_UNHEARD = logging.Logger("meter", logging.CRITICAL)
"""For aiohttp, which writes a traceback for each request that is not HTTP as it knows it."""

LOOPBACK = "127.0.0.1"
MOST_BYTES = 64 * 2**20
"""The longest request body."""

LIMITS = frozenset(("max_tokens", "max_completion_tokens"))
"""The request fields that limit the length of a reply."""

VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL")
MODULE_ADDRESSES = (("openai", "base_url"), ("litellm", "api_base"))
"""Environment variables, and attributes of modules, where clients look for their address."""

HEADERS = ("anthropic-beta", "anthropic-version", "openai-beta")
"""The headers of a request that are passed on, since they change the meaning of its fields."""

COUNTS = (*sorted(LIMITS), "max_output_tokens", "n", "best_of")
"""The request fields that are numbers of tokens or of replies."""

OPTIONS = "stream_options"
_IGNORED = re.compile("model$|stream")
"""The request fields in which equal requests may differ."""

GRACE_SECONDS = 10.0
"""The time that is left to calls in flight when their question ends."""


@dataclass(frozen=True)
class Endpoint:
    """Where a program asks its LM while it works on one question.

    Attributes:
        base_url: the address up to `/v1`, for OpenAI's client and compatible ones.
        api_key: a token that is valid for this question; never the user's key.
        model: the name of the run's LM, which also answers for any other name.
    """

    base_url: str
    api_key: str
    model: str
    socket: Path = Path()
    """The same meter as a socket, for sandboxes without a network."""

    @property
    def port(self) -> int:
        """The port of `base_url`."""
        return int(urlsplit(self.base_url).port or 0)

    @property
    def anthropic_url(self) -> str:
        """The same address for Anthropic's client, which adds `/v1` itself."""
        return self.base_url.removesuffix("/v1")

    @contextmanager
    def near(self, folder: Path) -> Iterator[Endpoint]:
        """Within the block, relay the meter to loopback and to a socket in a folder of this
        machine; yields the endpoint with those addresses.
        """
        host = str(urlsplit(self.base_url).hostname)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "meter"))
            server.listen(128)
            ends = (server, socket.AF_INET, (host, self.port))
            threading.Thread(target=relay, args=ends, daemon=True).start()
            try:
                address = self.base_url.replace(host, LOOPBACK, 1)
                yield replace(self, base_url=address, socket=folder / "meter")
            finally:
                server.shutdown(socket.SHUT_RDWR)


class MeterReply(NamedTuple):
    """A reply for a client: its body, or the events of its stream, without those already sent."""

    body: Json
    events: Iterable[bytes]


@dataclass
class Client:
    """The client that sent a request, and the stream that it gets, if any."""

    request: web.Request
    response: web.StreamResponse | None = None
    rest: str = ""
    """The beginning of an event whose end has not come yet."""
    told: bool = False
    """Whether an error of the provider's has been passed on in the stream."""
    hides: bool = False
    """Whether the event of the usage is kept from it, since it has not asked for one."""

    @property
    def gone(self) -> bool:
        """Whether it has closed its connection."""
        transport = self.request.transport
        return transport is None or transport.is_closing()

    async def begin(self) -> web.StreamResponse:
        """Return the stream, and begin it the first time."""
        if self.response is None:
            self.response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await self.response.prepare(self.request)
        return self.response

    def events(self, hides: bool) -> Sink:
        """Return a function that passes on the pieces of a provider's stream, event by event;
        `hides` leaves out the event of the usage.
        """
        self.hides = hides
        # A piece of a stream may end within a character, or within the end of a line.
        characters = codecs.getincrementaldecoder("utf-8")("replace")
        decode = io.IncrementalNewlineDecoder(characters, translate=True).decode

        async def sink(piece: bytes) -> None:
            self.rest += decode(piece)
            *whole, self.rest = self.rest.split("\n\n")
            for event in whole:
                await self.pass_on(event)

        return sink

    async def pass_on(self, event: str) -> None:
        """Send an event of a provider's stream, and note whether it reports an error."""
        if event.strip() and not (self.hides and is_usage_only(event)):
            await self.write(f"{event}\n\n")
        self.told = self.told or is_error(event)

    async def write(self, text: str) -> None:
        """Send a part of a stream, unless the client has gone."""
        if text and not self.gone:
            with suppress(ConnectionError):
                await (await self.begin()).write(text.encode())


@dataclass
class Flight:
    """A request under way, and the client that waits for its reply."""

    client: Client
    task: asyncio.Task[MeterReply]

    @property
    def result(self) -> MeterReply | None:
        """The reply of the finished task; None if it failed."""
        if self.task.cancelled() or self.task.exception() is not None:
            return None
        return self.task.result()


@dataclass
class MeteredQuestion:
    """A question in flight: its LMs by the name that the program sends, the LM of the rest, and its
    calls.
    """

    lms: Mapping[str, dspy.LM]
    rest: dspy.LM | None
    context: Context = field(default_factory=copy_context)
    turns: list[TurnFields] = field(default_factory=list)
    """The calls that the program made, as the turns of a transcript."""
    ended: FatalCallError | None = None
    """The error that stops all further calls of the run, such as a spent budget."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with `ended`."""
    under_way: set[asyncio.Task[MeterReply]] = field(default_factory=set)
    flights: dict[str, list[Flight]] = field(default_factory=dict)
    """The requests whose replies no client has got yet, by their text."""
    state: Conversation = field(default_factory=Conversation)
    _equal: Counter[str] = field(default_factory=Counter)
    """How often each request has been sent."""

    @property
    def model(self) -> str:
        """The name of the run's LM, or else of the first LM."""
        first = self.rest or next(iter(self.lms.values()), None)
        if first is None:
            return ""
        return str(first.model)

    async def ask(self, path: str, body: Json, client: Client) -> MeterReply:
        """Return the reply to a request. Raises BadRequest, and CallError as the engine does."""
        # A client that has gone is likely to ask again: it gets the reply that is already paid for.
        text = json.dumps([path, body], sort_keys=True)
        for flight in self.flights.get(text, ()):
            if flight.client.gone:
                flight.client = client
                return await asyncio.shield(flight.task)
        context = self.context.copy()
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._call(path, body, client), context=context)
        flight = Flight(client, task)
        self.flights.setdefault(text, []).append(flight)
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)
        try:
            # A client that hangs up must not cancel a call that is paid for.
            answered = await asyncio.shield(task)
        except Exception:
            self.flights[text].remove(flight)
            raise
        if not flight.client.gone:
            self.flights[text].remove(flight)
        return answered

    def received(self, answered: MeterReply) -> None:
        """Forget a reply that a client has got, so that no other client gets it."""
        for flights in self.flights.values():
            flights[:] = [
                flight
                for flight in flights
                if not (flight.task.done() and flight.result is answered)
            ]

    def _own_lm(self, name: str) -> dspy.LM | None:
        """Return the LM of a name that a program sends, perhaps with a provider before it; None if
        it has no LM of its own.
        """
        return self.lms.get(name) or self.lms.get(name.rpartition("/")[2])

    def _engine(self, name: str, path: str) -> Engine:
        """Return the engine of the LM that a program asks for by a name. Raises BadRequest for
        embeddings without a model, and FatalCallError for an LM that folkmoot did not make.
        """
        lm = self._own_lm(name)
        # The run's LM answers every other name, but no chat model embeds.
        if lm is None and path == "embeddings":
            raise BadRequest(
                f"embeddings need an embedding model: give --lm {name or 'MODEL'}=openai/MODEL"
            )
        engine = engine_of(lm or self.rest)
        if engine is None:
            raise FatalCallError(
                "the meter asks an LM that folkmoot made: give --lm NAME, or lm=fm.lm('NAME')"
            )
        return engine

    def _max_tokens(self, name: str) -> int | None:
        """Return the user's limit, such as --max-tokens, of the LM that a program asks for, or
        None.
        """
        lm = self._own_lm(name) or self.rest
        return None if lm is None else lm.kwargs.get("max_tokens")

    async def _call(self, path: str, body: Json, client: Client) -> MeterReply:
        """Return the reply of an LM, of the path itself or else translated."""
        name = str(body.get("model") or "")
        engine = self._engine(name, path)
        limit, most = PATHS[path].limit, self._max_tokens(name)
        limited = (LIMITS | {limit}) & body.keys()
        if limit and most is not None and not limited:
            body = {**body, limit: most}
        try:
            refuse_shared_address()
            with asking(seat=name or None):
                if passes(engine, path):
                    try:
                        return await self._pass_on(engine, path, body, client)
                    except NoSuchPathError:
                        no_such_path(engine, path)
                    except NotRecordedError:
                        pass  # it may have been translated when it was recorded
                return await self._translate(engine, path, body)
        except FatalCallError as problem:
            # The first one is the cause; later calls fail because of it.
            self.ended = self.ended or problem
            self.over.set()
            raise

    def _number(self, engine: Engine, path: str, body: Json) -> int:
        """Return the number of this request among the question's equal ones, each of which is a
        sample of its own.
        """
        asked = {name: value for name, value in body.items() if not _IGNORED.match(name)}
        same = json.dumps([engine.identity, path, asked], sort_keys=True)
        self._equal[same] += 1
        return self._equal[same]

    async def _pass_on(self, engine: Engine, path: str, body: Json, client: Client) -> MeterReply:
        """Return the reply of an endpoint that serves the path itself, as the provider wrote it."""
        native = PATHS[path]
        sent, hides = body, False
        if path == CHAT and body.get("stream"):
            options = body.get(OPTIONS) or {}
            hides = not options.get("include_usage")
            # A stream has no usage unless it is asked for, and a call without one has no price.
            if OPTIONS not in engine.habits.left_out:
                sent = {**body, OPTIONS: {**options, "include_usage": True}}

        def read(answer: str | dict[str, Any]) -> Reply:
            if isinstance(answer, str):
                shown = "".join(shown_events(answer, hides))
                return native.reply(native.streamed(answer), {"stream": shown})
            return native.reply(answer, answer)

        sink = client.events(hides) if body.get("stream") else None
        given = client.request.headers
        headers = {name: given[name] for name in HEADERS if name in given}
        n = self._number(engine, path, body)
        ask = partial(engine.forward, path, read=read, sink=sink, n=n, headers=headers)
        try:
            reply, usage, came = await ask(sent)
        except (RefusedRequest, NotRecordedError) as problem:
            # An older server may refuse the option that was added above.
            if sent is body or OPTIONS not in getattr(problem, "text", OPTIONS):
                raise
            reply, usage, came = await ask(body)
            if isinstance(problem, RefusedRequest) and OPTIONS not in engine.habits.left_out:
                said = f"does not accept {OPTIONS}: the price of a stream may not be known"
                change = Change(said, "left_out", OPTIONS)
                _LOG.warning("%s %s", engine.model, engine.habits.keep(change))
        self._note(path, body, reply.text, usage)
        whole = dict(reply.body or {})
        stream = whole.get("stream")
        if isinstance(stream, str):
            if came and client.response is not None and not client.gone:
                return MeterReply({}, [])  # the client has got its events as they came
            return MeterReply({}, [stream.encode()])
        if body.get("stream"):
            return MeterReply(whole, stream_of(path, whole))
        return MeterReply(whole, [])

    async def _translate(self, engine: Engine, path: str, body: Json) -> MeterReply:
        """Return the reply of an endpoint that serves only chat completions, in the form of the
        path. Raises BadRequest for a request that cannot be translated, and CallError for a reply.
        """
        replies: list[Json] = []

        async def ask(asked: Json) -> Json:
            if wants_completion_limit(engine) and "max_tokens" in asked:
                asked = {**asked, "max_completion_tokens": asked.pop("max_tokens")}
            shown = PATHS[CHAT] if "messages" in asked else PATHS["embeddings"]
            # Counted after the translation, which may make equal requests of two paths.
            n = self._number(engine, shown.path, asked)
            reply, usage = await engine.chat(asked, n=n)
            self._note(path, body, shown.text(reply), usage)
            replies.append(reply)
            return reply

        translate = PROTOCOLS[path]
        try:
            whole, events = await translate({**body, "model": engine.model}, ask, self.state)
        except UNREADABLE as problem:
            if not replies:
                raise
            # Not the client's error: the request was right, and its reply is paid for.
            said = f"the reply of {engine.model} cannot be translated: {said_by(problem)}"
            raise CallError(said) from None
        if body.get("stream"):
            return MeterReply(whole, list(events))
        return MeterReply(whole, [])

    def _note(
        self,
        path: str,
        body: Json,
        text: str,
        usage: Usage,
        failed: str | None = None,
    ) -> None:
        """Add a call to the transcript: the results of tools before it, its reply, and the reason
        if it was refused.
        """
        fields = usage.to_dict()  # noted below by identity: no copy may be made
        lines = [f"← {given}" for given in PATHS[path].tools(body)] if path in PATHS else []
        if text:
            lines.append(text)
        turn = TurnFields(
            agent=str(body.get("model") or self.model),
            round=len(self.turns) + 1,
            answer=None,
            text="\n".join(lines),
            usage=fields,
            step="call",
        )
        if failed is not None:
            turn["failed"] = failed
        self.turns.append(turn)
        note_transcribed(fields, usage)

    def refused(self, path: str, body: Json, problem: Exception) -> None:
        """Add a refused call to the transcript, since a framework may hide it."""
        # An error that ends the run is reported by the run.
        if not isinstance(problem, FatalCallError):
            self._note(path, body, "", Usage(), _status_of(problem)[1])

    async def settle(self) -> None:
        """Wait for calls in flight, which are paid for anyway; cancel those that take too long."""
        waiting = set(self.under_way)
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


def refuse_shared_address() -> None:
    """Raise FatalCallError if a program has set the address of one question for its whole process:
    other questions under way would ask there, too.
    """
    if len(METERS) == 1:
        return
    places = {name: os.environ.get(name) for name in VARIABLES}
    for module, name in MODULE_ADDRESSES:
        places[f"{module}.{name}"] = getattr(sys.modules.get(module), name, None)
    for place, address in places.items():
        if at_meter(address):
            raise FatalCallError(
                f"the program sets {place} for its whole process, so that questions under way at "
                "once would get each other's calls: give endpoint.base_url to its client, or "
                "--concurrency 1"
            )


def _check(native: NativePath, body: Json) -> None:
    """Raise BadRequest if a request has no input, or a limit that is not a number: the budget
    reserves by the limit.
    """
    if native.field not in body and not (native.path == "responses" and "prompt" in body):
        raise BadRequest(f"the request has no {native.field!r}")
    for name in COUNTS:
        value = body.get(name)
        if value is not None and (type(value) is not int or value < 1):
            raise BadRequest(f"{name} is {str(value)[:40]!r}: give a whole number of at least 1")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise BadRequest("stream_options is not an object")


async def _body_of(request: web.Request) -> Json:
    """Return the JSON object that a request holds. Raises BadRequest without one."""
    try:
        body = json.loads(await request.read())
    except web.HTTPRequestEntityTooLarge:
        most = MOST_BYTES >> 20
        raise BadRequest(f"the request's body has more than {most} MB", 413) from None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise BadRequest("the request's body is not a JSON object")
    return body


class _Server:
    """The server of one event loop; it runs while any question is in flight."""

    def __init__(self) -> None:
        self.sessions: dict[str, MeteredQuestion] = {}
        self.ports: dict[str, int] = {}
        """The port by the address that it listens on."""
        self.socket = Path()
        self._held = ExitStack()
        self._runner: web.AppRunner | None = None
        self._starting = asyncio.Lock()

    async def open(self, session: MeteredQuestion, host: str) -> str:
        """Return a new token for a question; the first question at an address starts the server."""
        token = secrets.token_urlsafe(24)
        self.sessions[token] = session
        async with self._starting:
            if self._runner is None:
                app = web.Application(client_max_size=MOST_BYTES)
                app.router.add_route("*", "/q/{token}/{path:.*}", self._answer)
                runner = web.AppRunner(app, access_log=None, logger=_UNHEARD)
                await runner.setup()
                folder = self._held.enter_context(TemporaryDirectory(prefix="folkmoot-"))
                self.socket = Path(folder) / "meter"
                await web.UnixSite(runner, str(self.socket)).start()
                self._runner = runner
            if host not in self.ports:
                await web.TCPSite(self._runner, host, 0).start()
                # Port 0 lets the system pick one.
                self.ports[host] = self._runner.addresses[-1][1]
        return token

    async def close(self, token: str) -> None:
        """Let a question's token expire, and stop the server after the last."""
        session = self.sessions.pop(token)
        await session.settle()
        async with self._starting:
            if not self.sessions and self._runner is not None:
                runner, self._runner = self._runner, None
                self.ports.clear()
                await runner.cleanup()
                self._held.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Return the response to a request; an error becomes one that clients can read."""
        # The token is the only key: a program that outlives its question reaches no LM.
        session = self.sessions.get(request.match_info["token"])
        if session is None:
            said = "this address was for a question that has ended or never began"
            return _problem(401, f"{said}: make a client for each question, at its own endpoint")
        path = path_in(request.match_info["path"])
        if path.partition("/")[0] == "models" and request.method == "GET":
            return web.json_response(_models(session, path.removeprefix("models").strip("/")))
        if request.method == "POST" and path == "messages/count_tokens":
            # An estimate, four bytes a token: the provider's count would be a request that no
            # budget knows of.
            return web.json_response({"input_tokens": len(await request.read()) // 4})
        body: Json = {}
        client = Client(request)
        try:
            native = PATHS.get(path)
            if native is None or request.method != "POST":
                paths = ", ".join(f"/v1/{name}" for name in PATHS)
                said = f"the meter has no /{path} for {request.method}: it has {paths}"
                raise BadRequest(said, 404)
            body = await _body_of(request)
            _check(native, body)
            answered = await session.ask(path, body, client)
        except Exception as problem:
            if request.method == "POST":
                session.refused(path, body, problem)
            return await _tell(client, problem)
        if not (client.response or answered.events):
            response: web.StreamResponse = web.json_response(answered.body)
        else:
            response = await client.begin()
            for event in answered.events:
                await client.write(event.decode())
            if not answered.events:
                # A stream may end without the blank line that would have sent its last event.
                await client.pass_on(client.rest)
            if not client.gone:
                await response.write_eof()
        if not client.gone:
            session.received(answered)
        return response


async def _tell(client: Client, problem: Exception) -> web.StreamResponse:
    """Tell a client why its request failed; returns the response."""
    status, sentence = _status_of(problem)
    if client.response is not None:
        # A stream has begun: its status has been sent, and clients know an event for this.
        error = {"type": "error", "error": {"message": sentence, "code": status}}
        if not client.told:
            await client.write(f"event: error\ndata: {json.dumps(error)}\n\n")
        return client.response
    if isinstance(problem, RefusedRequest):
        return _as_written(problem)
    return _problem(status, sentence)


def path_in(path: str) -> str:
    """Return a path below `/v1/`, without the slashes and `v1` that clients add, some twice."""
    parts = [part for part in path.split("/") if part]
    while parts and parts[0] == "v1":
        del parts[0]
    return "/".join(parts)


def _models(session: MeteredQuestion, name: str) -> Json:
    """Return the list of the models that a program may ask for, or the entry of one name."""
    names = [session.model, *session.lms]
    models = [{"id": model, "object": "model", "owned_by": "folkmoot"} for model in names]
    if name:
        return {**models[0], "id": name}
    return {"object": "list", "data": models}


def wants_completion_limit(engine: Engine) -> bool:
    """Return whether the LM's limit of a reply is `max_completion_tokens`, as of reasoning
    models.
    """
    return engine.habits.renames or is_reasoning_model(engine.model)


def passes(engine: Engine, path: str) -> bool:
    """Return whether a request to a path is passed on unchanged: if the endpoint may serve the
    path, or answers only from records.
    """
    if engine.endpoint is None:
        return True
    return engine.native is not None and engine.native.has_path(path) is not False


def no_such_path(engine: Engine, path: str) -> None:
    """Remember that an endpoint does not serve a path, and say so once."""
    assert engine.native is not None
    if engine.native.paths.get(path) is False:  # another request in flight has found it out
        return
    engine.native.paths[path] = False
    _LOG.warning("%s has no /%s: requests to it are translated", engine.native.name, path)


def shown_events(text: str, hides: bool) -> Iterator[str]:
    """Yield the events of a stream; `hides` leaves out the event of the usage."""
    for event in text.split("\n\n"):
        if event.strip() and not (hides and is_usage_only(event)):
            yield f"{event}\n\n"


def _as_written(problem: RefusedRequest) -> web.Response:
    """Return a provider's refusal as the provider wrote it."""
    try:
        body = json.loads(problem.text)
    except (ValueError, RecursionError):
        return _problem(problem.status, str(problem))
    return web.json_response(body, status=problem.status, headers=NO_RETRY)


def _status_of(problem: Exception) -> tuple[int, str]:
    """Return the HTTP status and the message that a program gets instead of a reply."""
    if isinstance(problem, BadRequest):
        return problem.status, str(problem)
    if isinstance(problem, FatalCallError):
        return 402 if isinstance(problem, BudgetSpent | BillingError) else 403, str(problem)
    if isinstance(problem, CallError):
        # Clients know how to treat the provider's own status, such as 429.
        return getattr(problem, "status", 0) or 502, said_by(problem)
    # A translator that meets a request of an unknown form raises any error.
    return 400, f"the request cannot be read: {said_by(problem)}"


def _problem(status: int, sentence: str) -> web.Response:
    error = {"message": sentence, "type": "folkmoot", "code": status}
    return web.json_response({"type": "error", "error": error}, status=status, headers=NO_RETRY)


NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's and Anthropic's clients would repeat a request that the engine has given up, as a new
call.
"""


_SERVERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Server] = WeakKeyDictionary()


@asynccontextmanager
async def metered_endpoint(
    lms: Mapping[str, dspy.LM], rest: dspy.LM | None, host: str = LOOPBACK
) -> AsyncIterator[tuple[Endpoint, MeteredQuestion]]:
    """Serve one question: yields its endpoint, and the session that notes its calls.

    Args:
        lms: the LMs by the names that the program sends as `model`.
        rest: the LM of every other name.
        host: the address of this machine that the program can reach.

    Raises UserError without an LM. When the block ends, raises the error that stopped its calls,
    such as a spent budget, even if the program caught it.
    """
    if rest is None and not lms:
        raise UserError("no LM is set: give --lm NAME, or lm=fm.lm('NAME')")
    loop = asyncio.get_running_loop()
    server = of_loop(_SERVERS, _Server)
    session = MeteredQuestion(lms, rest)
    token = await server.open(session, host)
    address = f"http://{host}:{server.ports[host]}/q/{token}/v1"
    endpoint = Endpoint(address, token, session.model, server.socket)
    METERS.add(endpoint.anthropic_url)
    try:
        yield endpoint, session
    except Exception as problem:
        # The program's error is often only a consequence, such as of a spent budget.
        raise (session.ended or problem) from None
    finally:
        METERS.discard(endpoint.anthropic_url)
        # Sent calls are billed, even if the question is cancelled here.
        closing = loop.create_task(server.close(token))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise
    # A program may have caught the error, and answered without the LM.
    if session.ended is not None:
        raise session.ended
