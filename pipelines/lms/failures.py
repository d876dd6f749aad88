"""What the failure of a call means: whose it is, and whether another attempt is worth its time.

A failure belongs to the account (key, money, name of the LM), to the moment (rate limit, overload,
broken connection), or to this request (content, length). The types follow those of `dspy.lm15`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from ...modules.base.calls import (
    AuthError,
    BillingError,
    CallError,
    ContextLengthError,
    EndpointDown,
    FatalCallError,
    UnsupportedModelError,
)
from ...modules.base.connections import seconds_to_wait
from ...modules.base.fence import one_line
from ...modules.reading.mentions import pattern

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


_NO_MONEY = pattern(
    r"insufficient[ _](?:quota|balance|credit|fund)|balance is insufficient|credit balance|"
    r"billing_not_active|billing_hard_limit|budget_exceeded|budget has been exceeded|arrearage|"
    r"used all available credits|spending limit|api usage limits|key limit exceeded|余额不足"
)
_LIMIT_ABOVE_0 = pattern(r"\blimit: [1-9]")
_NO_ACCESS = pattern(
    r"api[ _-]?key[ _](?:is )?(?:not[ _]valid|invalid|expired)|login fail|"
    r"(?:invalid|incorrect|expired)[ _]api[ _-]?key|"
    r"unsupported_country|not available in your|location is not supported"
)
"""What is said where a key is wrong, or its region is not served."""
_NO_MODEL = pattern(
    r"model_not_found|model_decommissioned|decommissioned|invalid[ _]model|unknown[ _]model|"
    r"not a valid model|no such model|deploymentnotfound|no models? loaded|failed to load model|"
    r"models?\b.{0,120}?\b(?:not exist|not found|not supported for this api|identifier is invalid)",
    re.DOTALL,
)
_TOO_LONG = pattern(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|"
    r"context (?:length|window|size)|maximum context|(?:prompt|input|messages) is too long|"
    r"too many (?:input )?tokens|longer than the specified maximum|model token limit|"
    r"less than [\d,]+ tokens|\binputs\b.{0,9}tokens|total text bytes|内容过长|"
    r"range of input length|input (?:length|token count)\b.{0,80}exceed|reduce the length",
    re.DOTALL,
)
_LOADING = pattern(r"\b(?:loading|starting up|warming up)\b")
_STATED_WAIT = pattern(
    r"(?:try again|retry|wait)\D{0,30}?(?=\d)"
    r"(?:(\d+(?:\.\d+)?)\s*h(?:(?:ou)?rs?)?(?![a-z])(?:\s|,|and)*)?"
    # "m" before "s" belongs to milliseconds, and is no minute
    r"(?:(\d+(?:\.\d+)?)\s*m(?:in(?:ute)?s?)?(?![a-z])(?:\s|,|and)*)?"
    r"(?:(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s(?:ec(?:ond)?s?)?)(?![a-z]))?"
)
_RETRY_DELAY = pattern(r'"retrydelay"\s*:\s*"(\d+(?:\.\d+)?)s"')
_OF_WORDS: Mapping[str, int] = {
    "rate_limit": 429,
    "too_many_requests": 429,
    "resource_exhausted": 429,
    "throttling": 429,
    "insufficient_quota": 429,
    "overloaded": 529,
    "timeout": 408,
    "unavailable": 503,
    "invalid_request": 400,
    "invalid_argument": 400,
    "context_length_exceeded": 400,
    "content_filter": 403,
    "moderation": 403,
    "authentication": 401,
    "invalid_api_key": 401,
    "insufficient_balance": 402,
    "not_found": 404,
}
"""The status that stands behind a word in an error, where an answer with status 200 has one."""
_NO_ENDPOINT = re.compile(r'\{"error":\s*(?:\{"message":\s*)?"unexpected endpoint')
"""LM Studio's words for a path that it does not have, which it says with status 200."""
_OF_TEXTS = (
    *((_NO_MONEY, 402), (_NO_ACCESS, 401), (re.compile(r"rate[ _]limit"), 429)),
    (_NO_ENDPOINT, 404),
)
"""The same for the words of an error without a known code."""
_WORDS = ("message", "msg", "error", "errors", "detail", "base_resp", "status_msg")
"""Where providers put the words of an error, or the part that has them."""
_PAGE = pattern(r"\s*<(?:.*?<title>(.*?)</title>|(?:!doctype )?html\b)", re.DOTALL | re.IGNORECASE)
_NO_PATH = (404, 405, 501)
"""The statuses by which servers refuse an unknown path."""
_OF_PATH = re.compile(r"/(?:chat/completions|completions|responses|messages|embeddings)$")


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


def failure_of(
    status: int, text: str, headers: Mapping[str, str], endpoint: AskedEndpoint
) -> TransientError | CallError:
    """The error for an answer with this HTTP status, or with an error inside.

    A status whose cause is unclear (403, 404) concerns the account as long as no call was answered,
    and afterwards this request alone.
    """
    reason = error_in(text)
    words = f"{text} {reason}".casefold()  # JSON may spell letters by their numbers
    name, model, key = endpoint.name, endpoint.model, endpoint.key
    broke = status in (400, 403) and _NO_MONEY.search(words)
    if status == 402 or broke or (status == 429 and _out_of_money(words)):
        return BillingError(
            f"{name} has no quota left for this key ({status}: {reason}): top it up or use another"
        )
    refused = f"{name} refused the request ({status}: {reason})"
    if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(words)):
        return TooLongRequest(refused, status, text)
    # 498 is Groq's status for a flex tier without capacity, 499 that of a call that was cancelled.
    if (status >= 500 and status != 501) or status in (408, 409, 425, 429, 498, 499):
        return _of_the_moment(status, reason, words, headers, name)
    if status == 401 or (status in (400, 403) and _NO_ACCESS.search(words)):
        return AuthError(f"{name} refused the key ({status}: {reason}): set {key} to a valid key")
    if 300 <= status < 400:
        place = _host_of(headers.get("Location") or headers.get("location") or "")
        return FatalCallError(
            f"{name} redirects to {place} ({status}), which is refused, since "
            "key and prompt would go there: give that address as --api-base if you trust it"
        )
    refusal = RefusedRequest(refused, status, text)
    # A web page does not come from what checks keys and models.
    page, no_model = is_page(text), _NO_MODEL.search(words)
    unknown = status in (404, 405, 410) or (status in (400, 403) and (no_model or page))
    if endpoint.answered or not (unknown or status == 403):
        return refusal
    meant = None
    if page or (lacks_path(status, text) and not no_model):
        meant = _meant(name)
    account: EndpointDown
    if not unknown:
        account = AuthError(f"{name} refused the key (403: {reason}): set {key} to a valid key")
    elif page or meant:
        advice = "check --api-base"
        if meant:
            advice = f"did you mean --api-base {meant}?"
        account = EndpointDown(f"{name} has no LM at this address ({reason}): {advice}")
    else:
        account = UnsupportedModelError(
            f"{name} does not know the model {model!r} ({reason}): check --lm and --api-base"
        )
    # calls in flight may yet show that key and model are right: then only this request is at fault
    account.if_answered = refusal
    return account


def is_page(text: str) -> bool:
    """Whether an answer is a web page, which comes from another server than the one that was
    meant.
    """
    return _PAGE.match(text) is not None


def lacks_path(status: int, text: str) -> bool:
    """Whether a server says that it does not have a path. Many say by 404 that they do not know a
    model, too, but then in words about it, and others send the page that they have for people.
    """
    if is_page(text):
        return status < 300 or status in _NO_PATH
    words = text.casefold()
    return (status in _NO_PATH and "model" not in words) or bool(_NO_ENDPOINT.search(words))


def _meant(name: str) -> str | None:
    """A likely correction of an address; None for one that looks right, or is only a name."""
    meant = _OF_PATH.sub("", name)
    if not re.search(r"/v\d", meant):
        meant += "/v1"
    if "://" not in name or meant == name:
        return None
    return meant


def _host_of(location: str) -> str:
    """The address in a redirect, without its path and query, which may hold secrets."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "something that is not an address"
    host = parts.netloc.rpartition("@")[2]
    if not host:
        return "itself"
    return one_line(f"{parts.scheme}://{host}")[:100]


def _out_of_money(words: str) -> bool:
    """Whether a rate limit is one that no waiting ends."""
    # Google's word for a model that a key without billing never gets.
    if _NO_MONEY.search(words) or "limit: 0" in words:
        return True
    # Providers say so of passing limits, too, but then with a limit above 0 or a time to wait.
    return "plan and billing" in words and not (
        _LIMIT_ABOVE_0.search(words) or _stated_wait(words) is not None
    )


def _of_the_moment(
    status: int, reason: str, words: str, headers: Mapping[str, str], name: str
) -> TransientError | CallError:
    wait = seconds_to_wait(headers) or _stated_wait(words)
    said = f"{name} answered {status} ({reason})"
    if wait is not None and wait > MOST_PAUSE:
        until = datetime.now().astimezone() + timedelta(seconds=wait)
        return EndpointDown(f"{said} and asks to wait until {until:%H:%M:%S}: continue then")
    kind: Trouble = "failed"
    if status == 503 and _LOADING.search(words):
        kind = "loading"
    elif status in (502, 503, 504):
        # A gateway answers by these for a server behind it that does not answer.
        kind = "down"
    elif status in (409, 425, 429, 498, 529):
        kind = "refused"
    return TransientError(said, kind, retry_after=wait, status=status)


def _stated_wait(words: str) -> float | None:
    """The seconds to wait that a text states, such as `try again in 9m38s`."""
    if (delay := _RETRY_DELAY.search(words)) is not None:
        return float(delay[1])
    for stated in _STATED_WAIT.finditer(words):
        hours, minutes, seconds, unit = stated.groups()
        if hours or minutes or seconds:
            last = float(seconds or 0)
            if (unit or "").startswith("m"):
                last /= 1000
            return 3600 * float(hours or 0) + 60 * float(minutes or 0) + last
    return None


def failure_inside(error: object) -> tuple[int, str]:
    """The status and text of an error that an answer with status 200 holds, by its own code."""
    fields = error if isinstance(error, dict) else {"message": error}
    text = json.dumps({"error": fields}, ensure_ascii=False, default=str)
    for name in ("code", "status", "status_code", "type"):
        code = fields.get(name)
        if str(code).isdigit() and 300 <= int(str(code)) < 600:
            return int(str(code)), text
        for mark, status in _OF_WORDS.items():
            if mark in str(code).casefold():
                return status, text
    # A code of the provider's own says less than its words.
    words = text.casefold()
    for form, status in _OF_TEXTS:
        if form.search(words):
            return status, text
    return 500, text


def error_in(text: str) -> str:
    """The endpoint's own words in one short line, for an error message."""
    try:
        message = _words_of(json.loads(text))
    except (ValueError, RecursionError):
        message, page = text, _PAGE.match(text)
        if page is not None:
            message = f"a web page: {page[1] or 'it has no title'}"
        if "\ufffd" in text:  # packed, or in an encoding that JSON never has
            message = "it is not in UTF-8"
    return one_line(message)[:200] or "no message"


def _words_of(part: object) -> str:
    if isinstance(part, list) and part:  # as Google's OpenAI-compatible endpoint answers
        return _words_of(part[0])
    if not isinstance(part, dict):
        return str(part)
    words = next((_words_of(part[name]) for name in _WORDS if part.get(name)), str(part))
    # A router's own words say only that its provider refused.
    metadata = part.get("metadata")
    if isinstance(metadata, dict):
        raw = metadata.get("raw")
        if isinstance(raw, str) and raw:
            words = f"{words}: {error_in(raw)}"
    return words


def error_instead(body: Mapping[str, Any]) -> object:
    """The error that stands in an answer with status 200, under its name or in place of the reply;
    None where there is none.
    """
    # Cohere's and Ollama's own replies are messages without choices.
    reply = body.get("choices") is not None or isinstance(body.get("message"), dict)
    if not reply and any(body.get(name) for name in _WORDS):
        return body.get("error") or body.get("base_resp") or body
    return body.get("error")


OUR_SCHEMA = "reply"
"""The name of the JSON schemas in the requests of agents."""

_OPTIONAL = (
    *("stream", "temperature", "top_p", "top_k", "seed", "logprobs", "stop", "max_tokens"),
    *("max_completion_tokens", "frequency_penalty", "presence_penalty", "reasoning_effort"),
    *("verbosity", "service_tier", "logit_bias", "thinking"),
)
"""Settings that a request can do without."""

_SYSTEM = ("system", "developer")
"""The roles of messages that no user wrote."""

_NO_SYSTEM = pattern(r"\broles?\b|\b(?:system|developer)\b.{0,40}(?:instruction|message|not)", re.S)
_MISSED_SCHEMA = ("json_validate_failed", "failed to generate json", "failed to validate json")


@dataclass
class Habits:
    """What an endpoint and model was found to refuse, so that later requests leave it out."""

    left_out: set[str] = field(default_factory=set)
    renames: bool = False  # max_tokens to max_completion_tokens
    folds: bool = False  # the system message into the first message
    schema: bool | None = None  # whether it holds replies to a schema; None until that is known
    notes: list[str] = field(default_factory=list)
    """What was changed, a sentence each."""

    def fit(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The request as this endpoint takes it."""
        fitted = {name: value for name, value in payload.items() if name not in self.left_out}
        if self.renames and "max_tokens" in fitted:
            fitted["max_completion_tokens"] = fitted.pop("max_tokens")
        if self.folds:
            fitted["messages"] = _folded(fitted["messages"])
        if self.schema is False and asks_our_schema(fitted):
            del fitted["response_format"]
        return fitted

    def changes(
        self, problem: Exception, payload: Mapping[str, Any], attempt: int
    ) -> Iterator[Change]:
        """What to change about a request that was refused for this reason, in the order in which
        to try it. A server's error is taken for a refusal when the next attempt has it, too.
        """
        status = getattr(problem, "status", 0)
        refused = status in (400, 422, 501) or (status == 500 and attempt > 1)
        if not refused or isinstance(problem, ContextLengthError):
            return
        words = (getattr(problem, "text", "") or str(problem)).casefold()
        system = not self.folds and _has_system(payload.get("messages") or ())
        if system and _NO_SYSTEM.search(words):
            yield Change("takes no system message: it stands in the first message", "folds")
        for name in _OPTIONAL:
            if name in payload and re.search(rf"\b{name}\b", words):
                # OpenAI's refusal of one names the other, which must not be dropped as a setting.
                if name == "max_tokens" and "max_completion_tokens" in words:
                    yield Change("wants max_completion_tokens in place of max_tokens", "renames")
                else:
                    yield Change(f"does not accept {name}: it is left out", "left_out", name)
        # a schema that has worked is blamed only where the server says that this reply missed it
        doubtful = self.schema is not True or missed_schema(problem)
        if doubtful and asks_our_schema(payload):
            yield Change("takes no schema of replies: the prompt alone asks for it", "schema")

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

    def trying(self, change: Change) -> Habits:
        """The habits with one more change, on trial."""
        tried = Habits(set(self.left_out), self.renames, self.folds, self.schema)
        tried.keep(change)
        return tried


@dataclass(frozen=True)
class Change:
    """A change of requests, in words, with the habit that it becomes if it works."""

    sentence: str
    what: Literal["left_out", "renames", "folds", "schema"]
    name: str = ""


def asks_our_schema(payload: Mapping[str, Any]) -> bool:
    """Whether a request asks for a reply to a schema of ours, which the prompt asks for, too."""
    asked = payload.get("response_format") or {}
    return bool(asked.get("json_schema", {}).get("name") == OUR_SCHEMA)


def missed_schema(problem: Exception) -> bool:
    """Whether one generation did not fit its schema, which says nothing of the next one."""
    words = getattr(problem, "text", "").casefold()
    return any(mark in words for mark in _MISSED_SCHEMA)


def _has_system(messages: Sequence[Mapping[str, object]]) -> bool:
    return any(message.get("role") in _SYSTEM for message in messages)


def _folded(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the system's words at the beginning of the first other message."""
    system = [message["content"] for message in messages if message.get("role") in _SYSTEM]
    others = [dict(message) for message in messages if message.get("role") not in _SYSTEM]
    if system and others and isinstance(others[0].get("content"), str):
        others[0]["content"] = "\n\n".join([*system, others[0]["content"]])
    return others
