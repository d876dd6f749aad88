"""Files of a network or a training: written whole, and read or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.files import write_whole
from ..base.saved_file import read_plain

MOST_BYTES = 2**30


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole. Raises UserError when it cannot be written."""
    try:
        write_whole(path, content)
    except OSError as problem:
        raise UserError(
            f"{path} cannot be written ({problem.strerror}): check the folder and its space."
        ) from None


def read_json(path: Path, most: int = MOST_BYTES) -> dict[str, Any]:
    """The object in a JSON file of so many bytes at most. Raises UserError when it cannot
    be read.
    """
    try:
        found = json.loads(read_plain(path, most))
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, UserError):
            raise
        raise UserError(f"{path} is not valid JSON: name a saved network.") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} does not hold an object: name a saved network.")
    return found
