"""The types of `study.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from ...modules.base.keyed import Keyed
from ...modules.base.usage import UsageFields
from ..base.run_files import RunSettings, ScoreFields

DEFAULT = "default"
"""What the first trial's program is called beside the `winner`."""

WORSE = "b"
"""The outcome of a winner that is shown to be worse, as in a comparison."""


class TrialEntry(Keyed):
    """A trial as `study.json` has it.

    `same_as` is the number of a trial with the same setting; `began` and `ended` are milliseconds
    since 1970.
    """

    __slots__ = ()
    trial: int
    state: str
    place: int | None
    setting: dict[str, object] | None
    home: str | None = None
    told_by: int | None = None
    same_as: int | None = None
    failed: str | None = None
    training: str | None = None
    lost: bool | None = None
    began: int | None = None
    ended: int | None = None
    questions: int | None = None
    errors: int | None = None
    scores: dict[str, ScoreFields]

    def value(self, objective: str) -> float:
        """Return its score in an objective."""
        return self.scores[objective].value


class WinnerJudged(Keyed):
    """The winner beside the default on questions that no trial saw.

    Where both are the `same` program, there is no difference, and so no test of it. `unread` says
    why the difference could not be tested, `failures` what the winner has no answer to. The default
    is `handed_over` where the winner is shown to be worse, or its answers are no result.
    """

    __slots__ = ()
    same: bool
    n: int
    winner: ScoreFields
    default: ScoreFields
    difference: ScoreFields | None = None
    p: float | None = None
    outcome: str | None = None
    unread: str | None = None
    failures: str = ""
    handed_over: str = "winner"

    @classmethod
    def of(cls, document: Mapping[str, object]) -> Self:
        """As `Keyed.of`; in earlier versions the outcome alone said what is handed over."""
        if document.get("outcome") == WORSE:
            document = {"handed_over": DEFAULT, **document}
        return super().of(document)


class StudyReport(Keyed):
    """`study.json`: what a study tried, what it took, and its winner."""

    __slots__ = ()
    study: str
    storage: str
    objectives: list[str]
    sampler: str
    seed: int
    questions: dict[str, int]
    trials: dict[str, int]
    calls: dict[str, int]
    paid: UsageFields
    best: TrialEntry | None
    front: list[TrialEntry]
    validation: WinnerJudged | None
    verdict: str
    stopped: str | None
    spent: str | None
    space: dict[str, object]
    settings: RunSettings
    versions: dict[str, str]
    table: list[TrialEntry]
    lost: UsageFields | None = None
    effects: list[dict[str, Any]] | None = None

    @property
    def goal(self) -> str:
        """The first objective, which decides."""
        return self.objectives[0]
