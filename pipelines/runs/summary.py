"""Summarises a run: scores with intervals, counts, usage, latency, groups, and the protocol's own
report.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import fmean, quantiles
from typing import TYPE_CHECKING

from ...modules.base.errors import UserError
from ...modules.base.usage import REFUSED, Usage, UsageFields
from ...modules.reading.grading import ACCURACY, Scale, metric_name
from ...modules.reading.row import CHECK, ResultRow, score_in, taken
from ...modules.statistics.clusters import clustered_mean
from ...modules.statistics.repeats import spread_of
from ...modules.statistics.statistics import bootstrap_mean, wilson
from ..base.run_files import (
    Counts,
    Flaky,
    Latency,
    Manifest,
    MetricFields,
    ScoreFields,
    score_fields,
)
from ..base.wording import counted, percent

if TYPE_CHECKING:
    from ...modules.reports.forensics import ForensicTally

SUMMARY = "summary.json"
GROUPS = ("subject", "grade", "grade_band", "type", "topic", "domain")
MOST_GROUPS = 30
BOOTSTRAP_SEED = 0


class Ending(StrEnum):
    """How a run ended: with all rows; as a program that left its contest; by a stop, such as a
    budget; since an endpoint or account failed, until the same command goes on; by a fault.
    """

    FINISHED = "finished"
    LEFT = "left"
    STOPPED = "stopped"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(repr=False)
class Summary:
    """`summary.json`: scores, counts, the bill and the manifest of a run.

    Attributes:
        scores: by name, the run's metric first; a question counts once, by its repeats' mean.
            Rates, in 0 … 1, have Wilson's interval, or Student's with repeats; others a bootstrap
            interval.
        usage: the cost of the rows' calls in all attempts; answers from a record or cache cost
            nothing.
        takes: as `usage`, with these answers at their price.
        paid: what was spent in this folder, also by killed attempts.
        lost: what calls without an answer may have cost besides.
        seconds: mean and percentiles of the time per question.
        groups: the score by `meta.subject` and other fields.
        report: the protocol's own report.
        run: the manifest, as in `run.json`.
        spent: the budget that ended it.
        refused: how many replies were refused, by the reason.
        models: the names under which endpoints answered.
        requests: what was changed about requests, since an endpoint refused it as it was.
        flaky: questions that are right in some repeats alone, the worst first.
        spread: the variances of scores `within` a question and `between` questions, or None.
        forensics: how dialogues changed answers.
    """

    scores: dict[str, ScoreFields]
    counts: Counts
    usage: UsageFields
    seconds: Latency
    groups: dict[str, dict[str, ScoreFields]]
    report: dict[str, object]
    run: Manifest
    takes: UsageFields | None = None
    paid: UsageFields | None = None
    lost: UsageFields | None = None
    stopped: str | None = None
    spent: str | None = None
    ending: Ending = Ending.FINISHED
    metric_usage: UsageFields | None = None
    refused: dict[str, int] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    forensics: dict[str, object] = field(default_factory=dict)
    flaky: list[Flaky] = field(default_factory=list)
    spread: dict[str, float] | None = None

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return metric_name(self.run)

    @property
    def main(self) -> ScoreFields:
        """The score by the run's metric."""
        return self.scores[self.metric]

    @property
    def accuracy(self) -> float:
        """The share of right answers, 0 to 1. Raises UserError for scores that are not rates."""
        if not self.is_rate:
            raise UserError(f"{self.metric} scores are neither right nor wrong: read score instead")
        return float(self.main.value)

    @property
    def is_rate(self) -> bool:
        """Whether the score is a share of right answers."""
        return self.counts.correct is not None

    @property
    def answered(self) -> int:
        """How many rows have an answer; failed questions have no price."""
        return self.counts.rows - self.counts.errors

    @property
    def finished(self) -> int:
        """How many questions have a row."""
        return self.main.n

    @property
    def failures(self) -> str:
        """The errors and unreadable answers among the wrong ones, such as `, 2 errors`; empty if
        there are none.
        """
        words = ""
        if self.counts.errors:
            words += f", {counted(self.counts.errors, 'error')}"
        if self.counts.unreadable:
            words += f", {self.counts.unreadable:,} unreadable"
        return words

    def to_dict(self) -> dict[str, object]:
        """Return the content of `summary.json`; the manifest's fields stand beside the others."""
        fields = asdict(self)
        fields |= fields.pop("run")
        fields.pop("mlflow_run_id", None)  # written into the manifest later, by the push
        return fields

    def __float__(self) -> float:
        return self.main.value

    def __repr__(self) -> str:
        if not self.counts.rows:
            return "Summary(no question is finished)"
        name, score = next(iter(self.scores.items()))
        return (
            f"Summary({name.replace('_', ' ')} {percent(score)}, n={self.finished}{self.failures})"
        )


def summarise(
    rows: Iterable[ResultRow],
    questions: int,
    report: Callable[[Iterable[ResultRow]], dict[str, object]],
    run: Manifest,
) -> Summary:
    """Summarise the rows in one pass; `report` gets each of them, too.

    Counts: `questions` to answer, finished `rows` (one per question and repeat), and among these
    `correct`, `errors` (failed calls), `unreadable` (no answer could be read) and `truncated` (a
    reply was cut off at a token limit). Errors and unreadable answers are wrong in every score.
    `report` and `forensics` describe right and wrong answers, so they are empty for metrics other
    than accuracy.
    """
    from ...modules.reports.forensics import ForensicTally  # the first calls need not wait for it

    run = Manifest.of(run)
    tally, forensic = _Tally(run.metric), ForensicTally()
    seen = tally.through(rows, forensic)
    protocol = report(seen) if tally.default else {}
    for _ in seen:  # a report may stop early or look at nothing
        pass
    return Summary(
        scores=tally.scores(),
        counts=Counts(
            questions=questions,
            rows=tally.rows,
            correct=tally.right if tally.is_rate else None,
            errors=tally.errors,
            unreadable=tally.unreadable,
            truncated=tally.truncated,
        ),
        usage=tally.usage.to_dict(),
        takes=tally.takes.to_dict(),
        seconds=_percentiles(tally.seconds),
        groups=tally.grouped(),
        report=protocol,
        run=run,
        refused=dict(tally.refused),
        models=sorted(tally.models),
        metric_usage=tally.judging.to_dict() if tally.judging.calls else None,
        forensics=forensic.report() if tally.default else {},
        flaky=tally.flaky(),
        spread=tally.spread(),
    )


def rate(successes: int, n: int) -> ScoreFields:
    """Return a share with its Wilson interval."""
    low, high = wilson(successes, n)
    return score_fields((successes / n if n else 0.0, low, high), n)


def mean_score(scores: Sequence[float], *, is_rate: bool) -> ScoreFields:
    """Return the mean of scores, one per question, with its 95% interval: Wilson's where all are
    right or wrong; Student's with n - 1 degrees of freedom for shares over repeats; a bootstrap
    interval for other scores.
    """
    n = len(scores)
    if not n or (is_rate and set(scores) <= {0.0, 1.0}):
        return rate(sum(map(bool, scores)), n)
    # One question has no variance to make an interval of.
    if is_rate and n == 1:
        return score_fields((scores[0], 0.0, 1.0), n)
    if is_rate:
        mean, low, high, *_ = clustered_mean(scores, range(n))
        return score_fields((mean, max(0.0, low), min(1.0, high)), n)
    return _bootstrapped(scores).but(rate=False)


def _bootstrapped(scores: Sequence[float]) -> ScoreFields:
    return score_fields(bootstrap_mean(scores, seed=BOOTSTRAP_SEED), len(scores))


class QuestionMeans:
    """Values of rows, as the mean of each question over its repeats."""

    def __init__(self) -> None:
        self._questions, self._values = array("q"), array("d")

    def add(self, question: int, value: float) -> None:
        """Add the value of a row; the question is a number."""
        self._questions.append(question)
        self._values.append(value)

    def means(self) -> list[float]:
        """Return a mean for each question, in the order of their numbers."""
        return [sum(values) / len(values) for values in self.by_question()]

    def by_question(self) -> list[list[float]]:
        """Return the values of each question."""
        values: dict[int, list[float]] = {}
        for question, value in zip(self._questions, self._values, strict=True):
            values.setdefault(question, []).append(value)
        return list(values.values())


def score_words(metric: str, score: ScoreFields | Mapping[str, float]) -> tuple[str, str]:
    """Return a score in words, and its interval: `62.0% right`, `52.1% to 70.9%`; `f1 0.521`, `0.43
    to 0.611`.
    """
    form = "{:.1%}" if score.get("rate", True) else "{:.3g}"
    value, low, high = map(form.format, (score["value"], score["low"], score["high"]))
    words = f"{metric} {value}"
    if metric == ACCURACY:
        words = f"{value} right"
    return words, f"{low} to {high}"


class _Tally:
    def __init__(self, metric: MetricFields | None) -> None:
        self.default = not metric
        scale = Scale.of(metric)
        self.name = metric.name if metric else ACCURACY
        self._rate, self._least = scale.rate, scale.least
        self._whole = True
        self._questions: dict[str, int] = {}
        self._scored, self._em, self._f1, self._strict = (QuestionMeans() for _ in range(4))
        self.seconds: list[float] = []
        self.usage, self.takes, self.judging = Usage(), Usage(), Usage()
        self.rows = 0
        self.right = 0
        self.errors = 0
        self.unreadable = 0
        self.truncated = 0
        self.refused: Counter[str] = Counter()
        self.models: set[str] = set()
        self._groups: dict[str, dict[str, QuestionMeans]] = {}

    @property
    def is_rate(self) -> bool:
        """Whether scores are rates: as declared by the metric, or since all are 0 or 1."""
        return self._rate if self._rate is not None else self._whole

    def through(self, rows: Iterable[ResultRow], forensic: ForensicTally) -> Iterator[ResultRow]:
        for row in map(ResultRow.of, rows):
            self._count(row)
            if self.default:
                forensic.count(row)
            # A protocol's report is about whole dialogues.
            if row.error is not None:
                row = row.but(transcript=[])
            yield row

    def _count(self, row: ResultRow) -> None:
        scored = score_in(row, self._least)
        question = self._questions.setdefault(row.id, len(self._questions))
        self._scored.add(question, scored)
        # A metric that does not say what its scores are is taken by what they turn out to be.
        self._whole = self._whole and scored in (0, 1)
        self.rows += 1
        self.right += bool(scored)
        if row.seconds is not None:
            self.seconds.append(row.seconds)
        usage = Usage.of(row.usage)
        self.usage.add(usage)
        self.takes.add(taken(row, usage))
        if row.metric_usage is not None:
            self.judging.add(Usage.of(row.metric_usage))
        self.errors += row.error is not None
        # an imported log may call right what it has no text of
        unread = row.answer is None and row.decided_by != CHECK
        self.unreadable += unread and not (row.error or row.correct)
        self.truncated += bool(row.truncated)
        if (reason := row.finish_reason) in REFUSED:
            self.refused[str(reason)] += 1
        if model := row.model:
            self.models.add(model)
        if row.kind == "span" and row.em is not None:
            self._em.add(question, row.em)
            self._f1.add(question, row.f1 or 0.0)
        if row.kind == "number":
            self._strict.add(question, bool(row.strict))
        meta = row.meta or {}
        for name in GROUPS:
            value = meta.get(name)
            if name == "grade_band":
                value = grade_band(meta)
            if value is not None:
                values = self._groups.setdefault(name, {})
                values.setdefault(str(value), QuestionMeans()).add(question, scored)

    def scores(self) -> dict[str, ScoreFields]:
        is_rate, scores = self.is_rate, dict[str, ScoreFields]()
        if em := self._em.means():
            scores["em"] = mean_score(em, is_rate=True)
            scores["f1"] = _bootstrapped(self._f1.means())
        if strict := self._strict.means():
            scores["accuracy_strict"] = mean_score(strict, is_rate=True)
        # The run's own metric may have one of these names: its score is the first one.
        scores.pop(self.name, None)
        return {self.name: mean_score(self._scored.means(), is_rate=is_rate), **scores}

    def spread(self) -> dict[str, float] | None:
        """Return the variances within and between questions; None where fewer than two have
        repeats.
        """
        if self.rows == len(self._questions):
            return None
        try:
            return spread_of(self._scored.by_question())._asdict()
        except ValueError:
            return None

    def flaky(self) -> list[Flaky]:
        """Return the questions that flip between right and wrong, the most unstable first."""
        if not self.is_rate or self.rows == len(self._questions):
            return []
        flaky: list[Flaky] = []
        for name, scores in zip(self._questions, self._scored.by_question(), strict=True):
            right, n = int(sum(scores)), len(scores)
            if 0 < right < n:
                flips = min(right, n - right) / n
                flaky.append(Flaky(id=name, repeats=n, right=right, flips=flips))
        return sorted(flaky, key=lambda question: -question.flips)

    def grouped(self) -> dict[str, dict[str, ScoreFields]]:
        grouped = {}
        for name, values in self._groups.items():
            if 1 < len(values) <= MOST_GROUPS:
                grouped[name] = {
                    value: mean_score(scored.means(), is_rate=self.is_rate)
                    for value, scored in sorted(values.items())
                }
        return grouped


def grade_band(meta: Mapping[str, object]) -> str | None:
    """Return the band of a school grade (1 to 12), in the two bands that ScienceQA reports."""
    grade = str(meta.get("grade", ""))
    if not grade.isdigit() or not 1 <= int(grade) <= 12:
        return None
    return "1-6" if int(grade) <= 6 else "7-12"


def _percentiles(seconds: list[float]) -> Latency:
    if not seconds:
        return Latency()
    # `quantiles` wants two at least; those of one question are all equal.
    several = [*seconds, *seconds][: max(2, len(seconds))]
    percent = quantiles(several, n=100, method="inclusive")
    return Latency(mean=fmean(seconds), p50=percent[49], p90=percent[89], p99=percent[98])
