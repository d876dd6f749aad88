"""Compares runs over the same questions: paired differences, exact tests, effect sizes and prices."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.protocols.program import distinct
from ...modules.reading.row import ResultRow
from ...optimizers.statistics.statistics import (
    bootstrap_mean,
    holm,
    matched_odds,
    mcnemar_exact,
    paired_bootstrap,
)
from ..base.wording import counted, failed_note
from ..evaluation.earlier import Evaluation, earlier
from ..runs.summary import rate
from ..tracking.values import run_name
from .pairs import Compared, Comparison, Pair


def compare(
    first: Evaluation | str | Path,
    *others: Evaluation | str | Path,
    names: Sequence[str] = (),
    seed: int = 0,
) -> Comparison:
    """Each of the others against the first, over the questions that all of them answered.

    Args:
        first: the run that the others are measured against: an evaluation, or the folder of an earlier one.
        others: runs over the same questions; at least one. What is not in every run is left out, and `notes`
            say how much that is. Unreadable answers and errors are wrong; of a run that failed on half of the
            questions or more, there is no verdict.
        names: what to call the runs, first to last; by default what they ran, made distinct.
        seed: of the bootstrap.

    Returns one Pair an other run, the other as `a` and the first as `b`, p-values Holm-corrected.

    Raises:
        UserError: nothing to compare with, what is no run, a folder without one, names that do not fit, no
            shared question, or a question that differs between the runs in its text, its options or its gold
            answer.
    """
    if not others:
        raise UserError("a comparison needs at least two runs: name another one")
    runs = [earlier(run) for run in (first, *others)]
    titles = names_for(names, runs)
    answers = [{row["id"]: _answered(row) for row in run.rows} for run in runs]
    ids = [name for name in answers[0] if all(name in others for others in answers[1:])]
    if not ids:
        raise UserError(f"{', '.join(titles)} share no question: compare runs over the same data")
    shared = [[answered[name] for name in ids] for answered in answers]
    _check_same(ids, shared, titles)
    compared = [
        _compared(title, run, len(answered), common)
        for title, run, answered, common in zip(titles, runs, answers, shared, strict=True)
    ]
    tested = [_discordant(ids, answered, shared[0]) for answered in shared[1:]]
    adjusted = holm([mcnemar_exact(len(only_a), len(only_b)) for only_a, only_b in tested])
    pairs = [
        _pair((titles[index], titles[0]), shared[index], shared[0], *tested[index - 1], p, seed)
        for index, p in enumerate(adjusted, start=1)
    ]
    notes = _notes(compared, [run.summary.counts["errors"] for run in runs], len(ids))
    return Comparison(compared, pairs, notes, dict(zip(titles, runs, strict=True)))


def names_for(names: Sequence[str], runs: Sequence[Evaluation]) -> list[str]:
    """The names given, or where none are what the runs ran. Raises UserError for names that do not fit."""
    if not names:
        return names_of(runs)
    if isinstance(names, str) or len(names) != len(runs) or len(set(names)) != len(runs) or not all(names):
        raise UserError(
            f"the names {', '.join(names)} do not fit {len(runs)} runs: give each a name of its own"
        )
    return list(names)


def names_of(runs: Sequence[Evaluation]) -> list[str]:
    """What each ran; where that is the same, with the LM, then the folder, then a number."""
    names = [run_name(run.summary.run) for run in runs]
    lms = [", ".join(dict.fromkeys(lm["name"] for lm in run.summary.run["lms"].values())) for run in runs]
    for details in (lms, [run.folder.name for run in runs]):
        known = list(zip(names, details, strict=True))
        same = {name: {detail for other, detail in known if other == name} for name in names}
        names = [
            f"{name} ({detail})" if names.count(name) > 1 and len(same[name]) > 1 else name
            for name, detail in known
        ]
    return distinct(names)


class _Answered(NamedTuple):
    """What is kept of a row: with 100,000 questions, whole rows would fill the memory."""

    correct: bool
    f1: float | None
    failed: bool
    unreadable: bool
    usage: Usage
    seconds: float
    asked: int  # hash of everything that makes the question what it is


def _answered(row: ResultRow) -> _Answered:
    asked = [row["kind"], row.get("question"), row.get("choices"), row["gold"]]
    return _Answered(
        correct=bool(row["correct"]),
        f1=float(row.get("f1") or 0.0) if row["kind"] == "span" else None,
        failed=row["error"] is not None,
        unreadable=row["error"] is None and row["answer"] is None,
        usage=Usage.of(row["usage"]),
        seconds=float(row["seconds"]),
        asked=hash(json.dumps(asked, sort_keys=True)),
    )


def _check_same(ids: Sequence[str], shared: Sequence[Sequence[_Answered]], titles: Sequence[str]) -> None:
    for title, answers in zip(titles[1:], shared[1:], strict=True):
        pairs = zip(ids, answers, shared[0], strict=True)
        differing = [name for name, one, other in pairs if one.asked != other.asked]
        if differing:
            raise UserError(
                f"{len(differing)} of the questions that {titles[0]} and {title} share (the first is "
                f"{differing[0]!r}) differ in text, options or gold answer: compare runs over the same data"
            )


def _compared(name: str, run: Evaluation, rows: int, shared: Sequence[_Answered]) -> Compared:
    f1 = [one.f1 for one in shared if one.f1 is not None]
    estimate = bootstrap_mean(f1, seed=0) if f1 else None
    return Compared(
        name=name,
        folder=str(run.folder),
        questions=run.summary.counts["questions"],
        rows=rows,
        left_out=rows - len(shared),
        accuracy=rate(sum(one.correct for one in shared), len(shared)),
        f1={"value": estimate.mean, "low": estimate.low, "high": estimate.high, "n": len(f1)}
        if estimate
        else None,
        errors=sum(one.failed for one in shared),
        unreadable=sum(one.unreadable for one in shared),
        usage=_used(shared).to_dict(),
        seconds=float(np.mean([one.seconds for one in shared])),
    )


def _used(answers: Iterable[_Answered]) -> Usage:
    usage = Usage()
    for one in answers:
        usage.add(one.usage)
    return usage


def _discordant(
    ids: Sequence[str], a: Sequence[_Answered], b: Sequence[_Answered]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = list(zip(ids, a, b, strict=True))
    return (
        tuple(name for name, one, other in found if one.correct and not other.correct),
        tuple(name for name, one, other in found if other.correct and not one.correct),
    )


def _pair(
    names: tuple[str, str],
    a: Sequence[_Answered],
    b: Sequence[_Answered],
    only_a: tuple[str, ...],
    only_b: tuple[str, ...],
    p_adjusted: float,
    seed: int,
) -> Pair:
    right_a, right_b = [one.correct for one in a], [one.correct for one in b]
    spans = [(x.f1, y.f1) for x, y in zip(a, b, strict=True) if x.f1 is not None and y.f1 is not None]
    paid = [(x, y) for x, y in zip(a, b, strict=True) if not x.usage.cached_calls + y.usage.cached_calls]
    bought = [_used(pair[side] for pair in paid) for side in (0, 1)]
    seconds = [math.fsum(pair[side].seconds for pair in paid) for side in (0, 1)]
    return Pair(
        a=names[0],
        b=names[1],
        n=len(a),
        accuracy_a=sum(right_a) / len(a),
        accuracy_b=sum(right_b) / len(b),
        **paired_bootstrap(right_a, right_b, seed=seed)._asdict(),
        p=mcnemar_exact(len(only_a), len(only_b)),
        p_adjusted=p_adjusted,
        odds=matched_odds(len(only_a), len(only_b)),
        f1=paired_bootstrap(*zip(*spans, strict=True), seed=seed) if spans else None,
        call_ratio=_ratio(*(_used(answers).calls for answers in (a, b))),
        paid=len(paid),
        token_ratio=_ratio(*(usage.tokens for usage in bought)),
        cost_ratio=_ratio(*(usage.cost_usd for usage in bought)),
        seconds_ratio=_ratio(*seconds),
        only_a=only_a,
        only_b=only_b,
        failed_a=sum(one.failed for one in a),
        failed_b=sum(one.failed for one in b),
    )


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def _notes(runs: Sequence[Compared], errors: Sequence[int], shared: int) -> list[str]:
    left = [f"{run.left_out:,} of {run.name}" for run in runs if run.left_out]
    notes = []
    if left:
        only = f"the {counted(shared, 'shared question')} {'is' if shared == 1 else 'are'} compared"
        notes.append(f"Only {only}: left out are {', '.join(left)}.")
    notes += [
        failed_note(run.name, failed, run.rows) for run, failed in zip(runs, errors, strict=True) if failed
    ]
    notes += [
        f"{run.name} is not finished: {run.rows:,} of its {run.questions:,} questions have a row."
        for run in runs
        if run.rows < run.questions
    ]
    for run in runs:
        cached, calls = run.usage["cached_calls"], run.usage["calls"]
        if cached:
            notes.append(
                f"{cached:,} of the {calls:,} calls of {run.name} came from a record or cache: its tokens "
                "and cost are of the others, and their ratios leave such questions out."
            )
    return notes
