"""The outcome of `compare`: every run, every pair, one verdict, and where two runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ...modules.base.fence import clean
from ...modules.reading.grading import ACCURACY
from ...modules.statistics.statistics import Estimate
from ..base.wording import as_sentence
from ..plots.comparison import interval_plot
from .compared import Compared
from .pairs import Pair
from .panel import Panel
from .table import Standing, table_lines
from .verdict import FAIL_IF, WORSE, Verdict
from .words import Sentence, say

if TYPE_CHECKING:
    import pandas as pd


class Comparison(list[Pair]):
    """Runs compared over their shared questions: a list of all pairs.

    Attributes:
        runs: every run, the reference first.
        pairs: the other runs (`a`) with the reference (`b`), then among one another.
        notes: sentences about what the figures leave out.
        recommendation: the cheapest program that no other is shown to beat, or None.
        panel: whether a majority vote of some runs beats the best of them, or None.
        stopped: why the baseline ended early; it is compared on the questions that it has.
    """

    def __init__(
        self,
        runs: Sequence[Compared],
        pairs: Sequence[Pair],
        verdict: Verdict,
        notes: Sequence[str],
        panel: Panel | None = None,
    ) -> None:
        super().__init__(pairs)
        self.runs, self.pairs = list(runs), list(pairs)
        self.verdict, self.recommendation = verdict, verdict.recommendation
        self.notes = list(notes)
        self.panel = panel
        self.stopped: str | None = None

    empty = False  # runs without answers are refused before

    @property
    def names(self) -> list[str]:
        return [run.name for run in self.runs]

    @property
    def against(self) -> list[Pair]:
        """The pairs against the reference, in order."""
        return self.pairs[: len(self.runs) - 1]

    @property
    def judged(self) -> list[Pair]:
        """The pairs of `against` that have a verdict."""
        return [pair for pair in self.against if not pair.cause]

    @property
    def lead(self) -> Pair | None:
        """The pair that the headline is about; None if several runs are all worse, or none has a
        verdict.
        """
        candidates = self.judged or self.against
        if len(candidates) == 1:
            return candidates[0]
        # If several are all worse, the headline is about all of them.
        if self.verdict.outcome == WORSE:
            return None
        return next((pair for pair in self.judged if pair.a == self.verdict.subject), None)

    def fails(self, rule: str | None) -> bool:
        """Return whether a build fails by this rule of `--fail-if`."""
        return rule is not None and self.verdict.outcome in FAIL_IF[rule]

    def plot(self, path: str | Path) -> Path:
        """Draw how far each run is from the reference, with intervals, as PNG or SVG. Raises
        UserError where no run has a verdict.
        """
        differences = {pair.a: (pair.difference, *pair.interval) for pair in self.judged}
        return interval_plot(differences, self.names[0], Path(path), rate=self.runs[0].is_rate)

    # Words

    headline = Sentence(
        "headline", "The headline: how the subject compares with the reference, in figures."
    )
    short = Sentence(
        "short", "How the subject compares with the reference, in one sentence without intervals."
    )
    how_sure = Sentence("how_sure", "The figures behind `short`; empty where there is no verdict.")

    @property
    def sentences(self) -> list[str]:
        """The headline, which program to take, and what to do next."""
        lines = (self.headline, say("take", self.recommendation), say("next_step", self))
        return list(filter(None, lines))

    def lines(self) -> list[str]:
        """Return the sentences, whether others are shown to be no worse, the panel if it is better,
        and why other pairs have no verdict.
        """
        lines = self.sentences + [pair.no_worse_words for pair in self.against]
        if self.panel and self.panel.better:
            lines.append(self.panel.sentence)
        for pair in self.against:
            if pair.cause and pair is not self.lead:
                lines.append(pair.verdict)
        return list(filter(None, lines))

    @property
    def tests(self) -> list[str]:
        """The second screen: the verdict on every pair with its test and prices, and the panel."""
        lines = []
        for pair in self.pairs:
            lines += [pair.verdict, f"{pair.sure} {pair.price}"]
        if self.panel:
            lines.append(self.panel.sentence)
        return lines

    def table(self) -> list[str]:
        """Return a line for each run: its score, its difference to the reference, and its price."""
        standings = []
        for run, pair in zip(self.runs, [None, *self.against], strict=True):
            score = Estimate(run.score.value, run.score.low, run.score.high)
            difference, note = None, ""
            if pair is not None:
                difference = Estimate(pair.difference, *pair.interval)
                note = "no verdict" if pair.cause else ""
            price = self.verdict.price_ratio(run.name)
            standings.append(Standing(run.name, score, difference, price, note))
        first, title = self.runs[0], "score"
        if all(run.metric == first.metric for run in self.runs):
            title = {ACCURACY: "right"}.get(first.metric, first.metric)
        return table_lines(standings, first.name, is_rate=first.is_rate, metric=title)

    @property
    def legend(self) -> list[str]:
        """The legend: a line for each run whose name leaves something out."""
        return [f"{run.name}: {run.program}" for run in self.runs if run.program]

    def _text(self) -> list[str]:
        """Return why the baseline ended early, the sentences, and what the figures leave out."""
        early = [as_sentence(self.stopped)] if self.stopped else []
        return [*early, *self.lines(), *self.notes]

    def __repr__(self) -> str:
        return "\n".join([*self.table(), "", *self._text()])

    def _repr_html_(self) -> str:
        # Escaped, since names come from folders that a stranger may have written.
        lines = [f"<p>{escape(clean(line))}</p>" for line in self._text()]
        table = escape("\n".join(map(clean, self.table())))
        return f"<div><pre>{table}</pre>{''.join(lines)}</div>"

    # Data

    def to_pandas(self, what: str = "pairs") -> pd.DataFrame:
        """Return a row for each of the `pairs` or `runs`, with columns such as `score.low`."""
        import pandas as pd

        rows: dict[str, Sequence[Pair | Compared]] = {"pairs": self.pairs, "runs": self.runs}
        return pd.json_normalize([row.to_dict() for row in rows[what]])

    def to_dict(self) -> dict[str, object]:
        """Return all of it as JSON."""
        return {
            "questions": self.pairs[0].n,
            "runs": [run.to_dict() for run in self.runs],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "verdict": self.verdict.to_dict() | {"headline": self.headline},
            "recommendation": self.recommendation and self.recommendation.to_dict(),
            "panel": self.panel and self.panel.to_dict(),
            "notes": self.notes,
            "stopped": self.stopped,
        }
