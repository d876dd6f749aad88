"""The protocols of the meter; each turns a request into a chat completion, and the completion into
its own reply. OpenAI's responses and Anthropic's messages are translated by LiteLLM, whose
translators are imported at the first such request.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object of a foreign protocol."""

Events: TypeAlias = Iterable[bytes]
"""The server-sent events of a streamed reply."""

Ask: TypeAlias = Callable[[Json], Awaitable[Json]]
"""The function that runs a request for a chat completion, or for embeddings."""


class BadRequest(ValueError):  # noqa: N818
    """A request that the meter cannot answer, with a sentence that says why."""


async def chat_completions(body: Json, ask: Ask) -> tuple[Json, Events]:
    """OpenAI's chat completions, passed on unchanged."""
    if not isinstance(body.get("messages"), list):
        raise BadRequest("the request has no list of 'messages'")
    completion = await ask(body)
    return completion, _chunks(completion, body)


async def embeddings(body: Json, ask: Ask) -> tuple[Json, Events]:
    """OpenAI's embeddings, passed on unchanged."""
    if not body.get("input") or "messages" in body:
        raise BadRequest("the request has no 'input' to embed")
    return await ask(body), []


def event(name: str | None, data: Any) -> bytes:
    """A server-sent event, with its name where the protocol has one."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _chunks(completion: Json, body: Json) -> Iterator[bytes]:
    """A whole completion as a stream of chunks."""
    head = {name: value for name, value in completion.items() if name not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    for choice in completion.get("choices") or []:
        delta = {name: value for name, value in choice["message"].items() if value is not None}
        if calls := delta.get("tool_calls"):
            delta["tool_calls"] = [{**call, "index": place} for place, call in enumerate(calls)]
        ends = {"index": choice.get("index", 0), "finish_reason": None}
        logprobs = {"logprobs": choice["logprobs"]} if choice.get("logprobs") else {}
        yield event(None, {**head, "choices": [{**ends, "delta": delta, **logprobs}]})
        ends["finish_reason"] = choice.get("finish_reason") or "stop"
        yield event(None, {**head, "choices": [{**ends, "delta": {}}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event(None, {**head, "choices": [], "usage": completion.get("usage")})
    yield event(None, "[DONE]")


@cache
def _translators() -> tuple[Any, Any]:
    """LiteLLM's translators of responses and of messages; importing them takes seconds."""
    from ..lms.hosted import litellm_quiet

    litellm_quiet()
    from litellm.llms.anthropic.messages.adapters import transformation
    from litellm.responses.litellm_completion_transformation.transformation import (
        LiteLLMCompletionResponsesConfig,
    )

    return LiteLLMCompletionResponsesConfig, transformation.LiteLLMAnthropicMessagesAdapter()


async def responses(body: Json, ask: Ask) -> tuple[Json, Events]:
    """OpenAI's responses, without state on the server."""
    for name in ("previous_response_id", "conversation", "background"):
        if body.get(name):
            raise BadRequest(f"the meter keeps no state between requests: send no {name!r}")
    if body.get("input") is None:
        raise BadRequest("the request has no 'input'")
    translator, _ = await asyncio.to_thread(_translators)
    model = str(body.get("model") or "")
    options: Any = {key: value for key, value in body.items() if key not in ("input", "model")}
    asked = translator.transform_responses_api_request_to_chat_completion_request(
        model=model, input=body["input"], responses_api_request=options
    )
    completion = await ask({**_plain(asked), "model": model})
    answer = translator.transform_chat_completion_response_to_responses_api_response(
        request_input=body["input"],
        responses_api_request=options,
        chat_completion_response=_model_response(completion),
    )
    return answer.model_dump(mode="json", exclude_none=True), _response_events(answer)


def _response_events(answer: Any) -> Iterator[bytes]:
    """A whole response as the events of a stream, in LiteLLM's words."""
    from litellm.responses.streaming_iterator import build_synthetic_response_events

    made = build_synthetic_response_events(transformed=answer, logging_obj=None, chunk_size=1000)
    for number, one in enumerate(made):
        data = one.model_dump(mode="json", exclude_none=True)
        yield event(data["type"], {**data, "sequence_number": number})


async def messages(body: Json, ask: Ask) -> tuple[Json, Events]:
    """Anthropic's messages."""
    if not isinstance(body.get("messages"), list):
        raise BadRequest("the request has no list of 'messages'")
    _, translator = await asyncio.to_thread(_translators)
    asked, names = translator.translate_anthropic_to_openai({**body, "stream": False})
    completion = await ask({**_plain(dict(asked)), "model": str(body.get("model") or "")})
    answer = translator.translate_openai_response_to_anthropic(_model_response(completion), names)
    reply: Json = dict(answer)
    reply["content"] = [_as_json(part) for part in reply.get("content") or []]
    return reply, _message_events(reply)


def _message_events(reply: Json) -> Iterator[bytes]:
    """A whole message as the events of a stream, in LiteLLM's words."""
    from litellm.llms.anthropic.messages.native import fake_stream_iterator

    stream: Any = fake_stream_iterator.FakeAnthropicMessagesStreamIterator
    return iter(stream(reply))


def _as_json(part: Any) -> Json:
    """A part of a reply as plain JSON, without unset fields."""
    plain = part.model_dump(mode="json") if hasattr(part, "model_dump") else dict(part)
    return {name: value for name, value in plain.items() if value is not None}


def _plain(asked: Json) -> Json:
    """A translated request without unset fields and LiteLLM's own fields."""
    own = ("litellm_metadata", "metadata", "custom_llm_provider", "extra_headers", "service_tier")
    return {key: value for key, value in asked.items() if value is not None and key not in own}


def _model_response(completion: Json) -> Any:
    from ..lms.hosted import litellm_quiet

    return litellm_quiet().ModelResponse(**{"created": int(time.time()), **completion})


PROTOCOLS: dict[str, Callable[[Json, Ask], Awaitable[tuple[Json, Events]]]] = {
    "chat/completions": chat_completions,
    "responses": responses,
    "messages": messages,
    "embeddings": embeddings,
}
"""The paths that are served below `/v1/`."""
