"""Programs of the user's own: modules, functions and commands, metered where they ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.registry import refuse_from_file
from ...modules.protocols.foreign import COMMAND, ENDPOINT, FOLDER, Foreign, asks_for


def own_program(
    module: object, inputs: Mapping[str, str] | None = None, spec: str | None = None
) -> Foreign:
    """Return a user's own module or callable as a program, metered where it asks for an
    endpoint.
    """
    if not asks_for(module, ENDPOINT) and not asks_for(module, FOLDER):
        return Foreign(module, inputs, spec)
    from ..meter.programs import Metered

    return Metered(module, inputs, spec)


def command_named(text: str, parameters: Mapping[str, Any]) -> Foreign:
    """Return the command that a user names as `cmd:COMMAND`. Raises UserError where a file names
    it.
    """
    # A file of somebody else's must not start programs.
    refuse_from_file(f"the command {text!r}")
    unknown = sorted(parameters.keys() - {"timeout", "pass_env", "cwd"})
    if unknown:
        raise UserError(f"a command has no {unknown[0]!r}: it takes timeout, pass_env and cwd")
    from ..meter.programs import Command

    return Command(text.removeprefix(COMMAND).strip(), **parameters)
