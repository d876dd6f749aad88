"""Compares runs over the same questions: paired differences, tests, effect sizes, prices, what confounds."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.protocols.program import distinct
from ...modules.reading.row import ResultRow
from ...optimizers.statistics.clusters import Clustered, clustered_mean
from ...optimizers.statistics.statistics import (
    bootstrap_mean,
    holm,
    matched_odds,
    mcnemar_exact,
    mcnemar_midp,
    paired_bootstrap,
)
from ..base.wording import counted, run_notes
from ..data import catalogue
from ..evaluation.earlier import Evaluation
from ..runs.summary import rate
from ..tracking.values import run_name
from .compared import Compared
from .confounds import confounds, fair_opponent, matched_opponent, unread_cause
from .match_budget import run_or_match
from .pairs import CLUSTERS, EXACT, MIDP, SURE, A, B, Comparison, Pair
from .recommend import MARGIN, recommend

NO_CLUSTERS = "none"

Flags = npt.NDArray[np.bool_]


def compare(
    first: Evaluation | str | Path,
    *others: Evaluation | str | Path,
    names: Sequence[str] = (),
    seed: int = 0,
    exact: bool = False,
    cluster: str | None = None,
    margin: float = MARGIN,
) -> Comparison:
    """Every run against every other, over the questions that all of them answered.

    Args:
        first: the run that the others are measured against: an evaluation, or the folder of an earlier one.
        others: runs over the same questions; at least one. What is not in every run is left out, and `notes`
            say how much that is. Unreadable answers and errors are wrong; of a run that failed on half of the
            questions or more, or whose unreadable answers are above 5% or could undo a difference, there is
            no verdict.
        names: what to call the runs, first to last; by default what they ran, made distinct.
        seed: of the bootstrap.
        exact: test by McNemar's exact p instead of his mid-p.
        cluster: field of `meta` whose values (or whose partners' ids) say which questions belong together,
            such as `subject`; intervals and tests then also hold for new ones. None takes what the data set
            declares, `none` nothing.
        margin: how much accuracy (0 to 1) a cheaper program may lose and still be recommended.

    Returns one Pair for each two runs, first those of the others (`a`) against the first (`b`), p-values
    Holm-corrected over all.

    Raises:
        UserError: nothing to compare with, what is no run, a folder without one, names that do not fit, no
            shared question, a question that differs between the runs in its text, its options or its gold
            answer, or a cluster field that a question lacks.
    """
    if not others:
        raise UserError("a comparison needs at least two runs: name another one")
    if not 0 <= margin < 1:
        raise UserError(f"the margin is {margin}: give points of accuracy as a share, such as 0.02")
    runs = [run_or_match(run) for run in (first, *others)]
    titles = names_for(names, runs)
    field = cluster or _declared(runs[0])
    answers = [{row["id"]: _answered(row, field) for row in run.rows} for run in runs]
    ids = [name for name in answers[0] if all(name in others for others in answers[1:])]
    if not ids:
        raise UserError(f"{', '.join(titles)} share no question: compare runs over the same data")
    shared = [[answered[name] for name in ids] for answered in answers]
    _check_same(ids, shared, titles)
    compared = [
        _compared(title, run, len(answered), common)
        for title, run, answered, common in zip(titles, runs, answers, shared, strict=True)
    ]
    test = _Test(exact, _clusters(field, cluster is None, ids, shared[0]))
    right = [np.array([one.correct for one in common], dtype=bool) for common in shared]
    places = [(a, b) for b, a in combinations(range(len(runs)), 2)]
    tests = [test.of(right[a], right[b]) for a, b in places]
    pairs = []
    for (a, b), (_, clustered), adjusted in zip(places, tests, holm([p for p, _ in tests]), strict=True):
        names, both = (titles[a], titles[b]), (runs[a], runs[b])
        pair = replace(
            _pair(ids, names, shared[a], shared[b], seed, exact),
            p_adjusted=adjusted,
            confounds=tuple(confounds(names, both)),
            opponent=fair_opponent(names, both),
        )
        if clustered is not None:
            pair = replace(pair, p=clustered.p, test=CLUSTERS, cluster=field, clustered=clustered)
        pairs.append(pair)
    for place, (a, b) in enumerate(places):
        causes = [unread_cause(compared[one], runs[one]) for one in (a, b) if compared[one].mostly_unread]
        winner, loser = {A: (a, b), B: (b, a)}.get(pairs[place].outcome, (a, a))
        if not causes and winner != loser and compared[winner].unread + compared[loser].unread:
            worst = {
                winner: right[winner] & [not one.unread for one in shared[winner]],
                loser: right[loser] | [one.unread for one in shared[loser]],
            }
            ps = [p for p, _ in tests]
            ps[place], _ = test.of(worst[a], worst[b])
            if worst[winner].mean() <= worst[loser].mean() or holm(ps)[place] >= SURE:
                said = [unread_cause(compared[one], runs[one]) for one in (a, b) if compared[one].unread]
                causes = [f"{'; '.join(said)}. Scored the other way, they would undo the difference"]
        pairs[place] = replace(pairs[place], unread="; ".join(causes))
    named = dict(zip(titles, runs, strict=True))
    for place, pair in enumerate(pairs):
        for name in (pair.a, pair.b) if pair.opponent else ():
            if opponent := matched_opponent(named[name], named):
                met = next(other for other in pairs if {other.a, other.b} == {name, opponent})
                pairs[place] = replace(pair, opponent=_met(name, opponent, met))
    usable = [place for place, run in enumerate(compared) if not run.failed and not run.mostly_unread]
    recommendation = None
    if len(usable) > 1:
        seen = [compared[place] for place in usable]
        recommendation = recommend(seen, [right[place] for place in usable], margin, seed=seed)
    notes = _notes(compared, [run.summary.counts["errors"] for run in runs], len(ids))
    notes += [few] if (few := pairs[0].few_clusters) else []
    return Comparison(compared, pairs, notes, named, recommendation)


def _met(name: str, opponent: str, pair: Pair) -> str:
    """How a run did against the best of its LMs alone."""
    better = {A: pair.a, B: pair.b}.get(pair.outcome)
    found = "beats it" if better == name else "does worse" if better else "is not shown to beat it"
    return f"The fair opponent of {name}, the best of its LMs alone, is {opponent}: {name} {found}"


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
    cut_off: bool
    usage: Usage
    seconds: float
    asked: int  # hash of everything that makes the question what it is
    cluster: Hashable

    @property
    def unread(self) -> bool:
        return self.unreadable or self.cut_off


def _answered(row: ResultRow, field: str | None) -> _Answered:
    asked = [row["kind"], row.get("question"), row.get("choices"), row["gold"]]
    unreadable = row["error"] is None and row["answer"] is None
    ended = row.get("truncated") or row.get("finish_reason") in ("length", "max_tokens")
    return _Answered(
        correct=bool(row["correct"]),
        f1=float(row.get("f1") or 0.0) if row["kind"] == "span" else None,
        failed=row["error"] is not None,
        unreadable=unreadable,
        cut_off=row["error"] is None and bool(ended or row["usage"].get("truncated_calls")),
        usage=Usage.of(row["usage"]),
        seconds=float(row["seconds"]),
        asked=hash(json.dumps(asked, sort_keys=True)),
        cluster=(row.get("meta") or {}).get(field) if field else None,
    )


def _declared(run: Evaluation) -> str | None:
    """The field by which the run's data set says that questions belong together."""
    source = run.summary.run["settings"].get("data")
    if not isinstance(source, str):
        return None
    spec = catalogue.find(source) or catalogue.of_file(Path(source))
    return spec.cluster if spec is not None else None


def _clusters(
    field: str | None, declared: bool, ids: Sequence[str], answers: Sequence[_Answered]
) -> list[Hashable] | None:
    """The cluster of each question; None without any. A question whose field names another one's id stands
    with that one."""
    if field is None or field == NO_CLUSTERS:
        return None
    lacking = [name for name, one in zip(ids, answers, strict=True) if one.cluster is None]
    if lacking and not declared:
        raise UserError(
            f"{len(lacking):,} of the questions (the first is {lacking[0]!r}) have no {field!r} in their "
            "meta to cluster by: name another field"
        )
    known = set(ids)
    found: list[Hashable] = [
        min(name, str(one.cluster)) if str(one.cluster) in known else (one.cluster or ("alone", name))
        for name, one in zip(ids, answers, strict=True)
    ]
    if len(set(found)) == 1 and not declared:
        raise UserError(f"all questions have the same {field!r}: name another field to cluster by")
    return found if 1 < len(set(found)) < len(ids) else None


def _check_same(ids: Sequence[str], shared: Sequence[Sequence[_Answered]], titles: Sequence[str]) -> None:
    for title, answers in zip(titles[1:], shared[1:], strict=True):
        pairs = zip(ids, answers, shared[0], strict=True)
        differing = [name for name, one, other in pairs if one.asked != other.asked]
        if differing:
            raise UserError(
                f"{len(differing)} of the questions that {titles[0]} and {title} share (the first is "
                f"{differing[0]!r}) differ in text, options or gold answer: compare runs over the same data"
            )


def compared_alone(name: str, run: Evaluation) -> Compared:
    """The figures of a run over all its questions."""
    rows = [_answered(row, None) for row in run.rows]
    return _compared(name, run, len(rows), rows)


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
        cut_off=sum(one.cut_off for one in shared),
        unread=sum(one.unread for one in shared),
        usage=_used(shared).to_dict(),
        seconds=float(np.mean([one.seconds for one in shared])),
    )


def _used(answers: Iterable[_Answered]) -> Usage:
    usage = Usage()
    for one in answers:
        usage.add(one.usage)
    return usage


class _Test(NamedTuple):
    """How two runs are tested: McNemar's test, or with clusters the cluster-robust one."""

    exact: bool
    clusters: Sequence[Hashable] | None

    def of(self, a: Flags, b: Flags) -> tuple[float, Clustered | None]:
        if self.clusters is not None:
            found = clustered_mean((a.astype(float) - b).tolist(), self.clusters)
            return found.p, found
        return _mcnemar(int((a & ~b).sum()), int((b & ~a).sum()), self.exact), None


def _mcnemar(only_a: int, only_b: int, exact: bool) -> float:
    return (mcnemar_exact if exact else mcnemar_midp)(only_a, only_b)


def _pair(
    ids: Sequence[str],
    names: tuple[str, str],
    a: Sequence[_Answered],
    b: Sequence[_Answered],
    seed: int,
    exact: bool,
) -> Pair:
    found = list(zip(ids, a, b, strict=True))
    only_a = tuple(name for name, one, other in found if one.correct and not other.correct)
    only_b = tuple(name for name, one, other in found if other.correct and not one.correct)
    counts = len(only_a), len(only_b)
    right_a, right_b = [one.correct for one in a], [one.correct for one in b]
    spans = [(one.f1, other.f1) for _, one, other in found if one.f1 is not None and other.f1 is not None]
    paid = [(one, other) for _, one, other in found if not one.usage.cached_calls + other.usage.cached_calls]
    bought = [_used(pair[side] for pair in paid) for side in (0, 1)]
    seconds = [math.fsum(pair[side].seconds for pair in paid) for side in (0, 1)]
    p = _mcnemar(*counts, exact)
    return Pair(
        a=names[0],
        b=names[1],
        n=len(a),
        accuracy_a=sum(right_a) / len(a),
        accuracy_b=sum(right_b) / len(b),
        **paired_bootstrap(right_a, right_b, seed=seed)._asdict(),
        p=p,
        p_adjusted=p,
        odds=matched_odds(*counts, exact=exact),
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
        test=EXACT if exact else MIDP,
    )


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def _notes(runs: Sequence[Compared], errors: Sequence[int], shared: int) -> list[str]:
    left = [f"{run.left_out:,} of {run.name}" for run in runs if run.left_out]
    notes = []
    if left:
        only = f"the {counted(shared, 'shared question')} {'is' if shared == 1 else 'are'} compared"
        notes.append(f"Only {only}: left out are {', '.join(left)}.")
    for run, failed in zip(runs, errors, strict=True):
        notes += run_notes(run.name, failed, run.rows, run.questions)
    for run in runs:
        cached, calls = run.usage["cached_calls"], run.usage["calls"]
        if cached:
            notes.append(
                f"{cached:,} of the {calls:,} calls of {run.name} came from a record or cache: its tokens "
                "and cost are of the others, and their ratios leave such questions out."
            )
    return notes
