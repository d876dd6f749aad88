"""The progress of an evaluation and the figures of a summary, in words, one line each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from ...modules.base.keyed import without_none
from ...modules.base.usage import Usage, tokens_of
from ...modules.reading.grading import ACCURACY
from ...modules.reading.row import ResultRow, score_in
from ...modules.statistics.repeats import Spread, best_repeats
from ...modules.statistics.statistics import wilson
from ..base.run_files import JudgeFields, ScoreFields
from ..base.wording import (
    ProgressLine,
    asked,
    calls_used,
    counted,
    duration,
    money,
    percent,
    thousand,
    unanswered,
    used,
)
from .summary import Summary

SHOWN_FLAKY = 7
LABELLED, MANY_REPEATS = 10.0, 20
"""A label's price in answers, for the advice on repeats, and how many of these nobody asks."""

SHOWN_ALWAYS = ("questions", "errors", "accuracy", "accuracy_excluding_errors")
"""Entries of a protocol's report that are left out, since every result shows them elsewhere."""


def score_line(summary: Summary) -> str:
    """Return the score with its interval, the number of questions, and the errors and unreadable
    answers among the wrong ones.
    """
    counts = summary.counts
    if not counts.rows:
        return "no question is finished"
    if counts.errors == counts.rows:
        return f"all {counted(counts.rows, 'question')} failed"
    score = f"{summary.metric} {percent(summary.main)}"
    if summary.metric == ACCURACY:
        score = f"{percent(summary.main)} right"
    line = f"{score} on {asked(counts.rows, summary.finished)}"
    if summary.finished < counts.questions:
        line += f" of {counts.questions:,}"
    line += summary.failures
    if counts.truncated:
        line += f", {counts.truncated:,} cut off"
        limits = {"max_tokens", "max_completion_tokens"}
        if any(limits & set(lm.settings) for lm in summary.run.lms.values()):
            line += ": raise --max-tokens"
        else:
            line += " at the server's own limit: give --max-tokens 2000"
    if summary.refused:
        line += f", {sum(summary.refused.values()):,} refused"
    return line


def flaky_line(summary: Summary) -> str:
    """Return the questions that flip between repeats, and how often; empty where none does."""
    if not summary.flaky:
        return ""
    number = len(summary.flaky)
    share = sum(question.flips for question in summary.flaky) / number
    shown = [
        f"{question.id} ({question.right} of {question.repeats} right)"
        for question in summary.flaky[:SHOWN_FLAKY]
    ]
    if number > SHOWN_FLAKY:
        shown.append("…")
    flip = "flips" if number == 1 else "flip"
    names = ", ".join(shown)
    return f"{counted(number, 'question')} {flip} in {share:.0%} of their repeats: {names}"


def repeats_line(summary: Summary) -> str:
    """Return whether more repeats or more questions would tell more; empty without repeats."""
    if summary.spread is None:
        return ""
    spread = Spread(**summary.spread)
    times = best_repeats(spread, LABELLED)
    repeats = "as often as you can" if times > MANY_REPEATS else f"{max(1, round(times))} times"
    return (
        f"scores vary by {math.sqrt(spread.within):.2f} within a question and by "
        f"{math.sqrt(spread.between):.2f} between questions (standard deviations): new questions "
        f"come first, repeats pay when the list is used up; where the label of a question costs as "
        f"much as {LABELLED:.0f} answers, ask each question {repeats}"
    )


def unmetered_line(summary: Summary) -> str:
    """Return the number of questions on which a metered program made no call through the meter, and
    of calls that were refused, with the last reason, which the program may have passed over; empty
    if none.
    """
    parts = []
    if silent := summary.report.get("unmetered"):
        questions = counted(summary.counts.rows, "question")
        parts.append(
            f"no call came through the meter on {silent:,} of {questions}: "
            "calls around it are not on the bill"
        )
    if refused := summary.report.get("refused_calls"):
        last = summary.report["last_refusal"]
        parts.append(f"{refused:,} refused calls, the last one: {last}")
    return "; ".join(parts)


def bill_line(summary: Summary, seconds: float | None = None) -> str:
    """Return the amount paid, and the cost per 1,000 questions, including answers that were paid
    for earlier.
    """
    usage = summary.paid or summary.usage
    calls, cost = calls_used(usage.calls), usage.cost_usd
    paid = f"{calls}, price unknown"
    if cost is not None:
        paid = f"paid {money(cost)} for {calls}"
    paid += unanswered(summary.lost)
    if cached := summary.usage.cached_calls:
        paid += f" ({cached:,} more from records or the cache)"
    parts = [paid]
    takes = summary.takes
    answered = summary.answered
    if takes and answered:
        usd, tokens = takes.cost_usd, tokens_of(takes)
        parts.append(thousand(usd and usd / answered, tokens and tokens / answered))
    if seconds is not None:
        parts.append(duration(seconds))
    return "; ".join(filter(None, parts))


def result_lines(summary: Summary) -> dict[str, str]:
    """Return the figures of a summary that its score and its bill leave out, one line each, by
    name.
    """
    lines = {name.replace("_", " "): percent(score) for name, score in summary.scores.items()}
    if summary.counts.errors == summary.counts.rows:
        lines = {summary.metric: f"not measured: {score_line(summary)}"}
    if summary.refused:
        lines["refused"] = ", ".join(f"{n:,} ({why})" for why, n in summary.refused.items())
    if summary.requests:
        lines["requests"] = "; ".join(summary.requests)
    lines["used"] = used(summary.usage)
    if summary.takes and summary.usage.cached_calls:
        lines["takes without cache"] = used(summary.takes)
    if summary.metric_usage:
        lines["used by the metric"] = used(summary.metric_usage)
    if summary.seconds:
        lines["time"] = f"{duration(summary.seconds['p50'])} per question (median)"
    if repeats := repeats_line(summary):
        lines["repeats"] = repeats
    return lines | highlights(summary.report)


def judge_words(judge: JudgeFields) -> str:
    """Return the agreement of a judge with people, in words."""
    agreement, kappa = judge.agreement, judge.kappa
    if agreement is None or kappa is None:
        return f"{judge.lm}, not checked against people: give a sample that people graded"
    return (
        f"{judge.lm}, which agrees with people on {percent(agreement)} of {agreement.n:,} "
        f"answers "
        f"(Cohen's kappa {kappa.value:.2f} [{kappa.low:.2f}, {kappa.high:.2f}])"
    )


def highlights(report: Mapping[str, object]) -> dict[str, str]:
    """Return a line for each entry of a protocol's own report: its name, and its figure or
    figures.
    """
    lines = {}
    for key, value in report.items():
        shown = _figure(value)
        if isinstance(value, Mapping) and "value" not in value:
            figures = without_none({name: _figure(inner) for name, inner in value.items()})
            shown = ", ".join(f"{name} {figure}" for name, figure in figures.items())
        if shown and key not in SHOWN_ALWAYS and not key.endswith("_per_question"):
            lines[key.replace("_", " ")] = shown
    return lines


def _figure(value: object) -> str | None:
    if isinstance(value, Mapping):
        # Figures without an interval are details of a report, which `summary.json` has.
        if isinstance(value.get("value"), int | float) and value.get("low") is not None:
            return percent(cast(ScoreFields, value))
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return None


@dataclass
class Progress:
    """The progress of an evaluation, passed to `progress` at the start and after every row. `score`
    is the sum of the `metric` so far; `unscored` answers are those on which the metric failed.
    """

    total: int
    done: int = 0
    correct: int = 0
    errors: int = 0
    unreadable: int = 0
    unscored: int = 0
    usage: Usage = field(default_factory=Usage)
    metric: str = ACCURACY
    score: float = 0.0

    def count(self, row: ResultRow, *, resumed: bool = False) -> None:
        self.done += 1
        self.correct += bool(row.correct)
        self.score += score_in(row)
        self.errors += bool(row.error)
        self.unreadable += row.error is None and row.answer is None
        # An error beside an answer is the metric's.
        self.unscored += row.error is not None and row.answer is not None
        if not resumed:
            self.usage.add(Usage.of(row.usage))


def evaluation_line(label: str, state: Progress) -> ProgressLine:
    return ProgressLine(label, progress_parts(state), state.done, max(state.total, 1))


def progress_parts(state: Progress) -> Iterable[str]:
    """Yield the figures of the progress line, which fits 80 columns: done, score so far with the
    half-width of its 95% interval, errors, and cost (calls where it is unknown).
    """
    yield f"{state.done:,}/{state.total:,}"
    if state.done and state.metric != ACCURACY:
        yield f"{state.metric} {state.score / state.done:.3g}"
    elif state.done:
        low, high = wilson(state.correct, state.done)
        yield f"{state.correct / state.done:.1%} ± {100 * (high - low) / 2:.1f}"
    if state.errors:
        yield counted(state.errors, "error")
    yield spent(state.usage)


def spent(usage: Usage) -> str:
    """Return the cost so far, or the calls where it is unknown or nothing."""
    return money(usage.cost_usd) if usage.cost_usd else calls_used(usage.calls)
