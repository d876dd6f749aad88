"""Starts Python processes that import nothing from the working folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""The environment of such a process: otherwise, `python -m` and `-c` import modules from the
working folder.
"""


@contextmanager
def safe_path() -> Iterator[None]:
    """Start all processes in the block, also those that libraries start, with `SAFE_PATH`."""
    (name,) = SAFE_PATH
    before = os.environ.get(name)
    os.environ |= SAFE_PATH
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
