"""Lines of JSON for files and requests: orjson, and Python's own encoder for what it does not take."""

from __future__ import annotations

import json
from typing import Any

import orjson


def to_json(value: Any) -> bytes:
    """UTF-8 without line ends; lone halves of surrogate pairs, which UTF-8 lacks, as escapes.

    Raises TypeError for what JSON cannot hold.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # also for surrogates, and for whole numbers beyond 64 bits
        return json.dumps(value).encode()


def to_line(value: Any) -> bytes:
    return to_json(value) + b"\n"
