"""Compares runs over the same questions: paired differences, tests, effect sizes, prices, what
confounds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.protocols.program import distinct
from ...modules.reading.grading import FAILURE_SCORE, metric_name
from ...optimizers.statistics.clusters import Clustered, clustered_mean
from ...optimizers.statistics.statistics import (
    Difference,
    bootstrap_mean,
    holm,
    mcnemar_exact,
    mcnemar_midp,
    paired_bootstrap,
)
from ..base.wording import counted, run_notes
from ..data import catalogue
from ..evaluation.earlier import Evaluation, imported_runs
from ..runs.lines import judge_words
from ..runs.summary import Summary, mean_score
from ..tracking.values import run_name
from .compared import SURE, Compared
from .confounds import confounds, rivals_of, unread_cause
from .match_budget import run_or_match
from .pairs import CLUSTERS, EXACT, MIDP, PAIRED_T, Comparison, Pair
from .panel import MOST_MEMBERS, panel_of
from .questions import FREE, QuestionAnswers, answered_in
from .verdict import A, B, conclude, prices_of

NO_CLUSTERS = "none"

Scores = npt.NDArray[np.float64]


def compare(
    first: Evaluation | str | Path,
    *others: Evaluation | str | Path,
    names: Sequence[str] = (),
    seed: int = 0,
    exact: bool = False,
    cluster: str | None = None,
    panel: int = MOST_MEMBERS,
) -> Comparison:
    """Every run against every other, over the questions that all of them answered.

    Args: first: the run that the others are measured against: an evaluation, the folder of an
        earlier one, or that of an import, which stands for all its runs.
        others: runs over the same questions; at least one. What is not in every run is left out,
            and `notes` say how much that is. Unreadable answers and errors are wrong; of a run that
            failed on half of the questions or more, or whose unreadable answers are above 5% or
            could undo a difference, there is no verdict.
        names: what to call the runs, first to last; by default what they ran, made distinct.
        seed: of the bootstrap.
        exact: test by McNemar's exact p instead of his mid-p.
        cluster: field of `meta` whose values (or whose partners' ids) say which questions belong
            together, such as `subject`; intervals and tests then also hold for new ones. None takes
            what the data set declares, `none` nothing.
        panel: how many runs may vote together. Of three or more runs that are right or wrong,
            `Comparison.panel` says whether a majority vote of some beats the best of them; below 2,
            nothing.

    Returns one Pair for each two runs, first those of the others (`a`) against the first (`b`),
    p-values Holm-corrected over all.

    Raises: UserError: nothing to compare with, what is no run, a folder without one, names that do
        not fit, no shared question, a question that differs between the runs in its text, its
        options or its gold answer, or a cluster field that a question lacks.
    """
    runs = [run_or_match(run) for run in imported_runs((first, *others))]
    if len(runs) < 2:
        raise UserError("a comparison needs at least two runs: name another one")
    titles = names_for(names, runs)
    field = cluster or _declared(runs[0])
    answers = [answered_in(run, field, votes=panel > 1) for run in runs]
    ids = shared_questions(
        [{name: one.asked for name, one in known.items()} for known in answers], titles
    )
    shared = [[answered[name] for name in ids] for answered in answers]
    compared = [
        _compared(title, run, common)
        for title, run, common in zip(titles, runs, shared, strict=True)
    ]
    is_rate = all(run.summary.is_rate for run in runs)
    test = _Test(exact, _clusters(field, cluster is None, ids, shared[0]), is_rate)
    scores = [np.array([one.score for one in common]) for common in shared]
    used = [_used(common) for common in shared]
    places = [(a, b) for b, a in combinations(range(len(runs)), 2)]
    metrics = [run.summary.run.get("metric") for run in runs]
    unlike = [
        place for place, (a, b) in enumerate(places) if not _same_metric(metrics[a], metrics[b])
    ]
    tests = [test.of(scores[a], scores[b]) for a, b in places]
    pairs: list[Pair] = []
    for (a, b), (_, clustered), adjusted in zip(places, tests, _holm(tests, unlike), strict=True):
        names, both = (titles[a], titles[b]), (runs[a], runs[b])
        pair = replace(
            _pair(ids, names, shared[a], shared[b], (used[a], used[b]), test, seed),
            p_adjusted=adjusted,
            metric=compared[a].metric,
            judged=_unchecked(both),
            other_metric=_metrics_differ(titles, metrics, a, b) if len(pairs) in unlike else "",
            confounds=tuple(confounds(names, both)),
        )
        if clustered is not None:
            pair = replace(pair, p=clustered.p, test=CLUSTERS, cluster=field, clustered=clustered)
        pairs.append(pair)
    for place, (a, b) in enumerate(places):
        causes = [
            unread_cause(compared[one], runs[one]) for one in (a, b) if compared[one].mostly_unread
        ]
        winner, loser = {A: (a, b), B: (b, a)}.get(pairs[place].outcome, (a, a))
        if not causes and winner != loser and compared[winner].unread + compared[loser].unread:
            ends = dict(zip((winner, loser), _limits(metrics[winner], scores), strict=True))
            worst = {
                one: np.array([answered.if_unread(end) for answered in shared[one]])
                for one, end in ends.items()
            }
            turned = [*tests]
            turned[place] = test.of(worst[a], worst[b])
            if worst[winner].mean() <= worst[loser].mean() or _holm(turned, unlike)[place] >= SURE:
                said = [
                    unread_cause(compared[one], runs[one]) for one in (a, b) if compared[one].unread
                ]
                seen = [float(worst[a].mean() - worst[b].mean()), pairs[place].difference]
                amounts = " instead of ".join(pairs[place].amount(end) for end in seen)
                undone = f"the difference would be {amounts}{pairs[place].unit}, and not shown"
                causes = [f"{'; '.join(said)}. Scored the other way, {undone}"]
        pairs[place] = replace(pairs[place], unread="; ".join(causes))
    named = dict(zip(titles, runs, strict=True))
    usable = [
        place for place, run in enumerate(compared) if not run.failed and not run.mostly_unread
    ]
    judged = [] if unlike else [compared[place] for place in usable]
    prices = prices_of(compared, judged or compared)
    pairs = [
        replace(pair, price_a=prices.of(pair.a), price_b=prices.of(pair.b), price_unit=prices.unit)
        for pair in pairs
    ]
    outcomes = {(pair.a, pair.b): pair.outcome for pair in pairs}
    verdict = conclude(compared, judged, outcomes, prices, rivals_of(named, compared, prices))
    vote = None
    if (
        is_rate
        and not unlike
        and panel > 1
        and FREE not in {one.votes[0].said for one in shared[0]}
    ):
        vote = panel_of(
            [compared[place] for place in usable],
            [[one.votes for one in shared[place]] for place in usable],
            panel,
            test.clusters,
            seed,
        )
    notes = _notes(compared, [run.summary for run in runs], len(ids))
    notes += [few] if (few := pairs[0].few_clusters) else []
    judges = {
        one.name: run.summary.run.get("judge") for one, run in zip(compared, runs, strict=True)
    }
    notes += [
        f"The judge of {name} is {judge_words(judge)}." for name, judge in judges.items() if judge
    ]
    return Comparison(compared, pairs, verdict, notes, named, vote)


def names_for(names: Sequence[str], runs: Sequence[Evaluation]) -> list[str]:
    """The names given, or where none are what the runs ran. Raises UserError for names that do not
    fit.
    """
    if not names:
        return names_of(runs)
    if (
        isinstance(names, str)
        or len(names) != len(runs)
        or len(set(names)) != len(runs)
        or not all(names)
    ):
        raise UserError(
            f"the names {', '.join(names)} do not fit {len(runs)} runs: give each a name of its own"
        )
    return list(names)


def names_of(runs: Sequence[Evaluation]) -> list[str]:
    """What each ran; where that is the same, with the LM, then the folder, then a number."""
    names = [run_name(run.summary.run) for run in runs]
    lms = [
        ", ".join(dict.fromkeys(lm["name"] for lm in run.summary.run["lms"].values()))
        for run in runs
    ]
    for details in (lms, [run.folder.name for run in runs]):
        known = list(zip(names, details, strict=True))
        same = {name: {detail for other, detail in known if other == name} for name in names}
        names = [
            f"{name} ({detail})" if names.count(name) > 1 and len(same[name]) > 1 else name
            for name, detail in known
        ]
    return distinct(names)


def _declared(run: Evaluation) -> str | None:
    """The field by which the run's data set says that questions belong together."""
    source = run.summary.run["settings"].get("data")
    if not isinstance(source, str):
        return None
    spec = catalogue.find(source) or catalogue.of_file(Path(source))
    return spec.cluster if spec is not None else None


def _clusters(
    field: str | None, declared: bool, ids: Sequence[str], answers: Sequence[QuestionAnswers]
) -> list[Hashable] | None:
    """The cluster of each question; None without any. A question whose field names another one's id
    stands with that one.
    """
    if field is None or field == NO_CLUSTERS:
        return None
    lacking = [name for name, one in zip(ids, answers, strict=True) if one.cluster is None]
    if lacking and not declared:
        raise UserError(
            f"{len(lacking):,} of the questions (the first is {lacking[0]!r}) have no {field!r} "
            f"in their "
            "meta to cluster by: name another field"
        )
    known = set(ids)
    found: list[Hashable] = [
        min(name, str(one.cluster))
        if str(one.cluster) in known
        else (one.cluster or ("alone", name))
        for name, one in zip(ids, answers, strict=True)
    ]
    if len(set(found)) == 1 and not declared:
        raise UserError(f"all questions have the same {field!r}: name another field to cluster by")
    return found if 1 < len(set(found)) < len(ids) else None


def shared_questions(asked: Sequence[Mapping[str, int]], titles: Sequence[str]) -> list[str]:
    """The ids that all runs have, in the first one's order; `asked` is what `asked_in` gives of
    each.

    Raises UserError where there is none, or where one is another question in one of the runs.
    """
    ids = [name for name in asked[0] if all(name in others for others in asked[1:])]
    if not ids:
        raise UserError(f"{', '.join(titles)} share no question: compare runs over the same data")
    for title, other in zip(titles[1:], asked[1:], strict=True):
        differing = [name for name in ids if other[name] != asked[0][name]]
        if differing:
            raise UserError(
                f"{len(differing)} of the questions that {titles[0]} and {title} share (the "
                f"first is "
                f"{differing[0]!r}) differ in text, options or gold answer: compare runs over "
                f"the same data"
            )
    return ids


def compared_alone(name: str, run: Evaluation) -> Compared:
    """The figures of a run over all its questions."""
    return _compared(name, run, list(answered_in(run).values()))


def _compared(name: str, run: Evaluation, shared: Sequence[QuestionAnswers]) -> Compared:
    f1 = [one.f1 for one in shared if one.f1 is not None]
    estimate = bootstrap_mean(f1, seed=0) if f1 else None
    counts, answers = run.summary.counts, sum(one.repeats for one in shared)
    return Compared(
        name=name,
        folder=str(run.folder),
        questions=counts["questions"],
        rows=counts["rows"],
        left_out=run.summary.finished - len(shared),
        score=mean_score([one.score for one in shared], is_rate=run.summary.is_rate),
        f1={"value": estimate.mean, "low": estimate.low, "high": estimate.high, "n": len(f1)}
        if estimate
        else None,
        errors=sum(one.failed for one in shared),
        unreadable=sum(one.unreadable for one in shared),
        cut_off=sum(one.cut_off for one in shared),
        unread=sum(one.unread for one in shared),
        usage=_used(shared).to_dict(),
        seconds=_seconds(shared, answers),
        metric=run.summary.metric,
        is_rate=run.summary.is_rate,
        metric_usage=run.summary.metric_usage,
        repeats=answers / len(shared),
    )


def _limits(metric: Mapping[str, Any] | None, scores: Sequence[Scores]) -> tuple[float, float]:
    """The worst and best that an answer could have scored: the metric's limits, else the scores
    seen.
    """
    seen = (min(FAILURE_SCORE, *(one.min() for one in scores)), max(one.max() for one in scores))
    known = (metric or {"low": 0.0, "high": 1.0}).get
    low, high = known("low"), known("high")
    return seen[0] if low is None else low, seen[1] if high is None else high


def _unchecked(runs: Iterable[Evaluation]) -> str:
    """What to say of a judge that nobody has checked, without a full stop; empty without one."""
    judges = [judge for run in runs if (judge := run.summary.run.get("judge"))]
    alone = any(not judge.get("checked") for judge in judges)
    return "The judge was not checked against people" if alone else ""


def _same_metric(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    return (one or None) == (other or None)


def _metrics_differ(
    titles: Sequence[str], metrics: Sequence[Mapping[str, Any] | None], a: int, b: int
) -> str:
    """Why two runs with other metrics cannot be compared, without a full stop."""
    names = [metric_name({"metric": metrics[place]}) for place in (a, b)]
    said = " and ".join(
        f"{titles[place]} by {name}" for place, name in zip((a, b), names, strict=True)
    )
    same = " (two functions of that name)" if names[0] == names[1] else ""
    return f"they were scored by different metrics, {said}{same}: evaluate both with the same one"


def _holm(tests: Sequence[tuple[float, Clustered | None]], unlike: Sequence[int]) -> list[float]:
    """Holm's p of all pairs that can be compared; 1 for the others."""
    places = [place for place in range(len(tests)) if place not in unlike]
    adjusted = dict(zip(places, holm([tests[place][0] for place in places]), strict=True))
    return [adjusted.get(place, 1.0) for place in range(len(tests))]


def _used(answers: Iterable[QuestionAnswers]) -> Usage:
    usage = Usage()
    for one in answers:
        usage.add(one.usage)
    return usage


def _seconds(answers: Iterable[QuestionAnswers], of: int = 1) -> float | None:
    """The sum, divided; None where one is not known."""
    known = [one.seconds for one in answers]
    return None if None in known else math.fsum(one for one in known if one is not None) / of


class _Test(NamedTuple):
    """How two runs are tested: McNemar's test where each question is right or wrong in both, for
    scores and for means over repeats the paired t-test, or with clusters the cluster-robust one.
    """

    exact: bool
    clusters: Sequence[Hashable] | None
    is_rate: bool

    def by_mcnemar(self, a: Scores, b: Scores) -> bool:
        return self.is_rate and bool(np.isin([a, b], (0.0, 1.0)).all())

    def of(self, a: Scores, b: Scores) -> tuple[float, Clustered | None]:
        if self.clusters is not None:
            found = clustered_mean((a - b).tolist(), self.clusters)
            return found.p, found
        if self.by_mcnemar(a, b):
            return _mcnemar(int((a > b).sum()), int((b > a).sum()), self.exact), None
        # With a cluster a question, that is Student's test of the differences.
        return clustered_mean((a - b).tolist(), range(len(a))).p if len(a) > 1 else 1.0, None


def _mcnemar(only_a: int, only_b: int, exact: bool) -> float:
    return (mcnemar_exact if exact else mcnemar_midp)(only_a, only_b)


def _pair(
    ids: Sequence[str],
    names: tuple[str, str],
    a: Sequence[QuestionAnswers],
    b: Sequence[QuestionAnswers],
    used: tuple[Usage, Usage],
    test: _Test,
    seed: int,
) -> Pair:
    found = list(zip(ids, a, b, strict=True))
    only_a = tuple(name for name, one, other in found if one.score > other.score)
    only_b = tuple(name for name, one, other in found if other.score > one.score)
    scores_a, scores_b = (np.array([one.score for one in side]) for side in (a, b))
    spans = [
        (one.f1, other.f1) for _, one, other in found if one.f1 is not None and other.f1 is not None
    ]
    paid = [
        (one, other)
        for _, one, other in found
        if not one.usage.cached_calls + other.usage.cached_calls
    ]
    bought = (
        used
        if len(paid) == len(found)
        else tuple(_used(pair[side] for pair in paid) for side in (0, 1))
    )
    seconds = [_seconds(pair[side] for pair in paid) for side in (0, 1)]
    repeats_a, repeats_b = (sum(one.repeats for one in side) / len(side) for side in (a, b))
    asked_more = repeats_b / repeats_a  # ratios are of single answers
    by_mcnemar = test.by_mcnemar(scores_a, scores_b)
    p, _ = test._replace(clusters=None).of(scores_a, scores_b)
    difference = paired_bootstrap(scores_a.tolist(), scores_b.tolist(), seed=seed)
    if test.is_rate and not by_mcnemar and len(a) > 1:  # of means over repeats as the test has it
        difference = Difference(*clustered_mean(scores_a - scores_b, range(len(a)))[:3])
    return Pair(
        a=names[0],
        b=names[1],
        n=len(a),
        score_a=math.fsum(scores_a) / len(a),
        score_b=math.fsum(scores_b) / len(b),
        **difference._asdict(),
        p=p,
        p_adjusted=p,
        right_or_wrong=by_mcnemar,
        f1=paired_bootstrap(*zip(*spans, strict=True), seed=seed) if spans else None,
        call_ratio=_ratio((usage.calls for usage in used), asked_more),
        paid=len(paid),
        token_ratio=_ratio((usage.tokens for usage in bought), asked_more),
        cost_ratio=_ratio((usage.cost_usd for usage in bought), asked_more),
        seconds_ratio=_ratio(seconds, asked_more),
        only_a=only_a,
        only_b=only_b,
        failed_a=sum(one.failed for one in a),
        failed_b=sum(one.failed for one in b),
        test=(EXACT if test.exact else MIDP) if by_mcnemar else PAIRED_T,
        is_rate=test.is_rate,
        repeats_a=repeats_a,
        repeats_b=repeats_b,
    )


def _ratio(amounts: Iterable[float | None], asked_more: float) -> float | None:
    a, b = amounts
    return a / b * asked_more if a is not None and b else None


def _notes(runs: Sequence[Compared], summaries: Sequence[Summary], shared: int) -> list[str]:
    left = [f"{run.left_out:,} of {run.name}" for run in runs if run.left_out]
    notes = []
    if left:
        only = f"the {counted(shared, 'shared question')} {'is' if shared == 1 else 'are'} compared"
        notes.append(f"Only {only}: left out are {', '.join(left)}.")
    for run, summary in zip(runs, summaries, strict=True):
        notes += run_notes(run.name, summary.counts, summary.finished)
    for run in runs:
        cached, calls = run.usage["cached_calls"], run.usage["calls"]
        if cached:
            made = "" if calls is None else f"{calls:,} "
            notes.append(
                f"{cached:,} of the {made}calls of {run.name} came from a record or cache: its "
                f"tokens "
                "and cost are of the others, and their ratios leave such questions out."
            )
    return notes
