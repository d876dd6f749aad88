"""Instance rows of Every Eval Ever (`instance_level_eval.schema.json`, versions 0.2 and 0.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .answers import LogAnswer, lettered, log_rows, log_text

_EPOCH = re.compile(r"[1-9]\d{0,8}")


def _end_of(value: object, place: int) -> object:
    """Return the first or last item of a list; another value unchanged; None for an empty list."""
    if not isinstance(value, list):
        return value
    return value[place] if value else None


def every_eval_ever(path: Path) -> Iterator[LogAnswer]:
    """The answer is the last extracted value, or the last of what was said where nothing was
    extracted.

    A sample has a row for each metric of its evaluation; the metric of the first row says what is
    right. Its repeats are told apart by the `epoch` in the metadata, as Inspect counts them, from 1
    on.
    """
    metrics: dict[tuple[object, ...], object] = {}
    asked_before: set[int] = set()
    for row in log_rows(path):
        evaluation = str(row.value("model_id")), str(row.value("evaluation_name"))
        epoch = str(row.value("metadata.epoch"))
        # A sample without an epoch has one answer, which is its first.
        repeat = int(epoch) - 1 if _EPOCH.fullmatch(epoch) else 0
        metric = row.value("evaluation_result_id")
        # A hash, since a log may have millions of samples.
        sample = hash((*evaluation, str(row.value("sample_id")), repeat))
        if metrics.setdefault(evaluation, metric) != metric and sample in asked_before:
            continue
        # A row without a metric is no second scoring of a sample, but another answer.
        if metric is not None:
            asked_before.add(sample)
        # a dialogue has its replies among the messages
        talk = [said for said in row.objects("messages") if said.value("role") == "assistant"]
        replies = row.value("output.raw") or [said.value("content") for said in talk]
        answer = text = log_text(_end_of(replies, -1))
        for value in row.objects("answer_attribution"):
            if value.fields.get("is_terminal", True):
                answer = value.text("extracted_value")
        error = row.text("error")
        yield LogAnswer(
            row.where,
            row.name("sample_id"),
            row.name("model_id"),
            answer,
            error is None and row.right("evaluation.is_correct"),
            question=row.text("input.raw"),
            gold=log_text(_end_of(row.value("input.reference"), 0)),
            choices=lettered(row.value("input.choices")),
            group=row.name_if_any("metadata.subject"),
            task=row.name("evaluation_name"),
            text=text,
            prompt_tokens=row.inner("token_usage").prompt_tokens(),
            completion_tokens=row.count("token_usage.output_tokens"),
            seconds=row.seconds("performance.latency_ms"),
            error=error,
            repeat=repeat,
        )
