"""What can be reproduced: papers, tables and rows, and whether the data of a row is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..data.places import DatasetInfo, list_datasets
from .presets import PublishedRow, Table, models, papers, select


@dataclass(frozen=True)
class RowInfo:
    """A row of the list: how many questions it has, its data, and the part of it that is
    missing.
    """

    row: PublishedRow
    questions: int | None
    data: tuple[str, ...]
    missing: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        row, preset = self.row, self.row.preset
        about: dict[str, object] = dict.fromkeys(("program", "models", "training"))
        if preset is not None:
            names = {seat: [model, models()[model].name] for seat, model in preset.models.items()}
            about = {"program": dict(preset.program), "models": names, "training": preset.training}
        return {
            "row": row.name,
            "published": {figure.name: figure.to_json() for figure in row.figures},
            **about,
            "questions": self.questions,
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

    def to_dict(self) -> dict[str, object]:
        table = self.table
        rows = [row.to_dict() for row in self.rows]
        return {"table": table.name, "title": table.title, "note": table.note, "rows": rows}


def listing(spec: str | None = None) -> list[TableInfo]:
    """All tables, those of a paper, or the rows of one: PAPER, PAPER/TABLE or PAPER/TABLE/ROW."""
    here = {info.name: info for info in list_datasets()}
    if spec is None or spec.strip("/") in papers():
        wanted = [papers()[spec.strip("/")]] if spec else list(papers().values())
        tables = [
            (table, tuple(table.rows.values()))
            for paper in wanted
            for table in paper.tables.values()
        ]
    else:
        selection = select(spec)
        tables = [(selection.table, selection.rows)]
    return [TableInfo(table, tuple(_info(row, here) for row in rows)) for table, rows in tables]


def _info(row: PublishedRow, here: Mapping[str, DatasetInfo]) -> RowInfo:
    preset = row.preset
    if preset is None:
        return RowInfo(row, None, (), ())
    samples = [preset.data, *([preset.train] if preset.train else [])]
    names = [f"{sample.name} ({sample.split})" for sample in samples]
    missing = [
        name
        for name, sample in zip(names, samples, strict=True)
        if sample.split not in here[sample.name].here
    ]
    questions = preset.data.most(here[preset.data.name].splits[preset.data.split])
    return RowInfo(row, questions, tuple(names), tuple(missing))
