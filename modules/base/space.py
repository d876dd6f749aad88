"""Search spaces as plain data: the values that each setting of a protocol may take, and when it
exists.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_LIST = 1_000
Setting = dict[str, Any]
"""One point of a space: parameter → JSON value. A parameter whose condition does not hold is left
out.
"""


@dataclass(frozen=True)
class Choice:
    """One of some JSON values; None leaves the parameter at what the program does without it."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`, both included, in steps of `step`."""

    low: int
    high: int
    step: int = 1


@dataclass(frozen=True)
class Real:
    """A number from `low` to `high`, both included; any, or those `step` apart."""

    low: float
    high: float
    step: float | None = None


@dataclass(frozen=True)
class Pick:
    """A list of `least` to `most` of the items: in every order or in theirs, each once or more
    often.
    """

    items: tuple[Any, ...]
    least: int = 1
    most: int | None = None
    ordered: bool = True
    repeated: bool = False


@dataclass(frozen=True)
class Member:
    """One item of the list that the parameter `of` has; that parameter is declared before
    this one.
    """

    of: str


Values = Choice | Whole | Real | Pick | Member


@dataclass(frozen=True)
class When:
    """The condition that another parameter, declared before, has one of the values or is above a
    number; with `less`, its difference to a third parameter is.
    """

    parameter: str
    among: tuple[Any, ...] = ()
    above: float | None = None
    less: str | None = None

    def holds(self, setting: Mapping[str, Any]) -> bool:
        if self.parameter not in setting:
            return False
        value, by = setting[self.parameter], 0 if self.less is None else setting.get(self.less)
        # a file may say anything
        numbers = isinstance(value, int | float) and isinstance(by, int | float)
        return value in self.among or (
            self.above is not None and numbers and value - by > self.above
        )


@dataclass(frozen=True)
class Parameter:
    """What a parameter may be, and when it exists.

    `joins` names another parameter that this one completes: `strongest` with the value `critic`
    makes the `tie_break` `strongest:critic`. A dotted name sets an entry of a mapping:
    `sampling.temperature`. `default` is what a description means that does not name it; a parameter
    that has one is only varied where it is named, or nothing is (see `settled`).
    """

    values: Values
    when: When | None = None
    joins: str | None = None
    default: Any = None


Space = Mapping[str, Parameter]
"""Parameters by name, each after those that it depends on."""

Draw = Callable[[str, Choice | Whole | Real], Any]
"""(name, values) → one of the values."""


def settled(space: Space, varied: Iterable[str] = ()) -> Space:
    """The space with every parameter that has a default at it, but for those that are to vary."""
    found: dict[str, Parameter] = {}
    for name, parameter in space.items():
        needed = parameter.when is None or parameter.when.parameter in found
        if needed and (parameter.default is None or name in varied):
            found[name] = parameter
    return found


def options(values: Values) -> list[Any] | None:
    """All values in order, none of a Member by itself; None where there is no end of them."""
    if isinstance(values, Choice):
        return list(values.values)
    if isinstance(values, Pick):
        return picks(values)
    if isinstance(values, Member):
        return []
    if isinstance(values, Whole):
        return list(range(values.low, values.high + 1, values.step))
    if values.low == values.high:
        return [values.low]
    if values.step is None:
        return None
    steps = round((values.high - values.low) / values.step - 0.5 + 1e-9)
    return [round(values.low + number * values.step, 12) for number in range(steps + 1)]


def draw_setting(space: Space, draw: Draw) -> Setting:
    """A point of the space; `draw` is asked for each parameter that exists and has more than one
    value.

    The name it is given is the parameter's; of a Member of a list that varies, with the list's
    items, since its values vary with them.
    """
    setting: Setting = {}
    for name, parameter in space.items():
        if parameter.when is not None and not parameter.when.holds(setting):
            continue
        values, key = parameter.values, name
        if isinstance(values, Member):
            items = tuple(dict.fromkeys(setting.get(values.of) or ()))
            if not items:
                continue
            if len(options(space[values.of].values) or ()) != 1:
                items = tuple(sorted(items, key=str))
                key = f"{name} of {'+'.join(map(str, items))}"
            values = Choice(items)
        elif isinstance(values, Pick):
            values = Choice(tuple(picks(values)))
        known = options(values)
        setting[name] = known[0] if known is not None and len(known) == 1 else draw(key, values)
    return setting


def endless(point: Callable[[Draw], Setting]) -> list[str]:
    """The parameters that have no end of values, as far as the first point of the space has
    them.
    """
    found: list[str] = []

    def draw(key: str, values: Choice | Whole | Real) -> Any:
        known = options(values)
        if known is None:
            found.append(key)
        return known[0] if known else getattr(values, "low", None)

    point(draw)
    return found


def grid_settings(point: Callable[[Draw], Setting]) -> Iterator[Setting]:
    """Every point of a space without endless parameters, the last parameter changing fastest.

    `point` draws a point with the function that it is given, as `draw_setting` does. The path of
    option numbers is counted up like a clock whose wheels vary in size. Raises ValueError naming an
    endless parameter.
    """
    path: list[int] = []
    while True:
        sizes: list[int] = []

        def draw(key: str, values: Choice | Whole | Real, sizes: list[int] = sizes) -> Any:
            known = options(values)
            if known is None:
                raise ValueError(key)
            if len(sizes) == len(path):
                path.append(0)
            sizes.append(len(known))
            return known[path[len(sizes) - 1]]

        yield point(draw)
        while path and path[-1] + 1 == sizes[len(path) - 1]:
            path.pop()
        if not path:
            return
        path[-1] += 1


def constructed(space: Space, setting: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's parameters for a point of the space."""
    made: dict[str, Any] = {}
    for name, value in setting.items():
        target = space[name].joins if name in space else None
        if target is not None:
            made[target] = f"{setting[target]}:{value}"
        elif value is not None:
            owner, _, entry = name.partition(".")
            if entry:
                made.setdefault(owner, {})[entry] = value
            else:
                made[name] = value
    return made


def located(space: Space, described: Mapping[str, Any]) -> Setting | None:
    """The point of the space that a program's `describe()` stands for; None when it is outside."""
    missing: list[str] = []

    def draw(key: str, values: Choice | Whole | Real) -> Any:
        name = parameter_name(key)
        value = _described(space, name, described)
        if value is None or value == "":
            value = space[name].default
        if isinstance(values, Choice):
            found = [known for known in values.values if known in (described.get(name), value)]
            if found:
                return found[0]
            if None in values.values:
                return None
        elif isinstance(value, int | float) and not isinstance(value, bool):
            known = options(values)
            if (value in known) if known is not None else (values.low <= value <= values.high):
                return value
        missing.append(name)
        return (options(values) or [getattr(values, "low", None)])[0]

    setting = draw_setting(space, draw)
    if missing:
        return None
    known = {
        name: (described[name], _described(space, name, described))
        for name in setting
        if name in described
    }
    agrees = all(setting[name] is None or setting[name] in values for name, values in known.items())
    return setting if agrees else None


def _described(space: Space, name: str, described: Mapping[str, Any]) -> Any:
    parameter = space[name]
    if parameter.joins is not None:
        return str(described.get(parameter.joins)).partition(":")[2]
    owner, _, entry = name.partition(".")
    value = (described.get(owner) or {}).get(entry) if entry else described.get(name)
    if any(other.joins == name for other in space.values()) and isinstance(value, str):
        return value.partition(":")[0]
    return value


def how_many(values: Whole | Real | Pick) -> float:
    """How many values there are, infinity for more than a hundred million; 1 for a range without
    steps.
    """
    if isinstance(values, Real):
        return 1 if values.step is None else (values.high - values.low) / values.step + 1
    if isinstance(values, Whole):
        return (values.high - values.low) // values.step + 1
    n, found = len(values.items), 0
    for size in range(values.least, (n if values.most is None else values.most) + 1):
        if found > 1e8 or size > LONGEST_LIST:
            return math.inf
        if values.repeated:
            found += n**size if values.ordered else math.comb(n + size - 1, size)
        else:
            found += math.perm(n, size) if values.ordered else math.comb(n, size)
    return found


def picks(values: Pick) -> list[list[Any]]:
    """Every list that a Pick allows, short ones first."""
    most = len(values.items) if values.most is None else values.most
    ways: dict[tuple[bool, bool], Callable[[tuple[Any, ...], int], Iterator[tuple[Any, ...]]]] = {
        (True, True): lambda items, size: itertools.product(items, repeat=size),
        (True, False): itertools.permutations,
        (False, True): itertools.combinations_with_replacement,
        (False, False): itertools.combinations,
    }
    way = ways[values.ordered, values.repeated]
    return [
        list(found) for size in range(values.least, most + 1) for found in way(values.items, size)
    ]


def parameter_name(key: str) -> str:
    """The parameter's name in a key that `Draw` is given, such as `strongest` in `strongest of
    a+b`.
    """
    return key.partition(" of ")[0]


def key_of(setting: Mapping[str, Any]) -> str:
    """A text that is the same for equal settings."""
    return json.dumps(setting, sort_keys=True, ensure_ascii=False)
