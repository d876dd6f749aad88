"""The published figures as presets: papers, tables, and rows that can be run
(`published/*.yaml`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.yaml_file import read_yaml

FOLDER = Path(__file__).parent / "published"
PAPERS = ("agents-of-commonsense", "marl-gat", "reasoning-as-a-team", "causalgpt-caco-cot")
EVERY = "*"
EXAMPLE = "agents-of-commonsense/table-2"


@dataclass(frozen=True)
class Figure:
    """One published number, in per cent, or `count` questions `of` so many; None where there is
    none.

    `above`: the paper only says that its figure lies above the value.
    """

    name: str
    value: float | None = None
    count: int | None = None
    of: int | None = None
    above: bool = False

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
        return min((known for known in (self.limit, limit) if known is not None), default=None)


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

    @property
    def is_network(self) -> bool:
        return self.training is not None


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
        found: list[PublishedRow] = []
        for source in row.sources:
            found += [
                known for known in self.tables[source].rows.values() if known.preset is not None
            ]
        return found


@dataclass(frozen=True)
class Model:
    """A model of a paper by the name that LiteLLM knows today, None where there is none.

    `same` is False for a stand-in: the paper's model is gone, or its name means another one today.
    """

    paper_name: str
    name: str | None
    same: bool


@dataclass(frozen=True)
class Selection:
    """Rows of one table that a user asked for."""

    paper: Paper
    table: Table
    rows: tuple[PublishedRow, ...] = field(default=())


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
    known = read_yaml(FOLDER / "models.yaml", "model", "name: …")
    return {name: Model(name, told["name"], bool(told["same"])) for name, told in known.items()}


def select(spec: str) -> Selection:
    """The rows that PAPER/TABLE[/ROW] names; ROW may be the first parts of a name, or a pattern
    with `*`.

    Raises UserError, with what was probably meant, for a paper, table or row that there is not.
    """
    paper_id, _, rest = spec.strip("/").partition("/")
    table_id, _, row_id = rest.partition("/")
    known = papers()
    if paper_id not in known:
        raise UserError(
            f"there is no paper {paper_id!r}{did_you_mean(paper_id, known)}: {_those(known)}"
        )
    paper = known[paper_id]
    if not table_id:
        raise UserError(
            f"{paper_id} is a paper: name one of its tables too, {_those(paper.tables)}"
        )
    if table_id not in paper.tables:
        meant = did_you_mean(table_id, paper.tables)
        raise UserError(f"{paper_id} has no table {table_id!r}{meant}: {_those(paper.tables)}")
    table = paper.tables[table_id]
    rows = [row for row in table.rows.values() if not row_id or _matches(row.id, row_id)]
    if not rows:
        meant = did_you_mean(row_id, table.rows)
        raise UserError(
            f"{table.name} has no row {row_id!r}{meant}: --list {table.name} names its rows"
        )
    return Selection(paper, table, tuple(rows))


def identity(preset: Preset, names: Mapping[str, str]) -> str:
    """What tells one run from another: rows whose presets and LMs are the same share a run.

    `names` are the LMs by seat.
    """
    told = [
        preset.program,
        vars(preset.data),
        dict(names),
        preset.train and vars(preset.train),
        preset.training,
    ]
    return json.dumps(told, sort_keys=True)


def _matches(row: str, wanted: str) -> bool:
    return (
        fnmatchcase(row, wanted) if "*" in wanted else row == wanted or row.startswith(f"{wanted}.")
    )


def _paper(name: str, told: Mapping[str, Any]) -> Paper:
    samples = {key: Sample(**sample) for key, sample in told["data"].items()}
    programs = told.get("programs", {})
    layout = {"prompt_layout": told["prompt_layout"]} if "prompt_layout" in told else {}
    tables = {}
    for table_id, table in told["tables"].items():
        rows = {}
        for row_id, row in table["rows"].items():
            merged = {
                **{key: table[key] for key in ("data", "model", "from") if key in table},
                **row,
            }
            own = _program(table.get("program", {}), row.get("program", {}), programs)
            merged["program"] = layout | own
            rows[row_id] = _row(name, table_id, row_id, merged, samples)
        tables[table_id] = Table(
            name, table_id, table["title"], rows, table.get("note"), table.get("plot")
        )
    return Paper(name, told["title"], told.get("note"), tables)


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
    paper: str, table: str, row: str, told: Mapping[str, Any], samples: Mapping[str, Sample]
) -> PublishedRow:
    figures = tuple(_figure(name, value) for name, value in told["published"].items())
    preset = None
    if "derive" not in told and "reason" not in told:
        model = told["model"]
        train = told.get("train")
        preset = Preset(
            program=told["program"],
            data=samples[told["data"]],
            models=model if isinstance(model, Mapping) else {EVERY: model},
            train=samples[train["data"]] if train else None,
            training=train["preset"] if train else None,
        )
    derive = told.get("derive")
    sources = tuple(told["from"]) if derive else ()
    return PublishedRow(
        paper, table, row, figures, preset, derive, sources, told.get("reason"), told.get("note")
    )


def _figure(name: str, value: Any) -> Figure:
    if isinstance(value, Mapping) and "above" in value:
        return Figure(name, float(value["above"]), above=True)
    if isinstance(value, Mapping):
        count, of = int(value["count"]), int(value["of"])
        return Figure(name, 100 * count / of, count, of)
    return Figure(name, None if value is None else float(value))


def _those(names: Iterable[str]) -> str:
    return f"there are {', '.join(names)}"
