"""The protocols of the meter: each turns a request into one for a chat completion, and the
completion into a reply of its own form. OpenAI's responses and Anthropic's messages are translated
by LiteLLM.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from ...modules.base.keyed import without, without_none
from ..lms.endpoint import text_in, thoughts_of

Json: TypeAlias = dict[str, Any]
"""A JSON object of a foreign protocol."""

Events: TypeAlias = Iterable[bytes]
"""The server-sent events of a streamed reply."""

Ask: TypeAlias = Callable[[Json], Awaitable[Json]]
"""The function that runs a request for a chat completion, or for embeddings."""


class BadRequest(ValueError):  # noqa: N818
    """A request that the meter cannot answer, with a sentence that says why."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class Conversation:
    """The replies to a question's earlier requests, which later ones refer to: `responses` holds
    all items of a conversation up to a response, by its id, and `items` each item by its id.
    """

    responses: dict[str, list[Json]] = field(default_factory=dict)
    items: dict[str, Json] = field(default_factory=dict)

    def keep(self, before: list[Json], answer: Json) -> None:
        """Remember a response with all items before it."""
        output = [dict(item) for item in answer.get("output") or ()]
        self.responses[str(answer.get("id"))] = [*before, *output]
        for item in (*before, *output):
            if item.get("id"):
                self.items[str(item["id"])] = item

    def resolved(self, body: Json) -> list[Json]:
        """Return the whole input of a request: the items of the response that it continues, and its
        own. Raises BadRequest for a reference to another question.
        """
        given = body["input"]
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        before: list[Json] = []
        if (earlier := body.get("previous_response_id")) is not None:
            if earlier not in self.responses:
                raise BadRequest(f"there is no response {earlier!r} of this question")
            before = self.responses[earlier]
        return [*before, *map(self._find_referred, given)]

    def _find_referred(self, item: Json) -> Json:
        if item.get("type") != "item_reference":
            return item
        if item.get("id") not in self.items:
            raise BadRequest(f"there is no item {item.get('id')!r} of this question")
        return self.items[item["id"]]


async def chat_completions(body: Json, ask: Ask, state: Conversation) -> tuple[Json, Events]:
    """OpenAI's chat completions, passed on unchanged."""
    if not isinstance(body.get("messages"), list):
        raise BadRequest("the request has no list of 'messages'")
    completion = await ask(body)
    return completion, _chunks(completion, body)


async def completions(body: Json, ask: Ask, state: Conversation) -> tuple[Json, Events]:
    """OpenAI's older completions: the prompt becomes one message of the user. Raises BadRequest for
    a request that has no counterpart.
    """
    if not isinstance(body.get("prompt"), str):
        raise BadRequest("the request has no text as its 'prompt'")
    _refuse_others(body, _COMPLETION_FIELDS, "completions")
    asked = without(body, ["prompt"])
    completion = await ask({**asked, "messages": [{"role": "user", "content": body["prompt"]}]})
    choices = [
        {
            "index": choice.get("index", 0),
            "text": text_in((choice.get("message") or {}).get("content")),
            "finish_reason": choice.get("finish_reason"),
        }
        for choice in completion.get("choices") or ()
    ]
    reply = {**completion, "object": "text_completion", "choices": choices}
    return reply, [event(None, reply), event(None, "[DONE]")]


async def embeddings(body: Json, ask: Ask, state: Conversation) -> tuple[Json, Events]:
    """OpenAI's embeddings, passed on unchanged."""
    if not body.get("input") or "messages" in body:
        raise BadRequest("the request has no 'input' to embed")
    return await ask(body), []


def event(name: str | None, data: object) -> bytes:
    """Return a server-sent event, with its name where the protocol has one."""
    if not isinstance(data, str):
        data = json.dumps(data)
    written = f"data: {data}\n\n"
    if name:
        written = f"event: {name}\n{written}"
    return written.encode()


def _chunks(completion: Json, body: Json) -> Iterator[bytes]:
    """Yield a whole completion as a stream of chunks."""
    head = without(completion, ["choices", "usage"])
    head["object"] = "chat.completion.chunk"
    for choice in completion.get("choices") or []:
        delta = without_none(choice["message"])
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{**call, "index": index} for index, call in enumerate(calls)]
        # In a chunk of its own, as providers do: clients stop at the first chunk with a reason.
        ends = {"index": choice.get("index", 0), "finish_reason": None}
        first = {**ends, "delta": delta}
        if choice.get("logprobs"):
            first["logprobs"] = choice["logprobs"]
        yield event(None, {**head, "choices": [first]})
        ends["finish_reason"] = choice.get("finish_reason") or "stop"
        yield event(None, {**head, "choices": [{**ends, "delta": {}}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event(None, {**head, "choices": [], "usage": completion.get("usage")})
    yield event(None, "[DONE]")


@cache
def _translators() -> tuple[Any, Any]:
    """Return LiteLLM's translators of responses and of messages; importing them takes seconds."""
    from ..lms.hosted import litellm_quiet

    litellm_quiet()
    from litellm.llms.anthropic.messages.adapters import transformation
    from litellm.responses.litellm_completion_transformation.transformation import (
        LiteLLMCompletionResponsesConfig,
    )

    return LiteLLMCompletionResponsesConfig, transformation.LiteLLMAnthropicMessagesAdapter()


_SAMPLED = {"temperature", "top_p", "stop", "seed", "max_tokens", "n", "user", "logprobs"}
_COMPLETION_FIELDS = {"model", "prompt", "stream", "stream_options", *_SAMPLED}

# Fields that can be translated, those that keep their name, and those without effect on a reply
# (*_SILENT), which are left out.
_RESPONSE_FIELDS = {
    *("model", "input", "instructions", "max_output_tokens", "parallel_tool_calls", "reasoning"),
    *("stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_p", "user"),
    *("previous_response_id", "top_logprobs"),
}
_SAME_NAME = {"prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier"}
_RESPONSE_SILENT = {"store", "metadata", "include"}
_MESSAGE_FIELDS = {
    *("model", "messages", "max_tokens", "metadata", "stop_sequences", "stream", "system"),
    *("temperature", "thinking", "tool_choice", "tools", "top_p"),
}
_MESSAGE_SILENT = {"cache_control", "betas"}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_EFFORTS = ((2_048, "low"), (8_192, "medium"), (math.inf, "high"))
"""Efforts of chat completions, each for budgets of thoughts below a number of tokens."""


def _refuse_others(body: Json, known: Collection[str], path: str) -> None:
    """Raise BadRequest for a field that is not known, since its meaning would be lost."""
    for name, value in body.items():
        if name not in known and value is not None:
            raise BadRequest(
                f"{name!r} of /{path} has no counterpart in chat completions, which is all that "
                "this endpoint has: leave it out, or ask another endpoint"
            )


def _refuse_tools(tools: Iterable[Json], known: Collection[str]) -> None:
    for tool in tools:
        if tool.get("type", "function") not in known:
            raise BadRequest(
                f"the tool {tool['type']!r} runs at the provider, and this endpoint has none: "
                "leave it out, or ask another endpoint"
            )


async def responses(body: Json, ask: Ask, state: Conversation) -> tuple[Json, Events]:
    """OpenAI's responses, which may continue earlier ones of the same question. Raises BadRequest
    for a request that has no counterpart.
    """
    if body.get("input") is None:
        raise BadRequest("the request has no 'input'")
    # Some clients send these fields with their defaults, which ask for nothing.
    if body.get("truncation") in (None, "disabled") and not body.get("background"):
        body = without(body, ["truncation", "background"])
    _refuse_others(body, _RESPONSE_FIELDS | _SAME_NAME | _RESPONSE_SILENT, "responses")
    _refuse_tools(body.get("tools") or (), ("function",))
    translator, _ = await asyncio.to_thread(_translators)
    model, said = str(body.get("model") or ""), state.resolved(body)
    left_out = {"input", "model", "previous_response_id", *_SAME_NAME, *_RESPONSE_SILENT}
    options: Any = without(body, left_out)
    asked = translator.transform_responses_api_request_to_chat_completion_request(
        model=model, input=said, responses_api_request=options
    )
    more = {name: body[name] for name in _SAME_NAME if body.get(name) is not None}
    if verbosity := (body.get("text") or {}).get("verbosity"):
        more["verbosity"] = verbosity
    if body.get("top_logprobs") is not None:
        more |= {"logprobs": True, "top_logprobs": body["top_logprobs"]}
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = [{"type": "function", "function": tool} for tool in _named(choice["tools"])]
        kept = {"mode": choice.get("mode", "auto"), "tools": allowed}
        more["tool_choice"] = {"type": "allowed_tools", "allowed_tools": kept}
    completion = await ask({**_plain(asked), **more, "model": model})
    answer = translator.transform_chat_completion_response_to_responses_api_response(
        request_input=said,
        responses_api_request=options,
        chat_completion_response=_model_response(completion),
    )
    reply: Json = answer.model_dump(mode="json", exclude_none=True)
    state.keep(said, reply)
    return reply, _response_events(answer)


def _named(tools: Iterable[Json]) -> list[Json]:
    return [{"name": tool.get("name")} for tool in tools]


def _response_events(answer: Any) -> Iterator[bytes]:
    """Yield a whole response as the events that LiteLLM makes of it."""
    from litellm.responses.streaming_iterator import build_synthetic_response_events

    made = build_synthetic_response_events(transformed=answer, logging_obj=None, chunk_size=1000)
    for number, streamed in enumerate(made):
        data = streamed.model_dump(mode="json", exclude_none=True)
        yield event(data["type"], {**data, "sequence_number": number})


async def messages(body: Json, ask: Ask, state: Conversation) -> tuple[Json, Events]:
    """Anthropic's messages."""
    if not isinstance(body.get("messages"), list):
        raise BadRequest("the request has no list of 'messages'")
    _refuse_others(body, _MESSAGE_FIELDS | _MESSAGE_SILENT, "messages")
    _refuse_tools(body.get("tools") or (), ("function", "custom"))
    # In a thread: the import takes seconds, in which other questions would stand still.
    _, translator = await asyncio.to_thread(_translators)
    left_out = {"thinking", "metadata", *_MESSAGE_SILENT}
    kept = without(_pruned(body, _no_mark), left_out)
    asked, names = translator.translate_anthropic_to_openai({**kept, "stream": False})
    more: Json = {}
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens") or 0
        more["reasoning_effort"] = next(effort for most, effort in _EFFORTS if budget < most)
    if user := (body.get("metadata") or {}).get("user_id"):
        more["user"] = user
    if (body.get("tool_choice") or {}).get("disable_parallel_tool_use"):
        more["parallel_tool_calls"] = False
    completion = await ask({**_plain(dict(asked)), **more, "model": str(body.get("model") or "")})
    answer = translator.translate_openai_response_to_anthropic(_model_response(completion), names)
    reply: Json = dict(answer)
    reply["content"] = [_as_json(part) for part in reply.get("content") or []]
    return reply, _message_events(reply)


def _no_mark(key: str, held: object) -> bool:
    # A mark for the provider's cache changes no reply.
    return key != "cache_control"


def _no_null(key: str, held: object) -> bool:
    return held is not None


def _pruned(value: object, kept: Callable[[str, object], bool]) -> Any:
    """Return a value with only those fields, at any depth, for which `kept` is true."""
    if isinstance(value, dict):
        return {key: _pruned(held, kept) for key, held in value.items() if kept(key, held)}
    if isinstance(value, list):
        return [_pruned(held, kept) for held in value]
    return value


def _message_events(reply: Json) -> Iterator[bytes]:
    """Return a whole message as the events that LiteLLM makes of it."""
    from litellm.llms.anthropic.messages.native import fake_stream_iterator

    stream: Any = fake_stream_iterator.FakeAnthropicMessagesStreamIterator
    return iter(stream(reply))


def _as_json(part: Any) -> Json:
    """Return a part of a reply as plain JSON, without unset fields."""
    if hasattr(part, "model_dump"):
        part = part.model_dump(mode="json")
    return without_none(dict(part))


def _plain(asked: Json) -> Json:
    """Return a translated request without LiteLLM's own fields and without null."""
    own = ("litellm_metadata", "metadata", "custom_llm_provider", "extra_headers", "service_tier")
    plain: Json = _pruned(without(asked, own), _no_null)
    for message in plain.get("messages") or ():
        message.pop("thinking_blocks", None)  # strict endpoints refuse them
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [_tool_call(call) for call in calls]
    return plain


def _tool_call(call: Json) -> Json:
    """Return a call of a tool with only the fields that strict endpoints accept."""
    function = {name: call["function"].get(name) for name in ("name", "arguments")}
    return {"id": call.get("id"), "type": "function", "function": function}


def _model_response(completion: Json) -> Any:
    """Return a chat completion in LiteLLM's class, for the translators: its text joined, and with
    counts of tokens.
    """
    from ..lms.hosted import litellm_quiet

    choices = []
    for choice in completion["choices"]:
        message = {**choice["message"], "reasoning_content": thoughts_of(choice["message"]) or None}
        if message.get("content") is not None:
            message["content"] = text_in(message["content"])
        choices.append({**choice, "message": message})
    return litellm_quiet().ModelResponse(
        id=completion.get("id"),
        created=int(time.time()),
        model=completion.get("model"),
        choices=choices,
        usage=completion.get("usage") or dict.fromkeys(_COUNTS, 0),
    )


def stream_of(path: str, whole: Json) -> Events:
    """Return a whole reply as the events of a stream, such as a reply from a record."""
    if path == "messages":
        return _message_events(whole)
    if path == "chat/completions":
        return _chunks(whole, {"stream_options": {"include_usage": True}})
    return []


PROTOCOLS: dict[str, Callable[[Json, Ask, Conversation], Awaitable[tuple[Json, Events]]]] = {
    "chat/completions": chat_completions,
    "completions": completions,
    "responses": responses,
    "messages": messages,
    "embeddings": embeddings,
}
"""The paths that are served below `/v1/`."""
