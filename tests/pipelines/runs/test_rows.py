"""The rows of an evaluation: read when asked for, as a DataFrame, and by grades in the summary."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import rows_of
from mortal import Constant, questions
from repeats import row

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.runs.rows import RESULTS, RowFile
from folkmoot.pipelines.runs.summary import summarise


def evaluated(out: Path | None = None, n: int = 7) -> fm.Evaluation:
    lm = fm.lm("openai/none", api_base="http://127.0.0.1:9/v1")
    asked = questions(n, subject=lambda i: f"s{i % 2}")
    return fm.evaluate(Constant(), asked, lm=lm, out=out, tracking=False)


def test_rows_are_a_sequence(tmp_path: Path) -> None:
    rows = evaluated(tmp_path).rows
    known = rows_of(tmp_path)
    assert len(rows) == 7
    assert list(rows) == known
    assert rows[0] == known[0]
    assert rows[-1] == known[-1]
    assert rows[2:5] == known[2:5]
    assert rows[::-3] == known[::-3]
    assert rows[5:99] == known[5:]
    assert [row["id"] for row in reversed(rows)] == [row["id"] for row in known[::-1]]
    assert known[3] in rows
    for place in (7, -8):
        with pytest.raises(IndexError):
            rows[place]
    assert repr(rows).startswith("Rows(7 rows of ")
    lines = (tmp_path / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("".join([*lines[:4], "{}\n", *lines[5:]]))
    assert rows[3]["id"] == "q3"
    with pytest.raises(fm.UserError, match="line 5"):
        rows[4]


def test_half_of_a_surrogate_pair_in_a_row_is_read(tmp_path: Path) -> None:
    result = evaluated(tmp_path)
    file = tmp_path / "results.jsonl"
    file.write_text(file.read_text().replace('"subject":"s0"', r'"subject":"\ud800"', 1))
    assert result.rows[0].meta == {"subject": "\ud800"}


def test_100_000_rows_take_less_than_two_megabytes(tmp_path: Path) -> None:
    result = evaluated(tmp_path)
    line = (tmp_path / "results.jsonl").read_bytes().splitlines(keepends=True)[0]
    (tmp_path / "results.jsonl").write_bytes(line * 100_000)
    tracemalloc.start()
    assert len(result.rows) == 100_000
    assert result.rows[99_999]["id"] == "q0"
    assert len(result.rows[50_000:50_003]) == 3
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e6


def test_a_data_frame_has_a_column_a_field() -> None:
    result = evaluated()
    table = result.to_pandas()
    assert len(table) == 7
    assert table["correct"].mean() == result.accuracy
    assert list(table["meta.subject"])[:3] == ["s0", "s1", "s0"]
    assert (table["usage.calls"] == 0).all()
    assert table["transcript"][0][0]["agent"] == "oracle"


def test_grades_are_grouped_in_the_two_bands_of_scienceqa() -> None:
    grades = [1, 6, "6", 7, 12, 0, 13, "K", None, -3]
    rows: Any = [row(n, right=n < 2, meta={"grade": grade}) for n, grade in enumerate(grades)]
    bands = summarise(rows, len(rows), lambda rows: {}, {}).groups["grade_band"]  # type: ignore[typeddict-item]
    found = {name: (band["value"], band["n"]) for name, band in bands.items()}
    assert found == {"1-6": (2 / 3, 3), "7-12": (0.0, 2)}


def test_a_row_that_is_damaged_while_a_run_goes_on_is_named(tmp_path: Path) -> None:
    file = RowFile(tmp_path, lambda row: None)
    (tmp_path / RESULTS).write_text('{"id": "q1"}\nnot a row\n')
    rows = iter(file)
    assert next(rows).id == "q1"
    with pytest.raises(UserError, match="line 2, is not a result row"):
        next(rows)
    file.close()
