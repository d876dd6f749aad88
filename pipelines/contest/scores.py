"""How the scores of a contest are written: its rules use shares between 0 and 1, its texts the
metric's own scale.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...modules.reading.grading import ACCURACY, Scale
from ..base.wording import signed


@dataclass(frozen=True)
class Scores:
    """Writes the scores of a metric: in percent and points if answers are right or wrong (`rate`),
    else in the metric's own numbers.
    """

    metric: str
    scale: Scale
    rate: bool

    @classmethod
    def of(cls, metric: str, scale: Scale, *, whole: bool = True) -> Scores:
        """Return how a metric's scores are written. If the metric does not say whether they are
        right or wrong, it counts whether all scores so far are 0 or 1 (`whole`).
        """
        rate = scale.rate
        if rate is None:
            rate = whole
        shares = (scale.low or 0.0, scale.width) == (0.0, 1.0)
        return cls(metric, scale, shares and rate)

    @property
    def title(self) -> str:
        """The head of the column of scores."""
        return "right" if self.metric == ACCURACY else self.metric

    def own(self, share: float) -> float:
        """Return the score that a share means in the metric's own scale."""
        return (self.scale.low or 0.0) + self.own_gap(share)

    def own_gap(self, share: float) -> float:
        """Return the difference that a share means in the metric's own scale."""
        return share * self.scale.width

    def value(self, share: float) -> str:
        """Return a score as text: `73%`, or `7.3`."""
        if self.rate:
            return f"{share:.0%}"
        return f"{self.own(share):.3g}"

    def gap(self, share: float) -> str:
        """Return a difference as text without its unit: `+9`, or `+0.9`."""
        return signed(self.own_gap(share), self.rate, decimals=0)

    def size(self, share: float) -> str:
        """Return a difference as text without sign and unit: `5`, or `0.5`."""
        gap = self.own_gap(share)
        if self.rate:
            gap *= 100
        return f"{gap:.3g}"

    @property
    def unit(self) -> str:
        """The unit of differences."""
        return "points" if self.rate else f"in {self.metric}"
