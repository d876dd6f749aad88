"""The published tables (`published/*.yaml`): each row with its figures and what it runs.

A row is what its table says of `each`, and what it says itself. Programs share settings by YAML's
own references (`<<: *talk`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, checked_among, no_such
from ...modules.base.yaml_file import read_yaml

FOLDER = Path(__file__).parent / "published"
PAPERS = ("agents-of-commonsense", "marl-gat", "reasoning-as-a-team", "causalgpt-caco-cot")


@dataclass(frozen=True)
class Row:
    """A row of a published table: its figures in per cent, None where the paper has none.

    A row with a `program` is run, with the paper's `models` by seat, `*` for every other one.
    `data` has the arguments of `fm.evaluate`; with a `preset` among them they are those of
    `fm.train`, since a strategy network is trained first. `against` names the rows that the paper
    compares it with, or patterns of their names. A `reason` says why a row is shown as published
    only. `name` is PAPER/TABLE/ROW.
    """

    id: str
    name: str
    published: Mapping[str, float | None]
    program: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    against: Sequence[str] = ()
    reason: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Table:
    """A published table or figure; its name is PAPER/TABLE."""

    name: str
    title: str
    rows: Sequence[Row]
    notes: Sequence[str]

    def pairs(self) -> list[tuple[Row, Row]]:
        """Return the pairs of rows that the paper compares."""
        pairs = permutations(self.rows, 2)
        return [(row, other) for row, other in pairs if _named(other, row.against)]


def _named(row: Row, patterns: Sequence[str]) -> bool:
    """Return whether a pattern names the row, or the first parts of its name."""
    # Parts end with dots, so that `gpt` is not the beginning of `gpt-4`.
    return any(fnmatchcase(f"{row.id}.", f"{pattern}.*") for pattern in patterns)


@cache
def tables() -> Mapping[str, Table]:
    """Return all tables by name, in the order of the papers."""
    found = {}
    for paper in PAPERS:
        document = read_yaml(FOLDER / f"{paper}.yaml", "paper", "title: …")
        for key, table in document["tables"].items():
            name, rows = f"{paper}/{key}", list[Row]()
            for id, own in table["rows"].items():
                rows.append(Row(id, f"{name}/{id}", **{**table.get("each", {}), **own}))
            notes = [source["note"] for source in (document, table) if "note" in source]
            found[name] = Table(name, table["title"], rows, notes)
    return found


@cache
def models() -> Mapping[str, Mapping[str, Any]]:
    """By the paper's name of a model: the `name` that LiteLLM knows today, None where there is
    none, and whether that is the `same` model or a stand-in.
    """
    return read_yaml(FOLDER / "models.yaml", "model", "name: …")


def select(spec: str | None) -> Table:
    """Return the table with the rows that PAPER/TABLE[/ROW] names; ROW may be the first parts of a
    name, or a pattern with `*`.

    Raises UserError, with what was probably meant, for a table or row that there is not.
    """
    if not spec:
        raise UserError(
            f"name a table, such as {next(iter(tables()))}: folkmoot reproduce --list shows all"
        )
    # Padded, since what is left out is empty.
    paper, key, wanted = (*spec.strip("/").split("/", 2), "", "")[:3]
    table = tables()[checked_among("table", f"{paper}/{key}".strip("/"), tables())]
    rows = [row for row in table.rows if _named(row, [wanted or "*"])]
    if not rows:
        raise no_such(f"row of {table.name}", wanted, [row.id for row in table.rows])
    return replace(table, rows=rows)
