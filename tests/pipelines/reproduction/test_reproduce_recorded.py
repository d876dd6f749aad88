"""Tables of strategy networks on recorded answers."""

import itertools
import json
from pathlib import Path

import pytest
from cli_helpers import folkmoot, write
from outcome_tables import embed_words, planted

import folkmoot as fm


@pytest.mark.nightly  # trains five networks and their rivals
def test_tables_run_on_recorded_answers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_words(monkeypatch)
    rows = planted(30, 1, agents=["small", "large"])
    table = write(home / "answers.jsonl", *rows)
    words = ["--outcomes", table, "--embedding", "all-MiniLM-L6-v2", "--no-track", "--out", "out"]
    shown = folkmoot("reproduce", "marl-gat/table-4", *words, code=0)
    assert "learned from 12 and tested on 18 questions" in shown.stderr
    found = json.loads(folkmoot("reproduce", "marl-gat/table-4", *words, "--json").stdout)
    lines = [(line["row"], line["figure"], line["n"]) for line in found["rows"]]
    named = itertools.product(("gamma-0.0", "gamma-0.1", "gamma-0.7"), ("consensus", "individual"))
    assert lines == [(*row, 18) for row in named]
    shares = [(line["low"], line["measured"], line["high"]) for line in found["rows"]]
    assert all(0 <= low <= measured <= high <= 100 for low, measured, high in shares)
    (folder,) = Path("out").glob("outcomes-*-gamma_0")
    trained = json.loads((folder / "training.json").read_text())
    assert (trained["network"]["agents"], trained["network"]["gamma"]) == (2, 0.0)
    first = fm.reproduce("marl-gat/table-1/gsm1k.gpt-4.1-nano", outcomes=rows, tracking=False)
    measured = {(line.row.rpartition(".")[2], line.figure): line for line in first.lines}
    assert measured["zero-shot", "accuracy"].why == "not run"
    gain = measured["network", "consensus"].measured - measured["network", "individual"].measured
    assert measured["network", "improvement"].measured == pytest.approx(gain)


def test_what_recorded_answers_cannot_repeat_is_refused() -> None:
    rows = planted(30, 1, agents=["small", "large"])
    with pytest.raises(fm.UserError, match="--outcomes is for strategy networks"):
        fm.reproduce("causalgpt-caco-cot/table-1", outcomes=rows)
    with pytest.raises(fm.UserError, match="--lm is for training by asking"):
        fm.reproduce("marl-gat/table-4", outcomes=rows, lm="openai/gpt-4o-mini")
    with pytest.raises(fm.UserError, match="--budget is for asking LMs"):
        fm.reproduce("marl-gat/table-4", outcomes=rows, budget="5 USD")
