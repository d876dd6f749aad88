"""The paths of the meter: how usage, text, tool calls and the reason of the end are read from a
reply, whole or streamed, and the results of tools from a request. Nothing else in them is read, so
that fields of tomorrow pass, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...modules.base.fence import clean, cut
from ..lms.endpoint import (
    TOOL_CALLS,
    UNFINISHED,
    UNREADABLE,
    Reply,
    arguments_text,
    charges_in,
    error_of_event,
    events_in,
    in_one_spelling,
    joined_chat,
    text_in,
    tokens_in,
    usage_of_events,
)

Whole = Mapping[str, Any]
"""A reply as one JSON object, perhaps joined from the events of a stream."""

CHAT = "chat/completions"
MOST_RETURNED = 1000
"""The characters of a tool's result that a transcript keeps."""


@dataclass(frozen=True)
class NativePath:
    """A path below `/v1/`, and the functions that read its requests and replies.

    `limit` is the field of a request for the longest reply. `text` returns the text of a reply
    with its tool calls, `end` the reason why it ended, `joined` the reply that the events of a
    stream make, and `returned` the results of tools since the last reply.
    """

    path: str
    limit: str
    text: Callable[[Whole], str]
    end: Callable[[Whole], str]
    joined: Callable[[Iterable[Whole]], Whole]
    field: str = "messages"
    """The field that a request must have: it holds the input."""
    returned: Callable[[Any], list[Any]] = lambda _: []

    def tools(self, body: Mapping[str, object]) -> list[str]:
        """Return the results of tools since the last reply as text, each cut."""
        given = self.returned(body.get(self.field))
        return [cut(clean(_text_of(item)), MOST_RETURNED) for item in given]

    def streamed(self, text: str) -> Whole:
        """Return the reply that the events of a stream make, or only its usage where the events
        have an unknown form.
        """
        events = list(events_in(text))
        usage = usage_of_events(events)
        try:
            return {**self.joined(events), "usage": usage}
        except UNREADABLE:
            return {"usage": usage}

    def reply(self, whole: Whole, body: Mapping[str, object]) -> Reply:
        """Return a reply with its text and tokens; the client gets `body`."""
        try:
            text, reason = self.text(whole), in_one_spelling(self.end(whole))
        except UNREADABLE:  # the client gets it all the same
            text, reason = "", "stop"
        counts = tokens_in(whole.get("usage"), text)
        if not self.limit:  # embeddings: the tokens of a prompt alone
            prompt = counts["prompt_tokens"]
            return Reply(text, reason, prompt, 0, 0, 0, 0, body=body)
        return Reply(
            text,
            "stop" if reason == "end_turn" else reason,
            **counts,
            body=body,
            **charges_in(whole),
        )


def is_usage_only(event: str) -> bool:
    """Return whether an event of a chat stream holds its usage and nothing else."""
    whole = next(events_in(event), {})
    return not whole.get("choices") and bool(whole.get("usage"))


def is_error(event: str) -> bool:
    """Return whether an event of a stream reports an error."""
    return "error" in event and any(map(error_of_event, events_in(event)))


def _text_of(content: object) -> str:
    """Return the text of a content or of its parts; without text, the content as JSON."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    if isinstance(content, list):
        texts = [str(part["text"]) for part in content if isinstance(part, dict) and "text" in part]
    return "\n".join(texts) or json.dumps(content)


def _since(items: object, is_reply: Callable[[Whole], bool]) -> list[Whole]:
    """Return the items of a request that follow the last reply in it."""
    found: list[Whole] = []
    if not isinstance(items, list):
        return found
    for item in items:
        if not isinstance(item, dict):
            continue
        if is_reply(item):
            found.clear()
        else:
            found.append(item)
    return found


def _chat_returned(messages: object) -> list[object]:
    since = _since(messages, lambda item: item.get("role") == "assistant")
    return [item.get("content") for item in since if item.get("role") in ("tool", "function")]


def _response_returned(items: object) -> list[object]:
    def is_reply(item: Whole) -> bool:
        return item.get("role") == "assistant" or str(item.get("type")).endswith("_call")

    since = _since(items, is_reply)
    return [item.get("output") for item in since if str(item.get("type")).endswith("_output")]


def _message_returned(messages: object) -> list[object]:
    found = []
    for item in _since(messages, lambda item: item.get("role") == "assistant"):
        content = item.get("content")
        if not isinstance(content, list):
            continue
        for part in content:
            if isinstance(part, dict) and part.get("type") == "tool_result":
                found.append(part.get("content"))
    return found


def _call_text(name: object, arguments: object) -> str:
    return f"{name}({arguments_text(arguments)})"


def _chat_text(whole: Whole) -> str:
    message = (whole.get("choices") or [{}])[0].get("message") or {}
    content = message.get("content") or message.get("refusal") or ""
    parts = [text_in(content)]
    calls = message.get("tool_calls") or []
    if not calls and message.get("function_call"):  # its name before there were tools
        calls = [{"function": message["function_call"]}]
    for call in calls:
        function = call.get("function") or {}
        parts.append(_call_text(function.get("name"), function.get("arguments")))
    return "\n".join(filter(None, parts))


def _chat_end(whole: Whole) -> str:
    return str((whole.get("choices") or [{}])[0].get("finish_reason") or "stop")


def _completion_text(whole: Whole) -> str:
    return str((whole.get("choices") or [{}])[0].get("text") or "")


def _response_text(whole: Whole) -> str:
    parts = []
    for item in whole.get("output") or ():
        if item.get("type") == "function_call":
            parts.append(_call_text(item.get("name"), item.get("arguments")))
        for part in item.get("content") or ():
            parts.append(str(part.get("text") or part.get("refusal") or ""))
    return "\n".join(filter(None, parts))


def _response_end(whole: Whole) -> str:
    if any(item.get("type") == "function_call" for item in whole.get("output") or ()):
        return TOOL_CALLS
    details = whole.get("incomplete_details") or {}
    return str(details.get("reason") or whole.get("status") or "stop")


def _response_joined(events: Iterable[Whole]) -> Whole:
    """Return the response in the last event that holds one: each holds all before it."""
    last: Whole = {}
    for event in events:
        last = event.get("response") or last
    return last


def _message_text(whole: Whole) -> str:
    parts = []
    for part in whole.get("content") or ():
        if part.get("type") == "tool_use":
            parts.append(_call_text(part.get("name"), part.get("input")))
        elif part.get("type") == "text":
            parts.append(str(part.get("text") or ""))
    return "\n".join(filter(None, parts))


def _message_joined(events: Iterable[Whole]) -> Whole:
    content: dict[int, dict[str, Any]] = {}
    reason = None
    for event in events:
        delta = event.get("delta") or {}
        reason = delta.get("stop_reason") or reason
        part = content.setdefault(event.get("index", 0), {})
        part |= event.get("content_block") or {}
        part["text"] = (part.get("text") or "") + (delta.get("text") or "")
        if "partial_json" in delta:
            part["input"] = (part.get("input") or "") + delta["partial_json"]
    return {"content": list(content.values()), "stop_reason": reason or UNFINISHED}


def _embedded(whole: Whole) -> str:
    return f"({len(whole.get('data') or ())} embeddings)"


PATHS: dict[str, NativePath] = {
    native.path: native
    for native in (
        NativePath(
            CHAT,
            "max_tokens",
            _chat_text,
            _chat_end,
            joined_chat,
            returned=_chat_returned,
        ),
        NativePath(
            "responses",
            "max_output_tokens",
            _response_text,
            _response_end,
            _response_joined,
            "input",
            _response_returned,
        ),
        NativePath(
            "messages",
            "max_tokens",
            _message_text,
            lambda whole: str(whole.get("stop_reason") or "stop"),
            _message_joined,
            returned=_message_returned,
        ),
        NativePath("completions", "max_tokens", _completion_text, _chat_end, joined_chat, "prompt"),
        NativePath("embeddings", "", _embedded, lambda _: "stop", lambda _: {}, "input"),
    )
}
"""The paths that are served below `/v1/`."""
