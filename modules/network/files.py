"""Files of a network or a training: written whole, and read or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.files import write_whole


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole. Raises UserError when it cannot be written."""
    try:
        write_whole(path, content)
    except OSError as problem:
        raise UserError(
            f"{path} cannot be written ({problem.strerror}): check the folder and its space."
        ) from None


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises UserError when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror}): name a saved network.") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises UserError when it cannot be read."""
    try:
        found = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, UserError):
            raise
        raise UserError(f"{path} is not valid JSON: name a saved network.") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} does not hold an object: name a saved network.")
    return found
