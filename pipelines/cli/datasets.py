"""`folkmoot datasets`: the data sets known by name, and which of them are here."""

from __future__ import annotations

from dataclasses import asdict

from rich.table import Table

from ..data.places import list_datasets
from .options import DatasetsRequest, View
from .show import console, finish


def datasets(options: DatasetsRequest, view: View) -> None:
    infos = list_datasets()
    table = Table(
        "name",
        "kind",
        "splits (questions)",
        "licence",
        "comes from",
        "here",
        box=None,
        pad_edge=False,
    )
    for info in infos:
        splits = ", ".join(
            f"{split} {'?' if rows is None else rows}" for split, rows in info.splits.items()
        )
        table.add_row(
            info.name, info.kind, splits, info.licence, info.source, ", ".join(info.here) or "no"
        )
    finish(view, [asdict(info) for info in infos], lambda: console().print(table))
