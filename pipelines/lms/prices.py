"""What tokens cost: LiteLLM's price table, read as data so that importing litellm is not needed."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

_NAMES = (
    *("input_cost_per_token", "output_cost_per_token"),
    *("cache_read_input_token_cost", "cache_creation_input_token_cost", "output_cost_per_reasoning_token"),
)
_TABLE = "model_prices_and_context_window_backup.json"


class Counted(Protocol):
    """The tokens of a call, None where they are not known: those of a `Reply`, say, or of a `Usage`."""

    @property
    def prompt_tokens(self) -> int | None: ...
    @property
    def completion_tokens(self) -> int | None: ...
    @property
    def cached_prompt_tokens(self) -> int | None: ...
    @property
    def cache_write_tokens(self) -> int | None: ...
    @property
    def reasoning_tokens(self) -> int | None: ...


class Prices(NamedTuple):
    """USD per token; None for those that cost what any other prompt or completion token does."""

    prompt: float
    completion: float
    cached_prompt: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None

    def cost(self, call: Counted) -> float | None:
        """USD for a call's tokens; None where their number is not known, unless they are free."""
        if not any(self):
            return 0.0
        if call.prompt_tokens is None or call.completion_tokens is None:
            return None
        cached, written = call.cached_prompt_tokens or 0, call.cache_write_tokens or 0
        thought = min(call.reasoning_tokens or 0, call.completion_tokens)
        return (
            max(0, call.prompt_tokens - cached - written) * self.prompt
            + cached * (self.prompt if self.cached_prompt is None else self.cached_prompt)
            + written * (self.prompt if self.cache_write is None else self.cache_write)
            + (call.completion_tokens - thought) * self.completion
            + thought * (self.completion if self.reasoning is None else self.reasoning)
        )


@cache
def _table() -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return {}
    for folder in spec.submodule_search_locations:
        path = Path(folder) / _TABLE
        if path.is_file():
            table: dict[str, Any] = json.loads(path.read_text())
            return table
    return {}


def known_model(model: str) -> dict[str, Any]:
    """What the table has about a LiteLLM name such as `openai/gpt-4o-mini`; empty when it is not there."""
    return next((found for name in (model, model.partition("/")[2]) if (found := _table().get(name))), {})


def price_per_token(model: str) -> Prices | None:
    """The prices of a LiteLLM name such as `openai/gpt-4o-mini`; None when the table does not price it."""
    found = known_model(model)
    if any(found.get(name) is None for name in _NAMES[:2]):
        return None
    return Prices(*(None if found.get(name) is None else float(found[name]) for name in _NAMES))  # type: ignore[arg-type]
