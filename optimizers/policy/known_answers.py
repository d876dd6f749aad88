"""The agents' answers to the training questions so far, and requests for the rest."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...modules.base.sync import run_sync
from ...modules.base.together import together

Outcome = tuple[str | None, bool]
"""An answer, None for an abstention, and whether it is right. Equal answers are equal texts."""

Answer = Callable[[int, int, int], Outcome | Awaitable[Outcome]]
"""(index of the question, agent, strategy) → its outcome, directly or as an awaitable."""

UNKNOWN, ABSTAINED = -2, -1


class TrainingQuestion(NamedTuple):
    """A training question: its id, its embedding (D,), and its topic where known."""

    key: str
    vector: npt.NDArray[np.floating]
    group: str | None = None


class KnownAnswers:
    """The answers of N agents with S strategies to Q questions, each requested at most once.

    `codes` (Q, N, S): equal numbers for equal answers to a question, -1 for an abstention, -2 for
    an answer not requested; `correct` (Q, N, S).
    """

    def __init__(self, questions: int, n: int, s: int, answer: Answer) -> None:
        self._answer = answer
        self.codes: npt.NDArray[np.int32] = np.full((questions, n, s), UNKNOWN, dtype=np.int32)
        self.correct: npt.NDArray[np.bool_] = np.zeros(self.codes.shape, dtype=bool)
        self._texts: list[dict[str, int]] = [{} for _ in range(questions)]

    def ask(self, wanted: Iterable[tuple[int, int, int]]) -> None:
        """Request the missing answers of (question, agent, strategy), concurrently. Raises whatever
        `answer` raises.
        """
        missing = [place for place in dict.fromkeys(wanted) if self.codes[place] == UNKNOWN]
        outcomes: list[Any] = [self._answer(*place) for place in missing]
        # One function gives them all: either each outcome has to be awaited, or none.
        if outcomes and inspect.isawaitable(outcomes[0]):
            outcomes = run_sync(together, outcomes)
        for place, outcome in zip(missing, outcomes, strict=True):
            self._note(place, *outcome)

    def ask_all(self) -> None:
        """Request the answer of every agent with every strategy to every question."""
        self.ask((q, i, s) for q, i, s in np.ndindex(*self.codes.shape))

    def rows(self) -> list[list[int | str | None]]:
        """Return all answers so far, as JSON values."""
        rows = []
        for place in np.argwhere(self.codes != UNKNOWN).tolist():
            code = int(self.codes[tuple(place)])
            text = list(self._texts[place[0]])[code] if code >= 0 else None
            rows.append([*place, text, bool(self.correct[tuple(place)])])
        return rows

    def restore(self, rows: Iterable[tuple[int, int, int, str | None, bool]]) -> None:
        """Restore the answers that `rows` returned, so that they are not requested again."""
        for q, i, s, text, correct in rows:
            self._note((q, i, s), text, correct)

    def _note(self, place: tuple[int, int, int], text: str | None, correct: bool) -> None:
        codes = self._texts[place[0]]
        self.codes[place] = ABSTAINED if text is None else codes.setdefault(text, len(codes))
        self.correct[place] = correct
