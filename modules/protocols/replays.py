"""What a recorded run tells of other settings without a call: declared by the protocols that can tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Told(NamedTuple):
    """The outcome of one question under another setting, and the first of the recorded calls it takes."""

    answer: str | None
    decided_by: str
    rounds: int
    calls: int


@dataclass(frozen=True)
class Replays:
    """Which constructor parameters a recorded run is free to change afterwards.

    Args:
        free: names of those parameters.
        record: turns a program's parameters and the largest value of each free number into those of the run
            that tells most of them.
        tell: (rows of such a run, parameters) → an outcome a row, None for a row that failed; None in all
            when the parameters need calls of their own. Raises UserError for rows of another program.
        same_calls: whether every such setting takes all recorded calls.
    """

    free: tuple[str, ...]
    record: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
    tell: Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any]], list[Told | None] | None]
    same_calls: bool = False
