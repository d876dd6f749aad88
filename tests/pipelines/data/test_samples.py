"""The shipped sample set has no problems, and its checker reports each kind of damage."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

import check_samples as samples

SHIPPED = samples.SHIPPED
Rows = list[dict[str, Any]]
Damage = Callable[[Rows], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in SHIPPED.glob("*.jsonl"):
        shutil.copy(path, tmp_path)
    return tmp_path


def read(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def of_type(rows: Rows, kind: str) -> dict[str, Any]:
    return next(
        row for row in rows if row["meta"]["type"] == kind and row["answer"] not in ("yes", "no")
    )


def set_in_first(*path: str, value: Any) -> Damage:
    def damage(rows: Rows) -> None:
        row = rows[0]
        for key in path[:-1]:
            row = row[key]
        row[path[-1]] = value

    return damage


def set_everywhere(key: str, value: Any) -> Damage:
    return lambda rows: [row.update({key: value}) for row in rows]


DAMAGES: list[tuple[str, Damage, str]] = [
    ("choice-test", lambda rows: rows[0].update(id=rows[1]["id"]), "is used 2 times"),
    ("choice-train", lambda rows: rows.pop(), "has 39 readable rows, 40 are needed"),
    ("choice-test", set_in_first("answer", value="F"), "is not one of the labels"),
    ("choice-test", set_everywhere("answer", "A"), "the answer A has a share of 100%"),
    ("number-test", set_in_first("meta", "solution", value="1 + 1 = 3."), "1 + 1 is not 3"),
    ("corpus", lambda rows: rows[0].update(text=rows[1]["text"] + " Yes."), "nearly a copy"),
]


def test_the_shipped_set_has_no_problems() -> None:
    assert samples.check(SHIPPED) == []


@pytest.mark.parametrize(("name", "damage", "report"), DAMAGES)
def test_each_kind_of_damage_is_reported(
    folder: Path, name: str, damage: Damage, report: str
) -> None:
    path = folder / f"{name}.jsonl"
    rows = read(path)
    damage(rows)
    write(path, rows)
    assert any(report in problem for problem in samples.check(folder))
