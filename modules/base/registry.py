"""Registries, which find programs, strategies and the like by name: built in, added in Python, from
installed packages, or imported as `module:Name`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from .context import SOURCE, Source, bound
from .errors import UserError, did_you_mean, no_such

T = TypeVar("T")

_PLACE = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*):([^\W\d]\w*)(?::(.*))?", re.DOTALL)


@contextmanager
def names_from(file: object, instead: str) -> Iterator[None]:
    """Refuse to import code in the block, since the names in it come from a file, and a file may
    come from a stranger.

    Args:
        file: the file; None if the user gave the names, which changes nothing inside a block that
            has a file.
        instead: how the user can give such a name, for the UserError.
    """
    with bound(SOURCE, SOURCE.get() if file is None else Source(str(file), instead)):
        yield


def refuse_from_file(what: str) -> None:
    """Raise UserError if this code or host is named by a file (see `names_from`)."""
    source = SOURCE.get()
    if source is not None:
        raise UserError(f"{source.file} names {what}: if you trust it, give it {source.instead}")


@lru_cache(maxsize=4)
def _entry_points(path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points of all packages on the path whose group begins with `folkmoot.`, by
    group. Cached, because the search reads the metadata of every installed package.
    """
    found = entry_points()
    ours = [group for group in found.groups if group.startswith("folkmoot.")]
    return {group: tuple(found.select(group=group)) for group in ours}


class Found(NamedTuple, Generic[T]):
    """What a spec such as `NAME:rest` names: the name, the thing of that name, and the rest."""

    name: str
    thing: T
    rest: str


def instances(kind: type[T], what: str) -> Callable[[str, object], T]:
    """Return a check for a registry, which raises UserError for a thing that is not of class
    `kind`.

    `what` is such a thing in words, with its article.
    """

    def checked(name: str, thing: object) -> T:
        if not isinstance(thing, kind):
            room = kind.__module__.rpartition(".")[0]
            raise UserError(f"{name} is not {what}: name a {kind.__name__} of {room}")
        return thing

    return checked


class Registry(MutableMapping[str, T]):
    """Things of one kind by name, such as all programs, strategies or optimizers.

    The mapping holds what is built in and what was added in Python. `find` also imports the entry
    points `folkmoot.KIND` of installed packages. Only `spec` imports what a user names as
    `module:Name`, also from the working folder, but nothing that a file names (`names_from`).

    Args:
        kind: what is registered, in the plural, such as `programs`.
        checked: (name, what was imported) → what is registered; raises UserError for what does not
            belong here.
        built_in: returns the built-in things; called when something is first looked up.
    """

    def __init__(
        self,
        kind: str,
        checked: Callable[[str, object], T],
        built_in: Callable[[], Mapping[str, T]] = dict,
    ) -> None:
        self.kind, self._checked, self._built_in = kind, checked, built_in

    @cached_property
    def _entries(self) -> dict[str, T]:
        return dict(self._built_in())

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __setitem__(self, name: str, thing: T) -> None:
        self._entries[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def what(self) -> str:
        """The singular of `kind`, in words."""
        if self.kind == "strategies":
            return "strategy"
        return self.kind.removesuffix("s").replace("_", "-")

    def names(self) -> list[str]:
        """Return all known names (without `module:Name`), those of installed packages last."""
        own = [name for name in self if ":" not in name]
        return list(dict.fromkeys([*own, *(point.name for point in self._installed())]))

    def find(self, name: object) -> T | None:
        """Return the thing with this name, here or in an installed package; None if there is none.
        Raises UserError for an entry point that cannot be imported, or is of the wrong kind.
        """
        if not isinstance(name, str):
            return None
        if name not in self._entries:
            for point in self._installed():
                if name in (point.name, point.value):
                    self._entries[name] = self._checked(name, self._load(name, point.load))
        return self._entries.get(name)

    def named(self, name: object) -> T:
        """Return the thing with this name. Raises UserError if there is none, and as `find`
        does.
        """
        found = self.find(name)
        if found is None:
            raise no_such(self.what, name, self.names())
        return found

    def spec(self, text: str) -> Found[T] | None:
        """Return what is named by the beginning of a user's spec, a known name or `module:Name`;
        None if there is no such thing.

        What is imported as `module:Name` is registered under that name. Raises UserError for a
        module that cannot be imported or that a file names, and as `find` does.
        """
        name, _, rest = text.partition(":")
        name = name.strip()
        thing = self.find(name)
        if thing is not None:
            return Found(name, thing, rest)
        place = _PLACE.fullmatch(_in_dots(text))
        if place is None:
            return None
        module, attribute, rest = place.groups()
        if Path(module).is_file():  # as `mine.py:Triage`
            module = module.removesuffix(".py")
        name = f"{module}:{attribute}"
        if name not in self._entries:
            thing = self._import(name, module, attribute)
            if thing is None:
                return None
            self._entries[name] = self._checked(name, thing)
        return Found(name, self._entries[name], rest or "")

    def adopted(self, thing: object) -> str:
        """Return the name for an object that a user passes: that of its entry point, or
        `module:Name`.

        The object is registered under this name if it can be imported by it.
        """
        module, attribute = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")
        name = f"{module}:{attribute or type(thing).__qualname__}"
        name = next((point.name for point in self._installed() if point.value == name), name)
        # `__main__` is another module in every process, so nothing in it can be named.
        named = None if module == "__main__" else getattr(sys.modules.get(module), attribute, None)
        if named is thing and name not in self._entries:
            self._entries[name] = self._checked(name, thing)
        return name

    def _installed(self) -> tuple[EntryPoint, ...]:
        return _entry_points(tuple(sys.path)).get(f"folkmoot.{self.kind}", ())

    def _import(self, name: str, module: str, attribute: str) -> Any:
        """Return the attribute of a module, which may be in the working folder; None if there is no
        such module.

        Only here is code imported by a name. Raises UserError for a name that a file holds, and for
        a module that cannot be imported or has no such attribute.
        """
        meant = did_you_mean(module, self.names())
        refuse_from_file(f"the {self.what} {name}{meant}, which is code")
        here = str(Path.cwd())
        if not {here, ""} & set(sys.path):
            # Last, so that a file in the working folder takes the place of no installed package.
            sys.path.append(here)
        try:
            imported = self._load(name, lambda: import_module(module))
        except UserError as problem:
            cause = problem.__cause__
            # The module itself or a package around it is missing. If it exists, and imports a
            # module that does not, that is an error.
            if isinstance(cause, ModuleNotFoundError) and f"{module}.".startswith(f"{cause.name}."):
                return None
            raise
        if not hasattr(imported, attribute):
            meant = did_you_mean(attribute, dir(imported))
            raise UserError(
                f"the module {module} has no {attribute!r}{meant}: correct the {self.what} {name}"
            )
        return getattr(imported, attribute)

    def _load(self, name: str, load: Callable[[], object]) -> object:
        try:
            return load()
        except (Exception, SystemExit) as problem:  # of somebody else's module
            reason = " ".join(str(problem).split())[:300]
            raise UserError(
                f"the {self.what} {name} cannot be imported "
                f"({type(problem).__name__}: {reason}): fix its package, or drop it"
            ) from problem


def _in_dots(text: str) -> str:
    """Return the spec with a file's path replaced by its module: `./sub/mine.py:Triage` becomes
    `sub.mine:Triage`. Raises UserError for a file that cannot be imported from here.
    """
    file, _, rest = text.partition(".py:")
    if os.sep not in file or not Path(f"{file}.py").is_file():
        return text
    named = f"{os.path.relpath(file).replace(os.sep, '.')}:{rest}"
    if _PLACE.fullmatch(named) is None:
        raise UserError(
            f"{file}.py cannot be imported from here: run folkmoot in its folder, and give "
            f"{Path(file).name}.py:{rest}"
        )
    return named


FUNCTIONS: Registry[Any] = Registry("functions", lambda name, thing: thing)
"""What attached rooms and other packages add to `folkmoot`'s names, such as `fm.forecast`."""
