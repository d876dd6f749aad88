"""The atlas of agents: its page says what its script prints."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

import folkmoot

ROOT = Path(folkmoot.__file__).parent


@pytest.fixture
def agents_atlas(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return pytest.importorskip("agents_atlas")


@pytest.mark.nightly
def test_the_page_is_made_anew(
    agents_atlas: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(os.environ.get("FOLKMOOT_DATA", "nowhere")).parent / "recorded" / "agents"
    if not folder.is_dir():
        pytest.skip("there are no recorded agents beside FOLKMOOT_DATA")
    (tmp_path / "images").mkdir()
    monkeypatch.setattr(agents_atlas, "DOCS", tmp_path)
    agents_atlas.main([str(folder), "--write"])
    for name in ("agents-atlas.md", "agents-atlas.csv"):
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert (tmp_path / name).read_text(encoding="utf-8") == page
    for name in ("teams", "harnesses", "ranks", "watch", "prices", "picks"):
        assert (tmp_path / "images" / f"agents-atlas-{name}.svg").is_file()


def test_figures_of_a_hand_made_board(agents_atlas: ModuleType) -> None:
    """Two of five trials solve a task: any of two is 1 - 3/5 * 2/4."""
    entrant = agents_atlas.Entrant()
    entrant.trials["a"] = [1.0, 1.0, 0.0, 0.0, 0.0]
    assert entrant.score == pytest.approx(0.4)
    assert entrant.any_of(2) == pytest.approx(0.7)
    # One run gets 0.5 on average, the pick 0.75, and any of them 1: half of the headroom.
    tasks = [("a", 0.5, 1.0, 1.0), ("b", 0.5, 0.5, 1.0)]
    assert agents_atlas.decider("x", tasks).mean == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("goose_claude-opus-4-5_at_anthropic", ("goose", "claude-opus-4-5")),
        ("terminus-2_openai/gpt-oss-20b_at_together_ai", ("terminus-2", "gpt-oss-20b")),
        ("openhands_claude-haiku-4-5-20251001_at_anthropic", ("openhands", "claude-haiku-4-5")),
    ],
)
def test_harness_and_lm(agents_atlas: ModuleType, name: str, parts: tuple[str, str]) -> None:
    assert agents_atlas.harness_and_lm(name) == parts
