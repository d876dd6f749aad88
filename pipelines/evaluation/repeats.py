"""Repeats of a question: which caches they bypass, and the order of their options."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import dspy

from ...modules.base.calls import ROLLOUTS, bound
from ...modules.base.context import OPEN_BOOKS
from ...modules.protocols.program import Program
from ...modules.protocols.saved import predictors_of
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..lms.named import engine_of
from ..lms.store import books_around

ROLLOUTS_EACH = 10_000_000
"""The distance between the rollout ids of two repeats; no program draws as many samples."""


class Ask(NamedTuple):
    """A question to be asked, and which of its repeats that is."""

    question: Question
    repeat: int


@contextmanager
def fresh(repeat: int) -> Iterator[None]:
    """Make the calls in the block independent samples: the shared call cache does not answer them,
    and records only those of the same repeat. For the first repeat nothing changes.
    """
    if not repeat:
        yield
        return
    outer = ROLLOUTS.get()
    own = outer._replace(rollout=outer.rollout + repeat * ROLLOUTS_EACH)
    with bound(ROLLOUTS, own), bound(OPEN_BOOKS, replace(books_around(), cache=None)):
        yield


def without_cache(program: Program, lm: dspy.BaseLM) -> tuple[Program, dspy.BaseLM]:
    """Return the program and the LM for repeats: foreign LMs are copied without DSPy's own cache,
    which would return the first answer again.
    """
    cached = [name for name, one in predictors_of(program).items() if _cached(one.lm)]
    if cached:
        program = program.deepcopy()
        predictors = predictors_of(program)
        for name in cached:
            predictors[name].lm = predictors[name].lm.copy(cache=False)
    if _cached(lm):
        lm = lm.copy(cache=False)
    return program, lm


def _cached(lm: object) -> bool:
    """Return whether an LM is a foreign one that uses DSPy's cache."""
    return isinstance(lm, dspy.BaseLM) and engine_of(lm) is None and bool(getattr(lm, "cache", 0))


def in_another_order(question: Question, repeat: int) -> tuple[Question, Mapping[str, str]]:
    """Return the question with its options in the order of a repeat, and shown label → original
    label (empty in the original order).

    The first repeat has the original order, and each of the next ones rotates it by one more, so
    that every option comes at every position once. Further orders are drawn by the question's id.
    """
    if not repeat or not question.choices:
        return question, {}
    labels = list(question.choices)
    order = labels[repeat % len(labels) :] + labels[: repeat % len(labels)]
    if repeat >= len(labels):
        random.Random(f"{question.id} {repeat}").shuffle(order)
    own = dict(zip(labels, order, strict=True))
    shown = Question(
        question,
        choices={label: question.choices[own[label]] for label in labels},
        answer=next((label for label in labels if own[label] == question.answer), None),
    )
    return shown, own


def with_own_labels(row: ResultRow, question: Question, own: Mapping[str, str]) -> ResultRow:
    """Return the row of a question that was shown in another order, with the original labels in
    place of the shown ones. Texts in its transcript are unchanged.
    """
    if not own:
        return row

    def own_label(answer: str | None) -> str | None:
        return None if answer is None else own.get(answer, answer)

    return row.but(
        choices=question.choices,
        gold=question.gold,
        answer=own_label(row.answer),
        transcript=[turn.but(answer=own_label(turn.answer)) for turn in row.transcript],
        shown=dict(own),
    )
