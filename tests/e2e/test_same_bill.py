"""The two contests of the README: the pictures show what the recorded answers say."""

from __future__ import annotations

import os
from html import unescape
from pathlib import Path
from types import ModuleType

import pytest

import folkmoot

ROOT = Path(folkmoot.__file__).parent


@pytest.fixture
def same_bill(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return pytest.importorskip("same_bill")


@pytest.fixture
def recorded() -> Path:
    folder = Path(os.environ.get("FOLKMOOT_DATA", "nowhere")).parent / "recorded"
    if not (folder / "hotpotqa_traces.jsonl").is_file():
        pytest.skip("there are no recorded answers beside FOLKMOOT_DATA")
    return folder


def test_one_team_wins_at_a_smaller_bill(same_bill: ModuleType, recorded: Path) -> None:
    contest = same_bill.critics(recorded)
    pair = same_bill.compared(contest).against[0]
    assert (pair.n, pair.only_b and len(pair.only_b), len(pair.only_a)) == (100, 2, 16)
    assert pair.low > 0
    assert "364 tries of 2 to 12 calls, against 225 and 125 critiques" in contest.bill


def test_four_who_talk_do_not(same_bill: ModuleType, recorded: Path) -> None:
    pair = same_bill.compared(same_bill.talkers(recorded)).against[0]
    assert pair.outcome == "undecided"
    assert -0.011 < pair.low < pair.high < 0.011


def test_the_pictures_and_the_readme_say_so(same_bill: ModuleType, recorded: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    for contest in (same_bill.critics(recorded), same_bill.talkers(recorded)):
        assert f"docs/images/{contest.picture}.svg" in readme
        picture = unescape((ROOT / f"docs/images/{contest.picture}.svg").read_text())
        assert all(line in picture for line in same_bill.screen(contest))
