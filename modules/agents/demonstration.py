"""The worked demonstration of one-shot prompting: one question with a reply for every agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import dspy
from pydantic import TypeAdapter, ValidationError

from ...signatures.examples import Worked, worked_examples
from ..base.errors import UserError, first_fault
from ..base.yaml_file import read_yaml
from ..reading.question import INPUTS, from_row

Demonstration: TypeAlias = str | Path | Mapping[str, object]
"""The name of a built-in worked question, the path of a YAML or JSON file with one, or the content
of such a file.
"""


def worked_example(demonstration: str | Path | Mapping[str, object]) -> Worked:
    """Return the worked question that a user names or gives. Raises UserError naming what is
    wrong.
    """
    known = worked_examples()
    if isinstance(demonstration, str) and demonstration in known:
        return known[demonstration]
    where, content = "demonstration", demonstration
    if isinstance(demonstration, str | Path):
        where = str(demonstration)
        if Path(where).suffix.casefold() not in (".yaml", ".yml", ".json"):
            raise UserError(
                f"there is no worked demonstration {where!r}: choose one of {', '.join(known)}, "
                "or give the path of a YAML or JSON file"
            )
        content = read_yaml(Path(where).expanduser(), "worked question", "question: …")
    if not isinstance(content, Mapping):
        raise UserError(f"{where} is {content!r}: give a worked question, or the path of its file")
    return _checked(where, content)


def held(demonstration: Demonstration | None) -> str | dict[str, object] | None:
    """Return a demonstration as it is saved with a program: its built-in name, or its whole
    content; None stays None.
    """
    if demonstration is None or (
        isinstance(demonstration, str) and demonstration in worked_examples()
    ):
        return demonstration
    return {key: value for key, value in vars(worked_example(demonstration)).items() if value}


def _checked(where: str, content: Mapping[str, object]) -> Worked:
    """Return the worked question in the content of a file: a question with its answer, as in any
    data, and what replies say of it. Raises UserError.
    """
    question = from_row({"id": "demonstration", **content}, where)
    of_question = {name: question[name] for name in (*INPUTS, "answer")}
    try:
        return TypeAdapter(Worked).validate_python({**content, **of_question})
    except ValidationError as problem:
        raise UserError(
            f"{where}: {first_fault(problem)}; give question, answer and fields "
            "(output field → text), or let an LM write the file: fm.worked(question, lm=…)"
        ) from None


def demo_of(worked: Worked, signature: type[dspy.Signature], **more: object) -> dspy.Example:
    """Return the worked question as a DSPy demo for an agent with this signature.

    `more` are notes and output fields for this agent alone. Raises UserError if an output field of
    the signature has no text.
    """
    fields = {**worked.fields, "answer": worked.answer, **more}
    missing = [name for name in signature.output_fields if name not in fields]
    if missing:
        raise UserError(
            f"the worked question says nothing for the field {missing[0]!r}: "
            "add it under fields, or use labelled demos instead"
        )
    outputs = {name: fields[name] for name in signature.output_fields}
    has_notes = "notes" in more and "notes" in signature.input_fields
    notes = {"notes": more["notes"]} if has_notes else {}
    return dspy.Example(**worked.inputs, **notes, **outputs)
