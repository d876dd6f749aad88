"""The LM calls of a watched question: request, reply, times, usage and error."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ...modules.base.calls import ASKER, Asker, Usage, meters
from ...modules.base.errors import said_by
from .endpoint import Reply


@dataclass
class SeenCall:
    """One call; times in nanoseconds since 1970. `usage` is None as long as there is no reply.

    Calls with the same `asker` object were made by a seat at one time. `meters` are those that
    count the call, the innermost first, and `written` is their usage where a transcript has it,
    which tells the turn.
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
    seen: list[SeenCall],
    model: str,
    request: Mapping[str, Any],
    answering: Awaitable[tuple[Reply, Usage]],
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
