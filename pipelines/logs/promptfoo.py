"""Results of promptfoo: the JSON or JSONL that `promptfoo eval --output` writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .answers import LogAnswer, Record, log_document, log_rows, log_text

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
    variables and assertions are one question, numbered in the order of tests. `promptIdx` counts
    columns, of which each provider has one a prompt: a prompt's first is its place.
    """
    results = None
    if path.suffix.casefold() == ".json":
        results = _list_in(log_document(path).fields)
    columns: dict[str, int] = {}
    tests: dict[str, int] = {}
    places: dict[int, str] = {}
    # The rows are read twice, not kept: a log may not fit into memory, and numbers of tests are
    # known only at its end.
    for row in _rows(path, results):
        column = row.count("promptIdx") or 0
        columns[_prompt(row)] = min(column, columns.get(_prompt(row), column))
        place, test = row.count("testIdx") or 0, _test(row)
        places[place], tests[test] = test, min(place, tests.get(test, place))
    numbers = _in_order(columns)
    if len(places) > len(tests):  # some tests are repeats, whose numbers would leave gaps
        tests = _in_order(tests)
    for row in _rows(path, results):
        values = {**row.inner("testCase.vars").fields, **row.inner("vars").fields}
        agent, number = row.name("provider.label", "provider.id", "provider"), numbers[_prompt(row)]
        if number:
            agent = f"{agent} prompt {number + 1}"
        output = answer = row.text("response.output")
        error = None
        failed = row.value("failureReason") == FAILED_CALL or row.value("response.error")
        if failed:
            answer = None
            error = row.text("error", "response.error") or "the call failed"
        # a provider that counts no tokens leaves 0 of each
        read, said = (
            row.count(f"tokenUsage.{part}", f"response.tokenUsage.{part}")
            for part in ("prompt", "completion")
        )
        texts = (values[name] for name in _QUESTIONS if isinstance(values.get(name), str))
        asked = next(texts, None) or log_text(values or None)
        yield LogAnswer(
            row.where,
            str(tests[_test(row)]),
            agent,
            answer,
            not failed and row.right("success"),
            question=asked or row.text("prompt.raw", "prompt"),
            gold=next((log_text(values[name]) for name in _GOLDS if name in values), None),
            text=output,
            prompt_tokens=read or None,
            completion_tokens=said if read else None,
            cost=row.amount("cost") or row.amount("response.cost"),
            seconds=row.seconds("latencyMs"),
            error=error,
            repeat=str(row.value("testIdx")),
        )


def _rows(path: Path, results: list[object] | None) -> Iterator[Record]:
    if results is None:
        yield from log_rows(path)
        return
    for number, result in enumerate(results, 1):
        yield Record(f"{path}, result {number}", result, "results")


def _in_order(places: Mapping[str, int]) -> dict[str, int]:
    """Return the same names, numbered from 0 on in the order of their places."""
    return {name: number for number, name in enumerate(sorted(places, key=places.__getitem__))}


def _test(row: Record) -> str:
    """Return the parts that are equal in all repeats of a test."""
    parts = [row.value("testCase.vars") or row.value("vars"), row.value("testCase.assert")]
    # Without variables and assertions all tests would look the same.
    if not any(parts):
        parts = row.value("testIdx")
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _prompt(row: Record) -> str:
    return str(row.value("promptId", "prompt.label", "promptIdx", "prompt"))
