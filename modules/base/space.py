"""Search spaces: the values that a study tries for each parameter, and when the parameter exists.

Optuna is only imported when a study asks for its distributions: a program that just answers
questions does not need it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

MOST_VALUES = 100_000
"""The most values of one parameter: more could not be told apart by any study."""


@dataclass(frozen=True)
class When:
    """The condition under which a parameter exists: another `parameter`, declared before it, has a
    value `among` these or `above` this number. With the name of a third parameter as `less`, it is
    the difference of the two that must be above.
    """

    parameter: str
    among: tuple[object, ...] = ()
    above: float | None = None
    less: str | None = None

    def holds(self, setting: Mapping[str, object]) -> bool:
        if self.parameter not in setting:
            return False
        value = setting[self.parameter]
        by: object = 0
        if self.less is not None:
            by = setting.get(self.less)
        if value in self.among:
            return True
        # a file may hold any value
        if not isinstance(value, int | float) or not isinstance(by, int | float):
            return False
        return self.above is not None and value - by > self.above


Distribution: TypeAlias = "CategoricalDistribution | IntDistribution | FloatDistribution"


class Declaration(NamedTuple):
    """A distribution of Optuna's that is not made yet: its class's name and its arguments."""

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
        given: the values, as a distribution of Optuna's or the declaration of one; lists and
            mappings are JSON text in it (see `choice`).
        when: the condition under which the parameter exists.
        joins: the parameter that this one completes: `strongest` with the value `critic` makes the
            `tie_break` `strongest:critic`.
        default: the value where a program's description does not name the parameter; a parameter
            with a default is only varied if it is named, or if none is (see `settled`).
        among: the name of a parameter that is a list; only its items are allowed values.
        of_roles: (names of the user's own roles) → the values, if there are such roles.
    """

    given: Distribution | Declaration
    when: When | None = None
    joins: str | None = None
    default: object = None
    among: str | None = None
    of_roles: Callable[[Sequence[str]], Distribution | Declaration] | None = None

    @cached_property
    def values(self) -> Distribution:
        """The values as Optuna draws them."""
        return self.given.made() if isinstance(self.given, Declaration) else self.given


Space = Mapping[str, Parameter]
"""Parameters by name, each after those that it depends on."""


def choice(*values: object) -> Declaration:
    """Return a choice among JSON values; lists and mappings are turned into JSON text for
    Optuna.
    """
    return Declaration("CategoricalDistribution", (tuple(map(coded, values)),))


def whole_numbers(low: int, high: int) -> Declaration:
    """Return the whole numbers from `low` to `high`."""
    return Declaration("IntDistribution", (low, high))


def coded(value: object) -> float | str | None:
    """Return a value as Optuna keeps it: a list or a mapping as JSON text, and so a text that looks
    like one.
    """
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str) and not value.startswith(("[", "{", '"')):
        return value
    return json.dumps(value, default=str)


def lists(
    items: Iterable[object],
    least: int = 1,
    most: int | None = None,
    *,
    ordered: bool = True,
    repeated: bool = False,
) -> Declaration:
    """Return a choice among all lists of `least` to `most` of the items, short lists first.

    Where lists are `ordered`, each order of the same items is another list; an item is in a list
    more than once only if `repeated`. Raises ValueError for more than MOST_VALUES lists.
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
