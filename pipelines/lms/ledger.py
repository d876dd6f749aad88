"""The ledger: every paid LM call, once, on disk before its reply is used."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, cast

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ..base.journal import Journal, records
from .in_flight import InFlight, abandoned

LEDGER = "ledger.jsonl"


class _Entry(TypedDict):
    endpoint: str
    model: str
    key: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    seat: str | None
    question: str | None
    attempts: int
    kept: bool


class Entry(_Entry, total=False):
    """One paid call: tokens as the endpoint counted them (or None), cost in USD (None: price
    unknown).

    `key` is the hash of the request, `attempts` counts the failed tries before it too, and `kept`
    says whether the reply was complete, so that a record or cache may give it again. A `lost` call
    was sent and has no known end: its tokens and cost are the most that it may have taken. Ledgers
    of earlier versions lack the fields that are named here.
    """

    cached_prompt_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    finish_reason: str
    time: str
    lost: bool


def usage_of(entry: Mapping[str, Any]) -> Usage:
    return Usage.of({**entry, "calls": 1})


class Ledger:
    """`DIR/ledger.jsonl`, appended in one write a call.

    `total` sums up what it held and what was added, and `lost` those of its calls whose end nobody
    knows.

    What is still under way when it is closed is booked as calls without a known end. What a full
    disk does not let be booked stays in the file of the calls in flight, and whoever opens the
    ledger next books it. Thread-safe. Raises OSError when it cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.total, self.lost = Usage(), Usage()
        self._lock = threading.Lock()
        self._under_way: dict[int, Entry] = {}
        self._journal = Journal(folder / LEDGER)
        for entry in _lines(folder):
            self._count(entry)
        for calls in abandoned(folder, take=True):
            for entry in _unsettled(folder, calls):
                self.add(entry)
        self._in_flight = InFlight(folder)

    def send(self, entry: Entry) -> int:
        """Write down a call that is about to be sent, as what it counts if its end is never known;
        its place.

        Raises UserError when the disk takes no more.
        """
        place = self._in_flight.begin(_timed(entry))
        self._under_way[place] = entry
        return place

    def settle(self, place: int, entry: Entry | None) -> None:
        """Book how a call that was sent has ended, None for one that was surely not billed.

        Raises UserError when the disk takes no more.
        """
        with self._lock:
            if self._under_way.pop(place, None) is None:  # closed meanwhile, and so booked
                return
            if entry is not None:
                line = _timed(entry)
                try:
                    self._add(line)
                except UserError:
                    with suppress(OSError):  # then it stays there as a call without a known end
                        self._in_flight.write(place, line)
                    raise
            self._in_flight.end(place)

    def add(self, entry: Entry) -> None:
        """Write a paid call down. Raises UserError when the disk takes no more."""
        with self._lock:
            self._add(_timed(entry))

    def _add(self, line: Mapping[str, Any]) -> None:
        self._count(line)  # paid for, whether or not the disk takes it
        self._journal.append(line)

    def _count(self, line: Mapping[str, Any]) -> None:
        usage = usage_of(line)
        self.total.add(usage)
        if line.get("lost"):
            self.lost.add(usage)

    def bill(self) -> tuple[Usage, Usage]:
        """What was paid for, and how much of it for calls without a known end, those under way
        among them.
        """
        with self._lock:
            paid, lost = replace(self.total), replace(self.lost)
            for entry in self._under_way.values():
                paid.add(usage_of(entry))
                lost.add(usage_of(entry))
        return paid, lost

    def close(self) -> None:
        for place, entry in list(self._under_way.items()):
            with suppress(UserError):
                self.settle(place, entry)
        with self._lock:
            self._in_flight.close()
            self._journal.close()


def _timed(entry: Entry) -> dict[str, Any]:
    return {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry}


def _lines(folder: Path) -> Iterator[Entry]:
    return cast(Iterator[Entry], records(folder / LEDGER, Entry.__required_keys__))


def _unsettled(folder: Path, calls: list[dict[str, Any]]) -> list[Entry]:
    """Those of the calls in flight that did not get as far as the ledger before their process was
    killed.
    """
    settled = {(line["key"], line["attempts"]): line.get("time", "") for line in _lines(folder)}
    return [
        cast(Entry, call)
        for call in calls
        if settled.get((call["key"], call["attempts"]), "") < call.get("time", "")
    ]


def read_ledger(folder: Path) -> Iterator[Entry]:
    """The ledger's lines in order, the torn ones left out, then the calls that a killed run
    lost.
    """
    yield from _lines(folder)
    for calls in abandoned(folder):
        yield from _unsettled(folder, calls)


def totals(folder: Path) -> Usage:
    """What was paid for in a folder, over all its runs and resumptions."""
    total = Usage()
    for entry in read_ledger(folder):
        total.add(usage_of(entry))
    return total


def answered_for(folder: Path, questions: Container[str | None]) -> dict[str, set[str]]:
    """The keys of the requests of each of these questions that were paid for, and that records
    answer now.
    """
    keys: dict[str, set[str]] = {}
    for entry in read_ledger(folder):
        if entry["kept"] and entry["question"] in questions:
            keys.setdefault(str(entry["question"]), set()).add(entry["key"])
    return keys


LEDGERS: ContextVar[tuple[Ledger, ...]] = ContextVar("folkmoot_ledgers", default=())
"""The ledgers of the runs in progress, the innermost first; each gets every paid call."""
