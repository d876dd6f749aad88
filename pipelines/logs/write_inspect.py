"""Writes a run as a log of Inspect: an `.eval` file, which is a zip of JSON."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...modules.base.calls import UsageFields
from ...modules.reading.row import ResultRow, RowKey, row_key
from ..base.journal import to_json
from ..base.run_files import ScoreFields
from ..runs.traces import TRACES, read_traces
from ..tracking.values import scrubbed
from .exported import RunSaid, asked_text, encodable, turn_text
from .kept import KEPT, kept_of

SHOWN = 1024
"""Characters of a question in the list of samples."""

_STOPS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}
_ROLES = frozenset(("system", "user", "assistant"))
_CONFIG = ("temperature", "max_tokens", "top_p", "seed", "reasoning_effort")


def write_inspect(said: RunSaid, folder: Path, name: str) -> list[Path]:
    """`NAME.eval`: a sample a row, with the dialogue as messages and, where the run has traces, its
    LM calls as events. Right is `C`, wrong `I`, and an answer that could not be read `N`.
    """
    path = folder / f"{name}.eval"
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as packed:
            _write(packed, said)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    return [path]


def _write(packed: zipfile.ZipFile, said: RunSaid) -> None:
    def add(name: str, value: Any) -> None:
        # Without a time of its own: the same run makes the same file.
        raw = value if isinstance(value, bytes) else to_json(value)
        packed.writestr(zipfile.ZipInfo(name), raw, zipfile.ZIP_DEFLATED)

    places, times = _traced(said.run.folder / TRACES)
    summaries: list[bytes] = []
    epochs = 1
    for row in said.rows():
        sample = _sample(said, row, places.get(row_key(row)))
        add(f"samples/{row['id']}_epoch_{sample['epoch']}.json", sample)
        summaries.append(to_json(_summary(sample)))
        epochs = max(epochs, sample["epoch"])
    summary = said.run.summary
    total, finished = len(summaries), summary.finished
    start = {
        "version": 2,
        "eval": _eval(said, finished, epochs),
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
                "scores": [_scored(name, score) for name, score in _scores(said)],
            },
            "stats": {
                "started_at": _iso(min(times)) if times else "",
                "completed_at": _iso(max(times)) if times else "",
                "model_usage": {said.model: usage} if usage else {},
            },
        },
    )


def _eval(said: RunSaid, samples: int, epochs: int) -> dict[str, Any]:
    about = said.about
    parts = [
        about["program_hash"],
        about["data_fingerprint"],
        said.model,
        said.metric,
        said.run.folder.name,
    ]
    number = hashlib.sha256(to_json(parts)).hexdigest()
    lms = list(about["lms"].values())
    chosen = (lms[0].get("settings") or {}) if len(lms) == 1 else {}
    return {
        "eval_id": number[:22],
        "run_id": number[22:44],
        "task_id": number[42:64],
        "created": said.at.isoformat(),
        "task": said.task,
        "solver": said.strategy,
        "dataset": {"name": said.task, "samples": samples},
        "model": said.model,
        "model_generate_config": {
            name: chosen[name] for name in _CONFIG if chosen.get(name) is not None
        },
        "config": {"epochs": epochs, "score_on_error": True},
        "packages": {name: of for name, of in about["versions"].items() if of},
        "metadata": {
            KEPT: {
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
            for name, score in _scores(said)
        ],
    }


def _scores(said: RunSaid) -> Iterator[tuple[str, ScoreFields]]:
    """The scores that samples have, the run's own first."""
    scores = said.run.summary.scores
    for name in dict.fromkeys((said.metric, "em", "f1")):
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


def _sample(said: RunSaid, row: ResultRow, place: tuple[Path, int] | None) -> dict[str, Any]:
    usage = _usage(row["usage"])
    turns = [
        {"role": "assistant", "content": turn_text(row, turn), "source": "generate"}
        for turn in row["transcript"]
    ]
    stop = row.get("finish_reason")
    last = str(row["transcript"][-1].get("text") or "") if turns else ""
    reply = {"role": "assistant", "content": last, "source": "generate"}
    output: dict[str, Any] = {
        "model": said.model,
        "choices": [{"message": reply, "stop_reason": _STOPS.get(str(stop), "unknown")}]
        if turns
        else [],
        "completion": last,
    }
    known = {"usage": usage} if usage else {}
    found: dict[str, Any] = {
        "id": row["id"],
        "epoch": row["repeat"] + 1,
        "input": row["question"],
        "target": row["gold"] or "",
        "messages": [{"role": "user", "content": asked_text(row), "source": "input"}, *turns],
        "output": output | known,
        "scores": _sample_scores(said, row),
        "metadata": {**row["meta"], KEPT: kept_of(row, said.strategy, said.scored)},
        "events": [],
        "model_usage": {said.model: usage} if usage else {},
    }
    if row["choices"]:
        found["choices"] = list(row["choices"].values())
    if row["seconds"] is not None:
        found["total_time"] = row["seconds"]
    if row["error"]:
        found["error"] = {"message": row["error"], "traceback": "", "traceback_ansi": ""}
    trace = next((record for record, _ in read_traces(*place)), None) if place else None
    if trace is not None:
        found["started_at"], found["completed_at"] = _iso(trace["began"]), _iso(trace["ended"])
        found["events"] = [
            _event(call, trace["began"]) for call in encodable(scrubbed(trace["calls"]))
        ]
    return found


def _sample_scores(said: RunSaid, row: ResultRow) -> dict[str, Any]:
    value: str | float = said.score(row)
    if said.is_rate:
        value = "C" if value else "N" if row["answer"] is None else "I"
    main = {"value": value, "answer": row["answer"], "explanation": row.get("feedback")}
    others = {
        name: {"value": row[name], "answer": row["answer"]}  # type: ignore[literal-required]
        for name, _ in _scores(said)
        if name != said.metric and row[name] is not None  # type: ignore[literal-required]
    }
    return {said.metric: main, **others}


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The sample in the list of samples."""
    same = (
        "id",
        "epoch",
        "target",
        "choices",
        "model_usage",
        "total_time",
        "started_at",
        "completed_at",
    )
    return {
        **{name: sample[name] for name in (*same, "scores") if name in sample},
        "input": sample["input"][:SHOWN],
        "metadata": {name: value for name, value in sample["metadata"].items() if name != KEPT},
        "message_count": len(sample["messages"]),
        "completed": True,
        **({"error": sample["error"]["message"]} if "error" in sample else {}),
    }


def _usage(usage: UsageFields) -> dict[str, Any] | None:
    """Tokens and cost; None where tokens are not known, which Inspect would show as 0."""
    asked, said = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if asked is None or said is None:
        return None
    others = {
        "input_tokens_cache_read": usage.get("cached_prompt_tokens"),
        "input_tokens_cache_write": usage.get("cache_write_tokens"),
        "reasoning_tokens": usage.get("reasoning_tokens"),
        "total_cost": usage.get("cost_usd"),
    }
    return {
        "input_tokens": asked,
        "output_tokens": said,
        "total_tokens": asked + said,
        **{name: value for name, value in others.items() if value is not None},
    }


def _event(call: Mapping[str, Any], began: int) -> dict[str, Any]:
    """An LM call as Inspect has them."""
    usage: Any = call["usage"] or {}
    paid = _usage(usage)
    output: dict[str, Any] = {"model": call["model"], "time": (call["ended"] - call["began"]) / 1e9}
    if call["text"] is not None:
        reply = {"role": "assistant", "content": call["text"], "source": "generate"}
        output |= {
            "choices": [{"message": reply, "stop_reason": "unknown"}],
            "completion": call["text"],
        }
    return {
        "event": "model",
        "timestamp": _iso(call["began"]),
        "completed": _iso(call["ended"]),
        "working_start": (call["began"] - began) / 1e9,
        "working_time": output["time"],
        "model": call["model"],
        "role": call["seat"] or None,
        "input": [_message(one) for one in call["request"].get("messages") or ()],
        "tools": [],
        "tool_choice": "none",
        "config": {},
        "output": output | ({"usage": paid} if paid else {}),
        "error": call["error"],
        "cache": "read" if usage.get("cached_calls") else None,
    }


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    content, role = message.get("content"), message.get("role")
    text = content if isinstance(content, str) else to_json(content).decode()
    return {"role": role if role in _ROLES else "user", "content": text}


def _traced(path: Path) -> tuple[dict[RowKey, tuple[Path, int]], list[int]]:
    """Of each traced question where its last trace begins, and when all of them began and ended."""
    found, start = {}, 0
    times: list[int] = []
    for record, after in read_traces(path):
        found[row_key(record["row"])] = (path, start)
        times = [min([*times[:1], record["began"]]), max([*times[1:], record["ended"]])]
        start = after
    return found, times


def _iso(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat()
