"""Published figures measured again: each by its name, from the rows of one run or of several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...modules.reading.answers import score
from ...modules.reading.row import ResultRow
from ...modules.reports.deliberation import deliberation_report
from ...optimizers.statistics.statistics import wilson
from ..base.run_files import ScoreFields
from ..evaluation.earlier import Evaluation
from ..runs.summary import grade_band

RESAMPLES = 4_000
_AT_ONCE = 500  # resamples held in memory
_GROUPS = {
    "natural": "natural science",
    "social": "social science",
    "language": "language science",
    "grades_1_6": "1-6",
    "grades_7_12": "7-12",
}

Count = tuple[float, float]
"""Hits and chances of one row."""


class Measured(NamedTuple):
    """A rate in 0 … 1 with its 95% interval, over `n` questions."""

    value: float
    low: float
    high: float
    n: int


def measured(figure: str, run: Evaluation) -> Measured | None:
    """A figure of one run by its name; None when the run has nothing to measure it on.

    Rows with an error count as wrong. Raises KeyError for an unknown name.
    """
    scores = run.summary.scores
    if figure in ("accuracy", "consensus", "average", "em", "f1"):
        return _score(scores.get(figure if figure in ("em", "f1") else "accuracy"))
    if figure == "improvement":
        return _improvement(run)
    if figure in _GROUPS:
        return pooled(
            [run],
            lambda _, row: (float(bool(row["correct"])), 1.0) if _about(figure, row) else None,
        )
    return pooled([run], _IN_ONE[figure])


def derived(rule: str, figure: str, runs: Sequence[Evaluation]) -> Measured | None:
    """A figure over several runs by its rule, such as `role:intuitive`; None with nothing to
    measure.

    Rows of one question in different runs belong together: the interval is of a bootstrap over
    questions. Raises KeyError for an unknown rule.
    """
    name, _, argument = rule.partition(":")
    if name == "agreement":
        return _agreement(figure, runs)
    counter = _DERIVED[name]
    return pooled(runs, lambda run, row: counter(run, row, argument))


def lost_counts(figure: str, runs: Iterable[Evaluation]) -> dict[str, Any]:
    """How many `rows` of the runs a figure is about, and how many of these are `errors`,
    `unreadable` and `truncated`.
    """
    rows = errors = unreadable = truncated = 0
    for row in (row for run in runs for row in run.rows if _about(figure, row)):
        rows += 1
        errors += row["error"] is not None
        unreadable += row["error"] is None and row["answer"] is None
        truncated += bool(row.get("truncated"))
    return {"rows": rows, "errors": errors, "unreadable": unreadable, "truncated": truncated}


def pooled(
    runs: Iterable[Evaluation], count: Callable[[Evaluation, ResultRow], Count | None]
) -> Measured | None:
    """Hits over chances of all rows of all runs. `count` gives those of a row, None where there are
    none.
    """
    hits: dict[str, float] = defaultdict(float)
    chances: dict[str, float] = defaultdict(float)
    for run in runs:
        for row in run.rows:
            counted = count(run, row)
            if counted is not None and counted[1]:
                hits[row["id"]] += counted[0]
                chances[row["id"]] += counted[1]
    return ratio([hits[name] for name in chances], list(chances.values()))


def ratio(hits: Sequence[float], chances: Sequence[float], seed: int = 0) -> Measured | None:
    """sum(hits) / sum(chances) over questions, with its 95% interval; None without a question.

    Wilson's interval where every question has one chance, and where all or nothing was a hit (then
    over the number of questions, since the chances of one question are not independent); else
    the percentile bootstrap's over questions.
    """
    h, c = np.asarray(hits, dtype=float), np.asarray(chances, dtype=float)
    n = len(c)
    if not n:
        return None
    value = float(h.sum() / c.sum())
    single = bool((c == 1).all() and np.isin(h, (0.0, 1.0)).all())
    if single or value in (0.0, 1.0):
        return Measured(value, *wilson(round(value * n), n), n)
    return Measured(value, *_bootstrapped(h, c, seed), n)


def _bootstrapped(
    h: npt.NDArray[np.float64], c: npt.NDArray[np.float64], seed: int = 0
) -> tuple[float, float]:
    """The 95% interval of sum(h) / sum(c), by resampling questions."""
    n = len(c)
    rng = np.random.default_rng(seed)
    means = np.empty(RESAMPLES)
    for start in range(0, RESAMPLES, _AT_ONCE):
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=_AT_ONCE)
        means[start : start + _AT_ONCE] = (drawn @ h) / (drawn @ c)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _score(score: ScoreFields | None) -> Measured | None:
    if score is None or not score.get("n"):
        return None
    return Measured(score["value"], score["low"], score["high"], int(score["n"]))


def _about(figure: str, row: ResultRow) -> bool:
    """Whether a question is one of those that a figure is about: of its subject or grades, else
    any.
    """
    meta = row.get("meta") or {}
    return figure not in _GROUPS or _GROUPS[figure] in (meta.get("subject"), grade_band(meta))


def _individual(run: Evaluation, row: ResultRow) -> Count | None:
    """The share of agents that were right; in a failed row none was."""
    if row["error"]:
        return 0.0, 1.0
    right = [_right(row, turn["answer"]) for turn in row["transcript"]]
    return (sum(right) / len(right), 1.0) if right else None


def _improvement(run: Evaluation) -> Measured | None:
    """What the consensus is above its single agents, question by question."""
    pairs = [(float(bool(row["correct"])), _individual(run, row)) for row in run.rows]
    gains = np.asarray([together - alone[0] for together, alone in pairs if alone is not None])
    n = len(gains)
    if not n:
        return None
    if not gains.any():  # the interval of 0 of n, to both sides
        most = wilson(0, n)[1]
        return Measured(0.0, -most, most, n)
    return Measured(float(gains.mean()), *_bootstrapped(gains, np.ones(n)), n)


def _judge(run: Evaluation, row: ResultRow, _: str = "") -> Count | None:
    """Whether the judge was right, where it had to decide; a judge who could not be read
    was not.
    """
    asked = run.summary.run["program"].get("tie_break") == "judge"
    if not asked or row["error"] or row["consensus_round"] is not None:
        return None
    return float(row["decided_by"] == "judge" and bool(row["correct"])), 1.0


def _role(run: Evaluation, row: ResultRow, role: str) -> Count | None:
    """Whether a role's last answer is right; in a failed row it is not."""
    if role not in run.summary.run["program"].get("roles", ()):
        return None
    turns = [] if row["error"] else row["transcript"]
    answers = [turn["answer"] for turn in turns if turn["agent"] == role]
    return float(bool(answers) and _right(row, answers[-1])), 1.0


def _consensus(run: Evaluation, row: ResultRow, _: str) -> Count:
    return float(row["consensus_round"] is not None), 1.0


def _resolved(run: Evaluation, row: ResultRow, round: str) -> Count:
    return float(row["consensus_round"] is not None and row["consensus_round"] <= int(round)), 1.0


def _revisions(run: Evaluation, row: ResultRow, role: str) -> Count | None:
    """How many of a role's revisions put a wrong answer right."""
    if row["error"] or role not in run.summary.run["program"].get("roles", ()):
        return None
    revisions = deliberation_report([row])["role"].get(role, {}).get("revisions", {})
    counts = [
        revisions.get(name, 0) for name in ("wrong_to_right", "right_to_wrong", "wrong_to_wrong")
    ]
    return float(counts[0]), float(sum(counts))


def _agreement(figure: str, runs: Sequence[Evaluation]) -> Measured | None:
    """The share of questions that all runs, or none, got right, of those that all runs have."""
    right: dict[str, list[bool]] = defaultdict(list)
    for run in runs:
        for row in run.rows:
            right[row["id"]].append(bool(row["correct"]))
    shared = [own for own in right.values() if len(own) == len(runs)]
    hits = [all(own) if figure == "all_correct" else not any(own) for own in shared]
    return ratio([float(hit) for hit in hits], [1.0] * len(shared))


def _right(row: ResultRow, answer: str | None) -> bool:
    return score(answer, row["gold"] or "", row["kind"], row.get("choices")).correct


_IN_ONE: dict[str, Callable[[Evaluation, ResultRow], Count | None]] = {
    "individual": _individual,
    "judge_accuracy": _judge,
    "consensus_in_round_1": lambda run, row: _resolved(run, row, "1"),
}
_DERIVED: dict[str, Callable[[Evaluation, ResultRow, str], Count | None]] = {
    "role": _role,
    "judge": _judge,
    "consensus": _consensus,
    "resolved": _resolved,
    "revisions": _revisions,
}


def rounds(run: Evaluation) -> Iterator[tuple[str, int]]:
    """How many questions reached consensus in round 1, 2, …, how many never did, and how many
    failed.
    """
    counts: dict[str, int] = defaultdict(int)
    for row in run.rows:
        never = "never" if row["error"] is None else "failed"
        counts[never if row["consensus_round"] is None else str(row["consensus_round"])] += 1
    yield from sorted(counts.items())
