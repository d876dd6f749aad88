"""Long tables of cases: by day a part of them, at night all."""

from collections.abc import Container, Iterable
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


def these_by_day(names: Iterable[str], by_day: Container[str]) -> list[Any]:
    """The names, of which by day only these are tried."""
    night = pytest.mark.nightly
    return [pytest.param(name, marks=() if name in by_day else night) for name in names]
