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
from .presets import Preset, PublishedRow, Table, models, papers, select

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
        about: dict[str, Any] = dict.fromkeys(("program", "models", "training"))
        if preset is not None:
            names = {seat: [model, models()[model].name] for seat, model in preset.models.items()}
            about = {"program": dict(preset.program), "models": names, "training": preset.training}
        return {
            "row": row.name,
            "published": {figure.name: figure.to_json() for figure in row.figures},
            **about,
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
    names = [f"{sample.name} ({sample.split})" for sample in samples]
    infos = [here[sample.name] for sample in samples]
    missing = [
        name
        for name, sample, info in zip(names, samples, infos, strict=True)
        if sample.split not in info.here
    ]
    counts = [
        sample.most(info.splits[sample.split]) for sample, info in zip(samples, infos, strict=True)
    ]
    return RowInfo(row, counts[0], _calls(preset, counts), tuple(names), tuple(missing))


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
    spec = json.loads(program)
    if spec["program"] == "network":  # counted without making one, which needs PyTorch
        each = [_turns(json.dumps({"program": f"single:{name}"})) for name in spec["strategies"]]
        lows, highs = zip(*each, strict=True)
        return spec["agents"] * min(lows), spec["agents"] * max(highs)
    made = program_of(spec)
    return round(sum(low for _, low, _ in made.turns())), made.most_turns()
