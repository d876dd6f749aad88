"""Checks a study before anything is spent, and says what is wrong with it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...modules.base.errors import UserError
from ...modules.reading.question import Question
from ...optimizers.structure.search import DIRECTIONS, SAMPLERS
from ..data import load as data
from ..evaluation.check import check_train
from ..lms.foreign import ForeignLM
from ..runs.manifest import lms_of
from .job import engines_of
from .network import check_networks
from .space import TuneSpace


def checked_goals(
    space: TuneSpace,
    train: Sequence[Question],
    validation: Sequence[Question],
    lm: Any,
    objectives: Sequence[str],
    sampler: str,
    trials: int,
    workers: int,
    concurrency: int,
    seed: int,
) -> list[str]:
    """The objectives, the one to be made large first. Raises UserError for what cannot be a study.

    Where no price is known, or there is none, tokens take the place of the cost, with a warning.
    """
    goals = [objectives] if isinstance(objectives, str) else list(objectives)
    for name in goals:
        if name not in DIRECTIONS:
            raise UserError(f"there is no objective {name!r}: choose among {', '.join(DIRECTIONS)}")
        if goals.count(name) > 1:
            raise UserError(f"the objective {name!r} is named twice: keep one of them")
    quality = [name for name in goals if DIRECTIONS[name] == "maximize"]
    if len(quality) != 1:
        raise UserError("the objectives need accuracy or f1, one of them: add it")
    if sampler not in SAMPLERS:
        raise UserError(f"there is no sampler {sampler!r}: choose among {', '.join(SAMPLERS)}")
    for what, number in (("trials", trials), ("workers", workers), ("concurrency", concurrency)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UserError(f"{what} is {number!r}: give a whole number from 1 up")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"seed is {seed!r}: give a whole number from 0 up")
    for what, questions in (("training", train), ("validation", validation)):
        if not questions:
            raise UserError(f"there are no {what} questions: name some")
        data.check_labelled(questions)
        data.check_contexts(questions)
        data.check_ids(questions)
    if quality == ["f1"] and any(question.kind != "span" for question in (*train, *validation)):
        raise UserError("f1 is for short answers (kind span): take accuracy for these questions")
    for warning in check_train(train, validation):
        warnings.warn(warning, stacklevel=3)
    _, default = space.default()
    lms_of(default, lm)
    goals = _countable(space, lm, goals)
    check_networks(space, train)
    return [*quality, *(name for name in goals if name not in quality)]


def _countable(space: TuneSpace, lm: Any, goals: list[str]) -> list[str]:
    engines = engines_of(space, lm)
    counted = [name for name in goals if name in ("cost", "calls", "tokens")]
    if counted and any(isinstance(one, ForeignLM) for one in engines):
        raise UserError(
            f"the objective {counted[0]} needs LMs made by fm.lm: those of others are not counted"
        )
    if "cost" not in goals:
        return goals
    unpriced = [one.model for one in engines if one.endpoint is not None and one.prices is None]
    if unpriced:
        why = f'the price of {unpriced[0]} is unknown (--price "{unpriced[0]}=IN,OUT" gives it)'
    elif not any(one.prices and any(one.prices) for one in engines):
        why = "every LM here is free"
    else:
        return goals
    warnings.warn(f"{why}: tokens are the objective in place of cost", stacklevel=4)
    return list(dict.fromkeys("tokens" if name == "cost" else name for name in goals))
