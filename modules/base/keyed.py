"""Typed JSON objects: a `Keyed` is still a dictionary, but its declared keys are attributes."""

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
    """Return the entries whose value is not None."""
    return {name: value for name, value in values.items() if value is not None}


def only(values: Mapping[K, V], names: Container[K]) -> dict[K, V]:
    """Return the entries with these names, in the order of `values`."""
    return {name: value for name, value in values.items() if name in names}


def without(values: Mapping[K, V], names: Container[K]) -> dict[K, V]:
    """Return the entries with other names than these."""
    return {name: value for name, value in values.items() if name not in names}


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Keyed(dict[str, Any]):
    """A JSON object whose declared keys can also be read as attributes.

    A key with a default may be missing. Keys that are not declared stay, since later versions and
    other packages may have written them. A value whose declared type is or contains a `Keyed` is
    converted to it when it is first read as an attribute.
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
        """Return the document as this class: itself if it is one already."""
        return document if isinstance(document, cls) else cls(document)

    def but(self, **changes: object) -> Self:
        """Return a copy in which some keys have another value."""
        return self.of({**self, **changes})


class _Unread(property):
    """A declared key that nobody has read yet. Its type is only looked up when it is first read,
    since doing that for all keys of all classes would make an import 15 ms slower.
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
    """Return a reader of a key that converts its value by `inside`, and stores the result in its
    place.
    """

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
    """Return what converts the JSON objects in a value of this type to their `Keyed` classes; None
    if the type has no such class in it. It returns a value that needs no conversion itself, not a
    copy.
    """
    if isinstance(hint, type) and issubclass(hint, Keyed):
        return hint.of
    inner = [reader for part in get_args(hint) if (reader := _reader(part)) is not None]
    if not inner:
        return None
    make, kinds = inner[0], frozenset(get_args(hint))

    # All items are checked: a plain one may have been added after the others were converted.
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
