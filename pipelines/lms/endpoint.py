"""The protocol of endpoints, with replies and failures; `client`, `hosted` and `local` implement
it.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ...modules.base.address import read_address
from ...modules.base.calls import CUT_OFF, CallError, FatalCallError
from ...modules.base.fence import one_line
from ..base.settings import settings

MOST_TOKENS = 10**9  # no reply has more tokens: a larger count is an error
OUR_SCHEMA = "reply"
"""The name of the JSON schemas in the requests of seats."""

MOST_PAUSE = 60.0
"""The most seconds to wait because an endpoint asks for it."""

# shorter keys are the placeholders of local servers ("EMPTY") and may be ordinary words
SECRET_CHARS = 12
_SECRET_NAMES = re.compile(r"(key|token|secret|password|signature|sig)$", re.IGNORECASE)

# some providers send this with a 400
_NO_MODEL = ("model_not_found", "model not exist", "invalid model")


Trouble = Literal["refused", "unreadable", "failed", "down", "cut off", "timed out", "unreachable"]
"""Why an attempt failed: a 429; a billed answer that cannot be read; another status of 500 and
above; a gateway's status for a server behind it; a broken connection or a time-out after the
request was sent (the endpoint may bill these two); no connection at all.
"""

SILENT: frozenset[Trouble] = frozenset(("down", "cut off", "timed out", "unreachable"))
"""The troubles of an endpoint that may be down."""

MAY_BE_BILLED: frozenset[Trouble] = frozenset(("cut off", "timed out"))
"""The troubles after which it is unknown whether there was an answer."""


class TransientError(Exception):
    """A failure that is worth another attempt, after `retry_after` seconds if the endpoint asks for
    that.
    """

    def __init__(self, reason: str, kind: Trouble, *, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.retry_after = retry_after


class TooLargeError(CallError):
    """A billed answer that is too large to read; another attempt would not give a smaller one."""


class TokenCounts(TypedDict):
    """The token counts of a call; None where the endpoint gives no count."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_prompt_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None


TOOL_CALLS = "tool_calls"
KEEPABLE = frozenset({"stop", "stop_sequence", "end_turn", "eos", "eos_token", TOOL_CALLS})
"""The finish reasons of replies that were neither cut off nor refused."""


@dataclass(frozen=True)
class Reply:
    """One chat completion: its text, why it ended, and the tokens as the endpoint counted them (or
    None).

    `finish_reason` is the endpoint's own, or `refusal` where the model declined to answer; with
    several choices, that of one that did not end well. Prompt tokens include tokens read from and
    written to the provider's cache; completion tokens include reasoning. `body` is the endpoint's
    whole answer, if requested. `probability` is the LM's own of the answer in the text, 0 to 1, if
    `logprobs` were requested and the endpoint gives them.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_prompt_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    body: Mapping[str, object] | None = None
    probability: float | None = None

    @property
    def truncated(self) -> bool:
        """Whether it was cut off at a token limit."""
        return self.finish_reason in CUT_OFF

    @property
    def complete(self) -> bool:
        """Whether it was neither cut off, refused nor empty, and so may be reused."""
        answered = self.text.strip() or self.finish_reason == TOOL_CALLS
        return self.finish_reason in KEEPABLE and bool(answered)

    @property
    def tokens(self) -> TokenCounts:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cached_prompt_tokens": self.cached_prompt_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "reasoning_tokens": self.reasoning_tokens,
        }


class Transport(Protocol):
    """The protocol of endpoints: one attempt per call; failures raise TransientError, CallError or
    FatalCallError.
    """

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """The host that all endpoints of one provider or server share; "" inside this process."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that one attempt may take."""
        ...

    async def send(self, payload: Mapping[str, object]) -> Reply:
        """Make one attempt at a chat completion, or at embeddings for a payload without
        messages.
        """
        ...

    async def aclose(self) -> None: ...


def failure_of(
    status: int, text: str, *, name: str, model: str, key: str, retry_after: float | None
) -> Exception:
    """The error for an answer with this HTTP status; `key` names the key to correct."""
    reason = error_in(text)
    if status == 429 and "insufficient_quota" not in text:
        return TransientError(f"{name} answered 429 ({reason})", "refused", retry_after=retry_after)
    if status >= 500 or status == 408:
        kind: Trouble = "down" if status in (502, 503, 504) else "failed"
        return TransientError(f"{name} answered {status} ({reason})", kind, retry_after=retry_after)
    if status in (401, 403):
        return FatalCallError(
            f"{name} refused the key ({status}: {reason}): set {key} to a valid key"
        )
    if status == 404 or (status == 400 and any(mark in text.casefold() for mark in _NO_MODEL)):
        return FatalCallError(
            f"{name} does not know the model {model!r} ({reason}): check --lm and --api-base"
        )
    if status == 429:
        return FatalCallError(
            f"{name} has no quota left for this key ({reason}): top it up or use another"
        )
    return CallError(f"{name} refused the request ({status}: {reason})")


_ANSWER = re.compile(r'"answer"\s*:\s*(?:"((?:[^"\\]|\\.)+)"|([\w.+-]+))')
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


def read_completion(text: str, name: str) -> Reply:
    """Read a chat completion in OpenAI's JSON form. Raises TransientError when `text` is not
    one.
    """
    try:
        body = json.loads(text)
        choices = body["choices"]
        message = choices[0]["message"]
        answer = _text(message.get("content"))
        reasons = [one_line(str(one.get("finish_reason") or "stop"))[:40] for one in choices]
        reason = next((one for one in reasons if one not in KEEPABLE), reasons[0])
        if not answer and message.get("refusal"):
            answer, reason = _text(message["refusal"]), "refusal"
        tokens = (choices[0].get("logprobs") or {}).get("content") or []
        return Reply(
            answer,
            reason,
            **tokens_in(body.get("usage"), answer),
            body=body,
            probability=answer_probability([(one["token"], one["logprob"]) for one in tokens]),
        )
    except _UNREADABLE:
        raise _unreadable(text, name, "a chat completion") from None


def answer_probability(tokens: Sequence[tuple[str, float]]) -> float | None:
    """The LM's own probability of its answer: the product over the tokens in the value of the last
    field `answer` of a reply in JSON. None where there is no such value, or no token.
    """
    text = "".join(token for token, _ in tokens)
    values = list(_ANSWER.finditer(text))
    if not values:
        return None
    start, end = values[-1].span(values[-1].lastindex or 0)
    log_probability, place = 0.0, 0
    for token, logprob in tokens:
        if place < end and place + len(token) > start:
            log_probability += logprob
        place += len(token)
    return round(math.exp(min(log_probability, 0.0)), 6)


def read_embeddings(text: str, name: str) -> Reply:
    """Read embeddings in OpenAI's JSON form. Raises TransientError when `text` has none."""
    try:
        body = json.loads(text)
        number = len(body["data"])
        prompt = _tokens((body.get("usage") or {}).get("prompt_tokens"))
        return Reply(f"{number} embeddings", "stop", prompt, 0, 0, 0, 0, body)
    except _UNREADABLE:
        raise _unreadable(text, name, "embeddings") from None


def _unreadable(text: str, name: str, what: str) -> TransientError:
    return TransientError(
        f"{name} answered 200 with something that is not {what} ({error_in(text)})", "unreadable"
    )


def _text(content: Any) -> str:
    """The text of a message, whole or in parts, as valid Unicode. Raises TypeError for anything
    else.
    """
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if content is None:
        return ""
    if not isinstance(content, str):
        raise TypeError(f"the content of a message is text, not {type(content).__name__}")
    try:
        content.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs, which JSON's escapes can spell
        return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return content


_REASONING = (("completion_tokens_details", "reasoning_tokens"), (None, "reasoning_tokens"))
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    (None, "cache_read_input_tokens"),
    (None, "prompt_cache_hit_tokens"),
)
_WRITTEN = (
    ("prompt_tokens_details", "cache_creation_tokens"),
    ("prompt_tokens_details", "cache_write_tokens"),
    (None, "cache_creation_input_tokens"),
)


def tokens_in(usage: Any, answer: str = "") -> TokenCounts:
    """The token counts of a `Reply`, from the usage of OpenAI, LiteLLM, Anthropic or DeepSeek.
    Counts that contradict each other, or that are 0 for the answer, become None.
    """
    counts = usage if isinstance(usage, dict) else {}
    prompt, completion = (
        _tokens(counts.get("prompt_tokens")),
        _tokens(counts.get("completion_tokens")),
    )
    cached, written, reasoning = (
        _first(counts, places) for places in (_CACHED, _WRITTEN, _REASONING)
    )
    if prompt is not None and completion is not None:
        total = _tokens(counts.get("total_tokens"))
        # some providers, such as xAI, count them separately
        if reasoning and total == prompt + completion + reasoning:
            completion += reasoning
        if (
            prompt == 0
            or (answer and completion == 0)
            or (reasoning or 0) > completion
            or (cached or 0) + (written or 0) > prompt
            # LiteLLM gives 0 where no total was computed
            or total not in (None, 0, prompt + completion)
        ):
            prompt = completion = cached = written = reasoning = None
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_prompt_tokens": cached,
        "cache_write_tokens": written,
        "reasoning_tokens": reasoning,
    }


def _first(usage: dict[str, object], places: Iterable[tuple[str | None, str]]) -> int | None:
    """The first count that is present and plausible."""
    for part, name in places:
        within = usage if part is None else usage.get(part)
        if isinstance(within, dict) and (count := _tokens(within.get(name))) is not None:
            return count
    return None


def _tokens(count: Any) -> int | None:
    whole = isinstance(count, int) and not isinstance(count, bool)
    return count if whole and 0 <= count <= MOST_TOKENS else None


def plain_address(base_url: str) -> str:
    """The address without user info or query: safe to log, and part of the cache key. Raises
    UserError for an invalid address.
    """
    parts = read_address(base_url, ("http", "https"), "--api-base as http://HOST:PORT/v1")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def too_large(name: str, most_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"the reply of {name} has more than {most_bytes >> 20} MB: lower max_tokens, or raise "
        "FOLKMOOT_REPLY_MB"
    )


def origin(base_url: str) -> str:
    """The scheme and host of an address."""
    return "/".join(plain_address(base_url).split("/", 3)[:3])


def error_in(text: str) -> str:
    """The endpoint's own words in one short line, for an error message."""
    try:
        body = json.loads(text)
        error = body.get("error", body)
        message = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        message = text
    return one_line(str(message))[:200] or "no message"


def hiding(keys: Iterable[str | None], address: str | None = None) -> Callable[[str], str]:
    """A function that replaces these keys, and the password and keys in the address, by `…`. A
    password is also hidden in its base64 form with the user name, as sent in headers.
    """
    secrets = {key for key in keys if key and len(key) >= SECRET_CHARS}
    parts = urlsplit(address or "")
    if parts.password:
        user, password = unquote(parts.username or ""), unquote(parts.password)
        secrets.add(base64.b64encode(f"{user}:{password}".encode()).decode())
        if len(password) >= SECRET_CHARS:
            secrets.update((password, parts.password))
    for name, value in parse_qsl(parts.query):
        if _SECRET_NAMES.search(name) and len(value) >= SECRET_CHARS:
            secrets.update((value, quote(value, safe="")))
    if not secrets:
        return str
    pattern = re.compile(
        "|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True))
    )
    return lambda text: pattern.sub("…", text)


def without_keys(text: str, lms: Iterable[Any]) -> str:
    """A text about LMs that folkmoot did not make, without their keys and those of the
    environment.
    """
    for lm in lms:
        own = getattr(lm, "kwargs", {})
        hide = hiding([own.get("api_key"), *settings().provider_keys()], own.get("api_base"))
        text = hide(text)
    return text
