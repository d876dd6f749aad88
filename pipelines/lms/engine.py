"""The engine behind every LM: call keys, records, sharing of equal calls, in-flight limit, retries,
and the bill.

A call passes through `Engine._reply` (key) → `_watched` (trace) → `_billed` (meters) → `_answer`
(records, cache, equal calls) → `_call` (limit, retries) → `_fitting_attempt` (settings that the
endpoint refuses) → `_attempt` (budget, ledger) → `Transport.send`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from dspy.lm15 import Message, Request, Response, TextPart, response_to_events
from dspy.lm15 import Usage as LMUsage

from ...modules.agents.adapter import Written, sampling_of
from ...modules.agents.profile import DEFAULT_PROFILE, PASSED, SETTINGS, Profile
from ...modules.base.calls import (
    ASKER,
    ROLLOUTS,
    CallError,
    FatalCallError,
    GivenUpError,
    Usage,
    metered,
    record_call,
    record_failure,
    refused,
)
from ...modules.base.connections import SingleFlight, back_off
from ...modules.base.context import WATCHED
from ...modules.base.errors import UserError, closest
from ...modules.base.saved_file import ADDRESSES
from ...modules.base.sync import finishing, on_shared_loop, run_sync
from ..base.budget import POLL_SECONDS, BudgetSpent
from ..base.journal import to_json
from ..base.settings import settings as settings_now
from ..base.wording import counted
from .client import HttpEndpoint, NoSuchPathError, Sink
from .endpoint import Reply, Transport, charges_in, tokens_in
from .failures import (
    MAY_BE_BILLED,
    MOST_PAUSE,
    OUR_SCHEMA,
    SILENT,
    BrokenStreamError,
    Change,
    Habits,
    RefusedRequest,
    TransientError,
    UnusableReplyError,
    asks_our_schema,
)
from .ledger import Entry
from .limits import MAX_RETRIES, gate_to
from .prices import TIERS, Prices, no_price, price_per_token, search_fee, surcharge
from .seen import Seen, watch
from .store import Booking, CallCache, CallStore, at_meter, books_around

DEFAULT_LM = "local/gemma-3-270m"
CHAT_PATH = "chat/completions"
MOST_UNREADABLE = 3  # billed answers that cannot be read, per call
MOST_CHANGED = 8  # requests with other settings in place of a refused one
LONGEST_UNREACHED = 2.0  # seconds between attempts to reach an endpoint that is down
LEAVING_SECONDS = 0.2  # between looks at whether a cancelled call may be abandoned
GRACE_SECONDS = 5.0  # extra seconds for calls in flight when the time budget ends
LIKELY_REPLY = 250  # tokens that a reply is assumed to have, until the first one has come
MOST_CHOICES = 128  # in one reply, at any provider
LONGEST_TOKENS = 8  # mean characters per token of a prompt, at most; 4 are usual
LEAST_CONTEXT = 500  # tokens; no server cuts prompts to fewer
DEADLINE_SECONDS = 600.0
CALL_SECONDS = 120.0  # seconds that one attempt may take

_NUMBERS: dict[str, tuple[type, float, float, str]] = {
    "temperature": (float, 0, 2, "a number from 0 to 2"),
    "top_p": (float, 0, 1, "a number from 0 to 1"),
    "max_tokens": (int, 1, math.inf, "a whole number above 0"),
    "max_completion_tokens": (int, 1, math.inf, "a whole number above 0"),
    "top_k": (int, 1, math.inf, "a whole number above 0"),
    "seed": (int, -math.inf, math.inf, "a whole number"),
    "frequency_penalty": (float, -math.inf, math.inf, "a number"),
    "presence_penalty": (float, -math.inf, math.inf, "a number"),
}
_KINDS: dict[str, tuple[type, str]] = {
    "reasoning_effort": (str, "a word"),
    "verbosity": (str, "a word"),
    "service_tier": (str, "a word"),
    "thinking": (dict, "an object"),
    "logit_bias": (dict, "an object"),
    "extra_body": (dict, "an object"),
    "logprobs": (bool, "true, or leave it out"),
}
_REPLACED = {"model", "stream", "stream_options"}
_OURS = {"model", "messages", "stream", "n", "tools", "functions", *ADDRESSES}

_VERSION = re.compile(
    r"(?:[-@:](?:latest|preview|\d{4}-\d\d-\d\d|\d{4,8}|\d{2}-\d{2}|v\d+))+$|\.gguf$"
)
"""Endings in which the names of one model may differ."""
_BETWEEN = re.compile(r"[\s:@#_-]+")
_EDITIONS = frozenset(
    {
        *("mini", "nano", "micro", "lite", "small", "medium", "large", "flash", "turbo", "pro"),
        *("air", "max", "plus", "fast"),
    }
)
"""What in a name makes it that of another model, such as `gpt-4o-mini`."""

_FLIGHTS = SingleFlight(own=BudgetSpent)
"""The calls in flight in this process, by key: all LMs and runs that make the same request share
its reply.
"""

_LOG = logging.getLogger("folkmoot")
_KEY_TEXT = json.JSONEncoder(sort_keys=True, ensure_ascii=False, check_circular=False).encode


class NotRecordedError(CallError):
    """An LM that answers from records alone has no reply to this request."""


class Engine:
    """DSPy's asynchronous engine of one LM (`dspy.LM(…, async_engine=Engine(…))`).

    Args:
        model: the full LM name, such as `openai/gpt-4o-mini`.
        endpoint: where requests are sent; None answers from records alone.
        profile: how the LM is asked.
        identity: the name of this LM in call keys: model and endpoint, never a secret key.
        concurrency: the most calls in flight; 429s from the endpoint reduce it for a while.
        prices: USD per token; None if unknown.
        store: a record that this LM always looks into first.
        cached: whether the shared cache may answer; False if answers depend on earlier calls.
        settings: further request fields, sent unchanged.
    """

    supports_response_schema = True
    supported_params = frozenset(
        {"response_format", "temperature", "max_tokens", "top_p", "stop", "seed"}
    )

    def __init__(
        self,
        model: str,
        endpoint: Transport | None,
        profile: Profile,
        *,
        identity: str,
        concurrency: int = 64,
        prices: Prices | None = None,
        store: CallStore | None = None,
        cached: bool = True,
        max_retries: int = MAX_RETRIES,
        deadline: float = DEADLINE_SECONDS,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.model = model
        self.endpoint = endpoint
        self.profile = profile
        self.identity = identity
        self.concurrency = concurrency
        self.prices = prices
        self.store = store
        self.cached = cached
        self.max_retries = max_retries
        self.deadline = deadline
        self.settings = dict(settings or {})
        self.habits = Habits()
        self._under_way = self._unsure = 0  # calls that were sent, and those that wait for others
        self.reached: dict[str, Any] = {}  # how `reaching` was called, without the key
        check_settings(model, self.settings)

    def __deepcopy__(self, memo: dict[int, object]) -> Engine:
        return self  # copies of a program share the endpoint's connections and limits

    def __reduce__(self) -> tuple[object, ...]:
        """Return how another process makes this engine; it reads keys from its own environment.
        Raises UserError for an address with a password.
        """
        if self.endpoint is None:
            made = partial(
                Engine,
                self.model,
                None,
                self.profile,
                identity=self.identity,
                store=self.store,
                settings=self.settings,
                cached=False,
            )
            return made, ()
        if "@" in urlsplit(self.reached["api_base"] or "").netloc:
            raise UserError(
                f"the address of {self.model} holds a password, which is not sent to other "
                "machines: leave it out, or do without --engine"
            )
        return partial(Engine.load_state, self.dump_state(), **self.reached), ()

    async def complete(self, request: Request) -> Response:
        """Answer a request of DSPy's, in DSPy's form."""
        body, rollout = self.payload(request)
        sample: int | str | None = rollout
        if rollout is None and "folkmoot" not in (request.config.extensions or {}):
            # A predictor of DSPy's does not say which sample it wants, so each equal request of a
            # question is taken to want another one.
            sample = rollout = ROLLOUTS.get().number(None)
            drawn = body.get("temperature") != 0 and ASKER.get().sample(self.key(body, rollout))
            if drawn:
                sample = f"{rollout or ''}#{drawn}"
        reply = await on_shared_loop(self._reply, body, sample)
        return Response(
            id=None,
            model=self.model,
            message=Message.assistant([TextPart(reply.text)]),
            finish_reason="length" if reply.truncated else "stop",
            usage=LMUsage(
                input_tokens=reply.prompt_tokens,
                output_tokens=reply.completion_tokens,
                cache_read_tokens=reply.cached_prompt_tokens,
                cache_write_tokens=reply.cache_write_tokens,
                reasoning_tokens=reply.reasoning_tokens,
            ),
        )

    async def stream(self, request: Request) -> AsyncIterator[object]:
        """Yield the events of a reply, its text in one chunk, for `dspy.streamify`."""
        for event in response_to_events(await self.complete(request)):
            yield event

    async def chat(
        self, body: Mapping[str, object], *, n: int = 1
    ) -> tuple[dict[str, object], Usage]:
        """Return the endpoint's whole response to a raw chat completion request, and its usage.

        It is handled like every other call: ledger, budget, records, cache, retries, prices. A
        request without messages asks for embeddings. `model` and `stream` are ignored, since this
        LM answers, in one piece; all else (tools, `response_format`, `n`, `logprobs`, images) is
        sent unchanged.

        `n` numbers the equal requests of the question of `asking(question=…)`: each is an
        independent sample, and records and cache repeat the reply to the same request with the same
        number. From another task, such as a server's, start this in the question's context:
        `loop.create_task(engine.chat(body, n=n), context=context)`.

        Raises CallError for an invalid request, and whatever every call raises.
        """
        fields = {name: value for name, value in body.items() if name not in _REPLACED}
        forbidden = sorted((ADDRESSES | {"extra_body"}) & fields.keys())
        if forbidden or not (isinstance(fields.get("messages"), list) or "input" in fields):
            problem = "it has no messages"
            if forbidden:
                problem = f"{forbidden[0]!r} cannot be set here"
            raise RefusedRequest(f"{self.model} cannot be asked by this request: {problem}", 400)
        if "messages" in fields:
            fields = {**self.settings, **fields}
        with metered() as usage:
            rollout = _sample(n)
            reply = await self._reply(fields, rollout, whole=True)
        return dict(reply.body or {}), usage

    @property
    def native(self) -> HttpEndpoint | None:
        """The endpoint to which a client's own request can be passed on; None if there is none."""
        if isinstance(self.endpoint, HttpEndpoint):
            return self.endpoint
        return getattr(self.endpoint, "native", None)

    async def forward(
        self,
        path: str,
        body: Mapping[str, object],
        read: Callable[[str | dict[str, object]], Reply],
        sink: Sink | None = None,
        *,
        n: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Reply, Usage, bool]:
        """Pass on a raw request to a path of this LM's endpoint, as its client wrote it.

        It is handled like every other call (see `chat`); `HttpEndpoint.forward` explains the other
        arguments. Returns the reply, its usage, and whether it comes from the endpoint and not from
        records or cache. Raises NoSuchPathError for a path that the endpoint does not serve, and
        whatever every call raises.
        """
        fields = {name: value for name, value in body.items() if name != "model"}
        if refused_names := sorted(ADDRESSES & fields.keys()):
            raise RefusedRequest(
                f"{self.model} cannot be asked by this request: {refused_names[0]!r} cannot be set "
                "here",
                400,
            )
        came = begun = False

        async def passed(piece: bytes) -> None:
            nonlocal begun
            begun = True
            assert sink is not None
            await sink(piece)

        async def send(endpoint: Transport) -> Reply:
            nonlocal came
            came, native = True, self.native
            assert native is not None
            try:
                return await native.forward(path, fields, read, sink and passed, headers)
            except TransientError as problem:
                # Once the client has got a part of the reply, no other attempt can replace it.
                if not begun:
                    raise
                raise BrokenStreamError(str(problem), problem.kind) from None

        rollout = _sample(n)
        asked = dict(fields)
        if path != CHAT_PATH:  # to another path it is another request
            asked["path"] = path
        if headers:
            asked["headers"] = dict(headers)
        key = self.key(asked, rollout)
        with metered() as usage:
            reply = await self._watched(_Call(fields, key, True, send))
        return reply, usage, came

    @property
    def no_price(self) -> str:
        """The sentence that this LM has no price."""
        return no_price([self.model])

    @property
    def to_price(self) -> str:
        """What a user does to give it a price."""
        return f'give --price "{self.model}=IN,OUT" (USD per million tokens)'

    async def aclose(self) -> None:
        if self.endpoint is not None:
            await self.endpoint.aclose()

    def dump_state(self) -> dict[str, object]:
        """Return the JSON from which `load_state` makes this LM again; keys are left out, and come
        from the environment that loads it.
        """
        own = dict(getattr(self.endpoint, "settings", {}))
        own.pop("threads", None)  # their number depends on the machine
        embedded = {key: value for key, value in own.items() if value not in (None, 1)}
        state = {
            "model": self.model,
            "identity": self.identity,
            "profile": asdict(self.profile),
            "concurrency": self.concurrency,
            "prices": self.prices,
        }
        if embedded:
            state["embedded"] = embedded
        if self.settings:
            state["settings"] = self.settings
        return state

    @classmethod
    def reaching(
        cls,
        name: str,
        *,
        profile: Callable[[Profile], Profile],
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        embedded: Mapping[str, int | None] | None = None,
        concurrency: int = 64,
        prices: Prices | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> Engine:
        """Return the engine of the LM `PROVIDER/MODEL`.

        `profile` gets the endpoint's usual profile and returns the one to use. `embedded` has the
        threads, context and slots of an LM inside this process. Raises UserError for an unknown
        name, a missing key or extra, and an unusable address.
        """
        provider, _, model = name.partition("/")
        defaults = settings_now()
        endpoint: Transport
        own, listed, server = DEFAULT_PROFILE, True, dict(embedded or {})
        if not model or not name.isprintable():
            raise _no_name(name)
        if at_meter(api_base):
            raise UserError(
                f"{name} books its calls itself, and this run's meter would book them again: make "
                "it by dspy.LM, or give it an address of its own"
            )
        if provider == "local":
            if api_base or api_key:
                given = "api_key"
                if api_base:
                    given = "--api-base"
                raise UserError(
                    f"{name} runs inside this process: drop {given}, or name the model openai/…"
                )
            from .embedded import ATTEMPT_SECONDS, LocalEndpoint

            endpoint = local = LocalEndpoint(
                model,
                threads=server.get("threads") or defaults.threads or 1,
                context=server.get("context"),
                slots=server.get("slots") or 1,
                timeout=timeout or ATTEMPT_SECONDS,
            )
            own = local.profile
            # A plain layout writes the whole prompt, so the LM's chat template must not wrap it.
            local.plain |= profile(own).layout == "plain"
            concurrency, prices = server.get("slots") or 1, Prices(0.0, 0.0)
        elif provider != "openai":
            from .hosted import LiteLLMEndpoint

            endpoint = LiteLLMEndpoint(
                name, api_base=api_base, api_key=api_key, timeout=timeout or CALL_SECONDS
            )
            endpoint.check_settings(settings or {})
        else:
            base, key = api_base or defaults.openai_base_url, api_key or defaults.openai_key()
            endpoint = HttpEndpoint(base, model, api_key=key, timeout=timeout or CALL_SECONDS)
            # A user's own server may use OpenAI's names for models, but not its prices.
            listed = endpoint.name == defaults.default_openai_base_url
            if key is None and api_base is None and base == defaults.default_openai_base_url:
                raise UserError(
                    f"{name} needs a key: set OPENAI_API_KEY, or give --api-base for an endpoint "
                    "of your own"
                )
        if listed and not prices:
            prices = price_per_token(name)
        made = cls(
            name,
            endpoint,
            profile(own),
            identity=f"{name} at {endpoint.name}",
            concurrency=concurrency,
            prices=prices,
            cached=provider != "local",
            settings=settings,
        )
        made.reached = {"api_base": api_base, "timeout": timeout, "embedded": embedded}
        return made

    @classmethod
    def load_state(cls, state: Mapping[str, Any], **reached: Any) -> Engine:
        """Make the engine of a saved LM again. Raises UserError unless its address is the one that
        this environment gives: if a file could name an address, it could have the key sent there.

        `reached` are the arguments of `reaching`, if the process that saved the LM passes them on.
        """
        model, profile = state["model"], Profile(**state["profile"])
        prices = Prices.read(state["prices"]) if state["prices"] else None
        made = cls.reaching(
            model,
            profile=lambda _: profile,
            concurrency=state["concurrency"],
            prices=prices,
            settings=state.get("settings"),
            **(reached or {"embedded": state.get("embedded")}),
        )
        if made.identity != state["identity"]:
            raise UserError(
                f"the saved LM ({state['identity']}) has another address than {model} has in this "
                "environment: load the program without its LMs and set them again"
            )
        return made

    async def ask(self, written: Written) -> str:
        """Return the text of the reply to a request that is not wrapped in DSPy's objects: these
        would take as much CPU time as writing the prompt (0.06 ms).
        """
        _, sampling = written.checked()
        body = self._body(written.messages, sampling, written.extra, written.system)
        return (await self._reply(body, written.extra.get("rollout"))).text

    def payload(self, request: Request) -> tuple[dict[str, object], int | None]:
        """Return the body of a request of DSPy's in OpenAI's chat form, and the rollout id, which
        tells samples apart.
        """
        config, system = request.config, request.system
        extra = (config.extensions or {}).get("folkmoot") or {}
        if system is not None and not isinstance(system, str):
            system = "".join(part.text for part in system)
        messages = [(message.role, self._content(message)) for message in request.messages]
        form = dict(config.response_format or {})  # in DSPy's own shape
        if form.get("type") == "json_schema":
            del form["type"]
            form = {"type": "json_schema", "json_schema": {"name": "reply", **form}}
        body = self._body(messages, sampling_of(config), extra, system)
        if form:
            body.setdefault("response_format", form)
        return body, extra.get("rollout")

    def _content(self, message: Message) -> object:
        """Return the content of a message in OpenAI's form. Raises CallError for parts other than
        texts and images.
        """
        if message.text is not None and all(part.type == "text" for part in message.parts):
            return message.text
        content: list[dict[str, object]] = []
        for part in message.parts:
            if part.type == "text":
                content.append({"type": "text", "text": part.text})
            elif part.type == "image" and (part.url or part.data):
                url = part.url or f"data:{part.media_type};base64,{part.data}"
                content.append({"type": "image_url", "image_url": {"url": url}})
            else:
                raise CallError(
                    f"{self.model} was asked with a part of type {part.type}, and fm.lm sends "
                    "texts and images alone: give a dspy.LM for it"
                )
        return content

    def _body(
        self,
        texts: Sequence[tuple[str, object]],
        sampling: Mapping[str, object],
        extra: Mapping[str, object],
        system: str | None,
    ) -> dict[str, object]:
        """Return the body of a request in OpenAI's chat form; `extra` is that of `Written`."""
        if system is not None:
            texts = [("system", system), *texts]
        messages = [{"role": role, "content": text} for role, text in texts]
        body: dict[str, object] = {"messages": messages, **sampling}
        if "max_completion_tokens" in self.settings:
            # OpenAI refuses a request with both limits.
            body.pop("max_tokens", None)
        body.update(self.settings)
        if extra.get("schema") and self.profile.constrain == "schema":
            schema = {"name": OUR_SCHEMA, "schema": extra["schema"], "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif extra.get("fields") and self.profile.constrain == "grammar":
            body["fields"] = extra["fields"]
        return body

    def key(self, payload: Mapping[str, object], rollout: int | str | None) -> str:
        """Return SHA-256 over everything that can change the answer."""
        parts = [self.identity, payload, rollout]
        # Not orjson, whose text differs: records of all versions must keep their keys. A lone
        # surrogate in a question needs an escape, since UTF-8 cannot encode it.
        return hashlib.sha256(_KEY_TEXT(parts).encode("utf-8", "backslashreplace")).hexdigest()

    async def _reply(
        self, payload: Mapping[str, object], rollout: int | str | None, *, whole: bool = False
    ) -> Reply:
        """Return the reply to a request, counted on the caller's meters and recorded for traces. If
        `whole`, it has the endpoint's whole response as `body`.
        """
        if rollout is None:  # as in requests of DSPy's predictors
            rollout = ROLLOUTS.get().number(None)
        return await self._watched(_Call(payload, self.key(payload, rollout), whole))

    async def _watched(self, call: _Call) -> Reply:
        """Return the reply to a call, recorded for traces."""
        seen: Seen | None = WATCHED.get()
        if seen is None:
            return (await self._billed(call))[0]
        return await watch(seen, self.model, call.payload, self._billed(call))

    async def _billed(self, call: _Call) -> tuple[Reply, Usage]:
        """Return the reply to a call, counted on the caller's meters, and its usage."""
        asker = ASKER.get()
        first = asker.asks_first(call.key)
        try:
            reply, made = await self._answer(call)
        except FatalCallError as problem:  # noted, in case the program catches it
            raise refused(problem) from None
        except UserError as problem:  # fatal: DSPy would treat it as a failure of this one call
            raise refused(FatalCallError(str(problem))) from None
        except CallError as problem:
            record_failure(problem)
            raise
        said: dict[str, Any] = {
            "finish_reason": reply.finish_reason,
            "truncated_calls": int(reply.truncated),
            "probability": reply.probability,
            "thoughts": reply.thoughts,
            "models": frozenset([reply.model] if reply.model else []),
        }
        price = Usage(1, cost_usd=self._cost(reply), **reply.tokens, **said)
        usage = price if made else Usage(1, cached_calls=1, **said)
        # A call that an earlier attempt at the question paid for counts as paid, so that the row's
        # bill is the same as without the stop in between.
        own = first and call.key in asker.paid
        record_call(price if own else usage, price)
        return reply, usage

    async def _answer(self, call: _Call) -> tuple[Reply, bool]:
        """Return the reply, from records, cache, an equal call in flight or the endpoint, and
        whether this request paid for it.
        """
        stores = self._stores()
        if (kept := self._find(stores, call.key)) is not None:
            return kept, False

        reply, first = await _FLIGHTS(call.key, lambda: self._call(call))
        # Also if an equal call made it, perhaps for another run: this run has its own records.
        self._put(stores, call.key, reply)
        return reply, first

    def _stores(self) -> list[CallStore | CallCache]:
        """Return the records and the cache, in which replies are looked up and stored."""
        books = books_around()
        cache = books.cache if self.cached else None
        return [store for store in (self.store, *books.stores, cache) if store is not None]

    async def _call(self, call: _Call) -> Reply:
        """Ask the endpoint until a reply comes or the call is given up."""
        endpoint = self.endpoint
        if endpoint is None:
            raise NotRecordedError(
                f"the record of {self.model} has no answer to this request ({call.key[:12]}): "
                "the program, the questions, the settings or the seed differ from those recorded"
            )
        clock = asyncio.get_running_loop().time
        gate = gate_to(endpoint.address, self.concurrency)
        # seconds of attempts and back-off, without the time that is spent waiting for a slot
        spent = 0.0
        attempt = unreadable = 0
        began = clock()

        async def make() -> Reply:
            nonlocal began
            began = clock()
            return await self._fitting_attempt(endpoint, call, attempt + 1)

        while True:
            try:
                reply = await gate.attempt(make, self.concurrency, endpoint.timeout)
                gate.limit.report(refused=False)
                _LOG.info(
                    "%s: answered in %.2f s, %s + %s tokens",
                    *(self.identity, clock() - began, reply.prompt_tokens, reply.completion_tokens),
                )
                return reply
            except TransientError as problem:
                # Only a refusal (429) shows how many calls the endpoint accepts.
                if problem.kind == "refused":
                    gate.limit.report(refused=True)
                # Failures of other calls to this address also lengthen the pause.
                failed = max(attempt, gate.rounds - 1)
                wait = back_off(failed, problem.retry_after)
                # A server that has never answered may be starting up: ask it more often.
                if problem.kind == "unreachable" and gate.answered_at is None:
                    wait = min(wait, LONGEST_UNREACHED)
                spent += clock() - began + wait
                attempt += 1
                unreadable += problem.kind == "unreadable"
                tired = attempt > self.max_retries or unreadable == MOST_UNREADABLE or gate.given_up
                if problem.kind == "loading":
                    # A server that loads its model refuses at once, which would quickly use up the
                    # attempts, so only time counts.
                    tired = spent > MOST_PAUSE
                if tired or spent > self.deadline:
                    tries = counted(attempt, "attempt")
                    said = f"{problem}; given up after {tries}"
                    raise GivenUpError(said, problem.status) from None
                wait = min([wait, *_seconds_left()])
                _LOG.info("%s: %s; try %d in %.1f s", self.identity, problem, attempt + 1, wait)
                if problem.kind in SILENT:
                    gate.pause(wait)
                await asyncio.sleep(wait)

    async def _fitting_attempt(self, endpoint: Transport, call: _Call, number: int) -> Reply:
        """Make an attempt with settings that the endpoint accepts. If it refuses one, the setting
        is changed, and the change remembered if it works.

        Of a request that a client of the meter sent (`whole`), only the token limit may get another
        name; one that is passed on unread (`send`) is never changed.
        """
        if call.send is not None:  # passed on as the client wrote it
            return await self._attempt(endpoint, call, number)
        habits = Habits(renames=self.habits.renames) if call.whole else self.habits
        asked = dict(call.payload)
        if isinstance(endpoint, HttpEndpoint):
            asked["stream"] = False  # some servers stream by default
        fitted = _Call(habits.fit(asked), call.key, call.whole)
        try:
            reply = await self._attempt(endpoint, fitted, number)
        except (TransientError, CallError) as problem:
            changed = await self._with_changes(endpoint, call, number, habits, asked, problem)
            if changed is None:
                raise
            return changed
        if not self.habits.schema and asks_our_schema(fitted.payload):
            self.habits.schema = True
        return reply

    async def _with_changes(
        self,
        endpoint: Transport,
        call: _Call,
        number: int,
        habits: Habits,
        asked: Mapping[str, object],
        problem: Exception,
    ) -> Reply | None:
        """Return the reply to the request with the fewest changes with which the endpoint accepts
        it; None if no change helps. Since endpoints name one refused setting at a time, the refusal
        of a changed request may suggest one more change.
        """
        from .refusals import changes_of, missed_schema, says_other

        refusals: list[tuple[list[Change], Exception]] = [([], problem)]
        asked_with = set[frozenset[Change]]()
        # The list grows while it is read, so that requests with fewer changes are tried first.
        for changes, refusal in refusals:
            tried = habits.trying(changes)
            for change in changes_of(tried, refusal, tried.fit(asked), number):
                # A client of the meter could not know that its setting was left out.
                if call.whole and change.what != "renames":
                    continue
                more = [*changes, change]
                # Endpoints that quote the request in a refusal seem to name every setting, so the
                # same changes come up again.
                if frozenset(more) in asked_with or len(asked_with) == MOST_CHANGED:
                    continue
                asked_with.add(frozenset(more))
                fitted = _Call(habits.trying(more).fit(asked), call.key, call.whole)
                try:
                    reply = await self._attempt(endpoint, fitted, number)
                except (TransientError, CallError) as other:
                    if says_other(other, refusal):
                        refusals.append((more, other))
                    continue
                # A single reply that did not fit the schema says nothing about the endpoint, so the
                # change is not remembered.
                if missed_schema(refusal):
                    more = changes
                for kept in more:
                    if kept.sentence not in self.habits.notes:
                        _LOG.warning("%s %s", self.model, self.habits.keep(kept))
                return reply
        return None

    async def _attempt(self, endpoint: Transport, call: _Call, number: int) -> Reply:
        """Make one paid attempt, if the budgets allow it.

        Before the call is sent, the ledgers book it as lost, at its likely cost; before its reply
        is used, they book its real cost. So a call whose end is never known counts as spent.
        """
        booking = Booking()
        booked: Entry | None = None
        sending: asyncio.Future[Reply] | None = None
        try:
            for account in books_around().accounts:
                await account.admit()
                booking.admitted.append(account)
            lost = self._entry(call, self._likely_usage(call.payload), number) | {"lost": True}
            # Now, since a process that is killed from here on may have paid for the call.
            booking.send(lost)
            booked = lost
            self._under_way += 1
            sent_by = endpoint.send(call.payload) if call.send is None else call.send(endpoint)
            ended = asyncio.get_running_loop().create_future()
            sending = asyncio.ensure_future(_signal_end(sent_by, ended))
            seconds = min(_seconds_left(GRACE_SECONDS), default=None)
            cancelled = await _wait_for_end(sending, ended, seconds)
            booked = self._bill(call, sending, number, lost)
            # A cancelled call is paid for, so its reply is stored for the run that goes on.
            if cancelled is not None:
                if not sending.exception():
                    self._put(self._stores(), call.key, sending.result())
                raise cancelled
            reply = sending.result()
            self._note_model(reply)
            self._note_thoughts(reply)
            self._note_cut(call.payload, lost["prompt_tokens"] or 0, reply)
            if not call.whole:
                reply.body = None
            return reply
        except (TransientError, CallError) as problem:
            raise await self._settle(problem, endpoint) from None
        except _OverdueError:
            for account in booking.admitted:
                account.check()
            raise
        finally:
            if sending is not None:
                self._under_way -= 1
            booking.settle(booked)

    def _bill(
        self, call: _Call, sent: asyncio.Future[Reply], number: int, lost: Entry
    ) -> Entry | None:
        """Return what is booked for a call that was sent and has ended: its usage; None if it was
        refused; `lost` if the endpoint may have worked on it.
        """
        problem = sent.exception()
        kind = getattr(problem, "kind", None)
        if problem is None:
            return self._entry(call, sent.result(), number)
        usage = getattr(problem, "usage", None)
        stated = Reply("", "", **tokens_in(usage), **charges_in({"usage": usage}))
        if stated.prompt_tokens or stated.cost_usd is not None:
            return self._entry(call, stated, number)
        if isinstance(problem, UnusableReplyError) or kind in MAY_BE_BILLED:
            return lost
        if isinstance(problem, TransientError | CallError | NoSuchPathError):
            return None
        return lost

    async def _settle(self, problem: Exception, endpoint: Transport) -> Exception:
        """Return the failure of a call. If either the account or this request may be its cause,
        this waits for other calls in flight: if one is answered, the account is in order.
        """
        refusal = getattr(problem, "if_answered", None)
        if refusal is None:
            return problem
        self._unsure += 1
        try:
            # Once all calls in flight wait here, none of them will be answered.
            while not endpoint.answered and self._under_way > self._unsure:
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._unsure -= 1
        return refusal if endpoint.answered else problem

    def _note_model(self, reply: Reply) -> None:
        """Warn once that another model answers than the one that was asked."""
        if reply.model is None or same_model(self.model, reply.model):
            return
        self._say_once(f"{self.model} is answered by {reply.model!r}")

    def _note_thoughts(self, reply: Reply) -> None:
        """Warn once about a reply of thoughts alone: the server may take the answer for one of
        them.
        """
        if not reply.text.strip() and reply.thoughts and reply.finish_reason == "stop":
            self._say_once(
                f"{self.model} puts its whole reply into its thoughts: switch the reasoning parser "
                "of its server off, or its thinking (--lm-set extra_body=…)"
            )

    def _note_cut(self, payload: Mapping[str, Any], likely: int, reply: Reply) -> None:
        """Warn once if an endpoint counts far fewer tokens than the prompt has, as Ollama does when
        it cuts a prompt to its context. `likely` is a count of one token per three bytes.
        """
        found = reply.prompt_tokens or 0
        most = LONGEST_TOKENS * found
        if found < LEAST_CONTEXT or 3 * likely < most:
            return
        texts = [message.get("content") for message in payload.get("messages") or ()]
        # Only for text: an image has many bytes and few tokens.
        if all(isinstance(text, str) for text in texts) and sum(map(len, texts)) > most:
            self._say_once(
                f"{self.model} counts too few tokens in a long prompt: its server may cut off what "
                "does not fit (in Ollama, raise num_ctx)"
            )

    def _say_once(self, note: str) -> None:
        if note not in self.habits.notes:
            self.habits.notes.append(note)
            _LOG.warning("%s", note)

    def _likely_usage(self, payload: Mapping[str, Any]) -> Reply:
        """Return the usage that is booked for a call whose end is not known: one prompt token per
        three bytes, and a reply as long as is typical of this run.
        """
        asked = payload.get("messages") or payload.get("input") or payload.get("prompt") or ""
        prompt = len(to_json(asked))
        likely = LIKELY_REPLY
        for ledger in books_around().ledgers:
            size = ledger.typical_reply(self.model)
            if size is not None:
                likely = size
                break
        most = payload.get("max_tokens") or payload.get("max_completion_tokens")
        most = most or payload.get("max_output_tokens") or likely
        # A caller may send any numbers, but nothing is booked below zero.
        choices = max(1, min(int(payload.get("n") or 1), MOST_CHOICES))
        whole = choices * max(0, min(int(most), likely))
        return Reply("", "", prompt // 3 + 1, whole, 0, 0, 0)

    def _cost(self, reply: Reply) -> float | None:
        """Return the cost of a call in USD: as the provider states it, else by the prices; None if
        it is unknown.
        """
        if reply.cost_usd is not None:
            return reply.cost_usd
        prices, factor = self.prices, 1.0
        if prices is None:
            return None
        special = reply.tier in TIERS or reply.surcharges
        # Only for list prices: those that a user has given hold for every tier.
        if special and prices == price_per_token(self.model):
            prices = price_per_token(self.model, reply.tier) or prices
            factor = surcharge(self.model, reply.surcharges or ())
        cost = Prices(*prices).cost(reply)
        if cost is not None:
            cost *= factor
        if cost is not None and reply.searches:
            fee = search_fee(self.model)
            return None if fee is None else cost + fee * reply.searches
        return cost

    def _entry(self, call: _Call, reply: Reply, attempts: int) -> Entry:
        """Return the ledger's line about a call."""
        asker = ASKER.get()
        return Entry(
            endpoint=self.endpoint.name if self.endpoint else "",
            model=self.model,
            key=call.key,
            **reply.tokens,  # type: ignore[typeddict-item]
            cost_usd=self._cost(reply),
            seat=asker.seat,
            question=asker.question,
            attempts=attempts,
            kept=reply.complete,
            finish_reason=reply.finish_reason,
        )

    def _find(self, stores: Sequence[CallStore | CallCache], key: str) -> Reply | None:
        """Return the reply from the first store that has one, which is then written to the others,
        too; None if none has.
        """
        for store in stores:
            if (reply := store.get(key)) is not None:
                place = "cache" if isinstance(store, CallCache) else "records"
                _LOG.info("%s: answered from the %s", self.identity, place)
                self._put(stores, key, reply)
                return reply
        return None

    def _put(self, stores: Sequence[CallStore | CallCache], key: str, reply: Reply) -> None:
        """Write a reply to all stores that may keep it."""
        complete = reply.complete
        for store in stores:
            # A record shows all that happened; the cache must not repeat a reply that was cut off.
            if not store.readonly and (complete or isinstance(store, CallStore)):
                store.put(key, self.model, reply)


@dataclass(slots=True)
class _Call:
    """A request and its key. `whole` keeps the endpoint's whole response in the reply; `send`, if
    given, sends the request in place of `Transport.send`.
    """

    payload: Mapping[str, Any]
    key: str
    whole: bool
    send: Callable[[Transport], Awaitable[Reply]] | None = None


class SyncEngine:
    """An Engine for DSPy's synchronous calls; connections, limits and records are the same."""

    supports_response_schema = True
    supported_params = Engine.supported_params

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict[int, object]) -> SyncEngine:
        return self

    def complete(self, request: Request) -> Response:
        return run_sync(self.engine.complete, request)

    def stream(self, request: Request) -> Iterator[object]:
        return iter(response_to_events(self.complete(request)))

    def close(self) -> None:
        run_sync(self.engine.aclose)

    def dump_state(self) -> dict[str, object]:
        return self.engine.dump_state()

    @classmethod
    def load_state(cls, state: Mapping[str, object]) -> SyncEngine:
        return cls(Engine.load_state(state))


def _no_name(name: str) -> UserError:
    """Return the fault of a text that names no LM, with the name that may be meant."""
    from .hosted import full_names
    from .weights import KNOWN

    names = full_names() | {local: f"local/{local}" for local in KNOWN}
    close = closest(name, names)
    meant = ""
    if close is not None:
        meant = f" (did you mean {names[close]!r}?)"
    return UserError(
        f"{name!r} is not an LM name{meant}: give PROVIDER/MODEL, such as openai/gpt-4o-mini or "
        f"{DEFAULT_LM}"
    )


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Check sampling settings and those that are sent unchanged; None means not set. Raises
    UserError for a value of another type or range, and for a setting that could redirect a request.
    """
    for key, value in settings.items():
        if value is None or key == "stop":
            continue
        embedded = name.startswith("local/") and key != "logprobs"
        if key not in SETTINGS or (key in PASSED and embedded):
            raise UserError(f"{name} does not accept {key}: leave it out")
        if key in _NUMBERS:
            kind, low, high, wanted = _NUMBERS[key]
            # Not a bool, which is an int in Python.
            number = isinstance(value, (int, kind)) and not isinstance(value, bool)
            right = number and low <= value <= high
        else:
            kind, wanted = _KINDS[key]
            right = isinstance(value, kind) and bool(value)
        if not right:
            raise UserError(f"{key} of {name} is {value!r}: give {wanted}")
    taken = sorted(_OURS & set(settings.get("extra_body") or ()))
    if taken:
        raise UserError(f"extra_body of {name} has {taken[0]!r}, which folkmoot sets: leave it out")
    try:
        _KEY_TEXT(settings)
    except (TypeError, ValueError, RecursionError):
        raise UserError(
            f"the settings of {name} are not JSON: give text, numbers, lists and objects"
        ) from None


class _OverdueError(TimeoutError):
    """A call was still in flight when the time budget ended."""


async def _signal_end(sent: Awaitable[Reply], ended: asyncio.Future[None]) -> Reply:
    """Return the reply; `ended` is set at once when it comes. A callback of a task would only be
    called some turns of the event loop later.
    """
    try:
        return await sent
    finally:
        if not ended.done():
            ended.set_result(None)


async def _wait_for_end(
    sending: asyncio.Future[Reply], ended: asyncio.Future[None], seconds: float | None
) -> asyncio.CancelledError | None:
    """Wait until a call that was sent has ended, even if the caller is cancelled meanwhile, since
    the call is paid for; returns that cancellation, or None.

    After `seconds`, the call is cancelled and _OverdueError raised.
    """
    clock = asyncio.get_running_loop().time
    overdue = math.inf if seconds is None else clock() + seconds
    try:
        if seconds is None:
            await ended
            return None
        if (await asyncio.wait([sending], timeout=seconds))[0]:
            return None
        sending.cancel()
        raise _OverdueError
    except asyncio.CancelledError as problem:
        cancelled = problem
    with finishing():
        while not sending.done():
            # A call that is paid for is only abandoned if no time is left, or at a second Ctrl-C.
            if clock() >= overdue or finishing.left:
                sending.cancel()
                raise cancelled
            with suppress(asyncio.CancelledError):
                await asyncio.wait([sending], timeout=LEAVING_SECONDS)
    return cancelled


@lru_cache(maxsize=256)
def same_model(asked: str, answered: str) -> bool:
    """Return whether two names mean the same model, apart from dates, versions and paths."""
    fewer, more = sorted(map(_parts_of, (asked, answered)), key=len)
    return fewer <= more and _EDITIONS.isdisjoint(more - fewer)


def _parts_of(name: str) -> set[str]:
    return set(_BETWEEN.split(_VERSION.sub("", name.rpartition("/")[2].casefold())))


def _seconds_left(grace: float = 0.0) -> list[float]:
    """Return the seconds that are left in each time budget around the call, plus `grace`."""
    left = [account.seconds_left for account in books_around().accounts]
    return [seconds + grace for seconds in left if seconds is not None]


def _sample(n: int) -> str:
    """Return the part of a call key that is different for each of a question's equal requests, and
    for each copy of an agent.
    """
    sample, copies = f"{ASKER.get().question or ''}#{n}", ROLLOUTS.get().rollout
    if copies:
        sample += f"+{copies}"
    return sample
