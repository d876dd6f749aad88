"""Roles of the user's own, with tools and LMs in place of their texts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.registry import names_from
from ...modules.base.saved_file import check_document
from ...modules.base.yaml_file import read_yaml
from ...modules.protocols.roles import HERE, ROLES, Role, roles_given
from ..lms.named import lm
from .build import MakeLM, environment_of

INSTEAD = "with --set: environment=… for a tool, own_roles='{NAME: module:Class}' for a role"
"""Advice on how a user can give a name of code that a file of roles may not hold."""


def roles(given: Any, *, make_lm: MakeLM = lm) -> dict[str, Role]:
    """Roles of your own by name, for `own_roles`.

    Args: given: the path of a YAML file, or what such a file holds: by name, `instruction`,
        `outputs` (field: description; `answer` is the last), `tools` (such as `corpus:PATH`,
        `environment` for the program's own, or in Python `module:function`), `lm` and `repeats`.
        In Python also signatures, and functions of a query as tools.

    Raises UserError naming the file and the role.
    """
    if not isinstance(given, str | Path):
        return _roles(given, make_lm)
    content = _content(given)
    try:
        with names_from(given, INSTEAD):
            return _roles(content, make_lm)
    except UserError as problem:
        if str(given) in str(problem):
            raise
        raise UserError(f"{given}: {problem}") from None


def role_document(given: Any, make_lm: MakeLM = lm) -> dict[str, Any]:
    """What a user gives as roles, without a file: its content, once it is checked."""
    roles(given, make_lm=make_lm)
    return dict(_content(given) if isinstance(given, str | Path) else given)


def _content(file: str | Path) -> dict[str, Any]:
    content = read_yaml(Path(file).expanduser(), "role", "lawyer: {instruction: …, outputs: …}")
    check_document(content, str(file))
    return content


def _roles(given: Any, make_lm: MakeLM) -> dict[str, Role]:
    if isinstance(given, Mapping):
        given = {name: _made(name, thing, make_lm) for name, thing in given.items()}
    return roles_given(given)


def _made(name: Any, thing: Any, make_lm: MakeLM) -> Any:
    """What is said of a role with signatures, tools and LMs in place of their names."""
    if isinstance(thing, str) and thing != name:
        named = ROLES.spec(thing)
        return thing if named is None else named.thing
    if not isinstance(thing, Mapping):
        return thing
    made = dict(thing)
    if "signature" in made:
        made["signature"] = _made(name, made["signature"], make_lm)
    if "tools" in made:
        tools = [made["tools"]] if isinstance(made["tools"], str) else made["tools"]
        if not isinstance(tools, list | tuple):
            raise UserError(f"the role {name!r} has tools that are no list: write [corpus:PATH]")
        made["tools"] = [
            tool if tool == HERE or callable(tool) else environment_of(tool) for tool in tools
        ]
    if isinstance(made.get("lm"), str):
        seated = {"seat": name} if "seat" in inspect.signature(make_lm).parameters else {}
        made["lm"] = make_lm(made["lm"], **seated)
    return made
