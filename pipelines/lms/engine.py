"""The engine behind every LM: key, record, single flight, in-flight limit, retries, and the bill."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from dspy.lm15 import Message, Request, Response, TextPart
from dspy.lm15 import Usage as LMUsage

from ...modules.adapter import json_schema
from ...modules.calls import CallError, Usage, record_call
from ...modules.profile import Profile
from ...modules.sync import run_sync
from .client import Reply, TransientError
from .limits import AdaptiveLimit, back_off
from .store import ACTIVE, CallStore

MAX_RETRIES = 6
DEADLINE_SECONDS = 600.0
KEEPABLE = frozenset({"stop", "end_turn", "eos", "tool_calls"})  # other replies were cut off or refused


class Endpoint(Protocol):
    """Where requests go: one attempt a call, failures as TransientError, CallError or FatalCallError."""

    @property
    def name(self) -> str: ...

    async def send(self, payload: Mapping[str, Any]) -> Reply: ...

    async def aclose(self) -> None: ...


class Engine:
    """DSPy's asynchronous engine of one LM (`dspy.LM(…, async_engine=Engine(…))`).

    Args:
        model: the full LM name, such as `openai/gpt-4o-mini`.
        endpoint: where to send requests; None answers from records only.
        profile: how the LM wants to be asked.
        identity: what names this LM in call keys: endpoint and model, never a key.
        concurrency: most calls in flight; the endpoint's 429s shrink it for a while.
        prices: USD per prompt and completion token; None when unknown.
        store: a record that this LM always reads first.
        settings: further request fields, sent as they are.
    """

    supports_response_schema = True
    supported_params = frozenset({"response_format", "temperature", "max_tokens", "top_p", "stop", "seed"})

    def __init__(
        self,
        model: str,
        endpoint: Endpoint | None,
        profile: Profile,
        *,
        identity: str,
        concurrency: int = 64,
        prices: tuple[float, float] | None = None,
        store: CallStore | None = None,
        max_retries: int = MAX_RETRIES,
        deadline: float = DEADLINE_SECONDS,
    ) -> None:
        self.model = model
        self.endpoint = endpoint
        self.profile = profile
        self.identity = identity
        self.concurrency = concurrency
        self.prices = prices
        self.store = store
        self.max_retries = max_retries
        self.deadline = deadline
        self._limits: WeakKeyDictionary[asyncio.AbstractEventLoop, AdaptiveLimit] = WeakKeyDictionary()
        self._flights: dict[tuple[int, str], asyncio.Future[Reply]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        return self  # connections and limits belong to the endpoint, not to a program's copy

    async def complete(self, request: Request) -> Response:
        payload, rollout = self.payload(request)
        key = self.key(payload, rollout)
        reply, made = await self._answer(key, payload)
        record_call(self._bill(reply, made))
        return Response(
            id=None,
            model=self.model,
            message=Message.assistant([TextPart(reply.text)]),
            finish_reason="length" if reply.finish_reason == "length" else "stop",
            usage=LMUsage(input_tokens=reply.prompt_tokens, output_tokens=reply.completion_tokens),
        )

    async def aclose(self) -> None:
        if self.endpoint is not None:
            await self.endpoint.aclose()

    def payload(self, request: Request) -> tuple[dict[str, Any], int | None]:
        """The request body in OpenAI's chat form, and the rollout that tells repeated samples apart."""
        config = request.config
        extra = dict((config.extensions or {}).get("folkmoot") or {})
        messages = [{"role": message.role, "content": message.text or ""} for message in request.messages]
        if request.system is not None:
            system = (
                request.system if isinstance(request.system, str) else "".join(p.text for p in request.system)
            )
            messages.insert(0, {"role": "system", "content": system})
        body: dict[str, Any] = {"messages": messages}
        for name in ("max_tokens", "temperature", "top_p", "top_k", "seed"):
            value = getattr(config, name)
            if value is not None:
                body[name] = value
        if config.stop:
            body["stop"] = list(config.stop)
        fields = extra.get("fields")
        if fields and self.profile.constrain == "schema":
            schema = {"name": "reply", "schema": json_schema(fields), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif fields and self.profile.constrain == "grammar":
            body["fields"] = fields
        elif config.response_format:
            body["response_format"] = _openai_format(config.response_format)
        return body, extra.get("rollout")

    def key(self, payload: Mapping[str, Any], rollout: int | None) -> str:
        """SHA-256 over everything that can change the answer."""
        parts = [self.identity, payload, rollout]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    async def _answer(self, key: str, payload: Mapping[str, Any]) -> tuple[Reply, bool]:
        """The reply, and whether this very request paid for it."""
        stores = [self.store, *ACTIVE.get()] if self.store is not None else list(ACTIVE.get())
        for store in stores:
            found = store.get(key)
            if found is not None:
                reply = Reply(**found)
                self._keep(stores, key, reply)
                return reply, False
        loop = asyncio.get_running_loop()
        flight = self._flights.get((id(loop), key))
        if flight is not None:
            return await asyncio.shield(flight), False
        flight = self._flights[id(loop), key] = loop.create_future()
        try:
            reply = await self._call(payload, key)
            self._keep(stores, key, reply)
            flight.set_result(reply)
            return reply, True
        except BaseException as problem:
            if isinstance(problem, Exception):
                flight.set_exception(problem)
                flight.exception()  # nobody may be waiting, and that is fine
            else:
                flight.cancel()
            raise
        finally:
            del self._flights[id(loop), key]

    async def _call(self, payload: Mapping[str, Any], key: str) -> Reply:
        if self.endpoint is None:
            raise CallError(
                f"the record of {self.model} has no answer to this request ({key[:12]}): "
                "the program, the questions or the settings differ from those recorded"
            )
        loop = asyncio.get_running_loop()
        limit = self._limits.get(loop)
        if limit is None:
            limit = self._limits[loop] = AdaptiveLimit(self.concurrency)
        started = loop.time()
        attempt = 0
        while True:
            try:
                async with limit.slot():
                    reply = await self.endpoint.send(payload)
                limit.report(refused=False)
                return reply
            except TransientError as problem:
                limit.report(refused=problem.refused)
                wait = back_off(attempt, problem.retry_after)
                attempt += 1
                if attempt > self.max_retries or loop.time() - started + wait > self.deadline:
                    raise CallError(f"{problem}; given up after {attempt} attempts") from None
                await asyncio.sleep(wait)

    def _keep(self, stores: list[CallStore], key: str, reply: Reply) -> None:
        if reply.finish_reason not in KEEPABLE or not reply.text:
            return
        for store in stores:
            if not store.readonly:
                store.put(key, self.model, vars(reply))

    def _bill(self, reply: Reply, made: bool) -> Usage:
        if not made:
            return Usage(calls=1, cached_calls=1)
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        known = self.prices is not None and prompt is not None and completion is not None
        cost = prompt * self.prices[0] + completion * self.prices[1] if known else None  # type: ignore[operator,index]
        return Usage(1, prompt or 0, completion or 0, 0, cost)


class SyncEngine:
    """The same engine for synchronous callers; both share connections, limits and records."""

    supports_response_schema = True
    supported_params = Engine.supported_params

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict[int, Any]) -> SyncEngine:
        return self

    def complete(self, request: Request) -> Response:
        return run_sync(self.engine.complete, request)

    def close(self) -> None:
        run_sync(self.engine.aclose)


def _openai_format(form: Mapping[str, Any]) -> dict[str, Any]:
    """DSPy's canonical response format back in OpenAI's shape."""
    if form.get("type") != "json_schema":
        return dict(form)
    rest = {name: value for name, value in form.items() if name != "type"}
    return {"type": "json_schema", "json_schema": {"name": "reply", **rest}}
