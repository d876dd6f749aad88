"""What an endpoint is (`Transport`), and how its responses become a `Reply`. `client`, `hosted` and
`embedded` implement it.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import filterfalse
from typing import Any, Protocol, TypedDict
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ...modules.base.calls import CUT_OFF, CallError, FatalCallError
from ...modules.base.fence import one_line
from ...modules.base.usage import REFUSED
from ...modules.reading.thoughts import without_thoughts
from ..base.address import read_address
from ..base.journal import from_json
from ..base.settings import settings
from .failures import (
    AskedEndpoint,
    TransientError,
    Trouble,
    UnusableReplyError,
    error_instead,
)

MOST_TOKENS = 10**9  # a larger count of tokens is an error of the endpoint
COST_HEADER = "x-litellm-response-cost"
TICKS = 10**10  # xAI's unit of cost, per USD

# Shorter keys are not hidden: they are placeholders of local servers, such as "EMPTY", and may be
# ordinary words.
SECRET_CHARS = 12
_SECRET_NAMES = re.compile(r"(key|token|secret|password|signature|sig)$", re.IGNORECASE)


class TokenCounts(TypedDict):
    """The token counts of a call; None if the endpoint does not state one."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_prompt_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None


TOOL_CALLS = "tool_calls"
KEEPABLE = frozenset(
    {"stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete", TOOL_CALLS}
)
"""The finish reasons of replies that were neither cut off nor refused."""

_FAILED = frozenset(
    {
        *("error", "abort", "aborted", "cancelled", "insufficient_system_resource"),
        *("network_error", "server_error", "upstream_error", "timeout"),
        *("function_call_filter", "malformed_function_call", "unexpected_tool_call"),
    }
)
"""The finish reasons of attempts that failed midway."""
_LIKE = (
    (
        re.compile(r"filter|safety|sensitiv|moderat|guardrail|prohibit|recitation|policy|list$"),
        "content_filter",
    ),
    (re.compile(r"(?<!rate_)limit|^max|length|exceeded|truncated|repetition"), "length"),
    (re.compile(r"error|fail|abort|cancel|malformed|rate_limit|overload"), "error"),
    (re.compile(r"^(?:tool|function)_"), TOOL_CALLS),
    (re.compile(r"^(?:end|eo[st]|done|normal|complete|finish|stop|<\|)"), "stop"),
)
"""What other finish reasons mean, by the words in them: `time_limit`, `<|eot_id|>`."""


class Charges(TypedDict):
    """What the price of a call depends on besides its tokens; None for what a reply does not say.

    The cost that the endpoint states, the service tier, the number of web searches, how many of the
    tokens written to the provider's cache stay there for hours, and ways of serving that may cost
    more, such as `fast`.
    """

    cost_usd: float | None
    tier: str | None
    searches: int | None
    lasting_write_tokens: int | None
    surcharges: list[str] | None


UNFINISHED = "unfinished"
"""The finish reason of a stream that stated none. It may have broken, so no cache keeps it."""
_THOUGHT = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thoughts")
_PIECES = (*_THOUGHT, "refusal")
"""The fields of text that a stream sends in pieces, besides the content."""

_SOMETIMES = frozenset({"body", "probability", "thoughts", "model", *Charges.__annotations__})


@dataclass
class Reply:
    """One chat completion. What the endpoint does not state is None.

    `finish_reason` is the endpoint's, with `length` for every spelling of a token limit, or
    `refusal` if the model declined to answer; of several choices, it is that of one that did not
    end well. A refused reply has no text, whatever the model had begun to say. Prompt tokens
    include those read from and written to the provider's cache; completion tokens include
    reasoning. `body` is the endpoint's whole response, if requested. `probability` is that of the
    answer in the text, 0 to 1, computed from `logprobs`. `thoughts` are the LM's reasoning before
    the reply, and `model` is the name under which the endpoint answered. For the others see
    `Charges`.
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
    thoughts: str | None = None
    model: str | None = None
    cost_usd: float | None = None
    tier: str | None = None
    searches: int | None = None
    lasting_write_tokens: int | None = None
    surcharges: list[str] | None = None

    @property
    def truncated(self) -> bool:
        """Whether it was cut off at a token limit."""
        return self.finish_reason in CUT_OFF

    @property
    def complete(self) -> bool:
        """Whether it was neither cut off, refused nor empty, and so may be reused."""
        answered = self.text.strip() or self.finish_reason == TOOL_CALLS
        return self.finish_reason in KEEPABLE and bool(answered)

    @cached_property
    def kept(self) -> dict[str, Any]:
        """The fields that records and the cache store; rare ones are left out if they are None."""
        fields = dict(vars(self))
        for name in _SOMETIMES:
            if fields[name] is None:
                del fields[name]
        return fields

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
    """An endpoint that can be asked: one attempt per call of `send`, which raises TransientError,
    CallError or FatalCallError if it fails.
    """

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """The host, by which all endpoints of one server share a limit; "" inside this process."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that one attempt may take."""
        ...

    @property
    def answered(self) -> bool:
        """Whether any call has been answered yet."""
        ...

    async def send(self, payload: Mapping[str, object]) -> Reply:
        """Make one attempt; a payload without messages asks for embeddings."""
        ...

    async def aclose(self) -> None: ...


_ANSWER = re.compile(
    r'"answer"\s*:\s*(?:"((?:[^"\\]|\\.)+)"|([\w.+-]+))'  # in a JSON object
    r"|^Answer:[ \t]*(\S.*)"  # on a line of its own
    r'|\A\s*([^\s{"][^\n]*?)\s*\Z',  # the whole reply, if it has one line
    re.MULTILINE,
)
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


def read_answer_body(text: str, endpoint: AskedEndpoint, what: str = "a reply") -> dict[str, Any]:
    """Return the JSON object of a response. Raises TransientError if `text` is none, and what
    `failure_of` returns for an error or a web page in its place.
    """
    try:
        body: dict[str, Any] = from_json(text)
        error = error_instead(body)
    except UNREADABLE:
        if is_stream(text):  # some servers always stream, whatever they are asked for
            return _read_stream(text, endpoint, what)
        raise _unreadable(text, endpoint, what) from None
    _raise(error, endpoint)
    return body


def _read_stream(text: str, endpoint: AskedEndpoint, what: str) -> dict[str, Any]:
    """Return the chat completion that the events of a stream add up to. Raises as `read_events`
    does, and TransientError if they add up to none.
    """
    events = list(events_in(read_events(text, endpoint)))
    usage = usage_of_events(events) or None
    try:
        whole = joined_chat(events)
    except UNREADABLE:
        raise _unreadable(text, endpoint, what, usage) from None
    choice = whole["choices"][0]
    if choice["finish_reason"] == UNFINISHED:
        # Some servers never state a finish reason, but all of them end a whole stream by [DONE].
        if "[DONE]" not in text or not any(choice["message"].values()):
            raise _unreadable(text, endpoint, what, usage)
        choice["finish_reason"] = "stop"
    return {**whole, "usage": usage}


def body_text(content: bytes | bytearray) -> str:
    """Return the text of a response; its first bytes show which of JSON's encodings it has."""
    encoding = "utf-8"
    if content[:1] != b"{" or content[1:2] == b"\0":
        encoding = json.detect_encoding(content)
    return content.decode(encoding, "replace")


def is_stream(text: str) -> bool:
    """Return whether a response is a stream of events, whatever its content type says."""
    return text.lstrip("\ufeff \r\n").startswith(
        ("data:", "event:", "error:", "id:", "retry:", ":")
    )


def events_in(text: str) -> Iterator[Mapping[str, object]]:
    """Yield the JSON objects of a stream of events; an error of llama.cpp, which has a field of its
    own, as `{"error": …}`.
    """
    # Not `splitlines`, which also splits at U+2028 and the like, which JSON does not escape.
    for line in text.split("\n"):
        name, _, data = line.partition(":")
        if name not in ("data", "error") or data.strip() == "[DONE]":
            continue
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and name == "error":
            yield {"error": event}
        elif isinstance(event, dict):
            yield event


def error_of_event(event: Mapping[str, object]) -> object:
    """Return the error that an event reports, of itself, of the reply or of one choice; None
    without one.
    """
    if event.get("type") == "error":
        return event.get("error") or event
    parts = [event, event.get("response")]
    choices = event.get("choices")
    if isinstance(choices, list):
        parts += choices
    errors = (part.get("error") for part in parts if isinstance(part, dict))
    return next(filter(None, errors), None)


def usage_of_events(events: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Return the usage that the events of a stream state, wherever in them and in however many
    parts.
    """
    usage: dict[str, object] = {}
    for event in events:
        # In `x_groq` by Groq, in the choices by Moonshot.
        parts = [event, event.get("response"), event.get("message"), event.get("x_groq")]
        choices = event.get("choices")
        if isinstance(choices, list):
            parts += choices
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("usage"), dict):
                # Some servers repeat a count as 0 in a later event: that does not replace it.
                stated = part["usage"].items()
                usage |= {name: count for name, count in stated if count or name not in usage}
    return usage


def joined_chat(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the completion, with its first choice alone, that the events of a chat stream add up
    to.
    """
    message: dict[str, Any] = {"content": ""}
    reason, tier, model = None, None, None
    ids: dict[int, object] = {}
    calls: dict[object, dict[str, str]] = {}
    for event in events:
        tier, model = event.get("service_tier") or tier, event.get("model") or model
        for choice in event.get("choices") or []:
            # A transcript shows one choice; the client has received all of them.
            if choice.get("index"):
                continue
            # Some servers send a whole reply as one event, with a `message` in place of a `delta`.
            delta = choice.get("delta") or choice.get("message") or {}
            message["content"] += text_in(delta.get("content")) or choice.get("text") or ""
            for name in _PIECES:
                if isinstance(delta.get(name), str):
                    message[name] = message.get(name, "") + delta[name]
            reason = choice.get("finish_reason") or reason
            older = delta.get("function_call")  # OpenAI's form before there were tools
            for call in delta.get("tool_calls") or (older and [{"function": older}]) or ():
                # The name and arguments of each call come in pieces. Calls are told apart by index
                # and id, since some servers give all calls the same index.
                index = call.get("index") or 0
                ids[index] = call.get("id") or ids.get(index)
                own = calls.setdefault((index, ids[index]), {"name": "", "arguments": ""})
                function = call.get("function") or {}
                for name in own:
                    own[name] += arguments_text(function.get(name) or "")
    message["tool_calls"] = [{"function": value} for value in calls.values()]
    content, reason = message["content"], reason or UNFINISHED
    choice = {"message": message, "text": content, "finish_reason": reason}
    return {"choices": [choice], "service_tier": tier, "model": model}


def arguments_text(arguments: object) -> str:
    """Return the arguments of a tool call as JSON text; some servers give them as an object."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments)


def read_events(text: str, endpoint: AskedEndpoint) -> str:
    """Return the text of a stream with line feeds as line ends. Raises the failure that an error
    among its events means, with the usage that other events state, since that is billed.
    """
    # By the standard, a line of a stream may end with a carriage return alone.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if '"error"' not in text and "\nerror:" not in f"\n{text}":
        return text
    events = list(events_in(text))
    error = next(filter(None, map(error_of_event, events)), None)
    usage = usage_of_events(events)
    try:
        _raise(error, endpoint)
    except (TransientError, CallError) as problem:
        if not usage or isinstance(problem, FatalCallError):
            raise
        raise UnusableReplyError(str(problem), usage) from None
    return text


def read_completion(text: str, endpoint: AskedEndpoint) -> Reply:
    """Return the reply in a chat completion in OpenAI's form. Raises as `read_answer_body` does,
    and UnusableReplyError if it has no message.
    """
    body = read_answer_body(text, endpoint, "a chat completion")
    try:
        choices = body["choices"]
        if not choices or choices[0].get("message") is None:
            raise UnusableReplyError(
                f"{endpoint.name} blocked the reply ({_why_blocked(body)}): it has no message",
                body.get("usage"),
            )
        usage = body.get("usage")
        _raise(choices[0].get("error"), endpoint, usage)
        message = choices[0]["message"]
        reasons = list(map(_reason_of, choices))
        # One choice that did not end well decides, so that no cache keeps the reply.
        reason = next(filterfalse(KEEPABLE.__contains__, reasons), reasons[0])
        if reason in _FAILED:
            raise TransientError(
                f"{endpoint.name} ended a reply by {reason!r}", "failed", usage=usage
            )
        spoken = without_thoughts(text_in(message.get("content")))
        answer, thoughts = spoken.text, thoughts_of(message) or spoken.thoughts
        # Thoughts that never end were cut off by a token limit, even if the server says "stop".
        if spoken.unfinished:
            reason = "length"
        declined = "" if answer else _refusal_in(message)
        if declined:
            answer, reason = declined, "refusal"
        elif reason in REFUSED:
            answer = ""
        return Reply(
            answer,
            reason,
            **tokens_in(usage, answer),
            body=body,
            probability=answer_probability(_logprobs_in(choices[0])),
            thoughts=thoughts or None,
            model=_name_in(body.get("model")),
            **charges_in(body),
        )
    except UNREADABLE as problem:
        if isinstance(problem, CallError):  # FatalCallError is a ValueError, too
            raise
        raise _unreadable(text, endpoint, "a chat completion", body.get("usage")) from None


def _raise(error: object, endpoint: AskedEndpoint, usage: object = None) -> None:
    """Raise the failure that an error inside a response means, if there is an error; `usage` is
    what the response says of its tokens.
    """
    if error:
        from .refusals import failure_inside, failure_of

        status, text = failure_inside(error, endpoint.request)
        problem = failure_of(status, text, {}, endpoint)
        if isinstance(problem, TransientError):
            problem.usage = usage
        raise problem


def _why_blocked(body: Mapping[str, Any]) -> str:
    """Return the reason, as Google or others state it, for a reply without a message."""
    feedback = body.get("promptFeedback") or body.get("prompt_feedback") or {}
    reason = feedback.get("blockReason")
    if not reason and body.get("choices"):
        ended = in_one_spelling(str(body["choices"][0].get("finish_reason")))
        reason = ended if ended in REFUSED else None
    return one_line(str(reason or "without a reason"))[:100]


def _reason_of(choice: Mapping[str, Any]) -> str:
    """Return the finish reason of a choice, in the common spelling."""
    given = choice.get("finish_reason") or choice.get("native_finish_reason")
    if isinstance(given, dict):  # SGLang's own
        given = given.get("type")
    reason = in_one_spelling(str(given or "stop"))
    calls = choice.get("message", {}).get("tool_calls")
    if reason == "stop" and calls:  # by "stop", it would count as a reply without text
        return TOOL_CALLS
    return reason


_ENUM = re.compile(r"^finish_?reason[._]")
_KNOWN = KEEPABLE | _FAILED | REFUSED


@lru_cache(maxsize=256)
def in_one_spelling(reason: str) -> str:
    """Return a finish reason in a spelling that is the same for all providers."""
    reason = one_line(reason)[:80].casefold().replace("-", "_")
    # Google's filters add details after a colon; some servers write the name of an enum.
    reason = _ENUM.sub("", reason).partition(":")[0]
    if reason in _KNOWN:
        return reason
    return next((meant for words, meant in _LIKE if words.search(reason)), reason)


def _refusal_in(message: Mapping[str, Any]) -> str:
    """Return the words in which an LM declines to answer, where they have a field of their own."""
    parts = message.get("content")
    if not message.get("refusal") and isinstance(parts, list):
        return "".join(text_in(part.get("refusal")) for part in parts if isinstance(part, dict))
    return text_in(message.get("refusal"))


_SAID_APART = (
    *(("reasoning_details", "text"), ("reasoning_details", "summary")),
    ("content", "thinking"),
)
_THOUGHTS = frozenset({*_THOUGHT, "reasoning_details"})


def thoughts_of(message: Mapping[str, object]) -> str:
    """Return the LM's thoughts, where a provider gives them apart from the reply."""
    if _THOUGHTS.isdisjoint(message) and isinstance(message.get("content"), str):
        return ""
    for name in _THOUGHT:
        thoughts = message.get(name)
        if thoughts and isinstance(thoughts, str):
            return thoughts
    said = ""
    for name, field in _SAID_APART:
        parts = message.get(name)
        if isinstance(parts, list):
            said += "".join(text_in(part.get(field)) for part in parts if isinstance(part, dict))
    return said


def _logprobs_in(choice: Mapping[str, object]) -> list[tuple[str, float]]:
    """Return the tokens of a reply with their log-probabilities; empty if any of them is not a
    number.
    """
    pairs: list[tuple[str, float]] = []
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict) or not isinstance(logprobs.get("content"), list):
        return pairs
    for token in logprobs["content"]:
        text, value = token.get("token"), token.get("logprob")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(text, str) or not number or not math.isfinite(value):
            return []
        pairs.append((text, float(value)))
    return pairs


def _name_in(value: object) -> str | None:
    """Return a name that a response states, on one line and bounded; None if it is not text."""
    if not isinstance(value, str) or not value:
        return None
    return one_line(value)[:200]


def charges_in(body: Mapping[str, Any]) -> Charges:
    """Return what a reply says of its price, besides the tokens."""
    usage = body.get("usage")
    # Anthropic states the tier, speed and region within the usage.
    inner = usage if isinstance(usage, dict) else {}
    ways = list(map(_name_in, map(inner.get, ("speed", "inference_geo"))))
    return {
        "cost_usd": cost_in(usage),
        "tier": _name_in(body.get("service_tier") or inner.get("service_tier")),
        "searches": searches_in(body),
        "lasting_write_tokens": _lasting_in(inner),
        "surcharges": [str(way) for way in ways if way not in _USUAL] or None,
    }


def _lasting_in(usage: Mapping[str, object]) -> int | None:
    """Return the tokens that were written to the provider's cache for hours, which costs more; None
    if no such count is stated.
    """
    found = None
    for part in (usage, usage.get("prompt_tokens_details"), usage.get("input_tokens_details")):
        if not isinstance(part, dict) or _LIVES.isdisjoint(part):
            continue
        for name in _LIVES & part.keys():
            if isinstance(part[name], dict):
                found = _first(_plausible(part[name]), _LASTING) or found
    return found


def searches_in(body: Mapping[str, object]) -> int | None:
    """Return how many web searches were made for a reply, each for a fee; None if none is
    stated.
    """
    usage, items = body.get("usage"), body.get("output")
    tools = usage.get("server_tool_use") if isinstance(usage, dict) else None
    if isinstance(tools, dict):
        return _tokens(tools.get("web_search_requests")) or None
    searches = 0
    if isinstance(items, list):
        for item in items:
            # OpenAI charges a search, but not the opening of a page that it found.
            if isinstance(item, dict) and item.get("type") == "web_search_call":
                action = item.get("action")
                opens = isinstance(action, dict) and action.get("type", "search") != "search"
                searches += not opens
    return searches or None


def cost_in(usage: object) -> float | None:
    """Return the cost of a call in USD that the provider states; None if it states none."""
    if not isinstance(usage, dict):
        return None
    cost = usage.get("cost", usage.get("estimated_cost"))
    if cost is None and "cost_in_usd_ticks" not in usage:
        return None
    if isinstance(cost, dict):  # the total and its parts
        cost = cost.get("total_cost")
    stated, ticks = _dollars(cost), _dollars(usage.get("cost_in_usd_ticks"))
    if stated is None and ticks is not None:
        return ticks / TICKS
    # If the user's own key pays the provider, OpenRouter's cost is only its fee.
    if stated is not None and usage.get("is_byok"):
        paid = _dollars((usage.get("cost_details") or {}).get("upstream_inference_cost"))
        return None if paid is None else stated + paid
    return stated


def note_cost(reply: Reply, headers: Mapping[str, str]) -> None:
    """Set the cost that LiteLLM's proxy states in a header, if the reply does not state one."""
    if reply.cost_usd is None and COST_HEADER in headers:
        # The proxy states 0 for a model whose price it does not know.
        reply.cost_usd = _dollars(headers[COST_HEADER]) or None


def _dollars(cost: Any) -> float | None:
    """Return an amount of money, which some providers give as text; None if it is not plausible."""
    if isinstance(cost, bool):
        return None
    try:
        amount = float(cost)
    except (TypeError, ValueError, OverflowError):
        return None
    return amount if 0 <= amount < math.inf else None


def answer_probability(tokens: Sequence[tuple[str, float]]) -> float | None:
    """Return the probability that the LM gave its answer: the product over the tokens of the last
    `answer` in JSON or after `Answer:`, or of a reply of one line. None if there is no such answer.
    """
    if not tokens:
        return None
    text = "".join(token for token, _ in tokens)
    values = list(_ANSWER.finditer(text))
    if not values:
        return None
    start, end = values[-1].span(values[-1].lastindex or 0)
    log_probability, offset = 0.0, 0
    for token, logprob in tokens:
        # A token may reach beyond the answer: if it overlaps, it counts as a whole.
        if offset < end and offset + len(token) > start:
            log_probability += logprob
        offset += len(token)
    return float(f"{math.exp(min(log_probability, 0.0)):.6g}")


def read_embeddings(text: str, endpoint: AskedEndpoint) -> Reply:
    """Return the reply that holds embeddings in OpenAI's form. Raises as `read_answer_body`
    does.
    """
    body = read_answer_body(text, endpoint, "embeddings")
    try:
        number = len(body["data"])
        prompt = _tokens((body.get("usage") or {}).get("prompt_tokens"))
        return Reply(f"{number} embeddings", "stop", prompt, 0, 0, 0, 0, body)
    except UNREADABLE:
        raise _unreadable(text, endpoint, "embeddings") from None


def _unreadable(
    text: str, endpoint: AskedEndpoint, what: str, usage: object = None
) -> TransientError | CallError:
    """Return the failure of a response that is not `what` was asked for, with its usage if it has
    one.
    """
    from .refusals import error_in, failure_of, is_page

    if is_page(text):
        return failure_of(502 if endpoint.answered else 404, text, {}, endpoint)
    said = "it is empty"
    if text.strip():
        said = error_in(text)
    return TransientError(
        f"{endpoint.name} answered {endpoint.status} with something that is not {what} ({said})",
        "unreadable",
        usage=usage,
    )


_TEXTS = ("text", "output_text", "input_text")
"""The types of the parts that make a text."""


def text_in(content: object) -> str:
    """Return the text of a message, which may consist of parts, as valid Unicode. Raises TypeError
    for anything else.
    """
    if isinstance(content, list):
        content = "".join(
            part if isinstance(part, str) else str(part.get("text") or "")
            for part in content
            if isinstance(part, str) or (part.get("type") or "text").casefold() in _TEXTS
        )
    if content is None:
        return ""
    if not isinstance(content, str):
        raise TypeError(f"the content of a message is text, not {type(content).__name__}")
    try:
        content.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs, which JSON's escapes can spell
        return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return content


# Where providers state each count: under a name, or under (name of an object, name within it).
_PROMPT = ("prompt_tokens", "input_tokens")
_COMPLETION = ("completion_tokens", "output_tokens")
_REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    "reasoning_tokens",
)
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    "cached_tokens",
    "cache_read_input_tokens",
    "prompt_cache_hit_tokens",
)
_WRITTEN = (
    ("prompt_tokens_details", "cache_creation_tokens"),
    ("prompt_tokens_details", "cache_write_tokens"),
    ("prompt_tokens_details", "cache_creation_input_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    "cache_creation_input_tokens",
)
# The objects that state how long tokens stay in the provider's cache, and the names for hours.
_LIVES = frozenset({"cache_creation", "cache_creation_token_details", "cache_write_tokens_details"})
_LASTING = ("ephemeral_1h_input_tokens", "ephemeral_12h_input_tokens", "ttl_12h_tokens")

_COUNT = re.compile(r"\d+(?:\.0*)?")
_USUAL = frozenset({None, "standard", "global", "not_available"})
"""How Anthropic serves a call without a surcharge."""
_APART = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens"})


def tokens_in(usage: object, answer: str = "") -> TokenCounts:
    """Return the token counts for a `Reply`, from the usage that any provider states. If counts
    contradict each other, or are 0 although there is an answer, all become None.
    """
    counts = usage if isinstance(usage, dict) else {}
    stated = _plausible(counts)
    prompt, completion = _first(stated, _PROMPT), _first(stated, _COMPLETION)
    cached, written = _first(stated, _CACHED), _first(stated, _WRITTEN)
    reasoning = _first(stated, _REASONING)
    total, apart = stated.get("total_tokens"), (cached or 0) + (written or 0)
    if completion is None and prompt is not None:
        # Gemini leaves it out if a reply has only thoughts, or nothing.
        empty = total == prompt and not answer
        if empty or (total or 0) > prompt:
            completion = 0
    if "prompt_tokens" not in counts and prompt is not None and counts.keys() & _APART:
        prompt += apart  # Anthropic's input tokens do not include them
    if prompt is not None and completion is not None:
        # Nor do Bedrock's; behind a proxy with other names, only the total shows it.
        if apart and total == prompt + apart + completion:
            prompt += apart
        # xAI and Gemini count thoughts apart: what the total has in addition are thoughts.
        if total and total > prompt + completion:
            reasoning = max(reasoning or 0, total - prompt - completion)
            completion = total - prompt
        if (
            prompt == 0
            or (answer and completion == 0)
            or (reasoning or 0) > completion
            or apart > prompt
            # LiteLLM states a total of 0 if it computed none.
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


def _plausible(usage: Mapping[str, object]) -> dict[object, int | None]:
    """Name, or (name of an object, name within it) → count; None for one that is not plausible."""
    stated: dict[object, int | None] = {}
    for name, value in usage.items():
        if isinstance(value, dict):
            for inner, count in value.items():
                stated[name, inner] = _tokens(count)
        else:
            stated[name] = _tokens(value)
    return stated


def _first(stated: Mapping[object, int | None], places: Iterable[object]) -> int | None:
    """Return the first count above 0 among these places; else 0 if any place has 0, else None.

    A 0 is passed over since proxies fill in 0 where their provider stated nothing.
    """
    counts = list(map(stated.get, places))
    return next(filter(None, counts), 0 if 0 in counts else None)


def _tokens(count: object) -> int | None:
    """Return a count of tokens, which some servers give as text or float; None if it is not
    plausible.
    """
    if type(count) is not int:  # not isinstance: True is an int, too
        if isinstance(count, str) and _COUNT.fullmatch(count):
            # Python refuses to parse thousands of digits; 20 are already more than MOST_TOKENS.
            count = int(count.partition(".")[0][:20])
        elif isinstance(count, float) and count.is_integer():
            count = int(count)
        else:
            return None
    return count if 0 <= count <= MOST_TOKENS else None


def plain_address(base_url: str) -> str:
    """Return the address without user info and query: safe to log, and part of the call key. Raises
    UserError for an invalid address.
    """
    parts = read_address(base_url, ("http", "https"), "--api-base as http://HOST:PORT/v1")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def too_large(name: str, most_bytes: int) -> UnusableReplyError:
    """Return the failure of a response of more bytes than are read."""
    return UnusableReplyError(
        f"the reply of {name} has more than {most_bytes >> 20} MB: lower max_tokens, or raise "
        "FOLKMOOT_REPLY_MB"
    )


def packed_otherwise(name: str, encoding: str) -> TransientError:
    """Return the failure of a response that is not compressed as its header says."""
    return TransientError(
        f"the answer of {name} cannot be unpacked as {encoding}, which its header names: turn "
        "compression off there",
        "unreadable",
    )


def not_connected(name: str, reason: str, kind: Trouble) -> TransientError:
    """Return the failure of a connection that could not be opened (unreachable), or that broke."""
    state = "a broken connection"
    if kind == "unreachable":
        state = "no connection"
    return TransientError(f"{state} to {name} ({reason})", kind)


def origin(base_url: str) -> str:
    """Return the scheme and host of an address."""
    return "/".join(plain_address(base_url).split("/", 3)[:3])


def hiding(keys: Iterable[str | None], address: str | None = None) -> Callable[[str], str]:
    """Return a function that replaces secrets in a text by `…`: these keys, and the password and
    keys in the address. A password is also hidden in the base64 form that headers have.
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
            # Servers may repeat it as it stood in the address, in its quoted form.
            secrets.update((value, quote(value, safe="")))
    if not secrets:
        return lambda text: text
    # The longest first: if one key begins with another, the shorter match would leave a rest.
    pattern = re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True))))
    return lambda text: pattern.sub("…", text)


def without_keys(text: str, lms: Iterable[object]) -> str:
    """Return a text, such as an error, without the keys of these LMs (which `fm.lm` did not make)
    and of the environment.
    """
    for lm in lms:
        own = getattr(lm, "kwargs", {})
        hide = hiding([own.get("api_key"), *settings().provider_keys()], own.get("api_base"))
        text = hide(text)
    return text
