"""Instance rows of Every Eval Ever (`instance_level_eval.schema.json`, versions 0.2 and 0.3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from .answers import (
    LogAnswer,
    json_lines,
    lettered,
    log_count,
    log_list,
    log_name,
    log_name_if_any,
    log_object,
    log_prompt_tokens,
    log_seconds,
    log_text,
    right,
)

_EPOCH = re.compile(r"[1-9]\d{0,8}")


def _end_of(value: object, place: int) -> object:
    """Return the first or last item of a list; another value unchanged; None for an empty list."""
    if not isinstance(value, list):
        return value
    return value[place] if value else None


def _objects(row: Mapping[str, object], name: str, where: str) -> list[Mapping[str, object]]:
    return [log_object(item, name, where) for item in log_list(row.get(name), name, where)]


def every_eval_ever(path: Path) -> Iterator[LogAnswer]:
    """The answer is the last extracted value, or the last of what was said where nothing was
    extracted.

    A sample has a row for each metric of its evaluation; the metric of the first row says what is
    right. Its repeats are told apart by the `epoch` in the metadata, as Inspect counts them, from 1
    on.
    """
    metrics: dict[tuple[object, ...], object] = {}
    asked_before: set[int] = set()
    for where, row in json_lines(path):
        evaluation = str(row.get("model_id")), str(row.get("evaluation_name"))
        metadata = dict(log_object(row.get("metadata"), "metadata", where))
        epoch = str(metadata.get("epoch"))
        # A sample without an epoch has one answer, which is its first.
        repeat = int(epoch) - 1 if _EPOCH.fullmatch(epoch) else 0
        metric = row.get("evaluation_result_id")
        # A hash, since a log may have millions of samples.
        sample = hash((*evaluation, str(row.get("sample_id")), repeat))
        if metrics.setdefault(evaluation, metric) != metric and sample in asked_before:
            continue
        # A row without a metric is no second scoring of a sample, but another answer.
        if metric is not None:
            asked_before.add(sample)
        asked, output, judged, usage, took = (
            log_object(row.get(name), name, where)
            for name in ("input", "output", "evaluation", "token_usage", "performance")
        )
        values = _objects(row, "answer_attribution", where)
        final = [value for value in values if value.get("is_terminal", True)]
        talk = _objects(row, "messages", where)
        # a dialogue has its replies among the messages
        said = [message.get("content") for message in talk if message.get("role") == "assistant"]
        answer = text = log_text(_end_of(output.get("raw") or said, -1))
        error = log_text(row.get("error"))
        if final:
            answer = log_text(final[-1].get("extracted_value"))
        score = judged.get("score")
        yield LogAnswer(
            where,
            log_name(row.get("sample_id"), "sample_id", where),
            log_name(row.get("model_id"), "model_id", where),
            answer,
            error is None and right(judged.get("is_correct"), "is_correct", where),
            question=log_text(asked.get("raw")),
            gold=log_text(_end_of(asked.get("reference"), 0)),
            choices=lettered(asked.get("choices")),
            group=log_name_if_any(metadata.get("subject"), "subject", where),
            task=log_name(row.get("evaluation_name"), "evaluation_name", where),
            text=text,
            prompt_tokens=log_prompt_tokens(usage, where),
            completion_tokens=log_count(usage, "output_tokens", where),
            seconds=log_seconds(took, "latency_ms", where),
            error=error,
            score=float(score) if isinstance(score, int | float) else None,
            repeat=repeat,
        )
