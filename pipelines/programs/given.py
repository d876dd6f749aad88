"""What a user gives for a program: the program itself, its name, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ...modules.base.errors import UserError
from ...modules.base.yaml_file import StrictLoader
from ...modules.protocols.program import Program
from ..base.request import Pairs


def program_given(program: object, inputs: Mapping[str, str] | None = None) -> Program:
    """The program that a user gives, in Python: one of folkmoot's, a spec or folder, a
    `dspy.Module` of any kind, or a callable; the last two take `inputs`, their field → the
    question's.

    Raises UserError for anything else.
    """
    if isinstance(program, str | Path):
        from .resolve import program_of

        program = program_of(program)
    if isinstance(program, Program) and not inputs:
        return program
    if isinstance(program, type):
        raise UserError(f"{program.__name__} is a class: give an instance, {program.__name__}()")
    if not callable(program):
        raise UserError(
            f"{type(program).__name__} is not a program: give one such as fm.SingleAgent(), a "
            "dspy.Module, a function of a question, a spec such as 'single:cot', or a result's "
            ".program"
        )
    from .own import own_program

    if not isinstance(program, Program):
        return own_program(program, inputs)
    if not program.foreign:
        raise UserError(
            f"inputs are for programs of your own: a {type(program).__name__} knows its fields"
        )
    return own_program(program.as_given, inputs, getattr(program, "spec", None))


def parse_sets(pairs: Pairs) -> dict[str, object]:
    """Constructor parameters: `KEY=VALUE` pairs, each value read as YAML (`2`, `true`, `[a, b]`,
    `text`), or a mapping as it is.
    """
    if isinstance(pairs, Mapping):
        return dict(pairs)
    parameters: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, value = map(str.strip, pair.partition("="))
        if not equals or not key:
            raise UserError(
                f"--set {pair!r} is not a KEY=VALUE pair: write for example --set max_rounds=2"
            )
        if key in parameters:
            raise UserError(f"{key} is given twice, by --set or an option of its name: keep one")
        try:
            parameters[key] = yaml.load(value, Loader=StrictLoader)
        except yaml.YAMLError:
            raise UserError(
                f"--set {pair!r}: the value is not valid YAML; quote it as {key}='\"…\"'"
            ) from None
    return parameters
