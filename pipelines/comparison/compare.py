"""Compares runs over the same questions: a plan, the comparison itself, and how runs are named."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...modules.base.errors import UserError
from ...modules.base.usage import total
from ...modules.protocols.short_names import distinct, legend
from ...modules.reading.grading import FAILURE_SCORE, metric_name
from ...modules.statistics.statistics import bootstrap_mean
from ..base.request import CHECKED, LIMITS, entry, share_of_points, split_items
from ..base.run_files import MetricFields, score_fields
from ..base.wording import run_failed, run_notes
from ..data import catalogue
from ..evaluation.earlier import Evaluation, runs_in
from ..runs.lines import judge_words
from ..runs.manifest import name_of_run
from ..runs.summary import mean_score
from .compared import SURE, Compared
from .comparison import Comparison
from .confounds import confounds, rivals_of, unread_cause
from .matched import MATCHED, run_or_match, with_matches
from .pairs import Pair
from .panel import Panel, panel_of
from .request import AnyRun, CompareRequest, Tested
from .tested import (
    FREE,
    QuestionAnswers,
    Scores,
    Test,
    answered_in,
    corrected,
    mean_seconds,
    taken_by,
)
from .verdict import A, B, conclude, prices_of
from .words import say

if TYPE_CHECKING:
    from .match_budget import MatchPlan

NO_CLUSTERS = "none"


@dataclass(frozen=True)
class ComparisonPlan:
    """The checked runs by name, the reference first, and the baseline to run before."""

    request: CompareRequest
    runs: Mapping[str, Evaluation | None]
    match: MatchPlan | None = None

    title = "compare"
    warnings: Sequence[str] = ()

    @property
    def out(self) -> Path | None:
        return self.match.home if self.match else None

    @property
    def cost(self) -> tuple[float, float] | None:
        return self.match.cost if self.match else (0.0, 0.0)

    def lines(self) -> Sequence[str]:
        return self.match.lines() if self.match else ()

    def to_dict(self) -> dict[str, object]:
        return self.match.to_dict() if self.match else {"runs": list(self.runs)}


@entry(CompareRequest)
def _compare(request: CompareRequest) -> Comparison:
    """Compare every pair of runs over the questions that all runs answered.

    Unreadable answers and errors count as wrong. There is no verdict on a run that failed on at
    least half of the questions, or whose unreadable answers are above 5% or could undo a
    difference. p-values are Holm-corrected over all pairs.

    Raises UserError for fewer than two runs, something that is not a run, a folder without a run,
    names that do not fit, no shared question, a question that differs between the runs in its text,
    its options or its gold answer, and a cluster field that a question lacks.
    """
    return carry_out_comparison(plan_comparison(request))


def compare(first: AnyRun, *others: AnyRun, **options: Any) -> Comparison:
    return _compare([first, *others], **options)


# Runs are given one after another, which `entry` cannot express: help() and editors show the
# signature of the request with its first argument starred.
compare.__doc__ = _compare.__doc__
_runs, *_options = signature(_compare).parameters.values()
compare.__signature__ = signature(_compare).replace(  # type: ignore[attr-defined]
    parameters=[_runs.replace(kind=Parameter.VAR_POSITIONAL), *_options]
)


def plan_comparison(request: CompareRequest, *, keyless: bool = False) -> ComparisonPlan:
    """Open and check the runs without calling an LM. With `keyless` (a plan alone), no key is
    needed.
    """
    asks = ("data", "lm", "api_base", "price", "metric", "out", "budget", *CHECKED, *LIMITS)
    for name in asks:
        if request.asked(name) and not request.match_budget:
            option = "--" + name.replace("_", "-")
            raise UserError(
                f"{option} says how to run a baseline, but none is asked for: add --match-budget"
            )
    folders = runs_in(request.runs)
    if len(folders) < 2 and not request.match_budget:
        raise UserError(
            "a comparison needs at least two runs: name another one, or add --match-budget"
        )
    runs = [run_or_match(folder) for folder in folders]
    # On the command line, all names stand in one text; in Python, a name may have commas.
    as_given = len(request.names) == len(runs)
    names = names_for(request.names if as_given else split_items(request.names), runs)
    match = None
    if request.match_budget:
        if MATCHED in names:
            raise UserError(f"{MATCHED!r} is what --match-budget runs: give the run another name")
        first = _place(request.baseline, [*names, MATCHED], folders, len(names))
        if len(runs) > 1:  # refuse runs that cannot be compared before anything is paid
            _shared(runs, names, request)
        from .match_budget import plan_costliest  # imports DSPy, which a comparison does not need

        # Where the matched baseline itself is the reference, the first run's agent does the tasks.
        match = plan_costliest(request, runs, names, first % len(runs), keyless=keyless)
        named = {**dict(zip(names, runs, strict=True)), MATCHED: None}
    else:
        # A folder stands for its baseline, too; runs that are given as objects are just these.
        if not all(isinstance(folder, Evaluation) for folder in folders):
            names, runs = with_matches(names, runs)
        first = _place(request.baseline, names, folders, 0)
        named = dict(zip(names, runs, strict=True))
    order = list(named)
    order.insert(0, order.pop(first))
    return ComparisonPlan(request, {name: named[name] for name in order}, match)


def carry_out_comparison(
    plan: ComparisonPlan, show: Callable[[Comparison], None] | None = None
) -> Comparison:
    """Run the baseline, if one is planned, and compare."""
    runs, notes = dict(plan.runs), list[str]()
    if plan.match is not None:
        from .match_budget import match_note, run_match  # brings DSPy

        baseline = run_match(plan.match)
        runs[MATCHED] = baseline
        stopped = baseline.summary.stopped
        notes = [match_note(baseline, plan.match.name)]
        notes += [f"The baseline is not finished: {stopped}."] if stopped else []
    opened = [run for run in runs.values() if run is not None]
    comparison = compared_runs(opened, list(runs), plan.request)
    comparison.notes += notes
    if show is not None:
        show(comparison)
    return comparison


def compared_runs(runs: Sequence[Evaluation], names: Sequence[str], request: Tested) -> Comparison:
    """Compare opened runs, the reference first."""
    ids, answers, test = _shared(runs, names, request)
    compared = [
        _compared(name, run, shared) for name, run, shared in zip(names, runs, answers, strict=True)
    ]
    pairs, unlike = _pairs(ids, runs, compared, answers, test)
    usable = [place for place, run in enumerate(compared) if not (run.failed or run.mostly_unread)]
    # Scores by different metrics cannot be held against each other: then no run is recommended.
    judged = [] if unlike else [compared[place] for place in usable]
    prices = prices_of(compared, judged or compared)
    pairs = [
        replace(pair, price_a=prices.of(pair.a), price_b=prices.of(pair.b), price_unit=prices.unit)
        for pair in pairs
    ]
    named = dict(zip(names, runs, strict=True))
    outcomes = {(pair.a, pair.b): pair.outcome for pair in pairs}
    verdict = conclude(compared, judged, outcomes, prices, rivals_of(named, compared, prices))
    panel = None if unlike else _panel(compared, answers, usable, test, request.panel)
    notes = _notes(compared, runs, len(ids))
    notes += filter(None, [pairs[0].few_clusters])  # all pairs have the same clusters
    return Comparison(compared, pairs, verdict, notes, panel)


# Questions -----------------------------------------------------------------------------------


def _shared(
    runs: Sequence[Evaluation], names: Sequence[str], request: Tested
) -> tuple[list[str], list[list[QuestionAnswers]], Test]:
    """The ids of the questions that all runs share, each run's answers to them, and the test."""
    field = request.cluster or _declared(runs[0])
    by_id = [answered_in(run, field, votes=request.panel > 1) for run in runs]
    asked = [{name: answer.asked for name, answer in answers.items()} for answers in by_id]
    ids = shared_questions(asked, names)
    shared = [[answers[name] for name in ids] for answers in by_id]
    clusters = _clusters(field, request.cluster is None, ids, shared[0])
    asked_once = {question.asked for question in shared[0]}
    if clusters is None and field != NO_CLUSTERS and 1 < len(asked_once) < len(ids):
        # A question that stands under several ids tells no more than once; counted as so many
        # questions, it would make the interval too narrow.
        field, clusters = "question", [question.asked for question in shared[0]]
    is_rate = all(run.summary.is_rate for run in runs)
    margin = None if request.margin is None else share_of_points(request.margin)
    test = Test(request.exact, is_rate, request.seed, field, clusters, margin, others=len(runs) - 1)
    return ids, shared, test


def shared_questions(asked: Sequence[Mapping[str, int]], titles: Sequence[str]) -> list[str]:
    """The ids that all runs have, in the first run's order; `asked` has the result of `asked_in`
    for each run. Raises UserError where there is none, or where the question of an id differs
    between runs.
    """
    ids = [name for name in asked[0] if all(name in others for others in asked[1:])]
    if not ids:
        raise UserError(f"{', '.join(titles)} share no question: compare runs over the same data")
    for title, other in zip(titles[1:], asked[1:], strict=True):
        differing = [name for name in ids if other[name] != asked[0][name]]
        if differing:
            raise UserError(
                f"{len(differing)} of the questions that {titles[0]} and {title} share (the "
                f"first is {differing[0]!r}) differ in text, options or gold answer: compare runs "
                f"over the same data"
            )
    return ids


def _declared(run: Evaluation) -> str | None:
    """The field by which the run's data set says that questions belong together."""
    settings = run.summary.run.settings
    if isinstance(field := settings.cluster, str):
        return field  # an import of tasks
    source = settings.data
    if not isinstance(source, str):
        return None
    spec = catalogue.find(source) or catalogue.of_file(Path(source))
    return spec.cluster if spec is not None else None


def _clusters(
    field: str | None, declared: bool, ids: Sequence[str], answers: Sequence[QuestionAnswers]
) -> list[Hashable] | None:
    """The cluster of each question; None without any."""
    if field is None or field == NO_CLUSTERS:
        return None
    named = {name: answer.cluster for name, answer in zip(ids, answers, strict=True)}
    lacking = [name for name, cluster in named.items() if cluster is None]
    # A data set's own field may be empty in some questions; one that the user chose is a mistake.
    if lacking and not declared:
        raise UserError(
            f"{len(lacking):,} of the questions (the first is {lacking[0]!r}) have no {field!r} "
            f"in their meta to cluster by: name another field"
        )
    clusters = [_cluster_of(name, named) for name in ids]
    if len(set(clusters)) == 1 and not declared:
        raise UserError(f"all questions have the same {field!r}: name another field to cluster by")
    return clusters if 1 < len(set(clusters)) < len(ids) else None


def _cluster_of(name: str, named: Mapping[str, Hashable]) -> Hashable:
    """The cluster of a question. A field that names the id of another question leads on to that
    question's cluster; without a value, a question is a cluster of its own.
    """
    path = [name]
    while (partner := str(named[path[-1]])) in named:
        if partner in path:  # they name each other: whoever is asked gives the same answer
            return min(path[path.index(partner) :])
        path.append(partner)
    cluster = named[path[-1]]
    return path[-1] if cluster in (None, "") else cluster


# Runs ----------------------------------------------------------------------------------------


def names_for(names: Sequence[str], runs: Sequence[Evaluation]) -> list[str]:
    """The user's names, or by default the programs of the runs. Raises UserError for names that do
    not fit.
    """
    if not names:
        return names_of(runs)
    unique = not isinstance(names, str) and len(set(names)) == len(runs) == len(names)
    if not unique or not all(names):
        raise UserError(
            f"the names {', '.join(names)} do not fit {len(runs)} runs: give each a name of its own"
        )
    return list(names)


def names_of(runs: Sequence[Evaluation]) -> list[str]:
    """Name runs by their programs; where these are the same, add the rest of the program, the LM,
    the folder, then a number.
    """
    manifests = [run.summary.run for run in runs]
    names = [name_of_run(run) for run in manifests]
    programs = [legend(run.program) for run in manifests]
    lms = [", ".join(dict.fromkeys(lm.name for lm in run.lms.values())) for run in manifests]
    for details in (programs, lms, [run.folder.name for run in runs]):
        named = list(zip(names, details, strict=True))
        # A detail that all runs of a name share would not tell them apart.
        same = {name: {detail for other, detail in named if other == name} for name in names}
        names = [
            f"{name} ({detail})" if names.count(name) > 1 and len(same[name]) > 1 else name
            for name, detail in named
        ]
    return distinct(names)


def _place(wanted: str | None, names: Sequence[str], folders: Sequence[Any], default: int) -> int:
    """The place of the run with this name, folder or number (from 1 up)."""
    if not wanted:
        return default
    if wanted in names:
        return names.index(wanted)
    # One folder may be given twice: its first place is meant.
    meant = [place for place, folder in enumerate(folders) if _same_folder(folder, wanted)][:1]
    if wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        meant.append(int(wanted) - 1)
    if len(set(meant)) > 1:
        raise UserError(
            f"--baseline {wanted} is a folder and another run's number: give ./{wanted}, or a name"
        )
    if meant:
        return meant[0]
    raise UserError(
        f"there is no run {wanted!r} to be the baseline: give its folder, a number from 1 to "
        f"{len(names)}, or one of {', '.join(names)}"
    )


def _same_folder(run: AnyRun, wanted: str) -> bool:
    folder = run.folder if isinstance(run, Evaluation) else Path(run)
    return folder.expanduser().resolve() == Path(wanted).expanduser().resolve()


def compared_alone(name: str, run: Evaluation) -> Compared:
    """The figures of a run over all its questions."""
    return _compared(name, run, list(answered_in(run).values()))


def _compared(name: str, run: Evaluation, shared: Sequence[QuestionAnswers]) -> Compared:
    f1 = [question.f1 for question in shared if question.f1 is not None]
    counts = run.summary.counts
    return Compared(
        name=name,
        folder=str(run.folder),
        questions=counts.questions,
        rows=counts.rows,
        left_out=run.summary.finished - len(shared),
        score=mean_score([question.score for question in shared], is_rate=run.summary.is_rate),
        f1=score_fields(bootstrap_mean(f1, seed=0), len(f1)) if f1 else None,
        errors=sum(question.failed for question in shared),
        unreadable=sum(question.unreadable for question in shared),
        cut_off=sum(question.cut_off for question in shared),
        unread=sum(question.unread for question in shared),
        usage=total(question.usage for question in shared).to_dict(),
        takes=taken_by(shared).to_dict(),
        seconds=mean_seconds(shared),
        metric=run.summary.metric,
        is_rate=run.summary.is_rate,
        metric_usage=run.summary.metric_usage,
        repeats=sum(question.repeats for question in shared) / len(shared),
        program=legend(run.summary.run.program),
    )


def _notes(compared: Sequence[Compared], runs: Sequence[Evaluation], shared: int) -> list[str]:
    left_out = [run for run in compared if run.left_out]
    notes = [say("left_out", shared, left_out)] if left_out else []
    for figures, run in zip(compared, runs, strict=True):
        notes += run_notes(figures.name, run.summary.counts, run.summary.finished)
        if judge := run.summary.run.judge:
            notes.append(say("judge", figures.name, judge_words(judge)))
    return notes


# Pairs ---------------------------------------------------------------------------------------


def _pairs(
    ids: Sequence[str],
    runs: Sequence[Evaluation],
    compared: Sequence[Compared],
    answers: Sequence[Sequence[QuestionAnswers]],
    test: Test,
) -> tuple[list[Pair], list[int]]:
    """Every pair, tested and corrected, and the places of the pairs whose metrics differ."""
    # `combinations` begins with the pairs of run 0, the reference, which is `b`.
    places = [(a, b) for b, a in combinations(range(len(runs)), 2)]
    # Runs by the default metric have none in their manifest.
    metrics = [run.summary.run.metric or None for run in runs]
    unlike = [place for place, (a, b) in enumerate(places) if metrics[a] != metrics[b]]
    names = [run.name for run in compared]
    pairs = [test.pair(ids, (names[a], names[b]), answers[a], answers[b]) for a, b in places]
    p_values = [pair.p for pair in pairs]
    adjusted = corrected(p_values, unlike)
    for place, (a, b) in enumerate(places):
        both = runs[a], runs[b]
        judges = [judge for run in both if (judge := run.summary.run.judge)]
        reason = ""
        if place in unlike:
            names_of_metrics = [metric_name(run.summary.run) for run in both]
            reason = say("metrics_reason", pairs[place], names_of_metrics)
        pairs[place] = replace(
            pairs[place],
            p_adjusted=adjusted[place],
            metric=compared[a].metric,
            failure="; ".join(filter(None, map(_failure, (compared[b], compared[a])))),
            other_metric=reason,
            unchecked_judge=any(not judge.get("checked") for judge in judges),
            confounds=tuple(confounds((names[a], names[b]), both)),
        )

    # Holm's correction ranks all p values, so that those of the other pairs count, too.
    def p_if(place: int, p: float) -> float:
        """The corrected p of a pair if its uncorrected p were this value."""
        return corrected([*p_values[:place], p, *p_values[place + 1 :]], unlike)[place]

    for place, (a, b) in enumerate(places):
        causes = [unread_cause(compared[side], runs[side]) for side in (a, b)]
        mostly = (compared[a].mostly_unread, compared[b].mostly_unread)
        unread = [cause for cause, whole in zip(causes, mostly, strict=True) if whole]
        # A few unread answers do no harm, unless the difference could be theirs alone: it has to
        # stay shown with each of them scored in favour of the worse run.
        if not unread and any(causes):
            limits = _limits(metrics[a], answers)
            turned = _other_way(pairs[place], answers[a], answers[b], limits)
            worst = float((turned[0] - turned[1]).mean()) if turned else 0.0
            undone = worst <= 0 if pairs[place].outcome == A else worst >= 0
            if turned and (undone or p_if(place, test.p(*turned)) >= SURE):
                why = "; ".join(filter(None, causes))
                unread = [f"{why}. {say('undone_reason', pairs[place], worst)}"]
        pairs[place] = replace(pairs[place], unread="; ".join(unread))
    return pairs, unlike


def _other_way(
    pair: Pair,
    a: Sequence[QuestionAnswers],
    b: Sequence[QuestionAnswers],
    limits: tuple[float, float],
) -> tuple[Scores, Scores] | None:
    """The worst case for the better run: the scores of a and b if its unread answers got the lowest
    score and those of the other the highest; None where neither is better.
    """
    worst, best = limits
    if pair.outcome not in (A, B):
        return None
    ends = (worst, best) if pair.outcome == A else (best, worst)
    return (
        np.array([question.if_unread(ends[0]) for question in a]),
        np.array([question.if_unread(ends[1]) for question in b]),
    )


def _failure(run: Compared) -> str:
    """A sentence for a run of whose answers too many failed, with what to do; else empty."""
    return run_failed(run.name, run.errors, run.answers, int(run.score.n))


def _limits(
    metric: MetricFields | None, answers: Sequence[Sequence[QuestionAnswers]]
) -> tuple[float, float]:
    """The lowest and highest possible score of an answer: the metric's limits, else the scores
    seen.
    """
    if metric is None:
        return 0.0, 1.0
    scores = [question.score for run in answers for question in run]
    low, high = metric.get("low"), metric.get("high")
    lowest = min(FAILURE_SCORE, *scores) if low is None else low
    highest = max(scores) if high is None else high
    return lowest, highest


def _panel(
    compared: Sequence[Compared],
    answers: Sequence[Sequence[QuestionAnswers]],
    usable: Sequence[int],
    test: Test,
    most: int,
) -> Panel | None:
    """The best panel of the usable runs; None where their answers cannot be counted as votes."""
    # Answers in one's own words are never equal: nobody can be outvoted.
    if not test.is_rate or most < 2 or FREE in {each.votes[0].answer for each in answers[0]}:
        return None
    votes = [[question.votes for question in answers[place]] for place in usable]
    return panel_of([compared[place] for place in usable], votes, most, test.clusters, test.seed)
