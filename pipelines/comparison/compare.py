"""`compare`: compares runs on the questions that they share, in pairs, and names the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...modules.base.errors import UserError, are_all
from ...modules.protocols.declaration import distinct
from ...modules.protocols.short_names import legend
from ...modules.reading.grading import FAILURE_SCORE, MetricFields, Scale, metric_name
from ...modules.statistics.statistics import bootstrap_mean
from ..base.request import CHECKED, LIMITS, entry
from ..base.run_files import score_fields
from ..data import catalogue
from ..evaluation.earlier import Evaluation
from ..runs.caveats import run_notes
from ..runs.folder import is_temporary
from ..runs.lines import judge_words
from ..runs.manifest import name_of_run
from ..runs.summary import mean_score
from .compared import SURE, Compared
from .comparison import Comparison
from .confounds import confounds, rivals_of, unread_cause
from .matched import MATCHED, run_or_match, with_matches
from .pairs import Pair
from .panel import panel_of
from .request import AnyRun, CompareRequest, Tested, share_of_points, split_items
from .sources import runs_in
from .tested import RunAnswers, Scores, Test, answered_in, corrected
from .verdict import A, B, QuestionPrices, conclude, prices_of
from .words import say

if TYPE_CHECKING:
    from .match_budget import MatchPlan

NO_CLUSTERS = "none"


@dataclass(frozen=True)
class ComparisonPlan:
    """The checked runs by name, the reference first, and the baseline to run before they are
    compared, if any.
    """

    request: CompareRequest
    runs: Mapping[str, Evaluation | None]
    match: MatchPlan | None = None


@entry(CompareRequest)
def _compare(request: CompareRequest) -> Comparison:
    """Compare every pair of runs over the questions that all runs answered.

    Unreadable answers and errors count as wrong. p-values are Holm-corrected over all pairs.

    Raises UserError for fewer than two runs, something that is not a run, a folder without a run,
    names that do not fit, no shared question, a question that differs between the runs in its text,
    its options or its gold answer, and a cluster field that a question lacks.
    """
    return carry_out_comparison(plan_comparison(request))


def compare(first: AnyRun, *others: AnyRun, **options: Any) -> Comparison:
    return _compare([first, *others], **options)


# `entry` cannot express that runs are given one after another, so this makes help() and editors
# show the request's signature with a star before its first argument.
compare.__doc__ = _compare.__doc__
_runs, *_options = signature(_compare).parameters.values()
compare.__signature__ = signature(_compare).replace(  # type: ignore[attr-defined]
    parameters=[_runs.replace(kind=Parameter.VAR_POSITIONAL), *_options]
)


def plan_comparison(request: CompareRequest, *, keyless: bool = False) -> ComparisonPlan:
    """Open and check the runs without calling an LM; returns the plan. Raises UserError for runs or
    options that do not fit. With `keyless`, LMs are made without keys, for a plan that is only
    shown.
    """
    for name in ("data", "lm", "api_base", "price", "metric", "out", "budget", *CHECKED, *LIMITS):
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
    # One text with commas, as on the command line; in Python, a name itself may have commas.
    wanted = request.names
    if len(wanted) != len(runs):
        wanted = split_items(wanted)
    names = names_for(wanted, runs)
    match = None
    if request.match_budget:
        if MATCHED in names:
            raise UserError(f"{MATCHED!r} is what --match-budget runs: give the run another name")
        first = _place(request.baseline, [*names, MATCHED], folders, len(names))
        if len(runs) > 1:  # raises for runs that cannot be compared, before anything is paid
            _find_shared(runs, names, request)
        from .match_budget import plan_costliest  # imports DSPy, which a comparison does not need

        # If the matched baseline is the reference itself, the first run's agent is used for tasks.
        match = plan_costliest(request, runs, names, first % len(runs), keyless=keyless)
        named = {**dict(zip(names, runs, strict=True)), MATCHED: None}
    else:
        # A folder also stands for matched baselines in it; runs given as objects do not.
        if not are_all(folders, Evaluation):
            names, runs = with_matches(names, runs)
        first = _place(request.baseline, names, folders, 0)
        named = dict(zip(names, runs, strict=True))
    reference = list(named)[first]
    return ComparisonPlan(request, {reference: named.pop(reference), **named}, match)


def carry_out_comparison(
    plan: ComparisonPlan, show: Callable[[Comparison], None] | None = None
) -> Comparison:
    """Run the baseline, if one is planned, and compare."""
    runs, notes, stopped = dict(plan.runs), list[str](), None
    if plan.match is not None:
        from .match_budget import match_note, run_match  # brings DSPy

        baseline = run_match(plan.match)
        runs[MATCHED] = baseline
        notes.append(match_note(baseline, plan.match.name))
        stopped = baseline.summary.stopped
    comparison = compared_runs(list(filter(None, runs.values())), list(runs), plan.request)
    comparison.notes += notes
    comparison.stopped = stopped
    if show is not None:
        show(comparison)
    return comparison


def compared_runs(runs: Sequence[Evaluation], names: Sequence[str], request: Tested) -> Comparison:
    """Compare opened runs, the reference first."""
    ids, answers, test = _find_shared(runs, names, request)
    sides = [Side.of(*side) for side in zip(names, runs, answers, strict=True)]
    figures = [side.figures for side in sides]
    # Scores by different metrics cannot be compared, and no run is recommended then.
    alike = all(side.metric == sides[0].metric for side in sides)
    usable = [side for side in sides if side.figures.usable]
    judged = [side.figures for side in usable if alike]
    prices = prices_of(figures, judged or figures)
    pairs = _pairs(ids, sides, test, prices)
    rivals = rivals_of(dict(zip(names, runs, strict=True)), figures, prices)
    against = [pair.outcome for pair in pairs[: len(sides) - 1]]
    beats = {pair.won for pair in pairs if pair.won}
    verdict = conclude(figures, judged, against, beats, prices, rivals)
    panel = None
    # Not for open answers, which are never equal, so that no vote is possible.
    if alike and test.is_rate and request.panel > 1 and sides[0].answers.can_be_votes:
        votes = [side.answers.values("votes") for side in usable]
        panel = panel_of(judged, votes, request.panel, test.clusters, test.seed)
    notes = _notes(sides, len(ids))
    if few := pairs[0].few_clusters:  # all pairs have the same clusters
        notes.append(few)
    return Comparison(figures, pairs, verdict, notes, panel)


# Questions -----------------------------------------------------------------------------------


def _find_shared(
    runs: Sequence[Evaluation], names: Sequence[str], request: Tested
) -> tuple[list[str], list[RunAnswers], Test]:
    """Return the ids of the questions that all runs share, each run's answers to them, and the
    test.
    """
    field = request.cluster or _declared(runs[0])
    by_id = [answered_in(run, field, votes=request.panel > 1) for run in runs]
    asked = []
    for answers in by_id:
        asked.append({name: answer.asked for name, answer in answers.items()})
    ids = shared_questions(asked, names)
    shared = [RunAnswers(list(map(answers.__getitem__, ids))) for answers in by_id]
    clusters = _clusters(field, request.cluster is None, ids, shared[0].values("cluster"))
    hashes = shared[0].values("asked")
    if clusters is None and field != NO_CLUSTERS and 1 < len(set(hashes)) < len(ids):
        # If a question has several ids, they are one cluster: counted as several questions, it
        # would make the interval too narrow.
        field, clusters = "question", hashes
    is_rate = all(run.summary.is_rate for run in runs)
    margin = share_of_points(request.margin) if request.margin is not None else None
    test = Test(request.exact, is_rate, request.seed, field, clusters, margin, others=len(runs) - 1)
    return ids, shared, test


def shared_questions(asked: Sequence[Mapping[str, int]], titles: Sequence[str]) -> list[str]:
    """Return the ids that all runs have, in the first run's order; `asked` has the result of
    `asked_in` for each run. Raises UserError if there is none, or if an id means different
    questions.
    """
    common = set(asked[0]).intersection(*asked[1:])
    if not (ids := [name for name in asked[0] if name in common]):
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
    """Return the field of `meta` by which the run's data set groups its questions; None without
    one.
    """
    settings = run.summary.run.settings
    if isinstance(field := settings.cluster, str):
        return field  # as an import of tasks sets it
    if not isinstance(settings.data, str):
        return None
    return catalogue.cluster_of(settings.data)


def _clusters(
    field: str | None, declared: bool, ids: Sequence[str], values: Sequence[Hashable]
) -> list[Hashable] | None:
    """Return the cluster of each question, from the values of the field; None without any."""
    if field is None or field == NO_CLUSTERS:
        return None
    named = dict(zip(ids, values, strict=True))
    lacking = [name for name, cluster in named.items() if cluster is None]
    # A data set's own field may be empty in some questions, but not one that the user chose.
    if lacking and not declared:
        raise UserError(
            f"{len(lacking):,} of the questions (the first is {lacking[0]!r}) have no {field!r} "
            f"in their meta to cluster by: name another field"
        )
    clusters = [_cluster_of(name, named) for name in ids]
    different = len(set(clusters))
    if different == 1 and not declared:
        raise UserError(f"all questions have the same {field!r}: name another field to cluster by")
    # With one cluster for all, or one for each question, there are no groups.
    if different in (1, len(ids)):
        return None
    return clusters


def _cluster_of(name: str, named: Mapping[str, Hashable]) -> Hashable:
    """Return the cluster of a question: the value of its field. If that is the id of another
    question, it is that question's cluster; without a value, the question is a cluster of its own.
    """
    path = [name]
    while (partner := str(named[path[-1]])) in named:
        if partner in path:  # a circle, which has the same smallest id from wherever it is entered
            return min(path[path.index(partner) :])
        path.append(partner)
    cluster = named[path[-1]]
    if cluster in (None, ""):
        return path[-1]
    return cluster


# Runs ----------------------------------------------------------------------------------------


def names_for(names: Sequence[str], runs: Sequence[Evaluation]) -> list[str]:
    """Return the user's names for the runs, by default those of their programs. Raises UserError
    for names that do not fit.
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
    """Return the names of runs: those of their programs; equal ones with the rest of the program,
    the LM, the folder, and then a number.
    """
    names = [name_of_run(run.summary.run) for run in runs]
    details: tuple[Callable[[Evaluation], str], ...] = (
        lambda run: legend(run.summary.run.program),
        lambda run: ", ".join(run.summary.run.lm_names) or "no LM",
        lambda run: "no folder" if is_temporary(run.folder) else run.folder.name,
    )
    for detail in details:
        named = list(zip(names, map(detail, runs), strict=True))
        different = Counter(name for name, _ in set(named))
        for place, (name, own) in enumerate(named):
            # A detail that all runs of a name share would not tell them apart.
            if different[name] > 1:
                names[place] = f"{name} ({own})"
    return distinct(names)


def _place(
    wanted: str | None, names: Sequence[str], folders: Sequence[AnyRun], default: int
) -> int:
    """Return the index of the run with this name, folder or number (from 1 up). Raises UserError
    unless exactly one is meant.
    """
    if not wanted:
        return default
    if wanted in names:
        return names.index(wanted)
    # If a folder is given twice, the first one is meant.
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
    """Return whether a run is in this folder."""
    if isinstance(run, Evaluation):
        run = run.folder
    return Path(run).expanduser().resolve() == Path(wanted).expanduser().resolve()


@dataclass(frozen=True)
class Side:
    """A run of a comparison: its answers to the shared questions, and its figures on them."""

    name: str
    run: Evaluation
    answers: RunAnswers
    figures: Compared

    @classmethod
    def of(cls, name: str, run: Evaluation, answers: RunAnswers) -> Side:
        summary, counts = run.summary, run.summary.counts
        f1, f1_score = answers.f1[~np.isnan(answers.f1)], None
        if len(f1):
            f1_score = score_fields(bootstrap_mean(f1.tolist(), seed=0), len(f1))
        figures = Compared(
            name=name,
            folder=str(run.folder),
            questions=counts.questions,
            rows=counts.rows,
            left_out=summary.finished - len(answers.questions),
            score=mean_score(answers.scores.tolist(), is_rate=summary.is_rate),
            f1=f1_score,
            errors=answers.sum("failed"),
            unreadable=answers.sum("unreadable"),
            cut_off=answers.sum("cut_off"),
            unread=answers.sum("unread"),
            usage=answers.usage.to_dict(),
            takes=answers.takes.to_dict(),
            seconds=answers.seconds,
            metric=summary.metric,
            is_rate=summary.is_rate,
            metric_usage=summary.metric_usage,
            repeats=answers.repeats / len(answers.questions),
            program=legend(summary.run.program),
        )
        return cls(name, run, answers, figures)

    @property
    def metric(self) -> MetricFields | None:
        """The metric; None for the default one, which manifests do not have."""
        return self.run.summary.run.metric or None

    @property
    def unchecked_judge(self) -> bool:
        judge = self.run.summary.run.judge
        return judge is not None and not judge.get("checked")

    @property
    def unread(self) -> str:
        """Why answers could not be read; empty if all were."""
        return unread_cause(self.figures, self.run)


def compared_alone(name: str, run: Evaluation) -> Compared:
    """Return the figures of a run over all its questions."""
    return Side.of(name, run, RunAnswers(list(answered_in(run).values()))).figures


def _notes(sides: Sequence[Side], shared: int) -> list[str]:
    """Return sentences about what the figures leave out."""
    notes = []
    if left_out := [side.figures for side in sides if side.figures.left_out]:
        notes.append(say("left_out", shared, left_out))
    seen = dict[Path, str]()
    for side in sides:
        if (first := seen.setdefault(side.run.folder.resolve(), side.name)) != side.name:
            notes.append(f"{first} and {side.name} are one run, given twice.")
        summary = side.run.summary
        notes += run_notes(side.name, summary.counts, summary.finished)
        if summary.run.judge:
            notes.append(say("judge", side.name, judge_words(summary.run.judge)))
    return notes


# Pairs ---------------------------------------------------------------------------------------


def _pairs(
    ids: Sequence[str], sides: Sequence[Side], test: Test, prices: QuestionPrices
) -> list[Pair]:
    """Return every pair of runs, with its test and corrected p."""
    # `combinations` begins with the pairs of the first run, the reference, which is `b`.
    both = [(a, b) for b, a in combinations(sides, 2)]
    tested = [test.pair(ids, (a.name, b.name), a.answers, b.answers) for a, b in both]
    p_values = [pair.p for pair in tested]
    unlike = [place for place, (a, b) in enumerate(both) if a.metric != b.metric]
    adjusted = corrected(p_values, unlike)

    pairs = []
    for place, (a, b) in enumerate(both):

        def p_if(scores: Scores, others: Scores, place: int = place) -> float:
            """Return the corrected p of this pair if its scores were these."""
            # Together with the other pairs' p values, since Holm's correction ranks all of them.
            p = test.p(scores, others)
            return corrected([*p_values[:place], p, *p_values[place + 1 :]], unlike)[place]

        reason = ""
        if place in unlike:
            metrics = [metric_name(side.run.summary.run) for side in (a, b)]
            reason = say("metrics_reason", tested[place], metrics)
        pair = replace(
            tested[place],
            p_adjusted=adjusted[place],
            metric=a.figures.metric,
            failure="; ".join(filter(None, (b.figures.failure, a.figures.failure))),
            other_metric=reason,
            unchecked_judge=a.unchecked_judge or b.unchecked_judge,
            confounds=tuple(confounds((a.name, b.name), (a.run, b.run))),
            price_a=prices.of(a.name),
            price_b=prices.of(b.name),
            price_unit=prices.unit,
        )
        pairs.append(replace(pair, unread=_unread(pair, a, b, _ends(a.metric, sides), p_if)))
    return pairs


def _unread(
    pair: Pair,
    a: Side,
    b: Side,
    ends: tuple[float, float],
    p_if: Callable[[Scores, Scores], float],
) -> str:
    """Return why unread answers allow no verdict; empty if they do no harm.

    `ends` are the lowest and the highest possible score of an answer; `p_if(scores of a, scores of
    b)` is the corrected p that other scores would have.
    """
    if mostly := [side.unread for side in (a, b) if side.figures.mostly_unread]:
        return "; ".join(mostly)
    why = "; ".join(filter(None, (a.unread, b.unread)))
    if not why or pair.outcome not in (A, B):
        return ""
    # A few unread answers do no harm if the difference would still be shown, had each of them been
    # scored in favour of the worse run.
    lowest, highest = ends
    if pair.outcome == A:
        scores = a.answers.if_unread(lowest), b.answers.if_unread(highest)
    else:
        scores = a.answers.if_unread(highest), b.answers.if_unread(lowest)
    worst = float((scores[0] - scores[1]).mean())
    if worst * pair.difference > 0 and p_if(*scores) < SURE:
        return ""
    return f"{why}. {say('undone_reason', pair, worst)}"


def _ends(metric: MetricFields | None, sides: Sequence[Side]) -> tuple[float, float]:
    """Return the lowest and highest possible score of an answer: the metric's limits, else those
    among the scores.
    """
    scale = Scale.of(metric)
    low, high = scale.low, scale.high
    seen = np.concatenate([side.answers.scores for side in sides])
    if low is None:
        low = min(FAILURE_SCORE, float(seen.min()))
    if high is None:
        high = float(seen.max())
    return low, high
