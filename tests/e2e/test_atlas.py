"""The atlas: its page says what its script prints, and it takes a user's own logs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import ModuleType

import pytest

import folkmoot

ROOT = Path(folkmoot.__file__).parent


@pytest.fixture
def atlas(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return pytest.importorskip("atlas")


@pytest.fixture
def recorded() -> Path:
    folder = Path(os.environ.get("FOLKMOOT_DATA", "nowhere")).parent / "recorded"
    if not (folder / "zeroeval.wide.jsonl").is_file():
        pytest.skip("there are no recorded answers beside FOLKMOOT_DATA")
    return folder


def test_the_page_has_the_lines_that_the_script_prints(
    atlas: ModuleType, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "atlas.md").read_text()
    for name in ("MultiArith", "mmlu", "BIG-Bench Hard"):
        atlas.main([str(recorded), "--only", name])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3
        assert all(line in page for line in lines)
    assert all(licence in page for _, licence, _ in atlas.SOURCES.values())


@pytest.mark.nightly
def test_the_whole_page_is_made_anew(
    atlas: ModuleType, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "images").mkdir()
    monkeypatch.setattr(atlas, "DOCS", tmp_path)
    atlas.main([str(recorded), "--write"])
    assert (tmp_path / "atlas.md").read_text() == (ROOT / "docs" / "atlas.md").read_text()
    assert "<svg" in (tmp_path / "images" / "atlas.svg").read_text()


def test_a_log_of_the_users_own(
    atlas: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five agents are each wrong on other questions, so that their vote is always right."""
    rows = [
        {
            "question_id": f"q{number}",
            "agent": f"a{agent}",
            "answer": "no" if number % 5 == agent else "yes",
            "correct": number % 5 != agent,
        }
        for number in range(60)
        for agent in range(5)
    ]
    log = tmp_path / "my-log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    atlas.main(["nowhere", str(log)])
    line = capsys.readouterr().out.splitlines()[-1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:4] == ["my-log.jsonl", "yours", "5", "60"]
    assert cells[5] == "100.0%"
    assert cells[6].startswith("+2")
    assert cells[9] == "100.0%"
