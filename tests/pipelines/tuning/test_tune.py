"""Tuning: planted optima are found, calls are paid once, pruning is safe, and studies end well."""

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any

import dspy
import pytest
from completions import completion
from optuna.distributions import IntDistribution
from tuned import (
    critic_first,
    lm_at,
    questions,
    reasoned,
    scripted_by,
    second_thoughts,
    settings_of,
    study_at,
)

import folkmoot as fm
from folkmoot.modules.statistics.effects import Effect
from folkmoot.pipelines.lms.ledger import totals
from folkmoot.pipelines.runs.manifest import OtherRun
from folkmoot.pipelines.runs.study_file import StudyReport
from folkmoot.pipelines.testing.replies import text_of
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields
from folkmoot.pipelines.tuning.card import KIND
from folkmoot.pipelines.tuning.report import effect_words
from folkmoot.signatures.roles import Reasoner

ROUNDS = {
    "program": "deliberation",
    "roles": ["critic", "reasoner"],
    "max_rounds": {"from": 1, "to": 3},
    "tie_break": ["majority", "strongest"],
    "sampling": {"temperature": None},
}


def tuned(scripted: Any, space: Any, out: Path | None = None, **options: Any) -> Any:
    given = {"lm": lm_at(scripted.url), "trials": 4, "tracking": False, "out": out}
    return fm.tune(space, questions(0, 20), questions(20, 30), **{**given, **options})


def judged(study: Any) -> list[tuple[Path, float]]:
    return [(run.folder, run.accuracy) for run in (study.validation, study.default)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An undisturbed study over orders."""
    with ScriptedServer(scripted_by(critic_first)) as server:
        return study_at(server.url, tmp_path_factory.mktemp("whole") / "out")


def test_the_planted_order_is_found(whole: Any) -> None:
    study = whole
    best = study.report.best.setting
    assert (best["tie_break"], best["strongest"]) == ("strongest", "reasoner")
    assert best["roles"] == ["critic", "reasoner"]
    assert study.report.best.value("accuracy") == 1.0
    assert study.validation.accuracy == 1.0
    assert study.default.accuracy < 0.3
    assert "the winner is better than the default" in study.report.verdict
    assert study.best.roles == ["critic", "reasoner"]


def test_the_planted_rounds_are_found_by_the_deepest_run(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = scripted_by(second_thoughts)
    study = tuned(scripted, ROUNDS, tmp_path / "out", trials=1)
    best = study.report.best
    assert (best.setting["max_rounds"], best.setting["strongest"]) == (2, "reasoner")
    assert study.report.trials["told"] == 8
    assert study.report.calls["made"] == 20 * 2 * 3
    assert study.report.calls["saved"] == study.report.calls["used"] - 120 > 120


@pytest.fixture(scope="module")
def weighed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A study of rounds with what each setting takes, and a server to ask again."""
    with ScriptedServer(scripted_by(second_thoughts)) as server:
        lm = fm.lm("openai/scripted", api_base=server.url, price=(1e-6, 1e-6))
        objectives = ["accuracy", "calls", "tokens", "cost"]
        out = tmp_path_factory.mktemp("weighed") / "out"
        yield tuned(server, ROUNDS, out, trials=1, lm=lm, objectives=objectives), server


def test_what_is_replayed_is_what_a_run_gives(weighed: Any) -> None:
    study, scripted = weighed
    replayed = [entry for entry in study.trials if entry.state == "told"]
    for entry in replayed[::3]:
        setting = entry.setting
        rule = setting["tie_break"] + (f":{setting['strongest']}" if "strongest" in setting else "")
        program = fm.Deliberation(setting["roles"], rule, setting["max_rounds"])
        run = fm.evaluate(program, questions(0, 20), lm=lm_at(scripted.url), tracking=False)
        usage = run.summary.usage
        assert entry.value("accuracy") == run.accuracy
        assert entry.value("calls") == usage["calls"] / 20
        tokens = usage["prompt_tokens"] + usage["completion_tokens"]
        assert entry.value("tokens") == pytest.approx(tokens / 20)


@pytest.mark.nightly
def test_sixty_settings_for_little_more_than_one_deepest_run(scripted: Any, tmp_path: Path) -> None:
    def agreed_early(role: str, round: int, number: int, before: list[str]) -> bool:
        return role == "judge" or (number % 9 > 0 and round > (0, 0, 0, 1, 2)[number % 5])

    scripted.reply = scripted_by(agreed_early)
    roles = ["intuitive", "retriever", "critic", "reasoner"]
    space = {"program": "deliberation", "roles": roles, "max_rounds": {"from": 1, "to": 10}}
    space["sampling"] = {"temperature": None}
    study = tuned(scripted, space, tmp_path / "out", trials=60, sampler="grid")
    tried = [entry.setting for entry in study.trials if entry.setting]
    settings = {json.dumps(setting, sort_keys=True) for setting in tried}
    assert len(settings) == 10 * 6
    searched = study.report.calls["made"]
    before = len(scripted.requests)
    team = fm.Deliberation(roles, max_rounds=10)
    fm.evaluate(team, questions(0, 20), lm=lm_at(scripted.url), tracking=False)
    deepest = len(scripted.requests) - before
    assert deepest <= searched <= 1.2 * deepest


def test_the_front_is_the_true_one(weighed: Any) -> None:
    study, goals = weighed[0], ["accuracy", "calls"]
    values = [[entry.value(name) for name in goals] for entry in study.trials if entry.scores]

    def beaten(a: float, c: float) -> bool:
        return any(b >= a and d <= c and (b, d) != (a, c) for b, d in values)

    true = {(a, c) for a, c in values if not beaten(a, c)}
    found = [tuple(entry.value(name) for name in goals) for entry in study.front]
    assert set(found) == true == {(0.9, 4.0), (0.25, 2.0)}
    assert found[0] == (0.9, 4.0)
    for entry in study.front:
        for name in goals:
            score = entry.scores[name]
            assert score["low"] <= score["value"] <= score["high"]


def test_pruning_saves_questions_and_keeps_the_best(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = reasoned(4)
    strategies = ["cot", "simple", "zero_shot"]
    space = {"program": "single", "strategy": strategies, "sampling": {"temperature": None}}
    study = tuned(scripted, space, tmp_path / "out", trials=3, sampler="grid")
    assert study.report.best.setting["strategy"] == "cot"
    pruned = [entry for entry in study.trials if entry.state == "pruned"]
    assert {entry.setting["strategy"] for entry in pruned} == {"simple", "zero_shot"}
    assert all(entry.questions < 20 for entry in pruned)
    assert study.report.calls["made"] == 20 + sum(entry.questions for entry in pruned)


def test_ensembles_are_weighed_without_a_call(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = reasoned(1000)
    members = ["cot", "simple", "zero_shot"]
    space = {"program": "ensemble", "members": members, "sampling": {"temperature": None}}
    study = tuned(scripted, space, tmp_path / "out", trials=1)
    assert study.report.best.setting["vote"] == "weighted"
    assert study.report.calls["made"] == 20 * 3
    assert study.best.weights[0] > 0 == study.best.weights[1]
    assert study.validation.accuracy == 1.0


def test_a_cost_counts_what_a_setting_takes_alone(weighed: Any) -> None:
    scored = [entry for entry in weighed[0].trials if entry.scores]
    names = ("max_rounds", "tie_break")
    cost = {tuple(entry.setting[n] for n in names): entry.value("cost") for entry in scored}
    assert 0 < cost[1, "majority"] < cost[2, "majority"] < cost[3, "majority"]
    assert math.isclose(cost[2, "strongest"], cost[2, "majority"])


def test_latency_is_measured_on_calls_that_are_made(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = scripted_by(second_thoughts)
    scripted.delay = 0.01
    space = {**ROUNDS, "tie_break": "majority", "max_rounds": [1, 2]}
    given: Any = {"trials": 2, "sampler": "grid", "objectives": ["accuracy", "latency"]}
    study = tuned(scripted, space, tmp_path / "out", **given)
    assert study.report.trials["told"] == 0
    assert study.report.calls["made"] == 20 * (2 + 4)
    assert all(entry.value("latency") > 0.01 for entry in study.trials)


@pytest.mark.nightly
def test_the_same_again_makes_no_call_and_no_change(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = scripted_by(critic_first)
    first = study_at(scripted.url, tmp_path / "out", trials=5)
    made = len(scripted.requests)
    again = study_at(scripted.url, tmp_path / "out", trials=5)
    assert len(scripted.requests) == made
    assert again.report == first.report
    assert judged(again) == judged(first)
    with pytest.raises(OtherRun, match="its seed differs"):
        study_at(scripted.url, tmp_path / "out", trials=5, seed=1)
    more = study_at(scripted.url, tmp_path / "out", trials=7)
    places = [e.place for e in more.trials if e.place is not None]
    assert places == list(range(7))
    assert more.trials[: len(first.trials)] == first.trials


def test_budgets_hold_in_search_and_validation(scripted: Any, whole: Any, tmp_path: Path) -> None:
    scripted.reply = scripted_by(critic_first)
    study = study_at(scripted.url, tmp_path / "out", budget="150 calls")
    assert "budget 150 calls spent (150 calls)" in study.report.stopped
    assert len(scripted.requests) == totals(tmp_path / "out").calls <= 150
    assert study.report.calls["made"] == 150
    assert study.report.best is not None
    assert study.best.roles
    (tmp_path / "out/found").mkdir()  # what an attempt with another outcome has left
    gone_on = study_at(scripted.url, tmp_path / "out", budget="100k calls")
    assert not (tmp_path / "out/found").exists()
    assert gone_on.report.stopped is None
    assert settings_of(gone_on) == settings_of(whole)


class Pair(fm.Declared, name="pair"):
    """A protocol of one's own that nothing registers."""

    def seat(self, max_rounds: Annotated[int, IntDistribution(1, 2)] = 2) -> None:
        self.agents = [fm.Seat(name, Reasoner) for name in ("first", "second")]

    async def solve(self, task: fm.Task) -> dspy.Prediction:
        numbers = range(1, self.max_rounds + 1)
        turns = [await each.ask(task, round=n) for n in numbers for each in self.agents]
        ended: Any = {"rounds": self.max_rounds, "consensus_round": None}
        return fm.prediction_of(task, turns[-1].answer, "last", turns, **ended)


class Talk(fm.Deliberation):
    """A variant of a protocol of ours."""


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (f"{__name__}:Pair", Pair),
        ({"program": f"{__name__}:Pair", "max_rounds": [1, 2]}, Pair),
        ({"program": Pair(), "max_rounds": [1, 2]}, Pair),
        ({"program": Talk(["critic", "reasoner"]), "max_rounds": [1, 2]}, Talk),
    ],
)
def test_a_class_that_nothing_registers_is_tuned_and_found_again(space, kind, scripted, tmp_path):
    scripted.reply = scripted_by(critic_first)
    found = [tuned(scripted, space, tmp_path / "out", trials=2) for _ in range(2)]
    assert [type(study.best) for study in found] == [kind, kind]
    assert {entry.setting["max_rounds"] for entry in found[0].trials} <= {1, 2}
    given: Any = {"lm": lm_at(scripted.url), "out": tmp_path / "compiled", "tracking": False}
    asked = questions(0, 8)
    options = {"optimizer": "labeled_few_shot", **given}
    compiled = [fm.compile(found[0].best, asked, **options) for _ in range(2)]
    assert [type(program) for program in compiled] == [kind, kind]


def test_an_object_of_such_a_class_has_nothing_to_vary_by_itself(scripted: Any) -> None:
    with pytest.raises(fm.UserError, match="nothing of Pair varies"):
        tuned(scripted, Pair())


def test_a_judge_with_an_lm_of_its_own_is_left_out_of_what_is_replayed(scripted: Any) -> None:
    scripted.reply = scripted_by(second_thoughts)
    roles, lms = ["critic", "reasoner"], {"judge": lm_at(scripted.url)}
    judged = fm.Deliberation(roles, max_rounds=2, lms=lms)
    space = {"program": judged, "max_rounds": [1, 2], "tie_break": ["judge", "majority"]}
    study = tuned(scripted, space)
    assert study.report.trials["failed"] == 0
    assert {entry.setting["tie_break"] for entry in study.trials} == {"judge", "majority"}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "the winner is worse than the default"),
        ("I cannot say.", "whether the winner is better than the default is not known"),
    ],
)
def test_a_winner_that_is_worse_or_unreadable_is_not_handed_over(
    scripted: Any, tmp_path: Path, said: str | None, why: str
) -> None:
    """Reasoning is right on the training questions alone, and no reasoning on the others."""

    def by_heart(role: str, round: int, number: int, before: list[str]) -> bool:
        return (role == "reasoner") == (number < 20)

    known = scripted_by(by_heart)

    def reply(body: dict[str, Any]) -> str:
        held_out = re.search(r"Question 2\d\?", text_of(body))
        if said and held_out and "reasoning" in wanted_fields(body):
            return said
        return known(body)

    scripted.reply = reply
    space = {"program": "single", "strategy": ["simple", "cot"], "sampling": {"temperature": None}}
    study = tuned(scripted, space, tmp_path / "out")
    assert study.report.best.setting["strategy"] == "cot"
    assert why in study.report.verdict
    assert study.report.verdict.endswith("the default is handed over")
    found = fm.load_program(tmp_path / "out/found")
    handed_over = fm.load_program(tmp_path / "out")
    named = [program.strategy for program in (found, handed_over, study.best)]
    assert named == ["cot", "simple", "simple"]
    written = tmp_path / "out/study.json"
    if not said:  # files of earlier versions say by the outcome alone what is handed over
        written.write_text(written.read_text().replace('"handed_over": "default"', '"of_old": 1'))
    assert ("handed_over" in written.read_text()) == bool(said)
    assert KIND.card(tmp_path / "out").scores[0].value == study.default.accuracy == 1.0
    again = tuned(scripted, space, tmp_path / "out")
    assert judged(again) == judged(study)
    assert again.validation.accuracy == study.validation.accuracy


def test_a_budget_that_cannot_be_held_pauses_it(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = lambda body: (200, {}, completion('{"answer": "A"}', usage=None))
    study = tuned(scripted, "single:cot", tmp_path / "out", trials=2, budget="100k tokens")
    assert (study.paused, len(scripted.requests)) == (True, 1)
    assert study.stopped.startswith("budget 100000 tokens cannot be enforced: openai/")


def test_a_study_in_which_all_failed_tries_again(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = lambda body: (400, {}, {"error": {"message": "a content filter"}})
    failed = tuned(scripted, "single:cot", tmp_path / "out", trials=2)
    assert (failed.report.trials["failed"], failed.empty) == (2, True)
    for trial in KIND.card(tmp_path / "out").below:
        assert "a content filter" in trial.sentences[0]
    scripted.reply = scripted_by(critic_first)
    again = tuned(scripted, "single:cot", tmp_path / "out", trials=2)
    assert (again.report.trials["complete"], again.empty, again.stopped) == (2, False, None)


@pytest.mark.parametrize(
    ("values", "objective", "ratio", "said"),
    [
        (
            (2, 1),
            "calls",
            1.8,
            "2 instead of 1: +3.0 points [0.0, +5.0], 1.8 times the number of calls",
        ),
        (
            (0.5, None),
            "cost",
            1.0,
            "0.5 instead of the default: +3.0 points [0.0, +5.0], the same price",
        ),
    ],
)
def test_an_effect_is_a_sentence(values: Any, objective: str, ratio: float, said: str) -> None:
    effect = Effect("a", *values, 0.03, 0.0, 0.05, cost_ratio=ratio)
    report = StudyReport(best=None, objectives=["accuracy", objective])
    assert effect_words(effect, report) == f"a {said}"


def test_new_validation_questions_are_asked_beside_them(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = scripted_by(critic_first)
    lm = lm_at(scripted.url)
    asked = {"lm": lm, "trials": 2, "tracking": False, "out": tmp_path / "out"}
    for first, last in ((20, 30), (30, 36)):
        study = fm.tune("single:cot", questions(0, 20), questions(first, last), **asked)
        assert study.report.validation.n == last - first


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"objectives": ["accuracy", "f1"]}, "need accuracy or f1, one of them"),
        ({"objectives": ["f1"]}, "f1 is for short answers"),
        ({"trials": 0}, "trials is 0"),
        ({"seed": "a"}, "seed is 'a'"),
        ({"budget": "2 USD"}, "price of openai/scripted is unknown"),
        ({"storage": "nonsense"}, "--storage 'nonsense' is not a URL"),
    ],
)
def test_bad_input_is_named(scripted: Any, tmp_path: Path, changed: Any, why: str) -> None:
    with pytest.raises(fm.UserError, match=why):
        tuned(scripted, "single:cot", tmp_path / "out", **changed)
    assert not scripted.requests
