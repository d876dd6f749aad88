"""Records of settings whose fields say in their types which values they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import Annotated, Any, Self, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..base.errors import UserError, checked_among

Whole = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Chance = Annotated[float, Field(ge=0, le=1)]
Size = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class CheckedFields:
    """Base of dataclasses whose fields are checked against their types.

    Numbers are finite, and no text or truth value counts as one. Raises UserError that names the
    field.
    """

    def __post_init__(self) -> None:
        for name, adapter in _adapters(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, name)
            try:
                adapter.validate_python(value)
            except ValidationError as problem:
                # One sentence for one value: the first rule that it breaks.
                rule = problem.errors()[0]["msg"]
                raise UserError(f"{name} is {value!r}: {rule[0].lower()}{rule[1:]}") from None

    def to_dict(self) -> dict[str, object]:
        """Return all settings as JSON values."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_dict(cls, settings: Mapping[str, object]) -> Self:
        """Return the settings by name. Raises UserError for a name that does not exist."""
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        for name in settings:
            checked_among("setting", name, names)
        return cls(**settings)


@cache
def _adapters(kind: type[Any]) -> dict[str, TypeAdapter[object]]:
    hints = get_type_hints(kind, include_extras=True)
    strictly = ConfigDict(strict=True, allow_inf_nan=False)
    return {field.name: TypeAdapter(hints[field.name], config=strictly) for field in fields(kind)}
