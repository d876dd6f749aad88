"""The answers and questions of an earlier run, to be checked again without an LM call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy

from ...modules.base.calls import ROLLOUTS
from ...modules.base.errors import UserError
from ...modules.base.saved_file import Described
from ...modules.protocols.foreign import Foreign
from ...modules.reading.question import Question
from ...modules.reading.row import row_key
from ..base.request import pairs_of
from ..data import catalogue
from ..data import questions as data
from ..tasks.process import CommandError
from .earlier import Evaluation, earlier
from .repeats import ROLLOUTS_EACH


class KeptAnswers(Foreign):
    """A program that returns the answers in the rows of an earlier run."""

    def __init__(self, run: Any) -> None:
        super().__init__(lambda question: None)
        self.run = earlier(run)
        self.kept = {row_key(row): row for row in self.run.rows}

    def describe(self) -> Described:
        return self.run.summary.run.program

    async def answer(self, question: Question) -> dspy.Prediction:
        """Return the answer in the question's row. Raises CommandError if it has none."""
        # The number of the repeat shows in the rollout id, which `fresh` has set.
        row = self.kept[question.id, ROLLOUTS.get().rollout // ROLLOUTS_EACH]
        if row.error is not None and row.answer is None:
            raise CommandError(f"kept from {self.run.folder}: {row.error}")
        names = ("answer", "decided_by", "rounds", "consensus_round", "transcript", "usage")
        return dspy.Prediction(**{name: row.get(name) for name in names}, raw=row.raw)


def questions_of(run: Evaluation, source: Any = None) -> list[Question]:
    """Return the questions of a run, from `source` (a list, or where to read them), else read again
    from where its settings say. Raises UserError if they cannot be read or are not the same.
    """
    if source is not None and not isinstance(source, str | Path):
        listed = data.listed(source)
        if data.fingerprint(listed) != run.summary.run.data_fingerprint:
            raise UserError(
                f"the questions are not those that {run.folder} ran on: give the same ones, in "
                "the same order"
            )
        return listed
    settings, source = run.summary.run.settings, source and str(source)
    wanted = source or settings.data
    if not isinstance(wanted, str):
        raise UserError(f"{run.folder} does not say where its questions come from: give --data")
    split = settings.split
    if source is not None and not catalogue.find(source):
        split = None  # of the data set that a file now replaces
    columns = pairs_of(settings.columns, "columns", "FIELD=COLUMN", "question=text")
    try:
        questions = data.listed(
            wanted,
            split=split,
            limit=settings.limit,
            seed=settings.seed,
            columns=columns or None,
            kind=settings.kind,
        )
    except UserError as problem:
        raise UserError(f"the questions of {run.folder} cannot be read again: {problem}") from None
    if data.fingerprint(questions) != run.summary.run.data_fingerprint:
        raise UserError(
            f"{wanted} no longer gives the questions that {run.folder} ran on: give them with "
            f"--data"
        )
    return questions
