"""Python processes that are started here: they import nothing from the working folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""The environment of such a process: `python -m` and `-c` would else look for modules where it
starts.
"""


@contextmanager
def safe_path() -> Iterator[None]:
    """Every process that is started in the block, by whatever library, has that environment."""
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
