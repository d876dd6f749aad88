"""What former runs of a program tell a plan: how many tokens and dollars a question takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.reading.row import ResultRow
from ..base.journal import as_json, records
from ..runs.describe import lms_of
from ..runs.rows import RESULTS

MOST_ROWS = 2_000
WIDEST = 3.0  # times less and times more, however few questions there are


class Pilot(NamedTuple):
    """What a question took, on average over some: tokens, dollars (None: not known), and how far
    off, as a factor, the mean of others may be.
    """

    prompt: float
    completion: float
    cost: float | None
    factor: float
    seen: str


def pilot_of(
    runs: Sequence[tuple[Path, Mapping[str, Any]]], program: Program, lm: Any
) -> Pilot | None:
    """What a question took in the first of the runs of the same program and LMs that paid
    for any.
    """
    wanted = as_json({**hashes(program), "lms": lms_of(program, lm)}) if runs else {}
    for folder, run in runs:
        if any(run.get(name) != wanted[name] for name in ("program_hash", "lms")):
            continue
        spent = [row["usage"] for row in _rows(folder) if _paid(row)]
        known = [(usage["prompt_tokens"], usage["completion_tokens"]) for usage in spent]
        tokens = np.array([each for each in known if None not in each], dtype=float)
        if not tokens.any():
            continue
        n, totals = len(tokens), tokens.sum(axis=1)
        error = float(totals.std(ddof=1) / math.sqrt(n) / totals.mean()) if n > 1 else WIDEST
        prompt, completion = (float(mean) for mean in tokens.mean(axis=0))
        costs = [cost for usage in spent if (cost := usage["cost_usd"]) is not None]
        cost = math.fsum(costs) / len(costs) if len(costs) == len(spent) else None
        seen = f"{n:,} question{'s' if n > 1 else ''} of {folder}"
        return Pilot(prompt, completion, cost, min(WIDEST, 1.1 + 2 * error), seen)
    return None


def _rows(folder: Path) -> Iterator[ResultRow]:
    with suppress(OSError):
        rows: Any = records(folder / RESULTS, ("id", "correct", "usage", "error"))
        yield from islice(rows, MOST_ROWS)


def _paid(row: ResultRow) -> bool:
    usage = row["usage"]
    return (
        isinstance(usage, dict)
        and bool(usage["calls"])
        and not usage["cached_calls"]
        and not row["error"]
    )
