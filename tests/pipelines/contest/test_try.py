"""`folkmoot try` on the command line: JSON, exit codes, and what a pipe gets."""

import json
from pathlib import Path

import pytest
from cli_helpers import folkmoot, lm, question, write

from folkmoot.pipelines.testing.server import ScriptedServer

pytestmark = pytest.mark.usefixtures("home")


def test_try_in_json_and_its_exit_codes(tmp_path: Path, scripted: ScriptedServer) -> None:
    file = write(tmp_path / "q.jsonl", *(question(n, answer="ABC"[n % 3]) for n in range(24)))
    given = ("try", file, *lm(scripted), "--out", tmp_path / "out", "--no-track", "--only", "panel")
    done = folkmoot(*given, "--budget", "500 calls", "--json")
    assert done.exit_code == 0
    contest = json.loads(done.stdout)
    assert contest["outcome"] in ("not worth it", "undecided")
    assert contest["winner"] == "one prompt"
    assert {"outcome", "winner", "reason", "standings"} <= contest.keys()
    names = [one["name"] for one in contest["standings"] if not one["free"]]
    assert names[0] == "one prompt"
    assert "panel of three" in names
    asked = len(scripted.bodies)
    again = folkmoot(*given, "--fail-if", "not-better")
    assert again.exit_code == 3
    assert len(scripted.bodies) == asked
    assert len(again.stdout.splitlines()) <= 24
    assert "Take one prompt" in again.stdout
    assert folkmoot(*given, "--fail-if", "sometimes").exit_code == 2


def test_a_dry_run_asks_nobody(tmp_path: Path, scripted: ScriptedServer) -> None:
    file = write(tmp_path / "q.jsonl", *(question(n) for n in range(12)))
    done = folkmoot("try", file, *lm(scripted), "--dry-run", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["programs"][0] == "one prompt"
    assert scripted.bodies == []
    wrong = folkmoot("try", file, *lm(scripted), "--without", "one-prompt")
    assert wrong.exit_code == 2
    assert "stays" in wrong.stderr
