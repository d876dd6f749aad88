"""One run of a comparison: its score on the shared questions, and its cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ...modules.base.usage import UsageFields, tokens_of
from ...modules.reading.grading import ACCURACY
from ..base.run_files import ScoreFields
from ..runs.caveats import run_failed, too_many_failed

SURE = 0.05
MOST_UNREAD = 0.05
"""Above this share of answers that were cut off or could not be read there is no verdict."""


@dataclass(frozen=True)
class Compared:
    """One run of a comparison. Every figure is over the shared questions alone.

    Attributes:
        left_out: how many questions with a row are not shared.
        score: a share of right answers (`is_rate`) or a mean, with a 95% interval.
        cut_off: how many answers had a reply cut off at the token limit; `unread` are these and the
            unreadable.
        takes: as `usage`, with cached answers at their price.
        seconds: the mean per answer, or None.
        repeats: answers per question, on average.
        program: the full description, where the name is short.
    """

    name: str
    folder: str
    questions: int
    rows: int
    left_out: int
    score: ScoreFields
    f1: ScoreFields | None
    errors: int
    unreadable: int
    usage: UsageFields
    takes: UsageFields
    seconds: float | None
    cut_off: int = 0
    unread: int = 0
    metric: str = ACCURACY
    is_rate: bool = True
    metric_usage: UsageFields | None = None
    repeats: float = 1.0
    program: str = ""

    @property
    def answers(self) -> int:
        """The number of answers to these questions."""
        # `repeats` is a mean: its product may miss the whole number by a rounding error.
        return round(self.repeats * self.score.n)

    @property
    def accuracy(self) -> ScoreFields | None:
        """The share of right answers, or None."""
        if not self.is_rate:
            return None
        return self.score

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "accuracy": self.accuracy}

    @property
    def failed(self) -> bool:
        """Whether so many answers failed that the scores are not the program's."""
        return too_many_failed(self.errors, self.answers)

    @property
    def failure(self) -> str:
        """A sentence on the run's failures, with advice; empty if they are few."""
        return run_failed(self.name, self.errors, self.answers, int(self.score.n))

    @property
    def usable(self) -> bool:
        """Whether its answers say what the program can do."""
        return not (self.failed or self.mostly_unread)

    @property
    def tokens(self) -> int | None:
        """Prompt and completion tokens together; None if not known."""
        return tokens_of(self.takes)

    @property
    def mostly_unread(self) -> bool:
        """Whether so many answers were cut off or could not be read that the score is not the
        program's.
        """
        return self.unread > MOST_UNREAD * self.answers
