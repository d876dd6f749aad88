"""Starts Python processes that import nothing from the working folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""The environment of such a process; without it, `python -m` and `-c` look for modules in the
working folder.
"""


@contextmanager
def safe_path() -> Iterator[None]:
    """Give this environment to every process that is started in the block, by any library."""
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
