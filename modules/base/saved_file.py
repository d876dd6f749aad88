"""The files of a saved program: their names, and what may not stand in them."""

from __future__ import annotations

from typing import Any

from .errors import UserError

FILE, MODULE = "program.json", "module.json"
LM_FILE = "lm.json"
"""The LM of those agents that have none of their own; in the folder of a saved program."""
MEASURED = "measured.json"
"""The kinds of questions that a saved program was measured on; in its folder."""
MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64
Described = dict[str, Any]
"""What a program's `describe()` returns: the arguments of its constructor as JSON. Each protocol,
also one of another package, has its own.
"""

ADDRESSES = frozenset(
    ("api_base", "base_url", "model_list", "api_key", "headers", "extra_headers", "default_headers")
)
"""Names under which an LM's address or key could stand; a saved program has none."""


def check_document(document: object, where: str) -> None:
    """Raise UserError for an address or key of an LM anywhere in the document, and for too deep a
    nesting.

    Only the options and the `meta` of a demonstration's question may have keys of any name.
    """
    # A list and not recursion, which a deeply nested document would overflow.
    waiting = [(document, 1, False, False)]
    while waiting:
        value, depth, demo, any_names = waiting.pop()
        if depth > MAX_DEPTH:
            raise UserError(
                f"{where} is nested too deeply: a saved program has {MAX_DEPTH} levels at most"
            )
        if isinstance(value, list):
            waiting += [(item, depth + 1, demo, any_names) for item in value]
        elif isinstance(value, dict):
            named = set() if any_names else ADDRESSES.intersection(value)
            if named:
                raise UserError(
                    f"{where} has {min(named)!r}, an address or key of an LM: take it out, and "
                    "give addresses when loading, with lms={…} or --api-base AGENT=URL"
                )
            for key, item in value.items():
                users_own = demo and key in ("choices", "meta")
                waiting.append((item, depth + 1, demo or key == "demos", any_names or users_own))
