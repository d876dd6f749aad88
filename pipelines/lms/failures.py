"""What the failure of a call means: whose it is, and whether another attempt is worth its time.

A failure belongs to the account (key, money, name of the LM), to the moment (rate limit, overload,
broken connection), or to this request (content, length). The types follow those of `dspy.lm15`.
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
"""Why an attempt failed: a rate limit; a server that is still starting; an answer that cannot be
read; another status of 500 and above; a gateway's status for a server behind it; a connection that
broke before an answer began; one that broke later, or a time-out; no connection at all.
"""

SILENT: frozenset[Trouble] = frozenset(("down", "reset", "cut off", "timed out", "unreachable"))
"""The troubles of an endpoint that may be down."""

MAY_BE_BILLED: frozenset[Trouble] = frozenset(("unreadable", "cut off", "timed out"))
"""The troubles after which it is unknown whether there was an answer."""


class TransientError(Exception):
    """A failure of the moment, which is worth another attempt, after `retry_after` seconds if the
    endpoint asks for that. `usage` is what an answer that cannot be read says that it cost.
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
    """A stream broke after its client had got a part of it, so the call is not made again."""

    def __init__(self, reason: str, kind: Trouble) -> None:
        super().__init__(reason)
        self.kind = kind


class RefusedRequest(CallError):  # noqa: N818
    """The endpoint refused this request, in the words of `text`; nothing was billed."""

    def __init__(self, reason: str, status: int = 0, text: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.text = text


class TooLongRequest(RefusedRequest, ContextLengthError):  # noqa: N818
    """The endpoint refused this request, since it is longer than the LM's context."""


class UnusableReplyError(CallError):
    """A billed answer without anything to read; another attempt would not give a better one.
    `usage` is the part of the answer that says what it cost.
    """

    def __init__(self, reason: str, usage: object = None) -> None:
        super().__init__(reason)
        self.usage = usage


WORDS = (
    *("message", "Message", "msg", "error", "errors", "error_msg", "detail", "base_resp"),
    "status_msg",
)
"""Where providers put the words of an error, or the part that has them."""


@dataclass(slots=True)
class AskedEndpoint:
    """What a failure says of its endpoint: name, model, how its key is called, whether a call with
    this key and model was answered before, and the status of the answer.
    """

    name: str
    model: str
    key: str
    answered: bool
    status: int = 200


_NO_ERROR = frozenset({*("", "none", "null", "0", "200", "false", "ok", "success"), "{}", "[]"})


def error_instead(body: Mapping[str, object]) -> object:
    """The error that stands in an answer with status 200, under its name or in place of the reply;
    None where there is none.
    """
    # Cohere's and Ollama's own replies are messages without choices.
    reply = body.get("choices") is not None or isinstance(body.get("message"), dict)
    if not reply and any(body.get(name) for name in WORDS):
        error = body.get("error") or body.get("base_resp") or body
        # The fields beside an error in words belong to it.
        return body if isinstance(error, str) else error
    error = body.get("error")
    # Some servers say beside every reply that there was no error.
    if error and reply:
        said = error.values() if isinstance(error, dict) else [error]
        if _NO_ERROR.issuperset(str(word).casefold() for word in said):
            return None
    return error


OUR_SCHEMA = "reply"
"""The name of the JSON schemas in the requests of agents."""

SYSTEM = ("system", "developer")
"""The roles of messages that no user wrote."""


@dataclass
class Habits:
    """What an endpoint and model was found to refuse, so that later requests leave it out."""

    left_out: set[str] = field(default_factory=set)
    renames: bool = False  # max_tokens to max_completion_tokens
    folds: bool = False  # the system message into the first message
    schema: bool | None = None  # whether it holds replies to a schema; None until that is known
    streams: bool = False  # whether it answers by streams alone
    notes: list[str] = field(default_factory=list)
    """What was changed, a sentence each."""

    def fit(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The request as this endpoint takes it."""
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
        """The habits with more changes, on trial."""
        tried = Habits(set(self.left_out), self.renames, self.folds, self.schema, self.streams)
        for change in changes:
            tried.keep(change)
        return tried


@dataclass(frozen=True)
class Change:
    """A change of requests, in words, with the habit that it becomes if it works."""

    sentence: str
    what: Literal["left_out", "renames", "folds", "schema", "streams"]
    name: str = ""


def asks_our_schema(payload: Mapping[str, Any]) -> bool:
    """Whether a request asks for a reply to a schema of ours, which the prompt asks for, too."""
    asked = payload.get("response_format") or {}
    return bool(asked.get("json_schema", {}).get("name") == OUR_SCHEMA)


def _folded(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the system's words at the beginning of the first other message."""
    system = [message["content"] for message in messages if message.get("role") in SYSTEM]
    others = [dict(message) for message in messages if message.get("role") not in SYSTEM]
    if system and others and isinstance(others[0].get("content"), str):
        others[0]["content"] = "\n\n".join([*system, others[0]["content"]])
    return others
