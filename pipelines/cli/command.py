"""A command of the command line, and the registry of those that attached rooms bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...modules.base.errors import UserError
from ...modules.base.registry import Registry
from ..base.request import CommandOption, Request, command_options
from .options import View


class Command(NamedTuple):
    """A command of the command line.

    Args:
        request: what a user asks for; its fields are options, its docstring is the help.
        view: the options of the command line alone.
        run: carries out a request; it imports what is slow.
    """

    request: type[Request]
    view: type[View]
    run: Callable[[Any, Any], None]

    @property
    def options(self) -> dict[str, CommandOption]:
        """The options by field, those of the request first."""
        return {**command_options(self.request), **command_options(self.view)}

    @property
    def for_example(self) -> str:
        return f"for example folkmoot {self.request.example}"


def _checked(name: str, thing: Any) -> Command:
    if not isinstance(thing, Command):
        raise UserError(f"{name} is not a command: name a Command of folkmoot.pipelines.cli")
    return thing


ATTACHED: Registry[Command] = Registry("commands", _checked)
"""The commands of attached rooms and of other packages, by their entry points."""
