"""`Evaluation`: the result of an evaluation, just made or read from a folder (`earlier`)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.errors import UserError
from ...modules.base.usage import UsageFields
from ...modules.reading.grading import ACCURACY
from ..base.html import html_result
from ..base.journal import read_object
from ..base.run_files import FittedWeights
from ..base.typed import as_read, misfit
from ..base.wording import common_error, counted, percent, used
from ..runs.lines import (
    bill_line,
    flaky_line,
    judge_words,
    result_lines,
    score_line,
    unmetered_line,
)
from ..runs.manifest import name_of_run, read_run, rival_of
from ..runs.rows import RESULTS, Rows, read_rows
from ..runs.summary import SUMMARY, Ending, Summary, summarise

if TYPE_CHECKING:
    import pandas as pd

    from ..tracking.context import Untracked

DAMAGED_REPORT = (
    "the protocol's report in it is damaged; run the same evaluation again to rewrite it"
)


class Evaluation:
    """A finished evaluation: its `folder`, `summary` and `rows`.

    `summary.scores["accuracy"]`, or that of the run's metric, has `value`, `low` and `high`, the
    ends of the 95% interval; `score` is the value alone.
    """

    folder: Path
    summary: Summary
    rows: Rows
    seconds: float | None
    training: FittedWeights | None

    def __init__(
        self,
        folder: Path,
        summary: Summary,
        keep: object = None,
        tracking: Untracked | None = None,
        *,
        program: object = None,
        seconds: float | None = None,
        training: FittedWeights | None = None,
    ) -> None:
        self.folder = folder
        self.summary = summary
        self.rows = Rows(folder / RESULTS, keep)
        self.seconds, self.training = seconds, training
        self._tracking, self._program = tracking, program

    @property
    def program(self) -> Any:
        """The program that answered, ready to be asked. Raises UserError if the folder has none, as
        for imported logs and functions.
        """
        return self.program_with(None)

    def program_with(self, lms: Mapping[str, object] | None) -> object:
        """Return the program; if it has to be loaded from the folder, its agents get these LMs."""
        if self._program is None:
            # It imports DSPy, which a comparison does not need.
            from ..programs.saved import load_program

            return load_program(self.folder, lms=lms)
        return self._program

    @property
    def stopped(self) -> str | None:
        """Why the run ended early, or is no result because half of its questions failed; None for a
        complete run.
        """
        counts = self.summary.counts
        # If half of them failed, the score says more about the failures than about the program.
        if self.summary.stopped or 2 * counts.errors < counts.rows:
            return self.summary.stopped
        return all_failed(self.folder)

    @property
    def paused(self) -> bool:
        """Whether the run should go on later: an endpoint, an account or half of the questions
        failed.
        """
        return self.summary.ending == Ending.PAUSED or (
            self.stopped is not None and self.summary.stopped is None
        )

    @property
    def empty(self) -> bool:
        """Whether no question is finished, or all have failed."""
        return bool(self.summary.counts.rows == self.summary.counts.errors)

    def lines(self) -> list[str]:
        """Return the result in two lines, the score and the cost, and further lines about a judge,
        flaky questions, and questions without a metered call.
        """
        lines = [score_line(self.summary), flaky_line(self.summary)]
        if judge := self.summary.run.judge:
            lines.append(f"the judge is {judge_words(judge)}")
        lines.append(unmetered_line(self.summary))
        lines.append(f"{bill_line(self.summary, self.seconds)}; rows in {self.folder}")
        return list(filter(None, lines))

    def next_command(self, asked: str = "") -> str:
        """Return the command for the next step: compare with another run of the same questions;
        look at what there is where this run ended early, at failures, unreadable replies and
        answers without an LM; else let a contest find the best program, with `asked` as its
        further options.
        """
        counts, data = self.summary.counts, self.summary.run.settings.data
        rival = rival_of(self.folder, self.summary.run)
        if rival and not self.stopped:
            return shlex.join(["folkmoot", "compare", str(rival), str(self.folder)])
        odd = self.stopped or counts.errors + counts.unreadable
        if odd or not data or not self.summary.run.lms:
            return shlex.join(["folkmoot", "show", str(self.folder)])
        run = self.summary.run
        lms = run.lm_names
        if "*" in run.lms:  # not other agents' LMs: in a contest, only `*` and the judge have one
            known = {"*", "judge"} & run.lms.keys()
            if asked.startswith("--with "):
                known = set(run.lms)
            lms = [f"{seat}={run.lms[seat].name}".removeprefix("*=") for seat in sorted(known)]
        words = ["folkmoot try", shlex.quote(data), *(f"--lm {name}" for name in lms), asked]
        return " ".join(filter(None, words))

    def in_words(self) -> dict[str, str]:
        """Return the remaining figures, one line each, by name."""
        lines = result_lines(self.summary)
        if learnt := self.training:
            weights = ", ".join(f"{name} {weight:.2f}" for name, weight in learnt.weights.items())
            fitted = f"fitted on {counted(learnt.questions, 'question')} with {used(learnt.usage)}"
            lines["weights"] = f"{weights}; {fitted}"
        return lines

    def to_dict(self) -> dict[str, object]:
        known: dict[str, object] = {"out": str(self.folder)}
        if self.training:
            known["training"] = self.training
        return {**known, **self.summary.to_dict(), "stopped": self.stopped}

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame, with columns such as `usage.calls`."""
        return self.rows.to_pandas()

    def plot(self, path: str | Path) -> Path:
        """Draw the score with its interval, also for each group of questions, as PNG or SVG;
        returns the path.
        """
        from ..plots.evaluation import score_plot

        scores = {"all questions": self.summary.main}
        for name, groups in self.summary.groups.items():
            for value, score in groups.items():
                scores[f"{name} {value}"] = score
        ends = {
            name: (score["value"], score["low"], score["high"]) for name, score in scores.items()
        }
        summary = self.summary
        return score_plot(ends, Path(path), metric=summary.metric, rate=summary.is_rate)

    @property
    def run_id(self) -> str | None:
        """The id of the evaluation's run in MLflow; None if it has none."""
        if self._tracking and self._tracking.run_id:
            return self._tracking.run_id
        return self.summary.run.mlflow_run_id

    @property
    def score(self) -> float:
        """The score by the run's metric: a share of right answers, or a mean."""
        return float(self.summary.main.value)

    @property
    def accuracy(self) -> float:
        """The share of right answers, 0 to 1. Raises UserError if the metric does not tell right
        from wrong.
        """
        return self.summary.accuracy

    def __float__(self) -> float:
        return self.score

    def __repr__(self) -> str:
        if not self.summary.counts.rows:
            return "Evaluation(no question is finished)"
        score = percent(self.summary.main)
        if self.summary.metric != ACCURACY:
            score = f"{self.summary.metric} {score}"
        return f"Evaluation({score}, n={self.summary.finished}{self.summary.failures})"

    def _repr_html_(self) -> str:
        lines = {"result": ". ".join(self.lines()), **self.in_words()}
        return html_result(
            f"Evaluation of {name_of_run(self.summary.run)}", lines, self.rows._repr_html_()
        )


def earlier(run: Evaluation | str | Path, keep: object = None) -> Evaluation:
    """Return the evaluation in a folder that `evaluate` wrote, finished or not; an `Evaluation` is
    returned as it is. `keep` keeps a temporary folder alive.

    Raises UserError for anything else, and for a folder that is missing, damaged, without a run, or
    without a finished row.
    """
    if isinstance(run, Evaluation):
        return run
    if not isinstance(run, str | Path):
        what = "None" if run is None else f"a {type(run).__name__}"
        raise UserError(f"a run is {what}: pass an evaluation, or the name of the folder of one")
    folder = Path(run).expanduser()
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: name one that folkmoot wrote")
    described = read_run(folder)
    written = read_object(folder / SUMMARY) or {}
    if not isinstance(written.get("report") or {}, dict):
        raise UserError(f"{folder / SUMMARY}: {DAMAGED_REPORT}")
    rows = folder / RESULTS
    summary = summarise(
        read_rows(rows) if rows.exists() else (),
        described["questions"],
        lambda _: written.get("report") or {},  # as written: only the program can compute it
        described,
    )
    bills = {name: written[name] for name in ("paid", "lost") if written.get(name) is not None}
    if wrong := misfit(bills, _bills_as_read()):
        raise UserError(
            f"{folder / SUMMARY}: {wrong} is not valid; run the same evaluation again to rewrite it"
        )
    for name, bill in bills.items():
        setattr(summary, name, UsageFields.of(bill))
    if written.get("ending") in list(Ending):
        summary.ending = Ending(written["ending"])
    summary.requests = written.get("requests") or []
    summary.stopped, summary.spent = written.get("stopped"), written.get("spent")
    if not summary.counts.rows:
        raise UserError(f"{folder} has no finished row yet: give its command again")
    return Evaluation(folder, summary, keep)


@cache
def _bills_as_read() -> object:
    """Return the type of the bills in a summary, as `misfit` checks it."""
    return dict[str, as_read(UsageFields)]  # type: ignore[misc]


load_run = earlier
"""`fm.load_run(folder)`: the evaluation in a folder."""


def all_failed(out: Path) -> str:
    """Return the sentence why a run is no result: how many rows failed, and their most frequent
    error.
    """
    errors = [row.error is not None for row in read_rows(out / RESULTS)]
    common = common_error(read_rows(out / RESULTS))
    if common is None:
        return f"no question is finished; the calls so far are kept in {out}"
    reason, times = common
    why, failed = f"because {reason}", "every question failed"
    if times == 1:
        why = f"the first {why}"
    if not all(errors):
        failed = f"{sum(errors):,} of {counted(len(errors), 'question')} failed"
    return f"{failed}, {why}; fix the cause, and --retry-errors asks again"
