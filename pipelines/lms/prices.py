"""What tokens cost, by LiteLLM's price table, which is read as a file without importing LiteLLM."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...modules.base.calls import Usage
from .endpoint import Reply

_NAMES = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "output_cost_per_reasoning_token",
)
"""The table's names for the first fields of `Prices`, in the same order."""
_LASTING = tuple(f"cache_creation_input_token_cost_above_{hours}hr" for hours in (1, 12))
"""The table's names for the price of tokens that stay in the provider's cache for hours."""
TIERS = ("flex", "priority", "batch", "ultrafast", "balanced", "decisions")
"""Service tiers for which the table may have prices of their own."""
_ABOVE = re.compile(rf"(?:{'|'.join(_NAMES)})_above_(\d+)k_tokens")
_TABLE = "model_prices_and_context_window_backup.json"


class Prices(NamedTuple):
    """USD per token; None for a kind of token that costs as much as any prompt or completion token.

    `request` is a fee per call in addition to its tokens. `steps` are (number, prices): the prices
    of calls with more prompt tokens than that. `lasting_write` is the price of tokens that are kept
    in the provider's cache for hours.
    """

    prompt: float
    completion: float
    cached_prompt: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None
    request: float | None = None
    steps: tuple[tuple[float, Prices], ...] = ()
    lasting_write: float | None = None

    @classmethod
    def read(cls, values: Sequence[Any]) -> Prices:
        """Return the prices in JSON, where all tuples have become lists."""
        prices = cls(*values)
        return prices._replace(steps=tuple((above, cls.read(step)) for above, step in prices.steps))

    def of_prompt(self, tokens: float) -> Prices:
        """Return the prices of a call with this many prompt tokens."""
        return next((step for above, step in reversed(self.steps) if tokens > above), self)

    def cost(self, call: Reply | Usage) -> float | None:
        """Return USD for a call; None if its tokens are unknown, unless all are free."""
        if not any(self):
            return 0.0
        if call.prompt_tokens is None or call.completion_tokens is None:
            return None
        if self.steps:
            own = self.of_prompt(call.prompt_tokens)._replace(steps=(), request=self.request)
            return own.cost(call)
        cached, written = call.cached_prompt_tokens or 0, call.cache_write_tokens or 0
        thought = call.reasoning_tokens or 0
        write = self.prompt if self.cache_write is None else self.cache_write
        lasting = 0
        if isinstance(call, Reply) and self.lasting_write is not None:
            lasting = min(call.lasting_write_tokens or 0, written)
        return (
            (self.request or 0.0)
            + (call.prompt_tokens - cached - written) * self.prompt
            + cached * (self.prompt if self.cached_prompt is None else self.cached_prompt)
            + (written - lasting) * write
            + lasting * (self.lasting_write or 0.0)
            + (call.completion_tokens - thought) * self.completion
            + thought * (self.completion if self.reasoning is None else self.reasoning)
        )


@cache
def price_table() -> dict[str, Any]:
    """Return LiteLLM's price table: name of a model → its entry."""
    spec: Any = importlib.util.find_spec("litellm")
    table: dict[str, Any] = json.loads(Path(spec.origin).with_name(_TABLE).read_text())
    return table


def known_model(model: str) -> dict[str, Any]:
    """Return the table's entry for a LiteLLM name such as `openai/gpt-4o-mini`; empty if it has
    none.
    """
    # The table lists OpenAI's and some other models without their provider.
    return price_table().get(model) or price_table().get(model.partition("/")[2]) or {}


def no_price(models: Sequence[str]) -> str:
    """Return the clause that the prices of these LMs are unknown, and why if the table does have
    them.
    """
    said = f"the price of {', '.join(models)} is unknown"
    if any(map(price_per_token, models)):
        said += " at another address than OpenAI's (--api-base, OPENAI_BASE_URL)"
    return said


def surcharge(model: str, ways: Iterable[str]) -> float:
    """Return the factor on all prices for a call that was served in these ways, such as `fast`."""
    factors = known_model(model).get("provider_specific_entry") or {}
    return math.prod(float(factors.get(way.casefold(), 1)) for way in ways)


def search_fee(model: str) -> float | None:
    """Return the price in USD of one web search by an LM; None if the table has none."""
    fees = known_model(model).get("search_context_cost_per_query") or {}
    fee = fees.get("search_context_size_low")
    if fee is None:
        return None
    return float(fee)


def price_per_token(model: str, tier: str | None = None) -> Prices | None:
    """Return the prices for a LiteLLM name such as `openai/gpt-4o-mini`, and for a service tier if
    it has its own; None if the table has none.
    """
    rates = known_model(model)
    if tier in TIERS:
        rates = _with_own(rates, f"_{tier}")
    # The table writes prices that rise with the prompt in two ways: here as ranges.
    ranges = rates.get("tiered_pricing") or ()
    prices = _prices(ranges[0] if ranges else rates)
    if prices is None:  # ranges without a price for tokens count other things
        return None
    # an LM that searches has a fee for each request, by how much it searches
    if rates.get("litellm_provider") == "perplexity" or "-search-" in model:
        prices = prices._replace(request=search_fee(model))
    steps = _steps(rates)
    if ranges:
        steps = ((later["range"][0], _prices(later)) for later in ranges[1:])
    return prices._replace(steps=tuple((above, step) for above, step in steps if step))


def _prices(rates: Mapping[str, Any]) -> Prices | None:
    prices = [None if rates.get(name) is None else float(rates[name]) for name in _NAMES]
    if None in prices[:2]:
        return None
    lasting = next((rates[name] for name in _LASTING if rates.get(name) is not None), None)
    known = Prices(*prices)  # type: ignore[arg-type]
    return known._replace(lasting_write=lasting)


def _with_own(rates: Mapping[str, Any], ending: str) -> dict[str, Any]:
    """Return the rates, in which those whose names have this ending replace those without it."""
    own = dict(rates)
    for name, value in rates.items():
        if name.endswith(ending) and value is not None:
            own[name.removesuffix(ending)] = value
    return own


def _steps(rates: Mapping[str, object]) -> Iterable[tuple[float, Prices | None]]:
    """Yield (number of prompt tokens, prices above it) for each number at which the table's prices
    change.
    """
    for thousands in sorted({int(match[1]) for match in map(_ABOVE.fullmatch, rates) if match}):
        # A price that a step does not name is that of the step below.
        rates = _with_own(rates, f"_above_{thousands}k_tokens")
        yield 1000.0 * thousands, _prices(rates)
