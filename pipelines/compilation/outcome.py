"""`Compilation`: the result in `compile.json`, and the sentence whether there is a gain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from ...modules.base.calls import UsageFields
from ...modules.base.errors import UserError
from ...modules.base.keyed import only, without
from ...modules.reading.grading import ACCURACY
from ..base.cards import ShownResult
from ..base.journal import read_object
from ..base.run_files import ScoreFields
from ..comparison.compare import compare
from ..comparison.pairs import Pair
from ..comparison.verdict import A, B
from ..comparison.words import say
from ..evaluation.earlier import Evaluation
from ..plots.evaluation import score_plot
from .card import COMPILE

GIVEN, COMPILED = "given", "compiled"
"""The two programs, of which one is the result; COMPILED is also the folder of the compiled one if
the given one is the result.
"""


class SelectionScores(TypedDict):
    """Scores on the selection questions with `value`, `low`, `high` and `n`; None without an
    answer.
    """

    given: ScoreFields | None
    winner: ScoreFields | None
    candidate: str


class HeldOut(TypedDict):
    """What the summary of an evaluation on held-out questions says."""

    scores: dict[str, ScoreFields]
    counts: dict[str, int | None]
    usage: UsageFields


@dataclass(repr=False)
class Compilation(ShownResult):
    """How a compilation went: the content of `compile.json`.

    `winner` is `compiled`, or `given` where no candidate did better on the selection questions;
    `selection` has the scores of both, `comparison` the difference on held-out questions, or None,
    and `gain` whether it is shown. Scores have `value`, `low` and `high` in 0 … 1. `verdict` is a
    sentence. `calls_made` were paid for, `calls_saved` were not.
    """

    folder: Path
    optimizer: str
    preset: str
    winner: str
    verdict: str
    gain: bool | None
    selection: SelectionScores
    before: HeldOut | None
    after: HeldOut | None
    comparison: dict[str, object] | None
    candidates: int
    calls_made: int
    calls_saved: int
    paid: UsageFields
    lost: UsageFields
    settings: dict[str, Any]
    seconds: float
    stopped: str | None = None
    spent: str | None = None
    mlflow_run_id: str | None = None

    keep: object = None  # a temporary folder lives as long as its compilation

    @property
    def run_id(self) -> str | None:
        """The compilation's run in MLflow; None when it has none."""
        return self.mlflow_run_id

    def to_dict(self) -> dict[str, object]:
        return {"out": str(self.folder), **without(vars(self), ("keep", "folder"))}

    @property
    def paused(self) -> bool:
        """Whether an endpoint or account failed."""
        return self.stopped is not None and self.spent is None

    @property
    def empty(self) -> bool:
        """Whether no candidate has a score."""
        return self.selection["winner"] is None

    def plot(self, path: str | Path) -> Path:
        """Draw the scores on held-out questions before and after, as PNG or SVG. Raises UserError
        where none were asked.
        """
        ends = {}
        for phase, judged in (("before", self.before), ("after", self.after)):
            if judged is not None:
                metric = next(iter(judged["scores"]))
                # Of phrases F1 is compared, otherwise the run's metric.
                if metric == ACCURACY and "f1" in judged["scores"]:
                    metric = "f1"
                score = judged["scores"][metric]
                ends[phase] = (score["value"], score["low"], score["high"])
        if not ends:
            raise UserError("there is nothing to draw: no held-out question was asked")
        return score_plot(ends, Path(path), metric=metric, rate=score.get("rate", True))

    def __repr__(self) -> str:
        return f"Compilation({self.optimizer} {self.preset}: {self.verdict})"

    def __deepcopy__(self, memo: dict[int, object]) -> Compilation:
        return self


def verdict_on(
    pair: Pair | None,
    kept: bool,
    held_out: int,
    *,
    tried: int,
    answered: int,
    stopped: bool,
    insists: bool,
    failed: str = "",
) -> tuple[bool | None, bool, str]:
    """Return whether there is a gain beyond chance (None: not known), whether the given program is
    handed back unless the user `insists`, since there is a loss or no result, and what to do, in a
    sentence.

    `tried` is how many candidates besides the given program have a score, `answered` how many of
    the `held_out` questions have an answer of the given program. `failed` says that too many of its
    questions failed.
    """
    # Not known, until something is shown.
    gain, back = None, False
    shown: object = pair
    if kept:
        # Where nothing was tried, nothing is known: that is no "no gain".
        if not failed and (tried or not stopped):
            gain = False
    elif pair is not None and pair.cause:
        back = True
    elif pair is not None:
        outcome = pair.outcome
        if pair.f1 is not None and pair.metric == ACCURACY:
            shown, outcome = pair.f1, pair.f1_outcome
        gain, back = outcome == A, outcome == B
    words = (pair, shown, gain, back, insists, held_out, tried, answered, stopped, failed)
    return gain, back, say("nothing_compiled" if kept else "compiled", *words)


def compared(before: Evaluation | None, after: Evaluation | None) -> Pair | None:
    if before is None or after is None:
        return None
    # Two that a budget ended early may have no question in common.
    ids = {row.id for row in before.rows}
    if not any(row.id in ids for row in after.rows):
        return None
    return compare(before, after, names=["given", "compiled"])[0]


def summed(evaluation: Evaluation | None) -> HeldOut | None:
    if evaluation is None:
        return None
    summary = evaluation.summary
    return {"scores": summary.scores, "counts": summary.counts, "usage": summary.usage}


def compilation_in(folder: Path) -> Compilation | None:
    """Return the result of the last attempt at a compilation in a folder; None if none ended."""
    result = (read_object(folder / COMPILE) or {}).get("result")
    if not isinstance(result, dict):
        return None
    # The folder is where it is now: it may have been moved since the file was written.
    known = only(result, Compilation.__dataclass_fields__)
    return Compilation(**{**known, "folder": folder})
