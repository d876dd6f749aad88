"""The file of a saved program: read as plain JSON of limited size and depth, or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .errors import UserError
from .files import read_regular

FILE, MODULE = "program.json", "module.json"
LM_FILE = "lm.json"
"""The LM of agents without one, beside a saved program."""
MEASURED = "measured.json"
"""The kinds of the questions that a saved program was measured on, beside it."""
MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64
Described = dict[str, Any]
"""What a program's `describe()` gives: the settings of its constructor as JSON. Each protocol, also
one of another package, has settings of its own.
"""

ADDRESSES = frozenset(
    ("api_base", "base_url", "model_list", "api_key", "headers", "extra_headers", "default_headers")
)
"""Names under which an LM's address or key could stand; a saved program has none."""


def read_document(folder: Path, file: str = FILE) -> dict[str, Any]:
    """The JSON object in a file of the folder. Raises UserError unless it is plain JSON of limited
    size.
    """
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in (".pkl", ".pickle"))
    if pickles:
        raise UserError(
            f"{folder} holds a pickle ({pickles[0]}), which could run anything: "
            "save the program with program.save('folder/')"
        )
    path = folder / file
    if not os.path.lexists(path):
        raise UserError(
            f"the folder {folder} holds no saved program: name one that program.save wrote"
        )
    content = read_plain(path, MAX_BYTES)
    try:
        document = json.loads(content.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as problem:
        deep = isinstance(problem, RecursionError)
        what = "nested too deeply" if deep else f"not valid JSON ({problem})"
        raise UserError(f"{path} is {what}: save the program again") from None
    if not isinstance(document, dict):
        raise UserError(f"{path} holds no program: save the program again")
    check_document(document, str(path))
    return document


def read_plain(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file of at most that size, which is not a link to another place."""
    try:
        return read_regular(path, max_bytes, links=False)
    except OSError as problem:
        raise UserError(
            f"{path} cannot be read ({problem.strerror}): name the folder of a saved program, with "
            "its own files in it"
        ) from None


def check_document(document: object, where: str) -> None:
    """Raise UserError for an address or key of an LM, wherever it stands, and for too deep a
    nesting.

    The options and further columns of a demonstration's question may be called anything.
    """
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


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # JSON readers differ in which of two equal keys they take, so a check could miss one.
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key stands twice")
    return values
