"""The fields of a signature, read once a class: DSPy computes them anew at every access.

Signature classes are only ever replaced, with one exception: an optimizer may give one other
instructions, and those are not kept here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin


@dataclass(frozen=True)
class Fields:
    """The fields of a signature.

    `inputs` and `outputs` are their names in order; `options` are the values that an output field
    is limited to; `named` is what a request calls the outputs.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    named: str


@lru_cache(maxsize=256)
def fields_of(signature: Any) -> Fields:
    inputs, outputs = signature.input_fields, signature.output_fields
    named, options = [], {}
    for name, info in outputs.items():
        described = (info.json_schema_extra or {}).get("desc", "")
        hint = "" if name == "answer" or described.startswith("${") else f" ({described})"
        named.append(f'"{name}"{hint}')
        if get_origin(info.annotation) is Literal:
            options[name] = tuple(str(option) for option in get_args(info.annotation))
    return Fields(tuple(inputs), tuple(outputs), options, ", ".join(named))
