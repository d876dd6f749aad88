"""Results of promptfoo: the JSON or JSONL that `promptfoo eval --output` writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .answers import (
    LogAnswer,
    json_document,
    json_lines,
    log_amount,
    log_count,
    log_name,
    log_object,
    log_seconds,
    log_text,
    right,
)

_QUESTIONS = ("question", "query", "input", "prompt")
_GOLDS = ("answer", "expected", "gold", "target", "reference")
FAILED_CALL = 2
"""`failureReason` of a result that is an error; 1 is an assertion that failed."""


def _list_in(document: object) -> Any:
    for _ in range(2):  # the list stands one or two levels deep, by version
        if isinstance(document, Mapping):
            document = document.get("results")
    return document


def are_results(document: Mapping[str, object]) -> bool:
    return isinstance(_list_in(document), list)


def promptfoo(path: Path) -> Iterator[LogAnswer]:
    """One agent per provider; with several prompts, one per prompt and provider.

    `promptfoo eval --repeat` runs a test again under a number of its own: tests with the same
    variables and assertions are one question, numbered in the order of tests.
    """
    if path.suffix.casefold() != ".json":
        yield from _results(lambda: json_lines(path))
        return
    results = _list_in(json_document(path))

    def rows() -> Iterator[tuple[str, dict[str, object]]]:
        for number, result in enumerate(results, 1):
            yield f"{path}, result {number}", dict(log_object(result, "results", str(path)))

    yield from _results(rows)


def _results(rows: Callable[[], Iterator[tuple[str, dict[str, object]]]]) -> Iterator[LogAnswer]:
    """`promptIdx` counts columns, of which each provider has one a prompt: a prompt's first is its
    place.
    """
    columns: dict[str, int] = {}
    tests: dict[str, int] = {}
    places: dict[int, str] = {}
    # The rows are read twice, not kept: a log may not fit into memory, and numbers of tests are
    # known only at its end.
    for where, row in rows():
        column = log_count(row, "promptIdx", where) or 0
        columns[_prompt(row)] = min(column, columns.get(_prompt(row), column))
        place, test = log_count(row, "testIdx", where) or 0, _test(row, where)
        places[place], tests[test] = test, min(place, tests.get(test, place))
    numbers = _in_order(columns)
    if len(places) > len(tests):  # some tests are repeats, whose numbers would leave gaps
        tests = _in_order(tests)
    for where, row in rows():
        provider: Any = row.get("provider")
        if isinstance(provider, Mapping):
            provider = log_text(provider.get("label")) or provider.get("id")
        case = log_object(row.get("testCase"), "testCase", where)
        response = log_object(row.get("response"), "response", where)
        values = {
            **log_object(case.get("vars"), "vars", where),
            **log_object(row.get("vars"), "vars", where),
        }
        usage = log_object(row.get("tokenUsage") or response.get("tokenUsage"), "tokenUsage", where)
        asked = row.get("prompt")
        if isinstance(asked, Mapping):
            asked = asked.get("raw")
        failed = row.get("failureReason") == FAILED_CALL or response.get("error")
        number = numbers[_prompt(row)]
        agent = log_name(provider, "provider", where)
        if number:
            agent = f"{agent} prompt {number + 1}"
        output = answer = log_text(response.get("output"))
        error = None
        if failed:
            answer = None
            error = log_text(row.get("error") or response.get("error") or "the call failed")
        cost = row.get("cost")
        if cost in (None, 0):
            cost = response.get("cost")
        # a provider that counts no tokens leaves 0 of each
        read = log_count(usage, "prompt", where)
        said = log_count(usage, "completion", where)
        texts = (values[name] for name in _QUESTIONS if isinstance(values.get(name), str))
        yield LogAnswer(
            where,
            str(tests[_test(row, where)]),
            agent,
            answer,
            not failed and right(row.get("success"), "success", where),
            question=next(texts, None) or log_text(values) or log_text(asked),
            gold=next((log_text(values[name]) for name in _GOLDS if name in values), None),
            text=output,
            prompt_tokens=read or None,
            completion_tokens=said if read else None,
            cost=log_amount({"cost": cost}, "cost", where),
            seconds=log_seconds(row, "latencyMs", where),
            error=error,
            repeat=str(row.get("testIdx")),
        )


def _in_order(places: Mapping[str, int]) -> dict[str, int]:
    """Return the same names, numbered from 0 on in the order of their places."""
    return {name: number for number, name in enumerate(sorted(places, key=places.__getitem__))}


def _test(row: Mapping[str, object], where: str) -> str:
    """Return the parts that are equal in all repeats of a test."""
    case = log_object(row.get("testCase"), "testCase", where)
    parts: Any = [case.get("vars") or row.get("vars"), case.get("assert")]
    # Without variables and assertions all tests would look the same.
    if not any(parts):
        parts = row.get("testIdx")
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _prompt(row: Mapping[str, object]) -> str:
    prompt = row.get("prompt")
    label = prompt.get("label") if isinstance(prompt, Mapping) else None
    return str(row.get("promptId") or label or row.get("promptIdx"))
