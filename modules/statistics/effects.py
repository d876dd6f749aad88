"""What each choice of a study changes: paired differences over the same questions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from statistics import fmean

from .controls import paired_difference


@dataclass(frozen=True)
class Tried:
    """A tested setting: its choices, its score on each question, in the same order for all settings
    (None for a failure), and its cost per question, in any unit.
    """

    setting: Mapping[str, object]
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
    value: object
    against: object
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    questions: int = 0
    pairs: int = 0
    cost_ratio: float | None = None


def effects(tried: Sequence[Tried], unit: float = 1.0) -> list[Effect]:
    """Return the effect of every value of every choice that varies, against the first value tried.

    Settings that differ in one choice alone make a pair. On each question, the difference is
    averaged over the pairs that both answered, with the interval of `paired_difference`. `unit` is
    the largest difference of two scores.
    """
    settings = {_key(trial.setting): trial for trial in tried}
    names = dict.fromkeys(chain.from_iterable(trial.setting for trial in tried))
    found = []
    for name in names:
        # Where another choice leaves this one out, it has no value.
        drawn = [trial.setting[name] for trial in tried if name in trial.setting]
        first, *others = {_key(value): value for value in drawn}.values()
        for value in others:
            pairs = list(_pairs(settings, name, value, first))
            found.append(_effect(name, value, first, pairs, unit))
    return found


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _pairs(
    settings: Mapping[str, Tried], name: str, value: object, against: object
) -> Iterator[tuple[Tried, Tried]]:
    """Yield pairs of settings, one with each value, that are equal in all other choices that both
    have: some choices, such as the agent of `strongest`, exist only with a certain value of
    another.
    """
    varied = [trial for trial in settings.values() if name in trial.setting]

    def having(wanted: object) -> list[Tried]:
        key = _key(wanted)
        return [trial for trial in varied if _key(trial.setting[name]) == key]

    for trial, rival in product(having(value), having(against)):
        shared = (trial.setting.keys() & rival.setting.keys()) - {name}
        if all(_key(trial.setting[key]) == _key(rival.setting[key]) for key in shared):
            yield trial, rival


def _effect(
    name: str, value: object, against: object, pairs: Sequence[tuple[Tried, Tried]], unit: float
) -> Effect:
    # The scores of each question in all pairs.
    before: defaultdict[int, list[float]] = defaultdict(list)
    after: defaultdict[int, list[float]] = defaultdict(list)
    for trial, rival in pairs:
        # A setting that was stopped early has answered the first questions only.
        both = zip(trial.scores, rival.scores, strict=False)
        for question, (score, rival_score) in enumerate(both):
            # A failure says nothing about the choice, and is left out of a trial's score, too.
            if score is not None and rival_score is not None:
                before[question].append(rival_score)
                after[question].append(score)
    if not after:
        return Effect(name, value, against)
    means = list(map(fmean, before.values())), list(map(fmean, after.values()))
    estimate = paired_difference(*means, unit)
    rival_cost = fmean(rival.cost for _, rival in pairs)
    ratio = fmean(trial.cost for trial, _ in pairs) / rival_cost if rival_cost else None
    return Effect(name, value, against, *estimate, len(after), len(pairs), ratio)
