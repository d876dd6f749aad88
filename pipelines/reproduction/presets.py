"""The published figures as presets: papers, tables, and rows that can be run
(`published/*.yaml`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.yaml_file import read_yaml

FOLDER = Path(__file__).parent / "published"
PAPERS = ("agents-of-commonsense", "marl-gat", "reasoning-as-a-team", "causalgpt-caco-cot")
EVERY = "*"
T = TypeVar("T")
EXAMPLE = "agents-of-commonsense/table-2"


@dataclass(frozen=True)
class Figure:
    """One published number, in per cent, or `count` of `of` questions; None where the paper has
    none.

    `above`: the paper only says that its figure lies above the value.
    """

    name: str
    value: float | None = None
    count: int | None = None
    of: int | None = None
    above: bool = False

    def to_json(self) -> Any:
        if self.count is not None:
            return {"count": self.count, "of": self.of}
        return {"above": self.value} if self.above else self.value

    def __str__(self) -> str:
        return "–" if self.value is None else f"{'above ' * self.above}{self.value:.2f}"


@dataclass(frozen=True)
class Sample:
    """Which questions: a data set's name and split, and a seeded sample where `limit` is
    not None.
    """

    name: str
    split: str
    seed: int
    limit: int | None = None

    def most(self, limit: int | None) -> int | None:
        """The smaller of the preset's limit and the user's; None for all questions."""
        return min((most for most in (self.limit, limit) if most is not None), default=None)


@dataclass(frozen=True)
class Preset:
    """What a row runs: a program as `program_of` takes it, questions, and the paper's model of each
    seat.

    `models` has `*` for every seat without a model of its own. A strategy network is trained first,
    on `train` with the training preset `training`.
    """

    program: Mapping[str, Any]
    data: Sample
    models: Mapping[str, str]
    train: Sample | None = None
    training: str | None = None


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table.

    Either it has a `preset` to run, or it is computed from other rows' runs (`derive`, `sources`),
    or a `reason` says why it is shown as published only.
    """

    paper: str
    table: str
    id: str
    figures: tuple[Figure, ...]
    preset: Preset | None = None
    derive: str | None = None
    sources: tuple[str, ...] = ()
    reason: str | None = None
    note: str | None = None

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.table}/{self.id}"


@dataclass(frozen=True)
class Table:
    """A published table or figure; `plot` names what is drawn of it beside the bars."""

    paper: str
    id: str
    title: str
    rows: Mapping[str, PublishedRow]
    note: str | None = None
    plot: str | None = None

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.id}"


@dataclass(frozen=True)
class Paper:
    """A paper with its tables by name."""

    id: str
    title: str
    note: str | None
    tables: Mapping[str, Table]

    def rows(self) -> Iterator[PublishedRow]:
        for table in self.tables.values():
            yield from table.rows.values()

    def sources(self, row: PublishedRow) -> list[PublishedRow]:
        """The rows whose runs a derived row is computed from, in order."""
        rows = (own for source in row.sources for own in self.tables[source].rows.values())
        return [own for own in rows if own.preset is not None]


@dataclass(frozen=True)
class Model:
    """A model of a paper by the name that LiteLLM knows today, None where there is none.

    `same` is False for a stand-in: the paper's model is gone, or its name means another one today.
    """

    name: str | None
    same: bool


@dataclass(frozen=True)
class Selection:
    """Rows of one table that a user asked for."""

    paper: Paper
    table: Table
    rows: tuple[PublishedRow, ...]


@cache
def papers() -> Mapping[str, Paper]:
    """All papers by name, in order."""
    return {
        name: _paper(name, read_yaml(FOLDER / f"{name}.yaml", "paper", "title: …"))
        for name in PAPERS
    }


@cache
def models() -> Mapping[str, Model]:
    """The papers' models by the papers' names."""
    rows = read_yaml(FOLDER / "models.yaml", "model", "name: …")
    return {name: Model(row["name"], bool(row["same"])) for name, row in rows.items()}


def select(spec: str) -> Selection:
    """The rows that PAPER/TABLE[/ROW] names; ROW may be the first parts of a name, or a pattern
    with `*`.

    Raises UserError, with what was probably meant, for a paper, table or row that there is not.
    """
    paper_id, table_id, row_id = (*spec.strip("/").split("/", 2), "", "")[:3]
    paper = _one_of(papers(), paper_id, "there is no paper")
    if not table_id:
        raise UserError(
            f"{paper_id} is a paper: name one of its tables too, {_those(paper.tables)}"
        )
    table = _one_of(paper.tables, table_id, f"{paper_id} has no table")
    pattern = row_id if "*" in row_id else f"{row_id}.*"
    rows = [
        row for row in table.rows.values() if row_id in ("", row.id) or fnmatchcase(row.id, pattern)
    ]
    if not rows:
        meant = did_you_mean(row_id, table.rows)
        raise UserError(
            f"{table.name} has no row {row_id!r}{meant}: --list {table.name} names its rows"
        )
    return Selection(paper, table, tuple(rows))


def _one_of(values: Mapping[str, T], name: str, problem: str) -> T:
    if name not in values:
        raise UserError(f"{problem} {name!r}{did_you_mean(name, values)}: {_those(values)}")
    return values[name]


def identity(preset: Preset, names: Mapping[str, str]) -> str:
    """What tells one run from another: rows whose presets and LMs are the same share a run.

    `names` are the LMs by seat.
    """
    parts = [
        preset.program,
        vars(preset.data),
        dict(names),
        preset.train and vars(preset.train),
        preset.training,
    ]
    return json.dumps(parts, sort_keys=True)


def _paper(name: str, document: Mapping[str, Any]) -> Paper:
    samples = {key: Sample(**sample) for key, sample in document["data"].items()}
    layout = {"prompt_layout": document["prompt_layout"]} if "prompt_layout" in document else {}
    tables = {}
    for table_id, table in document["tables"].items():
        shared = {key: table[key] for key in ("data", "model", "from") if key in table}
        rows = {}
        for row_id, own in table["rows"].items():
            program = _program(
                table.get("program", {}), own.get("program", {}), document.get("programs", {})
            )
            row = {**shared, **own, "program": layout | program}
            rows[row_id] = _row((name, table_id, row_id), row, samples)
        tables[table_id] = Table(
            name, table_id, table["title"], rows, table.get("note"), table.get("plot")
        )
    return Paper(name, document["title"], document.get("note"), tables)


def _program(
    shared: Mapping[str, Any], own: Mapping[str, Any], programs: Mapping[str, Any]
) -> dict[str, Any]:
    """A row's program: on top of the one it uses by name, or, unless it names a protocol, of the
    table's.
    """
    if "use" in own:
        return {
            **programs[own["use"]],
            **{key: value for key, value in own.items() if key != "use"},
        }
    return dict(own) if "program" in own else {**shared, **own}


def _row(
    name: tuple[str, str, str], row: Mapping[str, Any], samples: Mapping[str, Sample]
) -> PublishedRow:
    preset, derive, reason = None, row.get("derive"), row.get("reason")
    if derive is None and reason is None:
        model, train = row["model"], row.get("train")
        preset = Preset(
            program=row["program"],
            data=samples[row["data"]],
            models=model if isinstance(model, Mapping) else {EVERY: model},
            train=samples[train["data"]] if train else None,
            training=train["preset"] if train else None,
        )
    figures = tuple(_figure(figure, value) for figure, value in row["published"].items())
    sources = tuple(row["from"]) if derive else ()
    return PublishedRow(*name, figures, preset, derive, sources, reason, row.get("note"))


def _figure(name: str, value: Any) -> Figure:
    if isinstance(value, Mapping) and "above" in value:
        return Figure(name, float(value["above"]), above=True)
    if isinstance(value, Mapping):
        count, of = int(value["count"]), int(value["of"])
        return Figure(name, 100 * count / of, count, of)
    return Figure(name, None if value is None else float(value))


def _those(names: Iterable[str]) -> str:
    return f"there are {', '.join(names)}"
