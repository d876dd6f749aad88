"""Long tables of cases: by day a part of them, at night all."""

from collections.abc import Iterable
from typing import Any

import pytest


def some_by_day(cases: Iterable[Any], every: int = 2) -> list[Any]:
    """The cases, of which by day only one in so many is tried."""
    marked = []
    for place, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = pytest.mark.nightly if place % every else ()
        marked.append(pytest.param(*values, marks=marks))
    return marked
