"""Samples that lm-evaluation-harness writes with `--log_samples`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from .answers import LogAnswer, Record, lettered, log_name, log_rows, log_text

METRICS = ("exact_match", "acc", "em", "pass@1")
"""Of several metrics the first of these says what is right; else the only one does."""

_UNREAD = "[invalid]"
"""What its filters make of a reply that they find no answer in."""

_QUESTIONS = ("question", "query", "problem", "prompt", "input", "text")
_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")


def lm_eval(path: Path) -> Iterator[LogAnswer]:
    """Answers of the model whose folder the file stands in; of several filters each is an agent.

    A question that stands in the file several times has repeats. In files of old versions, which
    name no filter, rows with the same reply are filters of it.
    """
    named = _FILE.fullmatch(path.name)
    task = named["task"] if named else path.stem.removeprefix("samples_")
    # lm-eval writes a model's slashes as two underscores.
    model = log_name(path.absolute().parent.name.replace("__", "/"), "the folder's name", str(path))
    times: Counter[tuple[str, str]] = Counter()
    replies: Counter[tuple[str, str]] = Counter()
    for row in log_rows(path):
        filtered = str(row.value("filter") or "none")
        # Only its reply tells then whether a row is the same answer, filtered in another way.
        if "filter" not in row.fields:
            reply = str(row.value("doc_id")), json.dumps(row.value("resps"))
            replies[reply] += 1
            if replies[reply] > 1:
                filtered = f"filter {replies[reply]}"
        agent = model
        if filtered != "none":
            agent = log_name(f"{model} {filtered}", "filter", row.where)
        name, verdict = row.name("doc_id"), row.right(_metric(row))
        answer, options = _answered(row)
        target = row.value("target")
        # Of options, the target is often the number of the right one.
        number = str(target)
        if options and number.isdigit() and int(number) < len(options):
            target = list(options)[int(number)]
        doc = row.inner("doc").fields
        asked = next((doc[key] for key in _QUESTIONS if isinstance(doc.get(key), str)), None)
        yield LogAnswer(
            row.where,
            name,
            agent,
            answer,
            verdict,
            question=asked or _argument(row, 0, 0),
            gold=log_text(target),
            choices=options,
            task=log_name(task, "task", row.where),
            text=_reply(row.value("resps")),
            repeat=times[name, filtered],
        )
        times[name, filtered] += verdict is not None


def task_at(path: Path) -> tuple[tuple[str, ...], str] | None:
    """Return the folder and task of a file, and when it was written; None where its name says
    nothing.
    """
    named = _FILE.fullmatch(path.name)
    if named is None:
        return None
    return (str(path.parent), named["task"]), named["time"]


def _answered(row: Record) -> tuple[str | None, dict[str, str] | None]:
    """Return the filtered answer, or of options the label of the likeliest one."""
    kept = row.value("filtered_resps")
    if not isinstance(kept, list) or not kept:
        raise row.fault("there are no 'filtered_resps'; run lm_eval with --log_samples again")
    if kept[0] == _UNREAD:
        return None, None
    if not isinstance(kept[0], list):
        return log_text(kept[0]), None
    try:
        # Of a question with options a reply is a pair: log-likelihood, and whether it is the
        # greedy one.
        scores = [float(value[0]) for value in kept]
    except (TypeError, ValueError, IndexError):
        return log_text(kept[0]), None
    options = lettered(row.value("doc.choices"))
    if options is None or len(options) != len(scores):
        texts = [_argument(row, place, 1) or str(place) for place in range(len(scores))]
        options = lettered(list(map(str.strip, texts)))
    likeliest = max(range(len(scores)), key=scores.__getitem__)
    # There is no letter for an option beyond Z: its number stands for it.
    if len(scores) > 26:
        return log_text(likeliest), options
    return chr(ord("A") + likeliest), options


def _argument(row: Record, place: int, part: int) -> str | None:
    """Return the prompt (part 0) or the continuation (part 1) of a request; None where none is
    noted.
    """
    arguments = row.value("arguments")
    # Newer versions name what older ones list.
    if isinstance(arguments, Mapping):
        named = [argument for argument in arguments.values() if isinstance(argument, Mapping)]
        arguments = [list(argument.values()) for argument in named]
    try:
        return log_text(arguments[place][part])
    except (TypeError, IndexError, KeyError):
        return None


def _reply(resps: object) -> str | None:
    while isinstance(resps, list) and resps:
        resps = resps[0]
    return resps if isinstance(resps, str) else None


def _metric(row: Record) -> str:
    """Return the name of the metric that says what is right."""
    usual = next(filter(row.fields.__contains__, METRICS), None)
    if usual is not None:
        return usual
    others = row.value("metrics") or ()
    names = [name for name in others if isinstance(name, str) and name in row.fields]
    if len(names) != 1:
        shown = ", ".join(names) or "none"
        raise row.fault(
            f"which metric says what is right? It has {shown}, none of {', '.join(METRICS)}"
        )
    return names[0]
