"""Objects of JSON files: dictionaries, as they stand there, whose known keys are attributes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cache
from operator import is_, itemgetter, methodcaller
from typing import (
    Any,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

Reader = Callable[[Any], Any]

K = TypeVar("K")
V = TypeVar("V")


def without_none(values: Mapping[K, V | None]) -> dict[K, V]:
    """The values that are known."""
    return {name: value for name, value in values.items() if value is not None}


def only(values: Mapping[K, V], names: Container[K]) -> dict[K, V]:
    """The values of these names, in their own order."""
    return {name: value for name, value in values.items() if name in names}


def without(values: Mapping[K, V], names: Container[K]) -> dict[K, V]:
    """The values of all other names."""
    return {name: value for name, value in values.items() if name not in names}


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Keyed(dict[str, Any]):
    """An object of a file whose declared keys are read as attributes, and all keys as ever.

    A key with a default may be missing. Keys that are not declared stay, since later versions and
    other packages may have written them. What an attribute holds has attributes, too, as its type
    says; it is made when it is first read.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for name in cls.__annotations__:
            read: Reader = itemgetter(name)
            if name in vars(cls):
                read = methodcaller("get", name, vars(cls)[name])
            setattr(cls, name, _Unread(cls, name, read))

    @classmethod
    def of(cls, document: Mapping[str, object]) -> Self:
        """The object that a file holds or a user gave."""
        return document if isinstance(document, cls) else cls(document)

    def but(self, **changes: object) -> Self:
        """A copy in which some keys have another value."""
        return self.of({**self, **changes})


class _Unread(property):
    """A key that nobody has read yet: its type is looked up then, since for all keys of all classes
    that would take 15 ms of an import.
    """

    def __init__(self, owner: type[Keyed], name: str, read: Reader) -> None:
        super().__init__(read)
        self.owner, self.name, self.read = owner, name, read

    def __get__(self, own: Any, owner: type | None = None) -> Any:
        inside = _reader(_hints(self.owner)[self.name])
        read = self.read if inside is None else _kept(self.name, self.read, inside)
        settled = property(read)
        setattr(self.owner, self.name, settled)
        return settled.__get__(own, owner)


_hints = cache(get_type_hints)


def _kept(name: str, read: Reader, inside: Reader) -> Reader:
    """Reads a key, and keeps what it made of the value."""

    def held(own: Keyed) -> object:
        value = read(own)
        if value is None:
            return None
        made = inside(value)
        if made is not value:
            own[name] = made
        return made

    return held


def _reader(hint: object) -> Reader | None:
    """Makes the objects in a value of this type; None where it holds none. A value that has them
    stays itself.
    """
    if isinstance(hint, type) and issubclass(hint, Keyed):
        return hint.of
    inner = [reader for part in get_args(hint) if (reader := _reader(part)) is not None]
    if not inner:
        return None
    make, kinds = inner[0], frozenset(get_args(hint))

    # All are looked at, since a plain one may have been added to those that were made before.
    def listed(held: list[object]) -> list[Any]:
        if kinds.issuperset(map(type, held)):
            return held
        objects = [make(item) for item in held]
        return held if all(map(is_, objects, held)) else objects

    def named(held: dict[str, object]) -> dict[str, Any]:
        if all(make(item) is item for item in held.values()):
            return held
        return {name: make(item) for name, item in held.items()}

    def made(held: object) -> Any:
        return None if held is None else make(held)

    kind = get_origin(hint)
    if kind is list:
        return listed
    return named if kind is dict else made
