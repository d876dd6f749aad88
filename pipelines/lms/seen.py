"""The LM calls of a watched question: request, reply, times, usage and error."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from ...modules.base.calls import ASKER, Asker, Usage, meters
from ...modules.base.errors import said_by
from .endpoint import Reply
from .secrets import without_keys


@dataclass
class SeenCall:
    """One call; times in nanoseconds since 1970. `usage` is None as long as there is no reply.

    Calls with the same `asker` object were made by a seat at one time. `meters` are those that count the
    call, the innermost first, and `written` is their usage where a transcript has it, which tells the turn.
    """

    asker: Asker
    model: str
    request: Mapping[str, Any]
    meters: Sequence[Usage] = field(default_factory=meters)
    written: Sequence[Mapping[str, Any]] = ()
    began: int = field(default_factory=time.time_ns)
    ended: int = 0
    text: str | None = None
    usage: Usage | None = None
    error: str | None = None


WATCHED: ContextVar[list[SeenCall] | None] = ContextVar("folkmoot_seen_calls", default=None)
"""Where the calls of the question in progress are noted; None where nobody watches."""


async def watch(
    seen: list[SeenCall], model: str, request: Mapping[str, Any], answering: Awaitable[tuple[Reply, Usage]]
) -> Reply:
    """Await an answer and note the call, failed ones too."""
    call = SeenCall(ASKER.get(), model, request)
    seen.append(call)
    try:
        reply, call.usage = await answering
        call.text = reply.text
        return reply
    except Exception as problem:
        call.error = said_by(problem)
        raise
    finally:
        call.ended = time.time_ns()


class ForeignCalls(BaseCallback):  # type: ignore[misc]
    """Notes the calls of LMs that are not folkmoot's, as DSPy reports them."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[SeenCall, Any]] = {}

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        seen = WATCHED.get()
        if seen is None or getattr(instance, "direct", None) is not None:
            return
        messages = inputs.get("messages") or [{"role": "user", "content": str(inputs.get("prompt") or "")}]
        call = SeenCall(ASKER.get(), str(instance.model), {"messages": messages})
        self._open[call_id] = call, instance
        seen.append(call)

    def on_lm_end(self, call_id: str, outputs: Any, exception: Exception | None = None) -> None:
        if call_id not in self._open:
            return
        call, instance = self._open.pop(call_id)
        call.ended = time.time_ns()
        if exception is not None:
            call.error = without_keys(said_by(exception), [instance])
        elif outputs is not None:
            first = outputs[0] if isinstance(outputs, list) and outputs else outputs
            call.text = str(first.get("text")) if isinstance(first, Mapping) else str(first)


def foreign_calls(wanted: Collection[str], engines: Sequence[Any]) -> list[BaseCallback]:
    """DSPy's callbacks for a run: with one more if it has LMs that are not folkmoot's and is watched."""
    callbacks = list(dspy.settings.callbacks)
    return [*callbacks, ForeignCalls()] if wanted and None in engines else callbacks
