"""Where a running evaluation stands."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...modules.base.calls import Usage
from ...modules.reading.row import ResultRow


@dataclass
class Progress:
    """Where a running evaluation stands; handed to `progress` at the start and after every row."""

    total: int
    done: int = 0
    resumed: int = 0
    correct: int = 0
    errors: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)

    @property
    def seconds_left(self) -> float | None:
        """None until this run has finished a question of its own."""
        new = self.done - self.resumed
        return self.seconds / new * (self.total - self.done) if new else None

    def count(self, row: ResultRow, *, resumed: bool = False) -> None:
        self.done += 1
        self.resumed += resumed
        self.correct += bool(row["correct"])
        self.errors += bool(row["error"])
        if not resumed:
            self.usage.add(Usage.of(row["usage"]))
