"""`folkmoot show`, and how the options of a large command are grouped."""

import json
import re
from pathlib import Path

from cli_helpers import SPEC, evaluate, folkmoot

from folkmoot.pipelines.testing.server import ScriptedServer


def test_a_dialogue_is_shown_by_id_or_place(scripted: ScriptedServer, ten: Path) -> None:
    scripted.reply = lambda _: json.dumps({"reasoning": "it is tight", "answer": "A"})
    evaluate(scripted, ten, "--out", "run", program=SPEC)
    shown = folkmoot("show", "run", "q1", code=0)
    texts = ("What holds soup 1?", "A. a flask", "reasoner, round 1", "✗  right is B (a sieve)")
    for text in texts:
        assert text in shown.stdout
    assert folkmoot("show", "run", "2").stdout == shown.stdout
    (row,) = json.loads(folkmoot("show", "run", "q1", "--json").stdout)
    assert (row["id"], row["correct"]) == ("q1", False)
    unread = row | {"answer": None, "transcript": []}  # as a log that is imported may have it
    Path("run/results.jsonl").write_text(json.dumps(unread) + "\n")
    assert "the reply was: ''" in folkmoot("show", "run", "q1", code=0).stdout
    refused = folkmoot("show", "run", "q99")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


def test_without_an_id_what_went_wrong_stands_first(scripted: ScriptedServer, ten: Path) -> None:
    failed = 400, {}, {"error": {"message": "too hot"}}
    scripted.reply = lambda body: failed if "soup 8" in str(body) else '{"answer": "A"}'
    evaluate(scripted, ten, "--out", "run")
    lines = folkmoot("show", "run").stdout.splitlines()
    assert lines[0].endswith("on 10 questions, 1 error")
    assert re.match(r"q8 +failed .*too hot", lines[2])
    assert re.match(r"q1 +✗ +A +B +What holds soup 1", lines[3])
    assert lines[-1] == "next: folkmoot show run q8"
    scripted.reply = lambda _: failed
    last = evaluate(scripted, ten, "--out", "failed", program="single:cot", code=1)
    assert last.stdout.splitlines()[-1] == "next: folkmoot show failed"
    listed = {
        card["folder"]: card["score"] for card in json.loads(folkmoot("runs", ".", "--json").stdout)
    }
    assert (listed["failed"], bool(listed["run"])) == (None, True)


def test_help_shows_the_usual_options_and_all_in_groups_when_asked() -> None:
    shown, everything = (folkmoot("try", word).stdout for word in ("--help", "--help-all"))
    assert len(shown.splitlines()) <= 50
    assert len(everything.splitlines()) > 100
    assert re.findall(r"╭─ (\w+) ─", shown) == ["Arguments", "Options"]
    assert {"Data", "Asking", "Budget", "Output"} <= {*re.findall(r"╭─ (\w+) ─", everything)}
    assert "--budget" in shown
    assert "--permute" not in shown
    assert "--permute" in everything
    assert "<int range>" not in everything
