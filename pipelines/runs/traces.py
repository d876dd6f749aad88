"""Which questions are traced, and the file in which their traces wait until MLflow has them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...modules.base.calls import bound
from ...modules.base.errors import UserError
from ..base.jsonl import to_line
from ..lms.seen import WATCHED, SeenCall
from .rows import read_rows

TRACES = "traces.jsonl"
DEFAULT_TRACES = 20


def sample(ids: Sequence[str], rate: float | None) -> frozenset[str]:
    """The share `rate` of the ids, rounded up; None takes DEFAULT_TRACES of them.

    Those with the lowest hashes: the same on every resumption, whatever the order, and a larger share holds
    a smaller one. Raises UserError for a rate outside 0 … 1.
    """
    if rate is None:
        most = DEFAULT_TRACES
    elif isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise UserError(f"traces is {rate!r}: give the share of questions to trace, from 0 to 1")
    else:
        most = math.ceil(rate * len(ids) - 1e-9)
    if most >= len(ids):
        return frozenset(ids)
    return frozenset(sorted(ids, key=_place)[:most])


def _place(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "backslashreplace")).digest()


class TraceFile:
    """`DIR/traces.jsonl`: a line a traced question, with its row and LM calls, written before the row is.

    So a question that has a row has its trace, whenever the process is killed. What a resumed run finds
    answered without one gets a trace of its row alone. A line for a question that has one already replaces
    it. The disk refusing a line stops no run: `problem` says so.

    Args:
        folder: the run's; its rows have been read back.
        wanted: ids of the questions to trace.
        rows: the file of the finished rows.
    """

    def __init__(self, folder: Path, wanted: frozenset[str], rows: Path) -> None:
        self.wanted = wanted
        self.problem: OSError | None = None
        self._file: int | None = None
        if not wanted:
            return
        path = folder / TRACES
        known = _mend(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        for row in read_rows(rows) if wanted - known else ():
            if row["id"] in wanted and row["id"] not in known:
                now = time.time_ns()
                self._write(row, now - int(row["seconds"] * 1e9), now, [])

    @contextmanager
    def watching(self, question: str) -> Iterator[list[SeenCall] | None]:
        """Note the LM calls inside the block, if the question is to be traced."""
        seen: list[SeenCall] | None = [] if question in self.wanted else None
        with bound(WATCHED, seen):
            yield seen

    def keep(self, row: Mapping[str, Any], seen: Sequence[SeenCall] | None = None) -> None:
        """Write the trace of a question that is answered or has failed, if it is to have one."""
        if row["id"] in self.wanted:
            now = time.time_ns()
            self._write(row, now - int(row["seconds"] * 1e9), now, seen or [])

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def _write(self, row: Mapping[str, Any], began: int, ended: int, seen: Sequence[SeenCall]) -> None:
        line = to_line({"row": row, "began": began, "ended": ended, "calls": _calls(seen)})
        assert self._file is not None
        try:
            start = os.fstat(self._file).st_size
            if os.write(self._file, line) != len(line):
                os.ftruncate(self._file, start)
                raise OSError("not all of a trace fitted")
        except OSError as problem:
            self.problem = problem


def _calls(seen: Sequence[SeenCall]) -> list[dict[str, Any]]:
    """The calls as JSON; `turn` is the same number for calls of the same turn."""
    turns: dict[int, int] = {}
    return [
        {
            "turn": turns.setdefault(id(call.asker), len(turns)),
            "seat": call.asker.seat,
            "model": call.model,
            "request": call.request,
            "text": call.text,
            "usage": call.usage.to_dict() if call.usage else None,
            "began": call.began,
            "ended": call.ended or time.time_ns(),
            "error": call.error,
        }
        for call in seen
    ]


def read_traces(path: Path, offset: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """The whole lines from a place in the file on, each with the place after it; damaged ones are skipped."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return  # still being written
            offset += len(line)
            try:
                record = json.loads(line)
                whole = record.keys() >= {"row", "began", "ended", "calls"}
            except (ValueError, AttributeError, RecursionError):
                continue
            if whole:
                yield record, offset


def _mend(path: Path) -> frozenset[str]:
    """Drop the torn line of a killed process; the ids of the questions that have traces."""
    with open(path, "a+b") as file:
        file.seek(0)
        file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))
    return frozenset(record["row"]["id"] for record, _ in read_traces(path))
