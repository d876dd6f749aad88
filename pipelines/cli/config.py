"""Defaults of the command line, from the user's own `folkmoot.toml`.

A file in the working folder may come from somebody else, so none is read there.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_origin

from typer.models import OptionInfo

from ...modules.base.errors import UserError, system_errors
from ...modules.base.files import read_regular
from ...modules.base.keyed import without
from ..base.request import Default, Request, Seats
from .command import Command, CommandOption, options_of_file

FILE = "folkmoot.toml"
MOST_BYTES = 2**20
EVERY, LM = "*", "FOLKMOOT_LM"
PAIRS = ("lm", "api_base", "lm_set", "sets", "price", "columns")
NEVER = ("yes",)  # whoever starts a run agrees to its price
_SECRET = re.compile(
    r"(?i)\bsk-[\w-]{12,}|://[^/@\s]*:[^/@\s]*@|(?:api_?key|password|secret)[\"']?\s*[=:]"
)


def defaults(command: str, commands: Mapping[str, Command]) -> dict[str, Default]:
    """Return the values of a command's options in the user's own file, by field name: first those
    for all commands, then those of the command's table. Raises UserError, naming file and key, for
    unknown options, for values that are invalid, and for keys and passwords.
    """
    path = own_file()
    contents = _contents(path)
    named = {name: _named(other.options) for name, other in commands.items()}
    mine, everywhere = named[command], dict(ChainMap(named[command], *named.values()))
    own = commands[command].request.own_defaults
    chosen: dict[str, Default] = {}
    for place, entries, known in (
        (str(path), without(contents, named), everywhere),
        (f"{path} [{command}]", contents.get(command, {}), mine),
    ):
        if not isinstance(entries, dict):
            raise UserError(f"{path}: {command} is a command: write its options under [{command}]")
        entries = {key.replace("-", "_"): value for key, value in entries.items()}
        for name, value in entries.items():
            if _SECRET.search(str(value)):  # before anything shows it
                raise UserError(
                    f"{place}: {name} holds a key or password, which no file may: set it in the "
                    "environment"
                )
        for name, value in options_of_file(place, entries, known, path.parent).items():
            option = known[name]
            if isinstance(value, Mapping):
                value = [f"{key}={part}" for key, part in value.items()]
            elif get_origin(option.type) is list and not isinstance(value, list):
                value = [value]
            field = option.field.name
            if name in mine and (known is mine or field not in own):
                chosen[field] = Default(value, place)
    return chosen


def own_file() -> Path:
    """Return the path of the user's own configuration file, by the XDG rules."""
    root = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(root):
        root = os.path.expanduser("~/.config")
    return Path(root, "folkmoot", FILE)


def _named(options: Mapping[str, CommandOption]) -> dict[str, CommandOption]:
    """Return a command's options by their long names, as files spell them; not its arguments."""
    return {
        value.long_name.partition("/")[0][2:].replace("-", "_"): value
        for value in options.values()
        if isinstance(value.info, OptionInfo) and value.field.name not in NEVER
    }


def apply_defaults(
    request: Request, chosen: Mapping[str, Default], on_line: Callable[[str], bool]
) -> None:
    """Note which options have a default from a file, and join the pairs (`PAIRS`) of file and
    command line; the command line takes precedence.

    Args:
        request: the request, with `chosen` in place of options that are not on the
            command line.
        chosen: the result of `defaults`.
        on_line: whether a field is on the command line.

    FOLKMOOT_LM takes precedence over a file's LM for every agent; without either, the embedded LM
    is the default.
    """
    for name, (value, place) in chosen.items():
        if not hasattr(request, name):  # options of the view
            continue
        if name in PAIRS and on_line(name):
            typed = getattr(request, name)
            value = _others(name, value, typed)
            setattr(request, name, [*value, *typed])
        if value != [] and (name in PAIRS or not on_line(name)):
            request.defaults[name] = Default(value, place)
    if isinstance(request, Seats) and "lm" not in request.own_defaults:
        _take_lm(request)


def _take_lm(request: Seats) -> None:
    """Add the LM for every agent that none is named for."""
    from ..lms.named import default_lm

    lm = default_lm()
    noted = request.defaults.get("lm", Default([], ""))
    names: Any = request.lm or []
    typed = names[len(noted.value) :]
    if os.environ.get(LM):
        place = ", ".join(filter(None, [noted.place, LM]))
        noted = Default(_others("lm", noted.value, [lm]), place)
    if EVERY not in {_key("lm", pair) for pair in (*noted.value, *typed)}:
        request.lm = [*noted.value, *typed, lm]
        request.defaults["lm"] = Default([*noted.value, lm], noted.place)


def default_lines(request: Request) -> list[str]:
    """Return the defaults from files or the environment, with their source, in at most one line."""
    lines = []
    for name, (value, place) in request.defaults.items():
        if place:  # empty for folkmoot's own defaults
            shown = value
            if isinstance(value, list):
                shown = ", ".join(value)
            lines.append(f"{name.replace('_', '-')} = {shown} ({place})")
    return ["; ".join(lines)] if lines else []


def _key(name: str, pair: str) -> str:
    """Return the key of a pair: an agent for LMs and addresses, else the text before the equals
    sign.
    """
    if name not in ("lm", "api_base"):
        return pair.partition("=")[0].strip()
    seat, mark, _ = pair.partition("=")
    return seat if mark and not {"/", ":"} & {*seat} else EVERY


def _others(name: str, pairs: Iterable[str], first: Iterable[str]) -> list[str]:
    """Return the pairs without those whose key a pair of `first` has."""
    taken = {_key(name, pair) for pair in first}
    return [pair for pair in pairs if _key(name, pair) not in taken]


def _contents(path: Path) -> dict[str, object]:
    """Return folkmoot's settings in a file; none where it is missing."""
    if not os.path.exists(path):
        return {}
    with system_errors(path, "correct or move it", "cannot be read"):
        content = read_regular(path, MOST_BYTES)
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is not TOML ({problem}): correct it") from None
