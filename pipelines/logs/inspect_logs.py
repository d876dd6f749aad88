"""Logs of Inspect: an `.eval` file, which is a zip of JSON."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from .answers import (
    MOST_DOCUMENT,
    LogAnswer,
    json_object,
    lettered,
    log_amount,
    log_count,
    log_fault,
    log_name,
    log_object,
    log_text,
)

with suppress(ImportError):
    import zipfile_zstd  # noqa: F401  # teaches `zipfile` zstd where Python is older than 3.14

LARGE, DENSE = 2**24, 200
"""Bytes of a member, and how many times as large as packed it may be beyond that."""

_SAMPLE = re.compile(r"samples/[^/]+\.json")
_GRADES = {"C": True, "I": False, "N": False, "correct": True, "incorrect": False}


def inspect_log(path: Path) -> Iterator[LogAnswer]:
    """An agent a model; each further epoch of a sample is a question of its own, such as `7 (epoch 2)`.

    Of several scorers the first of the header's says what is right.
    """
    try:
        with zipfile.ZipFile(path) as packed:
            members = {one.filename: one for one in packed.infolist()}
            header = _member(
                packed, members, "header.json" if "header.json" in members else "_journal/start.json", path
            )
            told = log_object(header.get("eval"), "eval", f"{path}, header.json")
            scorers = [one.get("name") for one in told.get("scorers") or () if isinstance(one, Mapping)]
            for name in members:
                if _SAMPLE.fullmatch(name):
                    yield _sample(_member(packed, members, name, path), told, scorers, f"{path}, {name}")
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError, RuntimeError) as problem:
        if isinstance(problem, NotImplementedError):
            raise UserError(f"{path} is packed with zstd, which needs zipfile-zstd: pip install it") from None
        raise UserError(f"{path} is not readable as a log of Inspect ({problem}): copy it again") from None


def _member(
    packed: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str, path: Path
) -> dict[str, Any]:
    where = f"{path}, {name}"
    member = members.get(name)
    if member is None:
        raise log_fault(str(path), f"there is no {name} in it, so it is no log of Inspect; name another file")
    if member.file_size > min(MOST_DOCUMENT, max(LARGE, DENSE * member.compress_size)):
        raise log_fault(where, "far larger once unpacked than a log may be; export it without its events")
    with packed.open(member) as opened:
        raw = opened.read(member.file_size + 1)
    if len(raw) > member.file_size:
        raise log_fault(where, "larger than the zip says it is; copy the log again")
    return json_object(raw, where)


def _sample(row: Mapping[str, Any], told: Mapping[str, Any], scorers: list[Any], where: str) -> LogAnswer:
    scores = log_object(row.get("scores"), "scores", where)
    problem = row.get("error")
    error = log_text(problem.get("message") if isinstance(problem, Mapping) else problem)
    scorer = next((name for name in scorers if name in scores), next(iter(scores), None))
    if scorer is None and error is None:
        raise log_fault(where, "the sample has no score; score the log (inspect score), or leave it out")
    score = log_object(scores.get(str(scorer)), "scores", where)
    output = log_object(row.get("output"), "output", where)
    said = log_text(output.get("completion"))
    options, target = lettered(row.get("choices")), row.get("target")
    answer = log_text(score.get("answer"))
    answer = said if answer is None else answer
    usages = [
        log_object(one, "model_usage", where)
        for one in log_object(row.get("model_usage"), "model_usage", where).values()
    ]
    costs = [one.get("total_cost") for one in usages]
    name = log_name(row.get("id"), "id", where)
    epoch = log_count(row.get("epoch"), "epoch", where) or 1
    correct = error is None and _graded(score.get("value"), scorer, where) and answer is not None
    return LogAnswer(
        where,
        name if epoch == 1 else f"{name} (epoch {epoch})",
        log_name(told.get("model"), "model", where),
        None if error else answer,
        correct,
        question=_asked(row.get("input")),
        gold=log_text(target[0] if isinstance(target, list) and target else target or None),
        choices=options if options and answer in (None, *options) else None,
        task=log_name(told.get("task"), "task", where),
        text=said,
        prompt_tokens=_sum(usages, "input_tokens", where),
        completion_tokens=_sum(usages, "output_tokens", where),
        cost=math.fsum(log_amount(one, "total_cost", where) or 0.0 for one in costs)
        if costs and None not in costs
        else None,
        seconds=log_amount(row.get("total_time"), "total_time", where),
        error=error,
    )


def _graded(value: Any, scorer: Any, where: str) -> bool:
    found = (
        _GRADES.get(value)
        if isinstance(value, str)
        else {1.0: True, 0.0: False}.get(value)
        if isinstance(value, int | float)
        else None
    )
    if found is None:
        raise log_fault(
            where, f"the score {value!r} of {scorer!r} is neither right nor wrong; score the log again"
        )
    return found


def _asked(asked: Any) -> str | None:
    if isinstance(asked, list):
        said = [log_object(one, "input", "input").get("content") for one in asked]
        return "\n".join(filter(None, map(log_text, said))) or None
    return log_text(asked)


def _sum(usages: list[Mapping[str, Any]], name: str, where: str) -> int | None:
    counts = [log_count(one.get(name), name, where) for one in usages]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None
