"""Instance rows of Every Eval Ever (`instance_level_eval.schema.json`, versions 0.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .answers import (
    LogAnswer,
    json_lines,
    lettered,
    log_amount,
    log_count,
    log_fault,
    log_name,
    log_object,
    log_text,
    right,
)


def every_eval_ever(path: Path) -> Iterator[LogAnswer]:
    """The answer is the last extracted value, or the raw output where nothing was extracted."""
    for where, row in json_lines(path):
        asked, output, judged, usage, took = (
            log_object(row.get(name), name, where)
            for name in ("input", "output", "evaluation", "token_usage", "performance")
        )
        said = row.get("answer_attribution") or []
        raw, reference = output.get("raw"), asked.get("reference")
        if not isinstance(said, list):
            raise log_fault(where, "'answer_attribution' is no list; write the file again")
        values = [log_object(one, "answer_attribution", where) for one in said]
        final = [one for one in values if one.get("is_terminal", True)]
        text = log_text(raw[-1] if isinstance(raw, list) and raw else raw or None)
        group = log_object(row.get("metadata"), "metadata", where).get("subject")
        latency = log_amount(took.get("latency_ms"), "latency_ms", where)
        error = log_text(row.get("error"))
        yield LogAnswer(
            where,
            log_name(row.get("sample_id"), "sample_id", where),
            log_name(row.get("model_id"), "model_id", where),
            log_text(final[-1].get("extracted_value")) if final else text,
            right(judged.get("is_correct"), "is_correct", where) and error is None,
            question=log_text(asked.get("raw")),
            gold=log_text(reference[0] if isinstance(reference, list) and reference else reference or None),
            choices=lettered(asked.get("choices")),
            group=None if log_text(group) is None else log_name(group, "subject", where),
            task=log_name(row.get("evaluation_name"), "evaluation_name", where),
            text=text,
            prompt_tokens=log_count(usage.get("input_tokens"), "input_tokens", where),
            completion_tokens=log_count(usage.get("output_tokens"), "output_tokens", where),
            seconds=None if latency is None else latency / 1000,
            error=error,
        )
