"""Checks objects from files, which a stranger may have written, against the types in the code."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from types import GenericAlias, UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, Field, InstanceOf, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

Text = InstanceOf[str]  # pydantic's str refuses lone surrogates, which LMs do write
Number = Annotated[int, Field(ge=0, lt=2**63)]
Amount = Annotated[float, Field(ge=0, le=1e18)]
Signed = Annotated[float, Field(ge=-1e18, le=1e18)]
_PLAIN: dict[Any, Any] = {str: Text, int: Number, float: Amount}


def as_read(
    kind: object, needed: Collection[str] = (), *, more: bool = True, **others: object
) -> Any:
    """Return a type for checking objects from files (`misfit`), made of a class with annotated
    fields.

    Only the `needed` fields are required. Numbers must be at least 0 and not absurdly large. With
    `more`, undeclared fields are allowed; `others` replaces the types of fields.
    """
    hints = {**get_type_hints(kind), **others}
    fields: dict[str, Any] = {}
    for name, hint in hints.items():
        need: Any = Required if name in needed else NotRequired
        fields[name] = need[_checked(hint)]
    declared = TypedDict(kind.__name__, fields)  # type: ignore[misc]
    how = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore" if more else "forbid")
    return with_config(how)(declared)


def _checked(hint: object) -> Any:
    """Return a type with the checked variants of text and numbers in it."""
    origin = get_origin(hint)
    if origin not in (list, dict, Union, UnionType):
        return _PLAIN.get(hint, hint)
    inner = tuple(map(_checked, get_args(hint)))
    if origin in (list, dict):
        return GenericAlias(origin, inner)
    return Union[inner]  # noqa: UP007


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def misfit(value: object, kind: object) -> str | None:
    """Return the first part of a value that does not fit a type of `as_read`, such as
    `usage.calls`; None if all fits.
    """
    try:
        _adapter(kind).validate_python(value)
    except ValidationError as problem:
        error = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        return ".".join(map(str, error["loc"])) or "the whole"
    return None
