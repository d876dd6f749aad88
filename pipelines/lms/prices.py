"""What tokens cost: LiteLLM's price table, read as data so that importing litellm is not needed."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

Prices = tuple[float, float] | None
"""USD per prompt token and per completion token; None where they are not known."""

_TABLE = "model_prices_and_context_window_backup.json"


@cache
def _prices() -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return {}
    for folder in spec.submodule_search_locations:
        path = Path(folder) / _TABLE
        if path.is_file():
            table: dict[str, Any] = json.loads(path.read_text())
            return table
    return {}


def price_per_token(model: str) -> Prices:
    """USD per prompt token and per completion token of a LiteLLM name such as `openai/gpt-4o-mini`.

    None when the table does not price it.
    """
    table = _prices()
    for name in (model, model.partition("/")[2]):
        entry = table.get(name)
        if entry and "input_cost_per_token" in entry and "output_cost_per_token" in entry:
            return float(entry["input_cost_per_token"]), float(entry["output_cost_per_token"])
    return None
