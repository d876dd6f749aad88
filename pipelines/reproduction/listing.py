"""What can be reproduced: papers, tables, rows, the calls a row takes, and whether its data is
here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..data.places import DatasetInfo, list_datasets
from ..programs.resolve import program_of
from .presets import Preset, PublishedRow, Sample, Table, models, papers, select

Range = tuple[int, int]


@dataclass(frozen=True)
class RowInfo:
    """A row of the list: how many questions, least and most calls, its data, and what of that is
    missing.
    """

    row: PublishedRow
    questions: int | None
    calls: Range | None
    data: tuple[str, ...]
    missing: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        row, preset = self.row, self.row.preset
        return {
            "row": row.name,
            "published": {
                figure.name: {"count": figure.count, "of": figure.of}
                if figure.count is not None
                else {"above": figure.value}
                if figure.above
                else figure.value
                for figure in row.figures
            },
            "program": None if preset is None else dict(preset.program),
            "models": None
            if preset is None
            else {s: [m, models()[m].name] for s, m in preset.models.items()},
            "training": None if preset is None else preset.training,
            "questions": self.questions,
            "calls": self.calls,
            "data": list(self.data),
            "missing": list(self.missing),
            "derive": row.derive,
            "from": list(row.sources),
            "reason": row.reason,
            "note": row.note,
        }


@dataclass(frozen=True)
class TableInfo:
    """A table of the list with its rows."""

    table: Table
    rows: tuple[RowInfo, ...]

    def to_dict(self) -> dict[str, Any]:
        table = self.table
        rows = [row.to_dict() for row in self.rows]
        return {"table": table.name, "title": table.title, "note": table.note, "rows": rows}


def listing(spec: str | None = None) -> list[TableInfo]:
    """All tables, those of a paper, or the rows of one: PAPER, PAPER/TABLE or PAPER/TABLE/ROW."""
    here = {info.name: info for info in list_datasets()}
    if spec is None or spec.strip("/") in papers():
        wanted = [papers()[spec.strip("/")]] if spec else list(papers().values())
        return [
            _table(table, list(table.rows.values()), here)
            for paper in wanted
            for table in paper.tables.values()
        ]
    selection = select(spec)
    return [_table(selection.table, list(selection.rows), here)]


def _table(
    table: Table, rows: Sequence[PublishedRow], here: Mapping[str, DatasetInfo]
) -> TableInfo:
    return TableInfo(table, tuple(_info(row, here) for row in rows))


def _info(row: PublishedRow, here: Mapping[str, DatasetInfo]) -> RowInfo:
    preset = row.preset
    if preset is None:
        return RowInfo(row, None, None, (), ())
    samples = [preset.data, *([preset.train] if preset.train else [])]
    names = tuple(f"{sample.name} ({sample.split})" for sample in samples)
    missing = tuple(
        name
        for name, sample in zip(names, samples, strict=True)
        if sample.split not in here[sample.name].here
    )
    counts = [_rows(sample, here) for sample in samples]
    return RowInfo(row, counts[0], _calls(preset, counts), names, missing)


def _rows(sample: Sample, here: Mapping[str, DatasetInfo]) -> int | None:
    known = here[sample.name].splits[sample.split]
    return (
        known
        if sample.limit is None
        else sample.limit
        if known is None
        else min(known, sample.limit)
    )


def _calls(preset: Preset, counts: Sequence[int | None]) -> Range | None:
    if None in counts:
        return None
    tested, *trained = (count or 0 for count in counts)
    low, high = _turns(json.dumps(preset.program))
    if not trained:
        return tested * low, tested * high
    # Of one agent and question every strategy is asked at most once, whatever the epochs.
    times = min(preset.program["epochs"], len(preset.program["strategies"]))
    return (tested + trained[0]) * low, (tested + trained[0] * times) * high


@cache
def _turns(program: str) -> Range:
    """The least and the most calls that a question takes."""
    told = json.loads(program)
    if told["program"] == "network":  # counted without making one, which needs PyTorch
        each = [_turns(json.dumps({"program": f"single:{name}"})) for name in told["strategies"]]
        return told["agents"] * min(low for low, _ in each), told["agents"] * max(
            high for _, high in each
        )
    made = program_of(told)
    return round(sum(low for _, low, _ in made.turns())), made.most_turns()
