"""Replies of an endpoint, as bodies of chat completions."""

from typing import Any

USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


def completion(
    content: Any, finish_reason: str | None = "stop", usage: Any = USAGE, **message: Any
) -> dict[str, Any]:
    """The body of a reply, without a bill where `usage` is None."""
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish_reason}
    named = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**named, "choices": [choice], **({} if usage is None else {"usage": usage})}
