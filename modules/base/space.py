"""Search spaces: how parameters declare the values that a study tries, and when each exists.

Optuna is imported once a study asks for its distributions: a program that is only asked does
without.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

MOST_VALUES = 100_000
"""The most values of one parameter: more could not be told apart by any study."""


@dataclass(frozen=True)
class When:
    """The condition that another parameter, declared before, has one of the values or is above a
    number; with `less`, its difference to a third parameter is.
    """

    parameter: str
    among: tuple[object, ...] = ()
    above: float | None = None
    less: str | None = None

    def holds(self, setting: Mapping[str, object]) -> bool:
        if self.parameter not in setting:
            return False
        value = setting[self.parameter]
        by: Any = 0
        if self.less is not None:
            by = setting.get(self.less)
        # a file may hold any value
        numbers = isinstance(value, int | float) and isinstance(by, int | float)
        return value in self.among or (
            self.above is not None and numbers and value - by > self.above
        )


Distribution: TypeAlias = "CategoricalDistribution | IntDistribution | FloatDistribution"


class Declaration(NamedTuple):
    """A distribution of Optuna's by the name of its class, with the arguments it is made of."""

    kind: str
    arguments: tuple[object, ...]

    def made(self) -> Distribution:
        of_optuna = import_module("optuna.distributions")
        distribution: Distribution = getattr(of_optuna, self.kind)(*self.arguments)
        return distribution


@dataclass(frozen=True)
class Parameter:
    """A parameter: its possible values, and the condition under which it exists.

    A dotted name sets an entry of a mapping: `sampling.temperature`. The value None leaves the
    parameter unset.

    Args:
        given: the values, as a distribution of Optuna's or what declares one; lists and mappings
            stand in them as JSON (see `choice`).
        when: the condition under which the parameter exists.
        joins: the parameter that this one completes: `strongest` with the value `critic` makes the
            `tie_break` `strongest:critic`.
        default: what a description means that does not name the parameter; one that has a default
            is only varied where it is named, or where none is (see `settled`).
        among: a parameter that is a list; only its items are allowed.
        of_roles: (names of the user's own roles) → the values where there are any.
    """

    given: Distribution | Declaration
    when: When | None = None
    joins: str | None = None
    default: Any = None
    among: str | None = None
    of_roles: Callable[[Sequence[str]], Distribution | Declaration] | None = None

    @cached_property
    def values(self) -> Distribution:
        """The values as Optuna draws them."""
        return self.given.made() if isinstance(self.given, Declaration) else self.given


Space = Mapping[str, Parameter]
"""Parameters by name, each after those that it depends on."""


def choice(*values: object) -> Declaration:
    """Some JSON values to choose from: Optuna keeps lists and mappings as their JSON text."""
    return Declaration("CategoricalDistribution", (tuple(map(coded, values)),))


def whole_numbers(low: int, high: int) -> Declaration:
    """The whole numbers from `low` to `high`."""
    return Declaration("IntDistribution", (low, high))


def coded(value: object) -> Any:
    """A value as a distribution has it: lists and mappings, and texts like those, are JSON."""
    plain = value is None or isinstance(value, int | float)
    if isinstance(value, str):
        plain = not value.startswith(("[", "{", '"'))
    return value if plain else json.dumps(value, default=str)


def lists(
    items: Iterable[object],
    least: int = 1,
    most: int | None = None,
    *,
    ordered: bool = True,
    repeated: bool = False,
) -> Declaration:
    """All lists of `least` to `most` of the items: in every order or in theirs, each item once or
    more often. Short lists come first.

    Raises ValueError for more than MOST_VALUES of them.
    """
    allowed = list(items)
    most = len(allowed) if most is None else most
    ways: dict[
        tuple[bool, bool], Callable[[Sequence[object], int], Iterator[tuple[object, ...]]]
    ] = {
        (True, True): lambda items, size: itertools.product(items, repeat=size),
        (True, False): itertools.permutations,
        (False, True): itertools.combinations_with_replacement,
        (False, False): itertools.combinations,
    }
    way = ways[ordered, repeated]
    made = itertools.chain.from_iterable(way(allowed, size) for size in range(least, most + 1))
    values = list(itertools.islice(made, MOST_VALUES + 1))
    if len(values) > MOST_VALUES:
        raise ValueError("too many lists")
    return choice(*map(list, values))
