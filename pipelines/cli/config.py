"""Defaults of the command line, from `folkmoot.toml` or `[tool.folkmoot]` of `pyproject.toml`."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from typer.models import OptionInfo

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.files import read_regular
from ..base.request import CommandOption, Default, Request, Seats

FILE, SHARED = "folkmoot.toml", "pyproject.toml"
MOST_BYTES = 2**20
EVERY, LM = "*", "FOLKMOOT_LM"
PAIRS = ("lm", "api_base", "lm_set", "sets", "price", "columns")
NEVER = ("yes", "team")  # who starts a run agrees to its price, and names its programs
_TAKEN: dict[type, tuple[Any, str]] = {
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    bool: (bool, "true or false"),
}
_SECRET_NAME = re.compile(r"key|token|secret|passw|credential")
_SECRET = re.compile(r"(?i)\bsk-[\w-]{12,}|://[^/@\s]*:[^/@\s]*@|(?:api_?key|password|secret)[\"']?\s*[=:]")
_URL = re.compile(r"\w+://(?!(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?:[:/]|$)|/)")
_WIKI = re.compile(r"wikipedia:(?!(?:[a-z0-9-]+\.)*wikipedia\.org(?![\w.@:-]))", re.IGNORECASE)
_PLACE = re.compile(r"([^\W\d]\w*)(?:\.\w+)*:[^\W\d]")
_PLAIN = re.compile(r"[\w.]+=[\w.,\[\] +-]*")


def defaults(
    command: str, commands: Mapping[str, Mapping[str, CommandOption]], request: type[Request]
) -> dict[str, Default]:
    """What the nearest configuration file says of a command's options, by the names of their fields.

    Raises UserError, naming file and key, for what no command has, values that cannot be, keys and passwords,
    and whatever could run code or send questions and keys to another host: a folder may be somebody else's.
    """
    try:
        path, said = _nearest(Path.cwd())
    except FileNotFoundError:  # the working folder is gone
        return {}
    if not said:
        return {}
    known = {name: _named(options) for name, options in commands.items()}
    everywhere = {key: one for options in known.values() for key, one in options.items()}
    shown = path.name if path.parent == Path.cwd() else str(path)
    tables = {key: value for key, value in said.items() if key in known and isinstance(value, dict)}
    found: dict[str, Default] = {}
    for table, given in {"": {key: said[key] for key in said if key not in tables}, **tables}.items():
        for key, value in given.items():
            name, where = key.replace("-", "_"), f"{shown}: {f'[{table}] ' if table else ''}{key}"
            options = known.get(table, everywhere)
            if name not in options:
                raise UserError(_unknown(where, name, options, () if table else known))
            one = known[command].get(name)
            value = _checked(where, path.parent, options[name] if table else one or options[name], value)
            if one and (table == command or (not table and name not in request.own_defaults)):
                found[one.field] = Default(value, f"{shown}{f' [{table}]' if table else ''}")
    return found


class _Option(NamedTuple):
    field: str
    kind: Any
    info: Any


def _named(options: Mapping[str, CommandOption]) -> dict[str, _Option]:
    """A command's options by what a file calls them: their long names; arguments are not options."""
    return {
        one.long_name.partition("/")[0][2:].replace("-", "_"): _Option(field, one.type, one.info)
        for field, one in options.items()
        if isinstance(one.info, OptionInfo)
    }


def settle(request: Request, found: Mapping[str, Default], on_line: Callable[[str], bool]) -> None:
    """Note which options have a default, and join the two where both are pairs: the command line goes first.

    Args:
        request: with `found` in place of options that are not on the command line.
        found: what `defaults` gave.
        on_line: whether a field is on the command line.

    FOLKMOOT_LM goes before what a file says of every seat; without either, the embedded LM is the default.
    """
    seated = isinstance(request, Seats) and "lm" not in request.own_defaults
    lm = _environment_lm() if seated else None
    for name, (value, place) in found.items():
        if not hasattr(request, name):  # how the command shows things
            continue
        if name in PAIRS:
            given = (getattr(request, name) or []) if on_line(name) else []
            taken = {_key(name, pair) for pair in given} | ({EVERY} if name == "lm" and lm else set())
            value = [pair for pair in value if _key(name, pair) not in taken]
            setattr(request, name, [*value, *given])
        elif on_line(name):
            continue
        if value != []:
            request.defaults[name] = Default(value, place)
    if seated and isinstance(request, Seats):
        named: Any = request.lm or []
        if EVERY not in {_key("lm", pair) for pair in named}:
            from ..lms.named import default_lm

            before = request.defaults.get("lm", Default([], ""))
            last = lm or default_lm()
            places = [place for place in (before.place, LM if lm else "") if place]
            request.lm = [*named, last]
            request.defaults["lm"] = Default([*before.value, last], ", ".join(places))


def default_lines(request: Request) -> list[str]:
    """Which defaults hold that are not folkmoot's own, and where they are from, in a line at most."""
    said = [
        f"{name.replace('_', '-')} = {', '.join(value) if isinstance(value, list) else value} ({place})"
        for name, (value, place) in request.defaults.items()
        if place
    ]
    return ["; ".join(said)] if said else []


def held() -> list[str]:
    """What the configuration file has, for all commands and as tables for one, in a line at most."""
    path, said = _nearest(Path.cwd())
    names = (f"[{key}]" if isinstance(value, dict) else key for key, value in said.items())
    return [f"{path} holds {', '.join(names)}"] if said else []


def _environment_lm() -> str | None:
    from ..base.settings import settings  # brings pydantic, which --help does without

    with suppress(UserError):  # of another variable: said where that one is needed
        return settings().lm
    return None


def _key(name: str, pair: str) -> str:
    """What a pair is of: a seat for LMs and addresses, else what stands before the equals sign."""
    if name not in ("lm", "api_base"):
        return pair.partition("=")[0].strip()
    seat, mark, _ = pair.partition("=")
    return seat if mark and not {"/", ":"} & {*seat} else EVERY


def _nearest(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The file that counts in a folder, and what it says; nothing where there is none."""
    for path in (place / name for place in (folder, *folder.parents) for name in (FILE, SHARED)):
        if not os.path.exists(path):
            continue
        try:
            raw, owner = read_regular(path, MOST_BYTES), path.stat().st_uid
            if path.name == SHARED and b"folkmoot" not in raw:
                continue
            said = tomllib.loads(raw.decode())
        except OSError as problem:
            raise UserError(f"{path} cannot be read ({problem.strerror}): correct or move it") from None
        except (ValueError, RecursionError) as problem:
            raise UserError(f"{path} is no TOML ({problem}): correct it") from None
        if path.name == SHARED:
            tools = said.get("tool")
            if not isinstance(tools, dict) or "folkmoot" not in tools:
                continue
            said = tools["folkmoot"]
            if not isinstance(said, dict):
                raise UserError(f"{path}: tool.folkmoot is no table: write [tool.folkmoot]")
        if os.geteuid() not in (0, owner) and owner != 0:
            raise UserError(f"{path} belongs to another user: work elsewhere, or write a {FILE} here")
        return path, said
    return folder, {}


def _unknown(where: str, name: str, options: Iterable[str], commands: Collection[str]) -> str:
    if name in commands:
        return f"{where} is a command: write its options under [{name}]"
    if _SECRET_NAME.search(name):
        return f"{where} looks like a key, which no file may hold: set it in the environment instead"
    return f"{where} is no option{did_you_mean(name, [*options, *commands])}: correct it, or drop it"


def _checked(where: str, folder: Path, option: _Option, value: Any) -> Any:
    """The value as the option takes it. Raises UserError."""
    if option.field in NEVER:
        raise UserError(f"{where} is for the command line: drop it")
    many = get_origin(option.kind) is list
    values = value if many and isinstance(value, list) else [value]
    kind = next(one for one in (*get_args(option.kind), option.kind) if isinstance(one, type))
    takes, words = _TAKEN.get(kind, (str, "text in quotes"))
    for one in values:
        if not isinstance(one, takes) or (isinstance(one, bool) and kind is not bool):
            raise UserError(f"{where} is not {'a list of ' if many else ''}{words}: correct it")
        if isinstance(one, int | float) and kind is not bool:
            low, high = option.info.min, option.info.max
            if (low is not None and one < low) or (high is not None and one > high):
                ends = f"of at least {low}" if high is None else f"from {low} to {high}"
                raise UserError(f"{where} is {one}: give {words} {ends}")
        if isinstance(one, str):
            _check_trust(where, option.field, one)
    parts = {*(option.info.metavar or "").split("|")}
    if {"FILE", "DIR"} & parts and folder != Path.cwd():  # a file beside the configuration
        beside = [folder / Path(one).expanduser() for one in values]
        values = [
            one if "NAME" in parts and not place.exists() else str(place)
            for one, place in zip(values, beside, strict=True)
        ]
    return values if many else values[0]


def _check_trust(where: str, name: str, text: str) -> None:
    if _SECRET.search(text):
        raise UserError(f"{where} holds a key or password, which no file may: set it in the environment")
    here = {one.name.partition(".")[0] for one in Path.cwd().iterdir()}
    words = {found[1] for found in _PLACE.finditer(text)}
    if name == "sets":  # read as YAML, where escapes hide a word, and a word may be a file that names code
        if not _PLAIN.fullmatch(text):
            raise UserError(f"{where} is more than numbers and words: give it on the command line")
        words = {*re.findall(r"\w+", text.partition("=")[2])}
    if here & words:
        raise UserError(f"{where} names code of this folder, which no file may: give it on the command line")
    if name == "lm" and text.endswith(".gguf"):
        raise UserError(f"{where} names weights to load: give it on the command line, or as FOLKMOOT_LM")
    if name == "embedding" and Path(text).expanduser().is_dir():
        raise UserError(f"{where} is a folder, which may hold code: give it on the command line")
    if _URL.search(text) or _WIKI.search(text):
        raise UserError(
            f"{where} names another machine, which could get your keys and questions: give it on the command "
            "line, or an LM's address as OPENAI_BASE_URL"
        )
