"""The published tables (`published/*.yaml`): each row with its figures and what it runs.

A row is what its table says of `each`, and what it says itself. Programs share settings by YAML's
own references (`<<: *talk`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.yaml_file import read_yaml

FOLDER = Path(__file__).parent / "published"
PAPERS = ("agents-of-commonsense", "marl-gat", "reasoning-as-a-team", "causalgpt-caco-cot")


@dataclass(frozen=True)
class Row:
    """A row of a published table: its figures in per cent, None where the paper has none.

    A row with a `program` is run, on `data` (arguments of `fm.evaluate`), with the paper's `models`
    by seat, `*` for every other one. A strategy network is trained first, on `train` (arguments of
    `fm.train`) with the preset `training`. A `reason` says why a row is shown as published only.
    """

    table: str
    id: str
    published: Mapping[str, float | None]
    program: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    training: str | None = None
    reason: str | None = None
    note: str | None = None

    @property
    def name(self) -> str:
        return f"{self.table}/{self.id}"


@dataclass(frozen=True)
class Table:
    """A published table or figure; its name is PAPER/TABLE. `against` says which rows the paper
    compares: a part of a row's name → the parts that its rivals have there.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    against: Mapping[str, list[str]] = field(default_factory=dict)

    def pairs(self) -> Iterator[tuple[Row, Row]]:
        """Yield the pairs of rows that the paper compares: `against` maps the name of a row to
        those of its rivals, or a part of it to the parts that stand there in theirs.
        """
        by_id = {row.id: row for row in self.rows}
        for row in self.rows:
            parts = row.id.split(".")
            # Once each: a name of one part is that part, too.
            for word in dict.fromkeys([row.id, *parts]):
                for other in self.against.get(word, ()):
                    name = other
                    if word != row.id:
                        renamed = {word: other}
                        name = ".".join(renamed.get(part, part) for part in parts)
                    rival = by_id.get(name)
                    if rival is not None:
                        yield row, rival


@cache
def tables() -> Mapping[str, Table]:
    """Return all tables by name, in the order of the papers."""
    found = {}
    for paper in PAPERS:
        document = read_yaml(FOLDER / f"{paper}.yaml", "paper", "title: …")
        for table_id, table in document["tables"].items():
            name, shared = f"{paper}/{table_id}", table.get("each", {})
            rows = tuple(Row(name, key, **{**shared, **own}) for key, own in table["rows"].items())
            notes = [source["note"] for source in (document, table) if "note" in source]
            found[name] = Table(name, table["title"], rows, tuple(notes), table.get("against", {}))
    return found


@cache
def models() -> Mapping[str, Mapping[str, Any]]:
    """By the paper's name of a model: the `name` that LiteLLM knows today, None where there is
    none, and whether that is the `same` model or a stand-in.
    """
    return read_yaml(FOLDER / "models.yaml", "model", "name: …")


def select(spec: str | None) -> tuple[Table, list[Row]]:
    """Return the table and the rows that PAPER/TABLE[/ROW] names; ROW may be the first parts of a
    name, or a pattern with `*`.

    Raises UserError, with what was probably meant, for a table or row that there is not.
    """
    # Padded, since what is left out is empty.
    paper, table_id, wanted = (*(spec or "").strip("/").split("/", 2), "", "")[:3]
    name = f"{paper}/{table_id}"
    if name not in tables():
        wrong = f"; {spec} is none{did_you_mean(name, tables())}" if spec else ""
        raise UserError(
            f"name a table, such as {next(iter(tables()))}{wrong}: folkmoot reproduce --list shows "
            "all"
        )
    table = tables()[name]
    # A name's parts end with dots, so that `gpt` is not the beginning of `gpt-4`.
    rows = [row for row in table.rows if fnmatchcase(f"{row.id}.", f"{wanted or '*'}.*")]
    if not rows:
        meant = did_you_mean(wanted, [row.id for row in table.rows])
        raise UserError(
            f"{name} has no row {wanted!r}{meant}: folkmoot reproduce --list {name} names its rows"
        )
    return table, rows
