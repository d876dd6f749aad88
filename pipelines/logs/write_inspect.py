"""Writes a run as a log of Inspect: an `.eval` file, which is a zip of JSON."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...modules.base.usage import UsageFields
from ...modules.reading.row import ResultRow
from ..base.journal import to_json
from ..base.run_files import ScoreFields
from .exported import ExportedRun, asked_text, turn_text

SHOWN = 1024
"""Characters of a question in the list of samples."""

_STOPS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}
_CONFIG = ("temperature", "max_tokens", "top_p", "seed", "reasoning_effort")


def write_inspect(source: ExportedRun, folder: Path, name: str) -> list[Path]:
    """Write `NAME.eval`: a sample for each row, with the dialogue as messages.

    Right is `C`, wrong `I`, and an answer that could not be read `N`.
    """
    path = folder / f"{name}.eval"
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as packed:
            _write(packed, source)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    return [path]


def _write(packed: zipfile.ZipFile, source: ExportedRun) -> None:
    def add(name: str, value: Any) -> None:
        # Without a time of its own: the same run makes the same file.
        raw = value if isinstance(value, bytes) else to_json(value)
        packed.writestr(zipfile.ZipInfo(name), raw, zipfile.ZIP_DEFLATED)

    summaries: list[bytes] = []
    epochs = 1
    for row in source.rows():
        sample = _sample(source, row)
        add(f"samples/{row['id']}_epoch_{sample['epoch']}.json", sample)
        summaries.append(to_json(_summary(sample)))
        epochs = max(epochs, sample["epoch"])
    summary = source.run.summary
    total, finished = len(summaries), summary.finished
    start = {
        "version": 2,
        "eval": _eval(source, finished, epochs),
        "plan": {"name": "plan", "steps": [], "config": {}},
    }
    add("_journal/start.json", start)
    add("summaries.json", b"[" + b",".join(summaries) + b"]")
    usage = _usage(summary.usage)
    add(
        "header.json",
        {
            **start,
            "status": "success" if finished == summary.counts["questions"] else "cancelled",
            "results": {
                "total_samples": summary.counts["questions"] * epochs,
                "completed_samples": total - summary.counts["errors"],
                "scores": [_scored(name, score) for name, score in _scores(source)],
            },
            "stats": {
                "started_at": "",
                "completed_at": source.at.isoformat(),
                "model_usage": {source.model: usage} if usage else {},
            },
        },
    )


def _eval(source: ExportedRun, samples: int, epochs: int) -> dict[str, Any]:
    about = source.about
    parts = [
        about["program_hash"],
        about["data_fingerprint"],
        source.model,
        source.metric,
        source.run.folder.name,
    ]
    number = hashlib.sha256(to_json(parts)).hexdigest()
    lms = list(about["lms"].values())
    chosen = (lms[0].get("settings") or {}) if len(lms) == 1 else {}
    return {
        "eval_id": number[:22],
        "run_id": number[22:44],
        "task_id": number[42:64],
        "created": source.at.isoformat(),
        "task": source.task,
        "solver": source.strategy,
        "dataset": {"name": source.task, "samples": samples},
        "model": source.model,
        "model_generate_config": {
            name: chosen[name] for name in _CONFIG if chosen.get(name) is not None
        },
        "config": {"epochs": epochs, "score_on_error": True},
        "packages": {name: of for name, of in about["versions"].items() if of},
        "metadata": {
            "folkmoot": {
                name: about.get(name)
                for name in (
                    "program",
                    "program_hash",
                    "lms",
                    "data_fingerprint",
                    "git_commit",
                    "imported",
                )
            }
        },
        "scorers": [
            {"name": name, "metrics": [{"name": f"inspect_ai/{_metric(name, score)}"}]}
            for name, score in _scores(source)
        ],
    }


def _scores(source: ExportedRun) -> Iterator[tuple[str, ScoreFields]]:
    """The scores that samples have, the run's own first."""
    scores = source.run.summary.scores
    for name in dict.fromkeys((source.metric, "em", "f1")):
        if name in scores:
            yield name, scores[name]


def _metric(name: str, score: ScoreFields) -> str:
    return "accuracy" if score.get("rate", name != "f1") else "mean"


def _scored(name: str, score: ScoreFields) -> dict[str, Any]:
    metric = _metric(name, score)
    ends = {end: score[end] for end in ("low", "high")}
    return {
        "name": name,
        "scorer": name,
        "scored_samples": score["n"],
        "unscored_samples": 0,
        "metrics": {metric: {"name": metric, "value": score["value"], "metadata": ends}},
    }


def _sample(source: ExportedRun, row: ResultRow) -> dict[str, Any]:
    usage = _usage(row["usage"])
    turns = [
        {"role": "assistant", "content": turn_text(row, turn), "source": "generate"}
        for turn in row["transcript"]
    ]
    stop = row.get("finish_reason")
    last = str(row["transcript"][-1].get("text") or "") if turns else ""
    reply = {"role": "assistant", "content": last, "source": "generate"}
    output: dict[str, object] = {
        "model": source.model,
        "choices": [{"message": reply, "stop_reason": _STOPS.get(str(stop), "unknown")}]
        if turns
        else [],
        "completion": last,
    }
    sample: dict[str, Any] = {
        "id": row["id"],
        "epoch": row["repeat"] + 1,
        "input": row["question"],
        "target": row["gold"] or "",
        "messages": [{"role": "user", "content": asked_text(row), "source": "input"}, *turns],
        "output": output | ({"usage": usage} if usage else {}),
        "scores": _sample_scores(source, row),
        "metadata": dict(row["meta"]),
        "events": [],
        "model_usage": {source.model: usage} if usage else {},
    }
    if row["choices"]:
        sample["choices"] = list(row["choices"].values())
    if row["seconds"] is not None:
        sample["total_time"] = row["seconds"]
    if row["error"]:
        sample["error"] = {"message": row["error"], "traceback": "", "traceback_ansi": ""}
    return sample


def _sample_scores(source: ExportedRun, row: ResultRow) -> dict[str, object]:
    value: str | float = source.score(row)
    if source.is_rate:
        value = "C" if value else "N" if row["answer"] is None else "I"
    main = {"value": value, "answer": row["answer"], "explanation": row.get("feedback")}
    others = {
        name: {"value": row[name], "answer": row["answer"]}  # type: ignore[literal-required]
        for name, _ in _scores(source)
        if name != source.metric and row[name] is not None  # type: ignore[literal-required]
    }
    return {source.metric: main, **others}


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The sample in the list of samples."""
    same = ("id", "epoch", "target", "choices", "model_usage", "total_time", "scores", "metadata")
    return {
        **{name: sample[name] for name in same if name in sample},
        "input": sample["input"][:SHOWN],
        "message_count": len(sample["messages"]),
        "completed": True,
        **({"error": sample["error"]["message"]} if "error" in sample else {}),
    }


def _usage(usage: UsageFields) -> dict[str, Any] | None:
    """Tokens and cost; None where tokens are not known, which Inspect would show as 0."""
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if prompt is None or completion is None:
        return None
    others = {
        "input_tokens_cache_read": usage.get("cached_prompt_tokens"),
        "input_tokens_cache_write": usage.get("cache_write_tokens"),
        "reasoning_tokens": usage.get("reasoning_tokens"),
        "total_cost": usage.get("cost_usd"),
    }
    return {
        "input_tokens": prompt,
        "output_tokens": completion,
        "total_tokens": prompt + completion,
        **{name: value for name, value in others.items() if value is not None},
    }
