"""The LM calls of a watched question: request, reply, times, usage and error."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from ...modules.base.calls import ASKER, Asker, Usage, meters
from ...modules.base.errors import said_by
from .endpoint import Reply


@dataclass
class SeenCall:
    """One call; times in nanoseconds since 1970. `usage` is None until there is a reply. Calls with
    the same `asker` object were made by a seat at the same time. `meters` count the call, the
    innermost first, and `written` are transcript turns with the usage of these meters, which
    identify the call's turn.
    """

    asker: Asker
    model: str
    request: Mapping[str, object]
    meters: Sequence[Usage] = field(default_factory=meters)
    written: Sequence[Mapping[str, object]] = ()
    began: int = field(default_factory=time.time_ns)
    ended: int = 0
    text: str | None = None
    usage: Usage | None = None
    error: str | None = None


WATCHED: ContextVar[list[SeenCall] | None] = ContextVar("folkmoot_seen_calls", default=None)
"""The list of the calls of the current question; None if it is not traced."""


async def watch(
    seen: list[SeenCall],
    model: str,
    request: Mapping[str, object],
    answering: Awaitable[tuple[Reply, Usage]],
) -> Reply:
    """Await an answer, and record the call, even if it fails."""
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
