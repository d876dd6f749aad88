"""A program that shows its agents, for each question, the most similar solved questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import dspy
import numpy as np

from ..agents.transcript import Task
from ..base.errors import UserError, checked_whole
from ..base.saved_file import Described
from ..reading.row import ResultRow
from .declaration import Protocol
from .program import Program, SeatTurns

if TYPE_CHECKING:
    import bm25s

_WORD = re.compile(r"\w+")


class Shown(NamedTuple):
    """A solved question, and by predictor the demonstration that is made of it."""

    question: str
    demos: Mapping[str, Mapping[str, object]]


class NearestDemos(Program):
    """A program whose demonstrations are chosen for each question (k nearest neighbours).

    Args:
        of: the program that answers.
        pool: solved questions; at least one.
        k: how many of them are shown, the likest last.

    Questions are alike by their words (BM25); of equally like ones the earlier in the pool is
    taken. A question that stands in the pool itself is not shown to itself.

    Raises UserError for an empty pool or k below 1.
    """

    def __init__(self, of: Program, pool: Sequence[Shown | Sequence[object]], k: int = 3) -> None:
        super().__init__()
        if not isinstance(of, Program):
            raise UserError(f"of is {of!r}: give the program that is to answer")
        if isinstance(pool, str) or not isinstance(pool, Sequence) or not pool:
            raise UserError("there is no solved question to show: give training questions")
        self.program, self.k = of, checked_whole("k", k)
        self.pool = _Pool(Shown(*shown) for shown in pool)

    def describe(self) -> Described:
        pool = []
        for question, demos in self.pool:
            pool.append([question, {name: dict(demo) for name, demo in demos.items()}])
        return self.named() | {"of": self.program.describe(), "k": self.k, "pool": pool}

    def turns(self) -> list[SeatTurns]:
        return self.program.turns()

    def most_turns(self) -> int:
        return self.program.most_turns()

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        return self.program.report(rows)

    async def solve(self, task: Task) -> dspy.Prediction:
        near = self.pool.nearest(task.question, self.k)
        # A copy for this question: others are answered at the same time, with other demonstrations.
        shown: Program = self.program.deepcopy()
        for name, predictor in shown.named_predictors():
            # The likest last, where an LM reads it just before the question.
            likest = [solved.demos[name] for solved in reversed(near) if name in solved.demos]
            if likest:
                predictor.demos = list(map(dspy.Example, map(dict, likest)))
        return await shown.solve(task)


class _Pool(tuple[Shown, ...]):
    """Solved questions, to be found by their words; the same ones in all copies of a program."""

    def __deepcopy__(self, memo: dict[int, object]) -> _Pool:
        return self

    @cached_property
    def _index(self) -> tuple[bm25s.BM25, dict[str, int]]:
        import bm25s  # brings half of SciPy

        numbers: dict[str, int] = {}
        rows = []
        for shown in self:
            rows.append([numbers.setdefault(w, len(numbers)) for w in _words(shown.question)])
        index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
        index.index((rows, numbers), show_progress=False)
        return index, numbers

    def nearest(self, question: str, k: int) -> list[Shown]:
        """Return the k likest, the likest first."""
        index, numbers = self._index
        numbers_of = [numbers[word] for word in _words(question) if word in numbers]
        # Without a word that the pool has, all are equally alike: the earlier ones are taken.
        alike = index.get_scores_from_ids(numbers_of) if numbers_of else np.zeros(len(self))
        order = map(self.__getitem__, np.argsort(-alike, kind="stable").tolist())
        return [shown for shown in order if shown.question != question][:k]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold()) or [text]


NearestDemos.protocol = Protocol("nearest", holds=("of",))
"""Only a compilation makes it: it is found in saved programs, and has no short spec."""
