"""The fields of a signature, cached per class, because DSPy computes them at every access.

That is safe because classes are replaced and not changed, except for their instructions, which some
optimizers change in place and which are not cached here.
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
    that have one; `options` the values that an output field is limited to (a `Literal`). `named`
    lists the outputs with their descriptions, as a request does. `plain` says whether all outputs
    are text or options, so that DSPy's parser of types is not needed.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: dict[str, object]
    options: dict[str, tuple[str, ...]]
    named: str
    plain: bool


@lru_cache(maxsize=256)
def fields_of(signature: dspy.SignatureMeta) -> Fields:
    """Return the fields of a signature class."""
    inputs, outputs = signature.input_fields, signature.output_fields
    named, options, plain = [], {}, True
    for name, info in outputs.items():
        described = (info.json_schema_extra or {}).get("desc", "")
        # `${name of the field}` is DSPy's description of a field that has none.
        hint = "" if name == "answer" or described.startswith("${") else f" ({described})"
        named.append(f'"{name}"{hint}')
        if get_origin(info.annotation) is Literal:
            options[name] = tuple(str(option) for option in get_args(info.annotation))
        # Another type, such as a list, is parsed by DSPy alone.
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
