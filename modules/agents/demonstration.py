"""The worked demonstration of one-shot prompting: one question a data set, solved as every seat
would.
"""

from __future__ import annotations

from typing import Any

import dspy

from ...signatures.examples import WORKED, Worked
from ..base.errors import UserError


def worked_example(name: str) -> Worked:
    """The worked question of that name. Raises UserError naming those there are."""
    if name not in list(WORKED):
        raise UserError(
            f"there is no worked demonstration {name!r}: choose one of {', '.join(WORKED)}"
        )
    return WORKED[name]


def demo_of(worked: Worked, signature: type[Any], **more: Any) -> dspy.Example:
    """The worked question as a DSPy demo of a seat with this signature.

    `more` are notes and outputs that are this seat's own. Raises UserError when nothing is written
    for one of its outputs.
    """
    fields = {**worked.fields, "answer": worked.answer, **more}
    missing = [name for name in signature.output_fields if name not in fields]
    if missing:
        raise UserError(
            f"the worked demonstrations say nothing for the field {missing[0]!r}: use labelled "
            f"demos instead"
        )
    outputs = {name: fields[name] for name in signature.output_fields}
    notes = (
        {"notes": more["notes"]} if "notes" in more and "notes" in signature.input_fields else {}
    )
    return dspy.Example(**worked.inputs, **notes, **outputs)
