"""Samples that lm-evaluation-harness writes with `--log_samples`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .answers import LogAnswer, json_lines, lettered, log_fault, log_name, log_object, log_text, right

METRICS = ("exact_match", "acc", "em", "pass@1")
"""Of several metrics the first of these says what is right; else the only one does."""

_UNREAD = "[invalid]"
"""What its filters make of a reply that they find no answer in."""

_QUESTIONS = ("question", "query", "problem", "prompt", "input", "text")
_FILE = re.compile(r"samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.:-]+\.jsonl")


def lm_eval(path: Path) -> Iterator[LogAnswer]:
    """Answers of the model whose folder the file stands in; of several filters each is an agent."""
    named = _FILE.fullmatch(path.name)
    task = named["task"] if named else path.stem.removeprefix("samples_")
    model = log_name(path.absolute().parent.name.replace("__", "/"), "the folder's name", str(path))
    for where, row in json_lines(path):
        filtered = str(row.get("filter") or "none")
        doc = log_object(row.get("doc"), "doc", where)
        answer, options = _said(row, doc, where)
        target = row.get("target")
        place = int(target) if isinstance(target, int | str) and str(target).isdigit() else None
        if options and place is not None and place < len(options):
            target = list(options)[place]
        yield LogAnswer(
            where,
            log_name(row.get("doc_id"), "doc_id", where),
            model if filtered == "none" else log_name(f"{model} {filtered}", "filter", where),
            answer,
            _right(row, where),
            question=next((doc[name] for name in _QUESTIONS if isinstance(doc.get(name), str)), None)
            or _prompt(row),
            gold=log_text(target),
            choices=options,
            task=log_name(task, "task", where),
            text=_reply(row.get("resps")),
        )


def _said(
    row: Mapping[str, Any], doc: Mapping[str, Any], where: str
) -> tuple[str | None, dict[str, str] | None]:
    """The filtered answer, or of options the label of the likeliest one."""
    found = row.get("filtered_resps")
    if not isinstance(found, list) or not found:
        raise log_fault(where, "there are no 'filtered_resps'; run lm_eval with --log_samples again")
    if not isinstance(found[0], list):
        return None if found[0] == _UNREAD else log_text(found[0]), None
    try:
        scores = [float(one[0]) for one in found]
    except (TypeError, ValueError, IndexError):
        return log_text(found[0]), None
    options = lettered(doc.get("choices"))
    if options is None or len(options) != len(scores):
        options = lettered([_continuation(row, place) for place in range(len(scores))])
    label = chr(ord("A") + max(range(len(scores)), key=scores.__getitem__))
    return label if len(scores) <= 26 else log_text(scores.index(max(scores))), options


def _continuation(row: Mapping[str, Any], place: int) -> str:
    arguments = row.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = [list(one.values()) for one in arguments.values() if isinstance(one, Mapping)]
    try:
        return str(arguments[place][1]).strip()  # type: ignore[index]
    except (TypeError, IndexError, KeyError):
        return str(place)


def _prompt(row: Mapping[str, Any]) -> str | None:
    arguments = row.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = [list(one.values()) for one in arguments.values() if isinstance(one, Mapping)]
    try:
        return log_text(arguments[0][0])  # type: ignore[index]
    except (TypeError, IndexError, KeyError):
        return None


def _reply(resps: Any) -> str | None:
    while isinstance(resps, list) and resps:
        resps = resps[0]
    return resps if isinstance(resps, str) else None


def _right(row: Mapping[str, Any], where: str) -> bool:
    listed = row.get("metrics")
    known = [name for name in METRICS if name in row]
    names = known or [name for name in listed or () if isinstance(name, str) and name in row]
    if not known and len(names) != 1:
        shown = ", ".join(names) or "none"
        raise log_fault(
            where, f"which metric says what is right? It has {shown}, none of {', '.join(METRICS)}"
        )
    return right(row[names[0]], names[0], where)
