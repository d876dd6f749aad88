"""Writes a run as Every Eval Ever has one: a file of instance rows, and beside it one that sums them up."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.reading.row import ResultRow
from ..base.journal import to_json, write_json
from .exported import RunSaid, turn_text
from .kept import KEPT, kept_of

SCHEMA = "0.3.0"
NAMELESS = "unstated"
"""Stands for the developer of a model whose name says none."""

_UNSAFE = re.compile(r'[<>"\\|?*\x00-\x1f]')


def write_every_eval_ever(said: RunSaid, folder: Path, name: str) -> list[Path]:
    """`data/TASK/DEVELOPER/MODEL/UUID_samples.jsonl` and `UUID.json`, where their validator wants them."""
    model = _UNSAFE.sub("_", said.model).strip(" .")
    developer, _, rest = model.rpartition("/") if "/" not in model else model.partition("/")
    place = "/".join(("data", _part(said.task), _part(developer or NAMELESS), _part(rest)))
    at = str(int(said.at.timestamp()))
    number = to_json(
        [name, said.metric, said.about["program_hash"], said.about["data_fingerprint"], model, at]
    )
    stem = str(uuid.UUID(bytes=hashlib.sha256(number).digest()[:16], version=4))
    known = {
        "schema_version": SCHEMA,
        "evaluation_id": f"{said.task}/{model.replace('/', '_')}/{at}",
    }
    home = folder / place
    home.mkdir(parents=True, exist_ok=True)
    samples = home / f"{stem}_samples.jsonl"
    digest, total = hashlib.sha256(), 0
    scratch = home / f".{samples.name}.{os.getpid()}"
    with scratch.open("wb") as file:
        for row in said.rows():
            line = to_json(known | {"model_id": model} | _instance(said, row)) + b"\n"
            file.write(line)
            digest.update(line)
            total += 1
    os.replace(scratch, samples)
    detail = {
        "format": "jsonl",
        "file_path": f"{place}/{samples.name}",
        "hash_algorithm": "sha256",
        "checksum": digest.hexdigest(),
        "total_rows": total,
    }
    write_json(
        home / f"{stem}.json",
        known | _aggregate(said, model, developer, at) | {"detailed_evaluation_results": detail},
    )
    return [samples]


def _part(text: str) -> str:
    """As a part of a path that every system takes."""
    part = re.sub(r"[/:]", "_", _UNSAFE.sub("_", text)).strip(" .") or NAMELESS
    return "data_" if part == "data" else part  # which is reserved


def _aggregate(said: RunSaid, model: str, developer: str, at: str) -> dict[str, Any]:
    origin = said.about.get("imported")
    library = origin["sources"][0]["format"] if origin else "folkmoot"
    used = {"program": said.strategy, "program_hash": said.about["program_hash"]}
    return {
        "evaluation_timestamp": at,
        "retrieved_timestamp": at,
        "source_metadata": {
            "source_name": library,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": library,
            "version": (said.about["versions"].get("folkmoot") if not origin else None) or "unknown",
        },
        "model_info": {
            "name": said.model,
            "id": model,
            "developer": developer or NAMELESS,
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": [
            {
                "evaluation_result_id": f"{said.task}/{name}",
                "evaluation_name": said.task,
                "source_data": {"dataset_name": said.task, "source_type": "other"},
                "metric_config": _metric(said, name, score),
                "score_details": {"score": score["value"], "uncertainty": _uncertainty(score)},
                "generation_config": {"additional_details": {key: of for key, of in used.items() if of}},
            }
            for name, score in said.run.summary.scores.items()
        ],
    }


def _metric(said: RunSaid, name: str, score: Mapping[str, float]) -> dict[str, Any]:
    least, most = (said.least, said.most) if name == said.metric and not said.is_rate else (0.0, 1.0)
    return {
        "metric_id": name,
        "metric_name": name,
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": min(least, score["value"]),
        "max_score": "Infinity" if most is None else most,
    }


def _uncertainty(score: Mapping[str, float]) -> dict[str, Any]:
    ends = {"lower": score["low"], "upper": score["high"], "confidence_level": 0.95}
    return {"confidence_interval": ends, "num_samples": score["n"]}


def _instance(said: RunSaid, row: ResultRow) -> dict[str, Any]:
    turns, score = row["transcript"], said.score(row)
    several = len(turns) > 1
    gold = [] if row["gold"] is None else [row["gold"]]
    usage = row["usage"]
    asked, told = usage.get("prompt_tokens"), usage.get("completion_tokens")
    place, source = (len(turns), f"messages[{len(turns)}].content") if several else (0, "output.raw")
    found = {
        "turn_idx": place,
        "source": source,
        "extracted_value": row["answer"],
        "extraction_method": row["decided_by"] or "unknown",
        "is_terminal": True,
    }
    talk = [
        {"turn_idx": 0, "role": "user", "content": row["question"]},
        *(
            {"turn_idx": number, "role": "assistant", "content": turn_text(row, turn)}
            for number, turn in enumerate(turns, 1)
        ),
    ]
    right = row["correct"]
    details = {name: of if isinstance(of, str) else json.dumps(of) for name, of in row["meta"].items()}
    return {
        "evaluation_name": said.task,
        "evaluation_result_id": f"{said.task}/{said.metric}",
        "sample_id": row["id"],
        "sample_hash": hashlib.sha256("".join([row["question"], *gold]).encode(errors="replace")).hexdigest(),
        "interaction_type": "multi_turn" if several else "single_turn",
        "input": {
            "raw": row["question"],
            "reference": gold,
            "choices": list(row["choices"].values()) if row["choices"] else None,
        },
        "output": None if several else {"raw": [str(turn.get("text") or "") for turn in turns]},
        "messages": talk if several else None,
        "answer_attribution": [] if row["answer"] is None else [found],
        "evaluation": {
            "score": score,
            "is_correct": (score >= (said.most or math.inf)) if right is None else right,
            "num_turns": len(talk) if several else 1,
        },
        "token_usage": None
        if asked is None or told is None
        else {
            "input_tokens": asked,
            "output_tokens": told,
            "total_tokens": asked + told,
            "input_tokens_cache_read": usage.get("cached_prompt_tokens"),
            "input_tokens_cache_write": usage.get("cache_write_tokens"),
            "reasoning_tokens": usage.get("reasoning_tokens"),
        },
        "performance": None if row["seconds"] is None else {"latency_ms": round(row["seconds"] * 1000, 3)},
        "error": row["error"],
        "metadata": details
        | {
            "epoch": str(row["repeat"] + 1),
            KEPT: json.dumps(kept_of(row, said.strategy, said.scored)),
        },
    }
