"""The registry of programs by name: the protocols in this folder, users' own, and those of other
packages.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

from ..base.errors import UserError
from ..base.registry import Registry
from .declaration import Protocol
from .program import Program


def declared(name: str, made_by: object) -> Protocol:
    """Return the protocol, under this name, of a program's class, a `dspy.Module` or a callable.
    Raises UserError for anything else.
    """
    if isinstance(made_by, Protocol):
        return replace(made_by, name=name)
    # For a class, its instances have to be callable: the class itself always is.
    called = made_by if isinstance(made_by, type) else type(made_by)
    if not any("__call__" in vars(kind) for kind in called.__mro__):
        raise UserError(
            f"{name} is not a program: name a dspy.Module, a class, or a function of a question"
        )
    if not isinstance(made_by, type):
        return Protocol(name, name, program=lambda: made_by)
    if not issubclass(made_by, Program):
        return Protocol(name, name, program=made_by)
    own: Protocol = vars(made_by).get("protocol", Protocol(name, name))
    return replace(own, name=name, example=own.example or name, program=own.program or made_by)


def _built_in() -> dict[str, Protocol]:
    """Return every class in this folder that declares a protocol."""
    package = import_module(__package__)
    protocols: dict[str, Protocol] = {}
    for part in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = import_module(part.name)
        for value in vars(module).values():
            own = vars(value).get("protocol") if isinstance(value, type) else None
            # Not in a module that only imports the class.
            if isinstance(own, Protocol) and value.__module__ == module.__name__:
                protocols[own.name] = replace(own, program=own.program or value)
    return protocols


PROTOCOLS: Registry[Protocol] = Registry("programs", declared, _built_in)


def known(name: str) -> Protocol | None:
    """Return the protocol that a program's description names: a registered one, or that of a class
    which is imported already; None without one. Nothing is imported, since the name is from a file.
    """
    registered = PROTOCOLS.find(name)
    if registered is not None:
        return registered
    module, _, attribute = name.partition(":")
    here = getattr(sys.modules.get(module), attribute, None)
    for kind in _kinds(Program):
        own = vars(kind).get("protocol")
        # The last one counts, since a notebook's cell may have defined the class again.
        if kind is here or (own is not None and own.name == name):
            registered = declared(name, kind)
    return registered


def _kinds(kind: type[Program]) -> Iterator[type[Program]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def written() -> list[str]:
    """Return the names that a short spec may begin with."""
    return [name for name in PROTOCOLS.names() if name not in PROTOCOLS or PROTOCOLS[name].example]
