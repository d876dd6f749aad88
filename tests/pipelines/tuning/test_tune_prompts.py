"""Prompts and structure together: programs whose prompts stay, and prompts compiled by a study."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_helpers import rows_of
from planted import colours, of_demos
from tuned import lm_at, questions, scripted_by, second_thoughts

import folkmoot as fm
from folkmoot.pipelines.lms.ledger import totals

OPTIONS: dict[str, Any] = {"tracking": False, "progress": False, "concurrency": 4}


@pytest.mark.parametrize("form", [pytest.param("object", marks=pytest.mark.nightly), "folder"])
def test_parameters_vary_beside_own_prompts(scripted: Any, tmp_path: Path, form: str) -> None:
    scripted.reply = scripted_by(second_thoughts)
    lm = lm_at(scripted.url)
    program = fm.Deliberation(["critic", "reasoner"], tie_break="majority", max_rounds=1)
    for seat in program.seats().values():
        seat.predict.signature = seat.predict.signature.with_instructions("Mine, and it stays.")
    program.save(tmp_path / "saved")
    space = {
        "program": program if form == "object" else str(tmp_path / "saved"),
        "max_rounds": [1, 2, 3],
        "tie_break": ["majority", "strongest:reasoner"],
        "roles": [["critic", "reasoner"], ["reasoner", "critic"]],
    }
    study = fm.tune(space, questions(0, 20), questions(40, 48), lm=lm, trials=3, **OPTIONS)
    settings = [trial.setting for trial in study.trials]
    assert {one["max_rounds"] for one in settings} == {1, 2, 3}
    assert settings[0]["max_rounds"] == 1
    assert study.report.best.setting["max_rounds"] == 2
    told = [seat.predict.signature.instructions for seat in study.best.seats().values()]
    assert all("Mine, and it stays." in text for text in told)
    texts = [message["content"] for body in scripted.bodies for message in body["messages"]]
    assert any("Mine, and it stays." in text for text in texts)


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({"workers": 2}, "has no 'workers'"),
        ({"max_rounds": 0}, "max_rounds is 0"),
        ({"max_rounds": [1, 1]}, "give different values to choose from"),
        ({"max_rounds": {"from": 3, "to": 1}}, "a range goes from the smaller"),
        ({"compile": {"optimizer": "knn"}}, "compile the winner with it"),
        (
            {"compile": {"optimiser": "mipro"}},
            r"write \{optimizer: \[none, mipro\], preset: light\}",
        ),
        ({"max_rounds": 2}, "nothing of .* varies"),
    ],
)
def test_what_cannot_vary_is_named(tmp_path: Path, space: dict[str, Any], said: str) -> None:
    fm.Deliberation(["critic", "reasoner"], tie_break="majority").save(tmp_path)
    asked: Any = (colours(10, "t"), colours(4, "v"))
    with pytest.raises(fm.UserError, match=said):
        fm.tune({"program": str(tmp_path), **space}, *asked, lm=lm_at("http://127.0.0.1:9"))


def compiled_study(scripted: Any, out: Path | None = None, **options: Any) -> Any:
    """A study in which demonstrations decide, over two numbers of rounds that do not."""
    space = {"program": "deliberation:critic,reasoner:majority", "max_rounds": [1, 2]}
    space |= {"sampling": {"temperature": None}}
    space["compile"] = {"optimizer": ["none", "bootstrap"], "preset": "light"}
    given = {"lm": lm_at(scripted.url), "out": out, "trials": 2, **OPTIONS}
    return fm.tune(space, colours(24, "t"), colours(8, "v"), **{**given, **options})


def test_prompts_and_rounds_are_tuned_and_compiled_once(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_demos()
    study = compiled_study(scripted, tmp_path / "out")
    tried = {(one.setting["max_rounds"], one.setting["compile.optimizer"]) for one in study.trials}
    assert tried == {(1, "none"), (2, "none"), (1, "bootstrap"), (2, "bootstrap")}
    assert study.report.trials["told"] == 2  # the rounds are replayed on compiled prompts, too
    assert study.report.best.setting["compile.optimizer"] == "bootstrap"
    assert study.report.questions == {"train": 24, "scored": 12, "validation": 8}
    (compiled,) = (tmp_path / "out" / "compiled").glob("*/")
    about = json.loads((compiled / "compile.json").read_text())
    assert about["program"]["max_rounds"] == 2
    assert about["questions"]["validation"] == 0
    # no question that an optimizer saw is scored
    seen = {demo["question"] for seat in study.best.seats().values() for demo in seat.predict.demos}
    folders = (tmp_path / "out" / "runs").iterdir()
    scored = {row["question"] for folder in folders for row in rows_of(folder)}
    assert seen
    assert not seen & scored
    assert study.validation is not None
    assert study.validation.summary.scores["accuracy"]["value"] == 1.0
    assert fm.load_program(tmp_path / "out").describe() == study.best.describe()
    made = len(scripted.requests)
    assert compiled_study(scripted, tmp_path / "out").report == study.report
    assert len(scripted.requests) == made


@pytest.mark.nightly
def test_one_budget_holds_over_all_and_a_larger_goes_on(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_demos()
    whole = compiled_study(scripted, tmp_path / "whole")
    calls = totals(tmp_path / "whole").calls
    for budget in (10, calls // 2, calls * 2):
        before = len(scripted.requests)
        study = compiled_study(scripted, tmp_path / "out", budget=f"{budget} calls")
        assert totals(tmp_path / "out").calls <= budget
        assert len(scripted.requests) - before <= budget
    assert study.report.stopped is None
    assert [one.setting for one in study.trials if one.state == "complete"] == [
        one.setting for one in whole.trials if one.state == "complete"
    ]
    assert study.report.best.setting == whole.report.best.setting


def test_two_workers_compile_the_same_prompts_once(scripted: Any, tmp_path: Path) -> None:
    from folkmoot.modules.reading.metrics import metric_of
    from folkmoot.pipelines.tuning.learned import CompiledPrompts
    from folkmoot.pipelines.tuning.space import Recipe

    scripted.reply = of_demos()
    program = fm.SingleAgent("simple")
    found: list[Any] = []

    def apply() -> None:
        lm, asked = lm_at(scripted.url), colours(8, "t")
        how = {"metric": metric_of(None), "lm": lm, "seed": 0, "concurrency": 4, "cache": False}
        prompts = CompiledPrompts(SimpleNamespace(folder=tmp_path, **how), asked)
        recipe = Recipe("bootstrap", "light")
        found.append(prompts.applied(fm.SingleAgent("simple"), program, recipe))

    threads = [threading.Thread(target=apply) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 2
    assert all(one.seat.predict.demos for one in found)
    assert len(list((tmp_path / "compiled").glob("*/"))) == 1
    (folder,) = (tmp_path / "compiled").glob("*/")
    assert len(scripted.requests) == totals(folder).calls


def test_the_short_form_tries_compiled_prompts_and_none(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_demos()
    given: Any = {"compile": "bootstrap", "lm": lm_at(scripted.url), "trials": 2, **OPTIONS}
    study = fm.tune(fm.SingleAgent("simple"), colours(16, "t"), colours(6, "v"), **given)
    optimizers = [trial.setting["compile.optimizer"] for trial in study.trials]
    assert optimizers[:2] == ["none", "bootstrap"]
    assert study.best.seat.predict.demos
