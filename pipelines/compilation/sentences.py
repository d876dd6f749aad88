"""Sentences about results, each written once in a template."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from ..base.wording import counted, percent, signed


def sentence(package: str, template: str, name: str, *values: object) -> str:
    """Render the macro of this name in a room's template with these values, on one line."""
    return " ".join(str(getattr(_macros(package, template), name)(*values)).split())


@cache
def _macros(package: str, template: str) -> Any:
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "counted": counted,
        "percent": percent,
        "signed": signed,
        "share": "{:.0%}".format,
        "comma": "{:,}".format,
    }
    return environment.from_string((files(package) / template).read_text(encoding="utf-8")).module
