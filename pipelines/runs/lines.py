"""The figures of a summary in words, a line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...modules.reading.grading import metric_name
from ..base.run_files import ScoreFields
from ..base.wording import counted, duration, percent, used

# lines of every result
SHOWN_ALWAYS = ("questions", "errors", "accuracy", "accuracy_excluding_errors")


def result_lines(summary: Mapping[str, Any], seconds: float | None = None) -> dict[str, str]:
    """The figures of `summary.json` that are worth a line each."""
    counts, usage = summary["counts"], summary["usage"]
    if counts["errors"] < counts["rows"]:
        lines = {
            name.replace("_", " "): percent(score) for name, score in summary["scores"].items()
        }
    else:
        what = "every question failed" if counts["rows"] else "no question is finished"
        lines = {metric_name(summary): f"not measured: {what}"}
    right = f"{counts['correct']:,} right of " if counts["correct"] is not None else ""
    finished = summary["scores"][metric_name(summary)]["n"] if counts["rows"] else 0
    several = f" answers to {counted(finished, 'question')}" if counts["rows"] > finished else ""
    lines["questions"] = f"{right}{counts['rows']:,}{several}"
    if finished < counts["questions"]:
        lines["questions"] += f" finished ({counts['questions']:,} asked for)"
    lines["unreadable"] = f"{counts['unreadable']:,}"
    if counts.get("truncated"):
        limits = {"max_tokens", "max_completion_tokens"}
        given = any(
            limits & set(lm.get("settings") or ()) for lm in (summary.get("lms") or {}).values()
        )
        advice = (
            ": raise --max-tokens"
            if given
            else " at the server's own limit: give --max-tokens 2000"
        )
        lines["unreadable"] += f"; {counts['truncated']:,} cut off{advice}"
    lines["errors"] = f"{counts['errors']:,}"
    lines["used"] = used(usage)
    if judging := summary.get("metric_usage"):
        lines["used by the metric"] = used(judging)
    if judge := summary.get("judge"):
        lines["the judge"] = judge_words(judge)
    paid = summary.get("paid")
    if paid and (usage["calls"] is None or paid["calls"] != usage["calls"] - usage["cached_calls"]):
        lines["paid in all"] = used(paid)
    if (lost := summary.get("lost")) and lost["calls"]:
        lines["lost of that"] = f"at most {used(lost)}: sent, with no known end"
    latency = summary.get("seconds") or {}
    times = [] if seconds is None else [duration(seconds)]
    times += [f"a question takes {duration(latency['p50'])} (median)"] if latency else []
    lines |= {"time": "; ".join(times)} if times else {}
    return lines | (
        highlights(summary.get("report") or {}) if counts["errors"] < counts["rows"] else {}
    )


def judge_words(judge: Mapping[str, Any]) -> str:
    """How far a judge can be trusted."""
    if not judge.get("checked"):
        return f"{judge['lm']}, not checked against people: give a sample that people graded"
    agreement, kappa = judge["agreement"], judge["kappa"]
    return (
        f"{judge['lm']}, which agrees with people on {percent(agreement)} of {agreement['n']:,} "
        f"answers "
        f"(Cohen's kappa {kappa['value']:.2f} [{kappa['low']:.2f}, {kappa['high']:.2f}])"
    )


def highlights(report: Mapping[str, Any]) -> dict[str, str]:
    """A line for each entry of a protocol's own report, by its names: a figure, or the figures in
    it.
    """
    lines = {}
    for key, value in report.items():
        if isinstance(value, Mapping) and "value" not in value:
            figures = ((str(name), _figure(inner)) for name, inner in value.items())
            shown: str | None = ", ".join(
                f"{name} {figure}" for name, figure in figures if figure is not None
            )
        else:
            shown = _figure(value)
        if shown and key not in SHOWN_ALWAYS and not key.endswith("_per_question"):
            lines[key.replace("_", " ")] = shown
    return lines


def _figure(value: Any) -> str | None:
    if isinstance(value, Mapping):
        known = isinstance(value.get("value"), int | float) and value.get("low") is not None
        return percent(cast(ScoreFields, value)) if known else None
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
