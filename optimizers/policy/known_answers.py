"""What is known of the agents' answers to the training questions, and asking for the rest."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError
from ...modules.base.sync import run_sync
from ...modules.base.together import together

Outcome = tuple[str | None, bool]
"""An answer, None for an abstention, and whether it is right. Equal answers are equal texts."""

Answer = Callable[[int, int, int], Outcome | Awaitable[Outcome]]
"""(number of the question, of the agent, of the strategy) → its outcome, at once or awaited."""

UNKNOWN, ABSTAINED = -2, -1


class TrainingQuestion(NamedTuple):
    """A question to learn from: its id, its embedding (D,), and its topic where one is known."""

    key: str
    vector: npt.NDArray[np.floating]
    group: str | None = None


class KnownAnswers:
    """The answers of N agents with S strategies to Q questions, each asked for once at most.

    `codes` (Q, N, S): equal numbers for equal answers to a question, -1 for an abstention, -2 where
    nobody asked; `correct` (Q, N, S).
    """

    def __init__(
        self, questions: Sequence[TrainingQuestion], n: int, s: int, answer: Answer
    ) -> None:
        self._keys, self._answer = [question.key for question in questions], answer
        self.codes: npt.NDArray[np.int32] = np.full((len(questions), n, s), UNKNOWN, dtype=np.int32)
        self.correct: npt.NDArray[np.bool_] = np.zeros(self.codes.shape, dtype=bool)
        self.texts: list[dict[str, int]] = [{} for _ in questions]
        self._right: list[dict[str, bool]] = [{} for _ in questions]

    def ask(self, wanted: Iterable[tuple[int, int, int]]) -> None:
        """Ask for what is not yet known of (question, agent, strategy), all at the same time.

        Raises what `answer` raises, and UserError for an outcome that is none.
        """
        missing = [place for place in dict.fromkeys(wanted) if self.codes[place] == UNKNOWN]
        found: list[Any] = [self._answer(*place) for place in missing]
        if any(inspect.isawaitable(one) for one in found):
            found = run_sync(together, [_awaited(one) for one in found])
        for place, outcome in zip(missing, found, strict=True):
            self._note(place, outcome)

    def ask_all(self) -> None:
        """Ask for every strategy of every agent on every question."""
        self.ask((q, i, s) for q, i, s in np.ndindex(*self.codes.shape))

    def of(self, q: int, strategies: npt.NDArray[np.intp]) -> list[str | None]:
        """The agents' answers to question q with these strategies, (N,)."""
        texts = list(self.texts[q])
        codes = self.codes[q, np.arange(len(strategies)), strategies]
        return [texts[code] if code >= 0 else None for code in codes.tolist()]

    def rows(self) -> list[list[Any]]:
        """All that is known, as JSON values."""
        found = []
        for place in np.argwhere(self.codes != UNKNOWN).tolist():
            code = int(self.codes[tuple(place)])
            text = list(self.texts[place[0]])[code] if code >= 0 else None
            found.append([*place, text, bool(self.correct[tuple(place)])])
        return found

    def restore(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take over what `rows` gave, so that nobody asks for it again."""
        for q, i, s, text, correct in rows:
            self._note((q, i, s), (text, correct))

    def _note(self, place: tuple[int, int, int], outcome: Any) -> None:
        q, name = place[0], f"question {self._keys[place[0]]!r}"
        text, correct = (
            outcome if isinstance(outcome, tuple) and len(outcome) == 2 else (None, None)
        )
        if not isinstance(text, str | None) or not isinstance(correct, bool | np.bool_):
            raise UserError(
                f"{name} has the outcome {outcome!r}: give (answer or None, whether it is right)."
            )
        if text is None:
            if correct:
                raise UserError(f"{name} has an abstention that is right: give it as wrong.")
            self.codes[place] = ABSTAINED
            return
        if self._right[q].setdefault(text, bool(correct)) != correct:
            raise UserError(
                f"{name} has the answer {text[:60]!r} both right and wrong: give it one way."
            )
        self.codes[place] = self.texts[q].setdefault(text, len(self.texts[q]))
        self.correct[place] = correct


async def _awaited(outcome: Any) -> Any:
    return await outcome if inspect.isawaitable(outcome) else outcome
