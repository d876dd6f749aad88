"""Records of settings whose fields say in their types which values they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..base.errors import UserError

Whole = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Chance = Annotated[float, Field(ge=0, le=1)]
Size = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]

T = TypeVar("T")


def check_fields(record: Any) -> None:
    """Raise UserError, naming the field, unless every field of a dataclass holds a value of its
    type; numbers are finite, and no text or truth value counts as one.
    """
    for name, adapter in _adapters(type(record)).items():  # type: ignore[arg-type]
        value = getattr(record, name)
        try:
            adapter.validate_python(value)
        except ValidationError as problem:
            rule = problem.errors()[0]["msg"]
            raise UserError(f"{name} is {value!r}: {rule[0].lower()}{rule[1:]}") from None


def from_settings(kind: type[T], settings: Mapping[str, Any]) -> T:
    """A record of settings from names and values. Raises UserError for a name it does not have."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in settings:
        if name not in known:
            raise UserError(f"there is no setting {name!r}: choose among {', '.join(known)}.")
    return kind(**settings)


@cache
def _adapters(kind: type[Any]) -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(kind, include_extras=True)
    strictly = ConfigDict(strict=True, allow_inf_nan=False)
    return {field.name: TypeAdapter(hints[field.name], config=strictly) for field in fields(kind)}
