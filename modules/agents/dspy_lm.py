"""Asks an LM through DSPy: one that `fm.lm` did not make, or one whose calls DSPy's history keeps.

DSPy 3.5 and later ask an LM by a `Request`. Up to 3.4 there are also messages as dictionaries,
which users' own subclasses of `BaseLM` need, and settings that only LiteLLM accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dspy
from dspy.lm15 import LM15Error, Request, Response, request_from_openai_chat

from ..base.keyed import without_none
from ..base.saved_file import ADDRESSES

CONNECTION = ADDRESSES | frozenset(
    (
        *("timeout", "api_version", "azure_ad_token_provider", "organization", "project"),
        *("extra_query", "custom_llm_provider"),
    )
)
"""Settings of an LM that tell DSPy how to reach it; they are not part of a request."""

ASKED_BY_CALL = frozenset(("n", "num_generations", "rollout_id", "cache"))
"""Settings that make DSPy ask several times, or look into its cache."""


def can_be_awaited(lm: object) -> bool:
    """Return whether an LM can be asked asynchronously; others are asked in threads."""
    if isinstance(lm, dspy.LM):
        return isinstance(lm.engine, str)
    unset = getattr(dspy.BaseLM, "aforward", None)
    return getattr(type(lm), "aforward", None) is not unset


def arguments_of(
    lm: dspy.BaseLM, messages: Sequence[tuple[str, str]], settings: Mapping[str, object]
) -> tuple[list[Request], dict[str, object]]:
    """Return the arguments, by position and by name, for calling an LM so that it replies once to
    these messages (role, text).
    """
    chat = [{"role": role, "content": text} for role, text in messages]
    request = _request(lm, chat, {**lm.kwargs, **settings})
    if request is None:
        return [], {"messages": chat, **settings}
    rollout = settings.get("rollout_id", lm.kwargs.get("rollout_id"))
    return [request], {} if rollout is None else {"rollout_id": rollout}


def texts_of(request: Request) -> list[tuple[str, str]]:
    """Return the messages of a request as (role, text), the system prompt first."""
    system = request.system or ""
    if not isinstance(system, str):
        system = "".join(getattr(part, "text", "") for part in system)
    texts = [(message.role, message.text or "") for message in request.messages]
    return [("system", system), *texts] if system else texts


def reply_text(outputs: object) -> str:
    """Return the text of the first reply in what DSPy's LMs return."""
    first = outputs
    if isinstance(outputs, list) and outputs:
        first = outputs[0]
    if isinstance(first, Mapping):
        first = first.get("text")
    elif isinstance(first, Response):
        first = first.text
    return str(first or "")


async def asked_with_history(lm: dspy.BaseLM, request: Request, settings: dict[str, object]) -> str:
    """Return the text of the reply of an LM made by `fm.lm`; the call is kept in DSPy's
    histories.
    """
    from dspy.clients.execution import CallResult, PreparedCall, finalize

    response = await lm.direct.complete(request)
    call = PreparedCall(
        prompt=None,
        messages=None,
        kwargs=settings,
        legacy={},
        request=request,
        cache=False,
        n=1,
        managed=True,
    )
    finalize(lm, call, CallResult.native(response))
    return str(response.text)


def _request(
    lm: dspy.BaseLM, chat: Sequence[Mapping[str, str]], settings: Mapping[str, object]
) -> Request | None:
    """Return the request for a chat; None if this LM needs messages as dictionaries (up to DSPy
    3.4).
    """
    # An LM of the user's own, up to DSPy 3.4: its `forward` takes messages.
    if not isinstance(lm, dspy.LM) and hasattr(dspy.BaseLM, "forward"):
        return None
    sent = without_none(settings)
    for name in CONNECTION | ASKED_BY_CALL:
        sent.pop(name, None)
    try:
        return request_from_openai_chat({"model": lm.model, "messages": chat, **sent})
    except (LM15Error, TypeError, ValueError):
        return None
