"""A network's prompts and its policy learn together: `compile` of a strategy network."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from children import wait_for_requests
from cli_helpers import question
from mortal import Forked
from outcome_tables import WORDS, embed_words, words_of

import folkmoot as fm
from folkmoot.pipelines.lms.ledger import read_ledger, totals
from folkmoot.pipelines.testing.server import ScriptedServer

pytestmark = pytest.mark.usefixtures("quick_rivals", "no_figures")
QUESTIONS = []
for number, group in enumerate(["sums", "rivers"] * 36):
    about: Any = {"question": f"{WORDS[group]} {number}?", "meta": {"subject": group}}
    QUESTIONS.append(fm.Question(question(number, answer="A", **about)))
TRAIN, HELD_OUT = QUESTIONS[:48], QUESTIONS[48:]
STRATEGIES = {"sums": "cot", "rivers": "zero_shot"}
"""Which strategy is right on which questions, once it is shown examples."""


def said(body: dict[str, Any]) -> str:
    """Right where the strategy fits the question and examples are shown."""
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    asked = "cot" if "reasoning" in fields else "zero_shot"
    group = "sums" if "add number" in json.dumps(body["messages"][-1]) else "rivers"
    examples = len(body["messages"]) > 2
    # without examples a strategy is right on every third question, so that it has some to show
    number = sum(map(ord, json.dumps(body["messages"][-1])))
    right = STRATEGIES[group] == asked if examples else number % 3 == 0
    return json.dumps(dict.fromkeys(fields, "A" if right else "B"))


def network() -> fm.StrategyNetwork:
    config = fm.NetworkConfig(strategies=("zero_shot", "cot"), **SHAPE)
    return fm.StrategyNetwork.untrained(config, words_of)


def compile_in(url: str, out: Path, **options: Any) -> Any:
    given: dict[str, Any] = {"optimizer": "labeled_few_shot", "out": out, "concurrency": 4}
    lm = fm.lm("openai/scripted", api_base=url)
    train, held_out = options.pop("asked", (TRAIN, HELD_OUT))
    return fm.compile(network(), train, held_out, lm=lm, tracking=False, **{**given, **options})


@pytest.mark.nightly
def test_prompts_and_policy_learn_together(home: Path) -> None:
    with ScriptedServer(said) as server:
        better = compile_in(server.url, home / "out")
        assert better.compilation.winner == "compiled"
        assert better.compilation.after["scores"]["accuracy"]["value"] == 1.0
        subjects = {"sums": [], "rivers": []}
        for one in HELD_OUT:
            subjects[one.meta["subject"]] += better.selector(question=one.question).choices
        for subject, strategy in STRATEGIES.items():
            assert set(subjects[subject]) == {strategy}
        rounds = sorted(path.name for path in (home / "out").glob("round-*"))
        assert rounds == ["round-1", "round-2"]  # the second was no better
        parts = sorted(path.name for path in (home / "out" / "round-1").iterdir() if path.is_dir())
        assert parts == ["00-zero_shot", "01-cot", "policy"]
        # the policy learned from answers to questions that no prompt shows
        shown = {demo["question"] for one in better.predictors() for demo in one.demos}
        about = json.loads((home / "out" / "round-1" / "policy" / "training.json").read_text())
        assert shown
        assert about["questions"] == len(TRAIN) // 2 - len(shown)
        # what is in the folder is what came out, and asking again asks nothing
        kept = fm.load_program(home / "out", embedding=words_of)
        assert kept.describe() == better.describe()
        made = len(server.requests)
        assert totals(home / "out").calls == made
        assert len({entry["key"] for entry in read_ledger(home / "out")}) == made
        again = compile_in(server.url, home / "out")
        assert again.compilation.verdict == better.compilation.verdict
        assert len(server.requests) == made


@pytest.mark.nightly
def test_a_killed_compilation_goes_on_and_asks_nothing_twice(home: Path) -> None:
    with ScriptedServer(said) as server:
        whole = compile_in(server.url, home / "whole", cache=False)
        calls = len(server.requests)
        for share in (0.3, 0.8):  # while strategies are compiled, and in the second round
            began = len(server.requests)
            enough = int(share * calls) - totals(home / "out").calls
            last = began + enough
            server.delay = lambda last=last: 0.0 if len(server.requests) < last else 60.0
            child = Forked(target=compile_in, args=(server.url, home / "out"))
            child.start()
            wait_for_requests(server, began + enough)
            assert child.is_alive()
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join(60)
        server.delay = 0.0
        before = totals(home / "out").calls
        asked = len(server.requests)
        resumed = compile_in(server.url, home / "out", cache=False)
        # of each kill those in flight are asked again: four questions, both agents of each
        assert len(server.requests) - asked <= calls - before + 2 * 8
    assert resumed.describe() == whole.describe()
    assert resumed.compilation.verdict == whole.compilation.verdict


def test_one_budget_holds_and_a_larger_one_goes_on(home: Path) -> None:
    few: Any = {"asked": (TRAIN[:20], HELD_OUT[:8])}
    with ScriptedServer(said) as server:
        short = compile_in(server.url, home / "out", budget="60 calls", keep="compiled", **few)
        assert len(server.requests) <= 60
        assert "60 calls" in short.compilation.stopped
        assert short.compilation.spent == "60 calls"
        assert short.compilation.paused is False
        better = compile_in(server.url, home / "out", budget="900 calls", **few)
        assert better.compilation.stopped is None
        assert 60 < len(server.requests) == totals(home / "out").calls <= 900


SHAPE: dict[str, Any] = {"agents": 2, "k": 0, "hidden": 8, "heads": 1, "choice": "argmax"}
SETS = {**SHAPE, "epochs": 6, "strategies": ["zero_shot", "cot"], "embedding": "planted"}


@pytest.mark.nightly
def test_untrained_networks_are_compiled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_words(monkeypatch)
    with ScriptedServer(said) as server:
        given = {"optimizer": "labeled_few_shot", "lm": "openai/scripted", "api_base": server.url}
        given |= {"tracking": False, "out": home / "out"}
        better = fm.compile("network", TRAIN, sets=SETS, **given)
        about = json.loads((home / "out" / "compile.json").read_text())
        assert about["training"]["epochs"] == 6
        assert about["program"]["config"]["agents"] == 2
        assert better.compilation.winner == "compiled"
        with pytest.raises(fm.UserError, match="its training differs"):
            fm.compile("network", TRAIN, sets={**SETS, "epochs": 7}, **given)
        space = {"program": "network", **SETS, "gamma": 0.1, "tie_break": "first", "alpha": 0.1}
        space |= {"weight": "mean_trust", "lr": 0.01, "top": None, "prompt_layout": "role_last"}
        space |= {"strategies": [["zero_shot", "cot"], ["cot"]], "sampling": {"temperature": None}}
        space["compile"] = {"optimizer": ["none", "labeled_few_shot"], "preset": "light"}
        lm = fm.lm("openai/scripted", api_base=server.url)
        given = {"trials": 4, "sampler": "grid", "tracking": False, "out": home / "study"}
        study = fm.tune(space, TRAIN, HELD_OUT, lm=lm, **given)
    best = study.report["best"]["setting"]
    assert best["compile.optimizer"] == "labeled_few_shot"
    assert best["strategies"] == ["zero_shot", "cot"]
    assert study.validation.accuracy == 1.0
    loaded = fm.load_program(home / "study")
    assert loaded.describe() == study.best.describe()
    assert any(predictor.demos for predictor in loaded.predictors())


@pytest.mark.parametrize(
    ("program", "options", "wrong"),
    [
        (network, {"optimizer": "knn"}, "as a strategy network chooses strategies"),
        (network, {"train": TRAIN[:3]}, "needs at least 4 training questions"),
        (lambda: "network:", {}, "names no folder|network needs folder"),
    ],
)
def test_what_cannot_be_compiled_is_refused_before_a_call(home, program, options, wrong):
    given = {"train": TRAIN, "optimizer": "bootstrap", "lm": "openai/scripted", **options}
    with pytest.raises(fm.UserError, match=wrong):
        fm.compile(program(), validation=HELD_OUT, api_base="http://127.0.0.1:9", **given)
