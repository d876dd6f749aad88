"""Turns values of a comparison, a compilation, a study or controls into sentences, by the one
template that holds them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from importlib.resources import files
from typing import Protocol

from jinja2 import Environment, StrictUndefined

from ...modules.statistics.clusters import FEW
from ..base.wording import counted, money, percent, signed, signed_interval
from .table import FINE


class Rated(Protocol):
    """The scores that sentences describe: shares of right answers (`is_rate`) or scores in another
    unit, with the interval of a difference.
    """

    @property
    def is_rate(self) -> bool: ...
    @property
    def interval(self) -> tuple[float, float]: ...


def say(sentence: str, *values: object) -> str:
    """Render the sentence of this name in `verdict.j2` with these values, on one line."""
    return " ".join(_said(sentence, *values).split())


class Sentence(property):
    """A property that is the sentence of this name about its owner."""

    def __init__(self, sentence: str, doc: str) -> None:
        super().__init__(partial(say, sentence))
        self.__doc__ = doc


def _said(sentence: str, *values: object) -> str:
    return str(_macro(sentence)(*values))


@cache
def _macro(name: str) -> Callable[..., str]:
    # Each is compiled when it is first said: all of them would take 75 ms.
    macro: Callable[..., str] = getattr(_environment().from_string(_macros()[name]).module, name)
    return macro


@cache
def _macros() -> dict[str, str]:
    """Return the text of every macro of the template by its name."""
    source = (files(__package__) / "verdict.j2").read_text(encoding="utf-8")
    found = re.finditer(r"{% macro (\w+).*?{% endmacro %}", source, re.DOTALL)
    return {macro[1]: macro[0] for macro in found}


@cache
def _environment() -> Environment:
    # A misspelt field would otherwise leave a hole in a sentence that people decide by.
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,  # each sentence is said once or twice, so that it would not pay
    )
    environment.filters |= {
        "counted": counted,
        "score": _score,
        "signed": _signed,
        "tenths": signed,
        "end": _end,
        "size": _size,
        "times": price_times,
        "amount": "{:,.4g}".format,
        "money": money,
        "percent": percent,
        "clusters": lambda name: "clusters" if name == "cluster" else f"clusters of {name}",
        "usd": lambda usd: f"{usd:,.0f}" if usd >= 10 else f"{usd:.2g}",
        "unit": _unit,
    }
    sentences = {name: partial(_said, name) for name in _macros()}
    environment.globals |= {"few": FEW, "interval": signed_interval, **sentences}
    return environment


def price_times(ratio: float) -> str:
    """Return a ratio of prices, such as `3.2 times`; one below 1.05 has two decimals."""
    if ratio >= 1.05:
        return f"{ratio:.1f} times"
    return f"{ratio:.2f} times"


def _score(value: float, pair: Rated) -> str:
    """Return `62%`, `62.5%`, or the score in its own unit."""
    if pair.is_rate:
        return f"{100 * value:.1f}".removesuffix(".0") + "%"
    return f"{value:.3g}"


def _signed(value: float, pair: Rated) -> str:
    """Return a difference in points, such as `+2.5` or `−4`, or in the metric's unit."""
    return signed(value, pair.is_rate).removesuffix(".0")


def _end(value: float, pair: Rated) -> str:
    """Return the end of an interval, in whole points as in the table, or with a decimal if the
    interval is narrow.
    """
    low, high = pair.interval
    if pair.is_rate and high - low >= 2 * FINE:
        return signed(value, decimals=0)
    return _signed(value, pair)


def _size(value: float, pair: Rated) -> str:
    if pair.is_rate:
        return f"{100 * value:.0f}"
    return f"{value:.2g}"


def _unit(value: float, in_dollars: bool) -> str:
    if in_dollars:
        return money(value)
    return f"{value:,.0f} tokens"
