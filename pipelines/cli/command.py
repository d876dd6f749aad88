"""A command of the command line, its options, and the registry of commands of attached rooms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, fields
from datetime import date
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.registry import Registry, instances
from ..base.request import Option, Request
from .options import View

if TYPE_CHECKING:
    from typer.models import ParameterInfo

_NUMBERS: dict[type, tuple[type | UnionType, str]] = {
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    bool: (bool, "true or false"),
}
"""The types of options other than text: what a file may hold for them, and how errors name it."""

_NO_TEXT = (bool, date, list, dict)
"""The types of YAML's values that no option takes as text."""

_MOST = 2**63 - 1


class CommandOption(NamedTuple):
    """A field of a request or view on the command line: the type that it is parsed as, typer's
    description, and whether Python takes no other type.
    """

    field: Field[object]
    type: Any
    info: ParameterInfo
    same_in_python: bool

    @property
    def kind(self) -> type:
        """The type of one value: `float` for `float | None`, `str` for `list[str]`."""
        return next(part for part in (*get_args(self.type), self.type) if isinstance(part, type))

    @property
    def wanted(self) -> str:
        """What one value must be, such as `a whole number of at least 4`."""
        _, words = _NUMBERS.get(self.kind, (str, "text in quotes"))
        low, high = self.info.min, self.info.max
        if low is None:
            return words
        if high is None:
            return f"{words} of at least {low:g}"
        return f"{words} from {low:g} to {high:g}"

    def check(self, where: str, value: Any) -> None:
        """Raise UserError for a value of another type, or out of range."""
        takes, _ = _NUMBERS.get(self.kind, (str, ""))
        # In Python, true and false are whole numbers, too.
        fits = isinstance(value, takes) and isinstance(value, bool) is (self.kind is bool)
        if fits and self.kind in (int, float):
            low, high = self.info.min, self.info.max
            # Without limits of its own, NaN, infinity and huge numbers are still refused.
            if low is None:
                low = -_MOST
            if high is None:
                high = _MOST
            fits = low <= value <= high
        if not fits:
            several = "a list of " if get_origin(self.type) is list else ""
            raise UserError(f"{where} is {value!r}: give {several}{self.wanted}")

    def several(self, where: str, value: object) -> object:
        """Return the values of an option that may be repeated, numbers as text. Raises UserError
        for values of other types.
        """
        parts = value if isinstance(value, Mapping | list) else [value]
        if any(part is None or isinstance(part, _NO_TEXT) for part in parts):
            raise UserError(f"{where} is {value!r}: give {self.wanted}, or a list of it")
        if isinstance(value, Mapping):
            return {str(name): part for name, part in value.items()}
        if parts is not value:
            return value
        return [str(part) if type(part) in (int, float) else part for part in parts]

    def placed(self, value: str, home: Path) -> str:
        """Return a value from a file in the folder `home`: a path is relative to that folder."""
        parts = {*(self.info.metavar or "").split("|")}
        path = home / Path(value).expanduser()
        # A value that may also be a name is a path only if the file exists.
        is_path = {"FILE", "DIR"} & parts and ("NAME" not in parts or path.exists())
        return str(path) if is_path else value

    @property
    def long_name(self) -> str:
        """The name, such as `--api-base`; for an argument, the name of its field."""
        # In `Annotated`, typer stores the first of an option's names as its default.
        names = (self.info.default, *(self.info.param_decls or ()))
        own = (name for name in names if isinstance(name, str) and name.startswith("--"))
        return next(own, "--" + self.field.name.replace("_", "-"))


def command_options(request: Any) -> Mapping[str, CommandOption]:
    """Return the command-line options of a request or view by field: its own first, then those of
    its base classes. A field is an option if it is `Annotated` with one; a type before that is the
    one that the command line parses, if Python takes another.
    """
    return _options(request)  # for type checkers, a class is not known to have a hash


@cache
def _options(request: Any) -> Mapping[str, CommandOption]:
    hints = get_type_hints(request, include_extras=True)
    declared = {own.name: own for own in fields(request)}
    names = dict.fromkeys(
        name for base in request.__mro__ for name in inspect.get_annotations(base)
    )
    options = {}
    for name in filter(declared.__contains__, names):  # class variables are not fields
        plain, *metadata = get_args(hints[name]) or (None,)
        told = next((part for part in metadata if hasattr(part, "help")), None)
        if told is not None:
            same = metadata[0] is told
            kind = plain if same else metadata[0]
            info = told.of_typer() if isinstance(told, Option) else told  # another package's
            options[name] = CommandOption(declared[name], kind, info, same)
    return options


def options_of_file(
    where: str,
    document: Mapping[str, object],
    known: Mapping[str, CommandOption],
    home: Path,
    others: Collection[str] = (),
) -> dict[str, Any]:
    """Return the options of a request from a document, a file in the folder `home`, as the request
    takes them. `others` are further keys that the file may have, for advice.

    Raises UserError for an unknown key, and for a value that does not fit.
    """
    options = dict[str, Any]()
    for name, value in document.items():
        if name not in known:
            meant = did_you_mean(name, [*others, *known])
            for field, option in known.items():
                if option.long_name == f"--{name}":
                    meant = f" (it is {field!r} here)"
            raise UserError(f"{where} has an unknown key {name!r}{meant}: correct or drop it")
        option = known[name]
        if value is None and option.field.default is not None:
            continue  # a key without a value: the option's default holds
        if value is not None and option.kind in _NUMBERS:
            option.check(f"{where}: {name}", value)
        elif type(value) in (int, float):  # the option takes text, such as points
            value = str(value)
        elif isinstance(value, str):
            value = option.placed(value, home)
        elif value is not None and get_origin(option.type) is list:
            value = option.several(f"{where}: {name}", value)
        elif isinstance(value, bool | date) or (value is not None and option.same_in_python):
            raise UserError(f"{where}: {name} is {value!r}: give {option.wanted}")
        options[name] = value
    return options


class Command(NamedTuple):
    """A command of the command line.

    Args:
        request: the class of requests; its fields are options, its docstring is the help.
        view: the class with the options that only the command line has.
        run: the function that carries out a request; slow imports are inside it.
    """

    request: type[Request]
    view: type[View]
    run: Callable[..., None]

    @property
    def options(self) -> dict[str, CommandOption]:
        """The options by field, those of the request first."""
        return {**command_options(self.request), **command_options(self.view)}

    @property
    def for_example(self) -> str:
        return f"for example folkmoot {self.request.example}"


ATTACHED: Registry[Command] = Registry("commands", instances(Command, "a command"))
"""The commands of attached rooms and of other packages, by their entry points."""
