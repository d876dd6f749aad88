"""Defaults of the command line, from the user's own `folkmoot.toml`.

A file in the working folder may come from somebody else, so none is read there.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_origin

from typer.models import OptionInfo

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.files import read_regular
from ..base.request import Default, Request, Seats
from .command import Command, CommandOption

FILE = "folkmoot.toml"
MOST_BYTES = 2**20
EVERY, LM = "*", "FOLKMOOT_LM"
PAIRS = ("lm", "api_base", "lm_set", "sets", "price", "columns")
NEVER = ("yes", "team")  # each run needs its user's consent to the price, and its own programs
# Options that may name code, so that a file may hold only plain words for them.
CODE = ("metric", "optimizer", "environment", "sets")
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential")
_SECRET = re.compile(
    r"(?i)\bsk-[\w-]{12,}|://[^/@\s]*:[^/@\s]*@|(?:api_?key|password|secret)[\"']?\s*[=:]"
)
# No colon, quote, brace, backslash or control character.
_PLAIN = re.compile(r"[\w .,+@$%=/\[\]-]*")


def defaults(command: str, commands: Mapping[str, Command]) -> dict[str, Default]:
    """Return the values of a command's options in the user's own file, by field name. Raises
    UserError, naming file and key, for unknown options, for values that are invalid or not allowed
    in a file, and for keys and passwords.
    """
    contents = _contents(own_file())
    return _options(own_file(), contents, command, commands) if contents else {}


def own_file() -> Path:
    """Return the path of the user's own configuration file, by the XDG rules."""
    root = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(root):
        root = os.path.expanduser("~/.config")
    return Path(root, "folkmoot", FILE)


def _options(
    path: Path,
    contents: Mapping[str, object],
    command: str,
    commands: Mapping[str, Command],
) -> dict[str, Default]:
    """Return a file's values of a command's options: those for all commands, replaced by those in
    the command's table.
    """
    own = commands[command].request.own_defaults
    named = {name: _named(other.options) for name, other in commands.items()}
    everywhere = {key: option for options in named.values() for key, option in options.items()}
    everywhere |= named[command]
    tables: dict[str, Any] = {"": {}}
    for key, value in contents.items():
        if key in named and type(value) is dict:
            tables[key] = value
        else:
            tables[""][key] = value
    chosen: dict[str, Default] = {}
    for table, entries in tables.items():
        options, others, header, place = everywhere, named, "", str(path)
        if table:
            options, others, header = named[table], {}, f" [{table}]"
            place += header
        for key, value in entries.items():
            name, where = key.replace("-", "_"), f"{path}:{header} {key}"
            if name not in options:
                raise UserError(_unknown(where, name, options, others))
            # Also of tables of other commands: a mistake should show at the first opportunity.
            value = _checked(where, path, options[name], value)
            mine = named[command].get(name)
            if mine and (table == command or (not table and name not in own)):
                chosen[mine.field.name] = Default(value, place)
    return chosen


def _named(options: Mapping[str, CommandOption]) -> dict[str, CommandOption]:
    """Return a command's options by their long names, as files spell them; not its arguments."""
    return {
        value.long_name.partition("/")[0][2:].replace("-", "_"): value
        for value in options.values()
        if isinstance(value.info, OptionInfo)
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
    seated = isinstance(request, Seats) and "lm" not in request.own_defaults
    lm = None
    if seated:
        lm = _environment_lm()
    for name, (value, place) in chosen.items():
        if not hasattr(request, name):  # options of the view
            continue
        if name in PAIRS:
            given = getattr(request, name) or []  # other options may have added to it
            typed = [item for item in given if on_line(name) or item not in value]
            first = list(typed)
            if name == "lm" and lm:
                first.append(lm)
            value = _others(name, value, first)
            setattr(request, name, [*value, *typed])
        if value != [] and (name in PAIRS or not on_line(name)):
            request.defaults[name] = Default(value, place)
    if seated and isinstance(request, Seats):
        names: Any = request.lm or []
        if EVERY not in {_key("lm", pair) for pair in names}:
            from ..lms.named import default_lm

            before = request.defaults.get("lm", Default([], ""))
            last = lm or default_lm()
            place = before.place
            if lm:
                place = ", ".join(filter(None, [place, LM]))
            request.lm = [*names, last]
            request.defaults["lm"] = Default([*before.value, last], place)


def default_lines(request: Request) -> list[str]:
    """The defaults from files or the environment, with their source, in at most one line."""
    lines = []
    for name, (value, place) in request.defaults.items():
        if place:  # empty for folkmoot's own defaults
            shown = value
            if isinstance(value, list):
                shown = ", ".join(value)
            lines.append(f"{name.replace('_', '-')} = {shown} ({place})")
    return ["; ".join(lines)] if lines else []


def _environment_lm() -> str | None:
    from ..base.settings import settings  # imports pydantic, which --help does not need

    # An error in another variable is reported where that variable is needed.
    with suppress(UserError):
        return settings().lm
    return None


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
    """Return the settings in a file; none if it is missing."""
    if not os.path.exists(path):
        return {}
    try:
        return tomllib.loads(read_regular(path, MOST_BYTES).decode())
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror}): correct or move it") from None
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is not TOML ({problem}): correct it") from None


def _unknown(where: str, name: str, options: Iterable[str], commands: Collection[str]) -> str:
    if name in commands:
        return f"{where} is a command: write its options under [{name}]"
    if _SECRET_NAME.search(name):
        return (
            f"{where} looks like a key, which no file may hold: set it in the environment instead"
        )
    hint = did_you_mean(name, [*options, *commands])
    return f"{where} is not an option{hint}: correct it, or drop it"


def _checked(where: str, path: Path, option: CommandOption, value: Any) -> Any:
    """Return the value in the type of the option. Raises UserError if it does not fit."""
    if option.field.name in NEVER:
        raise UserError(f"{where} is for the command line: drop it")
    many = get_origin(option.type) is list
    values = []
    for item in value if many and isinstance(value, list) else [value]:
        if isinstance(item, str):  # a key is refused before anything shows it
            _check_text(where, option.field.name, item)
            item = option.placed(item, path.parent)
        option.check(where, item)
        values.append(item)
    return values if many else values[0]


def _check_text(where: str, field: str, text: str) -> None:
    """Raise UserError for a text that no file may hold."""
    if _SECRET.search(text):
        raise UserError(
            f"{where} holds a key or password, which no file may: set it in the environment"
        )
    if field in CODE and not _PLAIN.fullmatch(text):
        raise UserError(f"{where} could name code, which no file may: give it on the command line")
