"""Roles of the user's own, with tools and LMs in place of their texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.registry import names_from
from ...modules.base.saved_file import check_document
from ...modules.base.yaml_file import read_yaml
from ...modules.protocols.roles import HERE, ROLES, Role, roles_given
from ..lms.named import lm_for
from .build import MakeLM, environment_of

INSTEAD = (
    "with --set environment=… too (a tool), or --set own_roles='{NAME: module:Class}' (a role)"
)
"""Advice on how a user can give a name of code that a file of roles may not hold."""


def roles(given: Any, *, make_lm: MakeLM = lm_for) -> dict[str, Role]:
    """Return roles of your own by name, for `own_roles`.

    Args:
        given: a YAML file, or what it holds: by name, `instruction`, `outputs` (field: description;
            `answer` is the last), `tools` (such as `corpus:PATH`, or `environment` for the
            program's own), `lm` and `repeats`. In Python also signatures, and functions of a query
            as tools.

    Raises UserError naming the file and the role.
    """
    document = role_document(given)
    file = None if document is given else str(given)
    try:
        with names_from(file, INSTEAD):
            if isinstance(document, Mapping):
                document = {
                    name: _resolve_names(name, said, make_lm) for name, said in document.items()
                }
            return roles_given(document)
    except UserError as problem:
        if file is None or file in str(problem):
            raise
        raise UserError(f"{file}: {problem}") from None


def role_document(given: object) -> object:
    """Return what the file of that path says, or what is no path as it is. Raises UserError."""
    if not isinstance(given, str | Path):
        return given
    such = "lawyer: {instruction: …, outputs: {answer: …}}"
    document = read_yaml(Path(given).expanduser(), "role", such)
    check_document(document, str(given))
    return document


def _resolve_names(name: object, thing: object, make_lm: MakeLM) -> object:
    """Return what is said of a role with the signature, tools and LM in place of their names."""
    if isinstance(thing, str) and thing != name:
        named = ROLES.spec(thing)
        if named is None:
            return thing
        return named.thing
    if not isinstance(thing, Mapping):
        return thing
    made, tools = dict(thing), thing.get("tools", [])
    if not isinstance(tools, list | tuple):
        raise UserError(f"the role {name!r} has tools that are not a list: write [corpus:PATH]")
    made["tools"] = [
        tool if tool == HERE or callable(tool) else environment_of(tool) for tool in tools
    ]
    if isinstance(made.get("lm"), str):
        made["lm"] = make_lm(made["lm"], seat=name)
    return made
