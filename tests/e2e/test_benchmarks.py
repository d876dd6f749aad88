"""The scripts of benchmarks/: the pages and pictures of the docs say what they print."""

import itertools
import json
import os
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import folkmoot

ROOT = Path(folkmoot.__file__).parent
DOCS = ROOT / "docs"
RECORDED = Path(os.environ.get("FOLKMOOT_DATA", "nowhere")).parent / "recorded"
WITHOUT = "there are no recorded answers beside FOLKMOOT_DATA"
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason=WITHOUT)


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def script(name: str) -> Any:
    return pytest.importorskip(name)


@needs_recorded
def test_the_atlas_has_the_lines_that_its_script_prints(capsys: pytest.CaptureFixture[str]) -> None:
    atlas, page = script("atlas"), (DOCS / "atlas.md").read_text()
    for name in ("MultiArith", "mmlu", "BIG-Bench Hard"):
        atlas.main([str(RECORDED), "--only", name])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3
        assert all(line in page for line in lines)
    assert all(licence in page for _, licence, _ in atlas.SOURCES.values())


@pytest.mark.nightly
@needs_recorded
@pytest.mark.parametrize("name", ["atlas", "agents_atlas"])
def test_a_page_is_made_anew(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "images").mkdir()
    monkeypatch.setattr(script(name), "DOCS", tmp_path)
    script(name).main([str(RECORDED / ("agents" if name == "agents_atlas" else ".")), "--write"])
    page = name.replace("_", "-")
    wanted = [*DOCS.glob(f"{page}.*"), *DOCS.glob(f"images/{page}*.svg")]
    assert sorted(file.name for file in tmp_path.rglob("*.*")) == sorted(f.name for f in wanted)
    for file in tmp_path.glob("*.*"):
        assert file.read_text() == (DOCS / file.name).read_text()


def test_the_atlas_of_a_users_own_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five agents are each wrong on other questions, so that their vote is always right."""
    rows = []
    for number, agent in itertools.product(range(60), range(5)):
        right = number % 5 != agent
        asked = {"question_id": f"q{number}", "agent": f"a{agent}"}
        rows.append({**asked, "answer": "yes" if right else "no", "correct": right})
    log = tmp_path / "my-log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    script("atlas").main(["nowhere", str(log)])
    line = capsys.readouterr().out.splitlines()[-1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:4] == ["my-log.jsonl", "yours", "5", "60"]
    assert cells[6].startswith("+2")
    assert cells[5] == cells[9] == "100.0%"


def test_figures_of_a_hand_made_board_of_agents() -> None:
    atlas = script("agents_atlas")
    entrant = atlas.Entrant()
    entrant.trials["a"] = [1.0, 1.0, 0.0, 0.0, 0.0]
    assert entrant.score == pytest.approx(0.4)
    # One run gets 0.5 on average, the pick 0.75, and any of them 1: half of the headroom.
    tasks = [("a", 0.5, 1.0, 1.0), ("b", 0.5, 0.5, 1.0)]
    assert atlas.decider("x", tasks).mean == pytest.approx(0.5)
    for name, parts in {
        "goose_claude-opus-4-5_at_anthropic": ("goose", "claude-opus-4-5"),
        "terminus-2_openai/gpt-oss-20b_at_together_ai": ("terminus-2", "gpt-oss-20b"),
        "openhands_claude-haiku-4-5-20251001_at_anthropic": ("openhands", "claude-haiku-4-5"),
    }.items():
        assert atlas.harness_and_lm(name) == parts


@pytest.mark.nightly
@needs_recorded
def test_two_contests_of_the_readme_end_as_their_pictures_say() -> None:
    """One team wins at a smaller bill, and four who talk do not."""
    same_bill, readme = script("same_bill"), (ROOT / "README.md").read_text()
    critics, talkers = same_bill.critics(RECORDED), same_bill.talkers(RECORDED)
    won, undecided = (same_bill.compared(each).against[0] for each in (critics, talkers))
    assert (won.n, won.only_b and len(won.only_b), len(won.only_a)) == (100, 2, 16)
    assert won.low > 0
    assert "364 tries of 2 to 12 calls, against 225 and 125 critiques" in critics.bill
    assert undecided.outcome == "undecided"
    assert -0.011 < undecided.low < undecided.high < 0.011
    for contest in (critics, talkers):
        assert f"docs/images/{contest.picture}.svg" in readme
        picture = unescape((DOCS / f"images/{contest.picture}.svg").read_text())
        assert all(line in picture for line in same_bill.screen(contest))
