"""The fields of a signature, read once per class, since DSPy computes them at every access.

Signature classes are only ever replaced, with one exception: an optimizer may give one other
instructions, and those are not kept here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args, get_origin

import dspy
from pydantic_core import PydanticUndefined


@dataclass(frozen=True)
class Fields:
    """The fields of a signature.

    `inputs` and `outputs` are their names in order; `defaults` holds the values of input fields
    that have one; `options` the values that an output field is limited to; `named` are the outputs'
    names in a request; `plain` says whether all outputs are text or options, so that no type of
    DSPy's own needs to be decoded.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: dict[str, object]
    options: dict[str, tuple[str, ...]]
    named: str
    plain: bool


@lru_cache(maxsize=256)
def fields_of(signature: dspy.SignatureMeta) -> Fields:
    inputs, outputs = signature.input_fields, signature.output_fields
    named, options, plain = [], {}, True
    for name, info in outputs.items():
        described = (info.json_schema_extra or {}).get("desc", "")
        # DSPy describes a field by `${its name}` where nobody else has.
        hint = "" if name == "answer" or described.startswith("${") else f" ({described})"
        named.append(f'"{name}"{hint}')
        if get_origin(info.annotation) is Literal:
            options[name] = tuple(str(option) for option in get_args(info.annotation))
        # Such as a list: only DSPy's own parser turns text into it.
        elif info.annotation is not str:
            plain = False
    return Fields(
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        defaults={
            name: info.default
            for name, info in inputs.items()
            if info.default is not PydanticUndefined
        },
        options=options,
        named=", ".join(named),
        plain=plain and not any(info.metadata for info in outputs.values()),
    )
