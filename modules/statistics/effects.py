"""What each choice of a study changes: paired differences over the same questions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from .controls import paired_difference


@dataclass(frozen=True)
class Tried:
    """A setting that was tried: its choices, its score on each question in one order (None where
    that failed), and what a question costs, in any unit.
    """

    setting: Mapping[str, Any]
    scores: Sequence[float | None]
    cost: float


@dataclass(frozen=True)
class Effect:
    """What `value` changes in place of `against`, all other choices being equal.

    `difference` is the mean over questions (in scores, with its 95% interval), each averaged over
    the `pairs` of settings that differ in this choice alone; `cost_ratio` is how many times the
    price `value` has there. All are None where no two settings differ in this choice alone: then it
    is confounded with others.
    """

    choice: str
    value: Any
    against: Any
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    questions: int = 0
    pairs: int = 0
    cost_ratio: float | None = None


def effects(tried: Sequence[Tried], unit: float = 1.0) -> list[Effect]:
    """The effect of every value of every choice that varies, against the first value tried.

    Settings that differ in one choice alone make a pair. On each question, the difference is
    averaged over the pairs that both answered, with the interval of `paired_difference`. `unit` is
    the largest difference of two scores.
    """
    settings = {_key(each.setting): each for each in tried}
    names = dict.fromkeys(name for each in tried for name in each.setting)
    found = []
    for name in names:
        values = {_key(each.setting.get(name)): each.setting.get(name) for each in tried}
        first, *others = values.values()
        for value in others:
            pairs = list(_pairs(settings, name, value, first))
            found.append(_effect(name, value, first, pairs, unit))
    return found


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _pairs(
    settings: Mapping[str, Tried], name: str, value: Any, against: Any
) -> Iterator[tuple[Tried, Tried]]:
    """Settings with the one and the other value that are equal in all other choices that both have:
    a choice may bring another with it, as `strongest` the name of an agent.
    """
    having = [each for each in settings.values() if _key(each.setting.get(name)) == _key(value)]
    rivals = [each for each in settings.values() if _key(each.setting.get(name)) == _key(against)]
    for each in having:
        for other in rivals:
            shared = (each.setting.keys() & other.setting.keys()) - {name}
            if all(_key(each.setting[key]) == _key(other.setting[key]) for key in shared):
                yield each, other


def _effect(
    name: str, value: Any, against: Any, pairs: Sequence[tuple[Tried, Tried]], unit: float
) -> Effect:
    scores: dict[int, list[tuple[float, float]]] = {}
    for one, other in pairs:
        # A setting that was stopped early has answered the first questions only.
        for place, (score, rival) in enumerate(zip(one.scores, other.scores, strict=False)):
            scores.setdefault(place, []).append((rival or 0.0, score or 0.0))
    if not scores:
        return Effect(name, value, against)
    means = [[fmean(side) for side in zip(*both, strict=True)] for both in scores.values()]
    before, after = zip(*means, strict=True)
    estimate = paired_difference(before, after, unit)
    rival_cost = fmean(other.cost for _, other in pairs)
    ratio = fmean(one.cost for one, _ in pairs) / rival_cost if rival_cost else None
    return Effect(name, value, against, *estimate, len(means), len(pairs), ratio)
