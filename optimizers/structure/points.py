"""Points of a search space: drawn, counted up, located, and made a constructor's parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ...modules.base.saved_file import Described
from ...modules.base.space import Distribution, Parameter, Space, choice, coded

Setting = dict[str, object]
"""One point of a space: parameter → JSON value. A parameter whose condition does not hold is left
out.
"""

Draw = Callable[[str, Distribution], object]
"""(name, values) → one of the values, as the distribution has it."""


def decoded(value: object) -> object:
    """Return the value that `coded` has turned into this one."""
    if isinstance(value, str) and value.startswith(("[", "{", '"')):
        return json.loads(value)
    return value


def settled(space: Space, varied: Iterable[str] = ()) -> Space:
    """Return the space in which parameters with a default keep it, except those that are to
    vary.
    """
    kept: dict[str, Parameter] = {}
    for name, parameter in space.items():
        needed = parameter.when is None or parameter.when.parameter in kept
        if needed and (parameter.default is None or name in varied):
            kept[name] = parameter
    return kept


def options(values: Distribution) -> list[object] | None:
    """Return all values in order; None for infinitely many."""
    found = _coded_options(values)
    return None if found is None else [decoded(value) for value in found]


def _coded_options(values: Distribution) -> Sequence[object] | None:
    """Return the same, as Optuna is given them."""
    if isinstance(values, CategoricalDistribution):
        return values.choices
    if isinstance(values, IntDistribution):
        return list(range(values.low, values.high + 1, values.step))
    if values.low == values.high:
        return [values.low]
    if values.step is None:
        return None
    # Rounding must not lose the last step: 0.3 / 0.1 is a little less than 3.
    steps = math.floor((values.high - values.low) / values.step + 1e-9)
    return [round(values.low + number * values.step, 12) for number in range(steps + 1)]


def draw_setting(space: Space, draw: Draw) -> Setting:
    """Return a point of the space; `draw` is asked for each parameter that exists and has more than
    one value.

    The name it is given is the parameter's; where the values are the items of a list that varies,
    the name has these items, too, since Optuna's values of one name never change.
    """
    setting: dict[str, Any] = {}
    for name, parameter in space.items():
        if parameter.when is not None and not parameter.when.holds(setting):
            continue
        values, key = parameter.values, name
        if parameter.among is not None:
            items = dict.fromkeys(setting.get(parameter.among) or ())
            if not items:
                continue
            if not space[parameter.among].values.single():
                # One name and one order for each set of items, in whatever order they were drawn.
                items = dict.fromkeys(sorted(items, key=str))
                key = f"{name} of {'+'.join(map(str, items))}"
            values = choice(*items).made()
        possible = _coded_options(values)
        drawn = possible[0] if possible and len(possible) == 1 else draw(key, values)
        setting[name] = decoded(drawn)
    return setting


def grid_settings(point: Callable[[Draw], Setting]) -> Iterator[Setting]:
    """Yield every point of a space without endless parameters, the last parameter changing fastest.

    `point` draws a point with the function that it is given, as `draw_setting` does. The path of
    option numbers is counted up like a clock whose wheels vary in size. Raises ValueError naming an
    endless parameter.
    """
    path: list[int] = []
    while True:
        sizes: list[int] = []

        def draw(key: str, values: Distribution, sizes: list[int] = sizes) -> object:
            possible = _coded_options(values)
            if possible is None:
                raise ValueError(key)
            if len(sizes) == len(path):
                path.append(0)
            sizes.append(len(possible))
            return possible[path[len(sizes) - 1]]

        yield point(draw)
        # Wheels at their end are taken off: which parameters follow depends on the wheel before.
        while path and path[-1] + 1 == sizes[len(path) - 1]:
            path.pop()
        if not path:
            return
        path[-1] += 1


def constructed(space: Space, setting: Mapping[str, object]) -> dict[str, Any]:
    """Return the constructor's parameters for a point of the space."""
    parameters: dict[str, Any] = {}
    for name, value in setting.items():
        target = space[name].joins if name in space else None
        if target is not None:
            parameters[target] = f"{setting[target]}:{value}"
        elif value is not None:
            owner, _, entry = name.partition(".")
            if entry:
                parameters.setdefault(owner, {})[entry] = value
            else:
                parameters[name] = value
    return parameters


def located(space: Space, described: Described) -> Setting | None:
    """Return the point of the space that a program's `describe()` stands for; None when it is
    outside.
    """
    outside: list[str] = []

    def draw(key: str, values: Distribution) -> object:
        name = parameter_name(key)
        allowed = options(values)
        for value in _described(space, name, described):
            if allowed is not None and value in allowed:
                return coded(value)
            if allowed is None and _within(values, value):
                return value
        unset = allowed is not None and None in allowed
        if not unset:
            outside.append(name)
        # Some value has to be drawn: parameters that depend on it are still asked for.
        return None if allowed is None or unset else coded(allowed[0])

    setting = draw_setting(space, draw)
    agrees = all(
        value is None or name not in described or value in _described(space, name, described)
        for name, value in setting.items()
    )
    return setting if agrees and not outside else None


def _within(values: Distribution, value: object) -> bool:
    """Return whether a value is a number from a range."""
    if not isinstance(values, FloatDistribution) or not isinstance(value, int | float):
        return False
    return values.low <= value <= values.high


def _described(space: Space, name: str, described: Described) -> list[object]:
    """Return the values that a description can mean for a parameter, the most literal one first."""
    parameter = space[name]
    if parameter.joins is not None:
        completion = str(described.get(parameter.joins)).partition(":")[2]
        return [completion or parameter.default]
    owner, _, entry = name.partition(".")
    value = described.get(owner)
    if entry:
        value = (value or {}).get(entry)
    if value is None:
        return [parameter.default]
    completed = any(other.joins == name for other in space.values())
    if completed and isinstance(value, str):
        return [value, value.partition(":")[0]]
    return [value]


def parameter_name(key: str) -> str:
    """Return the parameter's name in a key that `Draw` is given, such as `strongest` in `strongest
    of a+b`.
    """
    return key.partition(" of ")[0]


def key_of(setting: Mapping[str, object]) -> str:
    """Return a text that is the same for equal settings."""
    return json.dumps(setting, sort_keys=True, ensure_ascii=False)
