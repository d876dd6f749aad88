"""The failures of a call, by what they concern: the account (key, money, name of the LM), the
moment (rate limit, overload, broken connection: another attempt may succeed), or this request
(content, length). `Habits` are the settings that an endpoint was found to refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...modules.base.calls import (
    CallError,
    ContextLengthError,
)

MOST_PAUSE = 120.0
"""The most seconds to wait because an endpoint asks for it; a longer wait pauses the run."""

Trouble = Literal[
    "refused",
    "loading",
    "unreadable",
    "failed",
    "down",
    "reset",
    "cut off",
    "timed out",
    "unreachable",
]
"""Why an attempt failed, in order: a rate limit; a server that is still loading its model; a
response that cannot be read; another status of 500 and above; a gateway's status for a server
behind it; a connection that broke before the response, or within it; a time-out; no connection.
"""

SILENT: frozenset[Trouble] = frozenset(("down", "reset", "cut off", "timed out", "unreachable"))
"""The troubles of an endpoint that may be down, since it answered nothing."""

MAY_BE_BILLED: frozenset[Trouble] = frozenset(("unreadable", "cut off", "timed out"))
"""The troubles after which the endpoint may have billed the call."""


class TransientError(Exception):
    """A failure of the moment: another attempt may succeed, after `retry_after` seconds if the
    endpoint asks for that. `usage` is that of a response that was billed but cannot be read.
    """

    def __init__(
        self,
        reason: str,
        kind: Trouble,
        *,
        retry_after: float | None = None,
        status: int = 0,
        usage: object = None,
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.retry_after = retry_after
        self.status = status
        self.usage = usage


class BrokenStreamError(CallError):
    """A stream broke after its client had received a part, so the call cannot be made again."""

    def __init__(self, reason: str, kind: Trouble) -> None:
        super().__init__(reason)
        self.kind = kind


class RefusedRequest(CallError):  # noqa: N818
    """The endpoint refused this request with the response `text`; nothing was billed."""

    def __init__(self, reason: str, status: int = 0, text: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.text = text


class TooLongRequest(RefusedRequest, ContextLengthError):  # noqa: N818
    """The endpoint refused this request because it is longer than the LM's context."""


class UnusableReplyError(CallError):
    """A response that was billed but has no reply in it; another attempt would not help. `usage` is
    that of the response.
    """

    def __init__(self, reason: str, usage: object = None) -> None:
        super().__init__(reason)
        self.usage = usage


WORDS = (
    *("message", "Message", "msg", "error", "errors", "error_msg", "detail", "base_resp"),
    "status_msg",
)
"""The names under which providers put the message of an error, or the object that has it."""


@dataclass(slots=True)
class AskedEndpoint:
    """What the reader of a response knows of its endpoint: name, model, the variable that holds the
    key, whether a call with this key and model has been answered before, the HTTP status, and the
    body of the request.
    """

    name: str
    model: str
    key: str
    answered: bool
    status: int = 200
    request: Mapping[str, object] = field(default_factory=dict)


_NO_ERROR = frozenset({*("", "none", "null", "0", "200", "false", "ok", "success"), "{}", "[]"})


def error_instead(body: Mapping[str, object]) -> object:
    """Return the error in a response with status 200, as a field or in place of the reply; None
    without one.
    """
    # Replies in Cohere's and Ollama's own forms have a message, but no choices.
    reply = body.get("choices") is not None or isinstance(body.get("message"), dict)
    if not reply and any(body.get(name) for name in WORDS):
        error = body.get("error") or body.get("base_resp") or body
        # If the error is only a text, the fields next to it belong to it.
        return body if isinstance(error, str) else error
    error = body.get("error")
    # Some servers say beside every reply that there was no error.
    if error and reply:
        said = error.values() if isinstance(error, dict) else [error]
        if _NO_ERROR.issuperset(str(word).casefold() for word in said):
            return None
    return error


OUR_SCHEMA = "reply"
"""The name of the JSON schemas in agents' requests, which tells them from users' own."""

SYSTEM = ("system", "developer")
"""The roles of messages with instructions, which some models do not accept."""


@dataclass
class Habits:
    """What one LM was found to refuse, so that its later requests are changed at once."""

    left_out: set[str] = field(default_factory=set)
    renames: bool = False  # max_tokens becomes max_completion_tokens
    folds: bool = False  # the system message becomes the beginning of the first message
    schema: bool | None = None  # whether it accepts a JSON schema; None until that is known
    streams: bool = False  # it is asked for a stream, since it answers by nothing else
    notes: list[str] = field(default_factory=list)
    """A sentence about each change."""

    def fit(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request with all changes."""
        fitted = dict(payload)
        for name in self.left_out:
            fitted.pop(name, None)
        if self.renames and "max_tokens" in fitted:
            fitted["max_completion_tokens"] = fitted.pop("max_tokens")
        if self.folds:
            fitted["messages"] = _folded(fitted["messages"])
        if self.streams and "stream" in fitted:
            fitted["stream"] = True
            if "stream_options" not in self.left_out:
                fitted["stream_options"] = {"include_usage": True}
        if self.schema is False and asks_our_schema(fitted):
            del fitted["response_format"]
        return fitted

    def keep(self, change: Change) -> str:
        """Remember a change that worked; returns the sentence about it."""
        if change.what == "left_out":
            self.left_out.add(change.name)
        elif change.what == "schema":
            self.schema = False
        else:
            setattr(self, change.what, True)
        self.notes.append(change.sentence)
        return change.sentence

    def trying(self, changes: Iterable[Change]) -> Habits:
        """Return a copy of these habits with more changes, to be tried."""
        tried = Habits(set(self.left_out), self.renames, self.folds, self.schema, self.streams)
        for change in changes:
            tried.keep(change)
        return tried


@dataclass(frozen=True)
class Change:
    """A change of requests: in words, and the field of `Habits` that it sets if it works."""

    sentence: str
    what: Literal["left_out", "renames", "folds", "schema", "streams"]
    name: str = ""


def asks_our_schema(payload: Mapping[str, Any]) -> bool:
    """Return whether a request has an agent's JSON schema. It can be left out, since the prompt
    asks for the same form.
    """
    asked = payload.get("response_format") or {}
    return bool(asked.get("json_schema", {}).get("name") == OUR_SCHEMA)


def _folded(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with the system messages moved to the beginning of the first other
    message.
    """
    system = [message["content"] for message in messages if message.get("role") in SYSTEM]
    others = [dict(message) for message in messages if message.get("role") not in SYSTEM]
    if system and others and isinstance(others[0].get("content"), str):
        others[0]["content"] = "\n\n".join([*system, others[0]["content"]])
    return others
