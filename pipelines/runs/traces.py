"""Chooses which questions are traced, and keeps their traces in a file until MLflow has them."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.context import WATCHED, bound
from ...modules.base.errors import UserError, is_number
from ...modules.base.files import whole_lines
from ...modules.base.keyed import Keyed
from ...modules.base.usage import UsageFields
from ...modules.reading.row import ResultRow, TurnFields
from ..base.journal import Journal, parsed
from ..base.run_files import books_of
from ..lms.seen import LM_STEP, Seen, SeenCall, Watcher
from .rows import read_rows

TRACES = "traces.jsonl"
DEFAULT_TRACES = 200
_NEEDED = ("row", "began", "ended", "calls")


class TracedCall(Keyed):
    """An LM call of a traced question. Times are in nanoseconds.

    `turn` is the same number for calls that a seat made at the same time; `transcript_turn` is the
    index of its turn in the row's transcript, None if there is none.
    """

    __slots__ = ()
    turn: int
    transcript_turn: int | None
    seat: str | None
    model: str
    request: Any
    text: str | None
    usage: UsageFields | None
    began: int
    ended: int
    error: str | None
    step: int | None = None


class TracedStep(Keyed):
    """A step of a DSPy module; `above` is the place of the step that it belongs to."""

    __slots__ = ()
    name: str
    kind: str
    above: int | None
    inputs: object
    outputs: object
    error: str | None
    began: int
    ended: int


class Trace(Keyed):
    """A line of `traces.jsonl`: a question's row and LM calls, and the steps of a DSPy module."""

    __slots__ = ()
    row: ResultRow
    began: int
    ended: int
    calls: list[TracedCall]
    steps: list[TracedStep] | None = None


def traced_ids(ids: Sequence[str], rate: float | None) -> frozenset[str]:
    """Choose the share `rate` of the ids, rounded up; None takes DEFAULT_TRACES of them. The ids
    with the lowest hashes are taken, so a resumed run chooses the same ones in any order, and a
    larger share contains a smaller one. Raises UserError for a rate outside 0 … 1.
    """
    if rate is None:
        most = DEFAULT_TRACES
    elif not is_number(rate) or not 0 <= rate <= 1:
        raise UserError(f"traces is {rate!r}: give the share of questions to trace, from 0 to 1")
    else:
        # 0.07 of 100 is 7.000000000000001 to Python, which must not become 8.
        most = math.ceil(rate * len(ids) - 1e-9)
    if most >= len(ids):
        return frozenset(ids)
    return frozenset(sorted(ids, key=_place)[:most])


def _place(name: str) -> bytes:
    # An id from a file may hold half of a surrogate pair, which UTF-8 cannot write.
    return hashlib.sha256(name.encode("utf-8", "backslashreplace")).digest()


class TraceFile:
    """`DIR/traces.jsonl`: a line per traced question with its row and LM calls, written before the
    row itself, so that every row has its trace even if the process is killed. On resuming, a row
    without a trace gets a trace without calls. A later line for the same question replaces the
    earlier one. A failed write does not stop the run.

    Args:
        folder: the run's; its rows have been read back.
        wanted: ids of the questions to trace.
        rows: the file of the finished rows.
    """

    def __init__(self, folder: Path, wanted: frozenset[str], rows: Path) -> None:
        self.wanted = wanted
        self._journal: Journal | None = None
        if not wanted:
            return
        path = books_of(folder) / TRACES
        path.parent.mkdir(exist_ok=True)
        self._journal = Journal(path, alone=True)
        traced = frozenset(record.row.id for record, _ in read_traces(path))
        if wanted <= traced:
            return  # the rows need not be read
        for row in read_rows(rows):
            if row.id not in traced:
                self.keep(row)

    @contextmanager
    def watching(self, question: str, *, steps: bool = False) -> Iterator[Seen | None]:
        """Record the LM calls inside the block if the question is traced, with `steps` also the
        parts of a DSPy module at work.
        """
        # None, too, is bound: the calls would go to the trace of a question around this one.
        seen = None
        if question in self.wanted:
            seen = Seen()
        watched: AbstractContextManager[object] = nullcontext()
        if steps and seen is not None:
            callbacks = [*dspy.settings.get("callbacks", []), Watcher(seen)]
            watched = dspy.context(callbacks=callbacks)
        with bound(WATCHED, seen), watched:
            yield seen
        if seen is None:
            return
        for call in seen:
            call.written = [
                text for meter in call.meters for text, usage in seen.written if usage is meter
            ]

    def keep(self, row: ResultRow, seen: Seen | None = None) -> None:
        """Write the trace of an answered or failed question, if it is traced."""
        if self._journal is None or row.id not in self.wanted:
            return
        ended = time.time_ns()
        # The row's seconds are rounded, so the start is clamped: no call precedes its question.
        began = min([ended - int((row.seconds or 0.0) * 1e9), *(call.began for call in seen or ())])
        calls = _calls(seen or [], row.transcript)
        record: dict[str, object] = {"row": row, "began": began, "ended": ended, "calls": calls}
        if seen is not None and seen.steps:
            record["steps"] = _steps(seen, calls)
        with suppress(UserError):
            self._journal.append(record)

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()


def _calls(seen: Sequence[SeenCall], transcript: Sequence[TurnFields]) -> list[dict[str, object]]:
    """Return the calls as JSON; `turn` is the same number for calls that a seat made at the same
    time.
    """
    turns: dict[int, int] = {}
    # A turn keeps the very object that its calls were counted in: two with equal figures are not
    # confused.
    places = {id(turn.usage): place for place, turn in enumerate(transcript)}
    calls: list[dict[str, object]] = []
    for call in seen:
        own = [places[id(usage)] for usage in call.written if id(usage) in places]
        calls.append(
            {
                "turn": turns.setdefault(id(call.asker), len(turns)),
                "transcript_turn": next(iter(own), None),
                "seat": call.asker.seat,
                "model": call.model,
                "request": call.request,
                "text": call.text,
                "usage": call.usage.to_dict() if call.usage else None,
                "began": call.began,
                "ended": call.ended or time.time_ns(),
                "error": call.error,
            }
        )
    return calls


def _steps(seen: Seen, calls: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the steps as JSON, in order; each call gets the place of the step that made it."""
    shown = [step for step in seen.steps.values() if step.kind != LM_STEP]
    places = {step.id: place for place, step in enumerate(shown)}

    def place_of(step: str | None) -> int | None:
        while step is not None and step not in places:
            above = seen.steps.get(step)
            # Steps of LMs are not shown: their calls belong to the step around them.
            step = None if above is None else above.above
        return None if step is None else places[step]

    for made, call in zip(seen, calls, strict=True):
        call["step"] = place_of(made.step)
    return [
        {
            "name": step.name,
            "kind": step.kind,
            "above": place_of(step.above),
            "inputs": _fields(step.inputs),
            "outputs": _fields(step.outputs),
            "error": step.error,
            "began": step.began,
            "ended": step.ended or time.time_ns(),
        }
        for step in shown
    ]


def _fields(value: object) -> object:
    """Return what a step got or gave, as JSON: predictions and examples by their fields."""

    def plain(held: object) -> object:
        return held.toDict() if isinstance(held, dspy.Example) else str(held)

    return json.loads(json.dumps(value, default=plain))


def read_traces(path: Path, offset: int = 0) -> Iterator[tuple[Trace, int]]:
    """Read the lines from an offset on, each with the offset after it; skip damaged lines."""
    for start, line in whole_lines(path, offset):
        if (record := parsed(line, _NEEDED)) is not None:
            yield Trace.of(record), start + len(line)
