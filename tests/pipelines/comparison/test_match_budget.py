"""The budget-matched baseline never spends without a ceiling, and says its price before."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import SPEC, evaluate, folkmoot

import folkmoot as fm
from folkmoot.pipelines.base.budget import BudgetSpent
from folkmoot.pipelines.cli import show
from folkmoot.pipelines.comparison.matched import TOLERANCE, Match, samples_for
from folkmoot.pipelines.comparison.words import say
from folkmoot.pipelines.testing.server import ScriptedServer

CHOICES = {"A": "yes it is", "B": "no it is not"}
ASKED = {str(number): f"Is this number {number}" for number in range(12)}
GIVEN: dict[str, Any] = {"choices": CHOICES, "answer": "A"}
QUESTIONS = [fm.Question(id=id, question=text, **GIVEN) for id, text in ASKED.items()]
pytestmark = pytest.mark.usefixtures("home")


def said(reasoning: int, answer: str = "A") -> str:
    return json.dumps({"reasoning": "because " * reasoning, "answer": answer})


def noted(baseline: fm.Evaluation) -> Match:
    """How the samples of a baseline were found."""
    settings: Any = baseline.summary.run["settings"]
    return Match(**settings["match-budget"])


def talk(scripted: ScriptedServer, **settings: Any) -> tuple[fm.Evaluation, Any]:
    """Three who agree at once: three calls per question."""
    lm = fm.lm("openai/scripted", api_base=scripted.url, **settings)
    scripted.reply = lambda body: said(40)
    program = fm.Deliberation(["intuitive", "reasoner", "critic"])
    return fm.evaluate(program, QUESTIONS, lm=lm, out="talk", tracking=False), lm


def tokens(server: ScriptedServer) -> int:
    return server.prompt_tokens + server.completion_tokens


def test_without_a_budget_the_bill_of_the_run_is_the_ceiling(scripted: ScriptedServer) -> None:
    """The pilot's samples are short, those after it are not: an estimate would cost a multiple."""
    run, lm = talk(scripted)
    bill, before = tokens(scripted), tokens(scripted)
    asked = len(scripted.bodies)
    scripted.reply = lambda body: said(2 if len(scripted.bodies) <= asked + 8 else 400)
    found = fm.match_budget(run, QUESTIONS, lm=lm, concurrency=1)
    assert found.summary.stopped
    assert "a larger budget goes on" in found.summary.stopped
    assert 0 < found.summary.counts.rows < len(QUESTIONS)
    ceiling = math.ceil(TOLERANCE * bill / 12 * (12 + 8))
    samples = found.summary.run["program"]["samples"]
    # the last call would not fit any more
    assert ceiling - 600 <= tokens(scripted) - before < ceiling + 600
    made = len(scripted.bodies)
    again = fm.match_budget(run, QUESTIONS, lm=lm, concurrency=1)
    assert len(scripted.bodies) == made
    assert again.summary.stopped
    whole = fm.match_budget(run, QUESTIONS, lm=lm, budget="1000 calls", concurrency=1)
    assert whole.summary.counts.rows == 12
    assert len(scripted.bodies) - asked == 8 + 12 * samples


def test_a_budget_is_held_and_what_it_paid_for_is_not_paid_again(scripted: ScriptedServer) -> None:
    run, lm = talk(scripted)
    asked = len(scripted.bodies)
    with pytest.raises(BudgetSpent, match=r"5 calls spent \(5 calls\)"):
        fm.match_budget(run, QUESTIONS, lm=lm, budget="5 calls", concurrency=1)
    assert len(scripted.bodies) - asked == 5
    part = fm.match_budget(run, QUESTIONS, lm=lm, budget="17 calls", concurrency=1)
    assert len(scripted.bodies) - asked == 17
    assert (part.summary.counts.rows, bool(part.summary.stopped)) == (3, True)
    given: dict[str, Any] = {"data": QUESTIONS, "match_budget": True, "api_base": scripted.url}
    assert "\nBudget 17 calls spent (17 calls): finished work is" in repr(
        fm.compare(run, budget="17 calls", **given)
    )
    whole = fm.match_budget(run, QUESTIONS, lm=lm)
    assert (whole.summary.counts.rows, whole.summary.stopped) == (12, None)
    assert len(scripted.bodies) - asked == 8 + 12 * 3


def test_the_baseline_gets_the_samples_that_the_tokens_pay_for(scripted: ScriptedServer) -> None:
    run, lm = talk(scripted)
    before = len(scripted.bodies)
    base = fm.match_budget(run, QUESTIONS, lm=lm)
    match, usage = noted(base), run.summary.usage
    assert match.spent == (usage["prompt_tokens"] + usage["completion_tokens"]) / 12
    assert (match.rows, match.pilot, match.in_dollars) == (12, 8, False)
    assert match.samples == samples_for(match.spent, match.taken) > 1
    assert base.summary.run["program"]["samples"] == match.samples
    assert len(scripted.bodies) - before == 8 + 12 * match.samples
    assert Match(10, 1, tokens_per_sample=0).samples == 1  # an LM that counts no tokens
    ratio = fm.compare(base, run)[0].token_ratio
    assert 1 <= ratio < 1 + 1 / match.samples  # one more sample would cost more than the run did
    assert base.folder == run.folder / "match-budget" / f"{match.samples}-samples"
    asked = len(scripted.bodies)
    again = fm.match_budget("talk", QUESTIONS, lm=lm)
    assert list(again.rows) == list(base.rows)
    assert len(scripted.bodies) == asked


def test_a_budget_is_matched_in_dollars_where_prices_are_known(scripted: ScriptedServer) -> None:
    """One LM costs ten times as much a token: by tokens one sample too many would be bought."""
    weak = fm.lm("openai/weak", api_base=scripted.url, price=(1e-6, 1e-6))
    strong = fm.lm("openai/strong", api_base=scripted.url, price=(1e-5, 1e-5))
    how: Any = {"tie_break": "majority", "max_rounds": 1, "lms": {"reasoner": strong}}
    seats = fm.Deliberation(["intuitive", "reasoner"], **how)
    mixed = fm.evaluate(seats, QUESTIONS, lm=weak, out="mixed", tracking=False)
    fm.match_budget(mixed, QUESTIONS, lm=[weak, strong])
    runs = {name: Path(f"mixed/match-budget/openai-{name}") for name in ("weak", "strong")}
    by_lm = {name: noted(fm.load_run(next(run.glob("*-samples")))) for name, run in runs.items()}
    assert by_lm["weak"].in_dollars
    assert by_lm["weak"].samples == samples_for(by_lm["weak"].spent, by_lm["weak"].taken) > 5
    assert by_lm["strong"].samples == 1
    assert " USD per question were spent" in say("match", by_lm["weak"])


def test_a_mixed_teams_fair_opponent_is_the_best_of_its_lms(scripted: ScriptedServer) -> None:
    """A team of a weak LM and a judge on a strong one: it differs from one prompt in its LM."""
    scripted.reply = lambda body: said(1, "A" if body["model"] == "strong" else "B")
    weak, strong = (fm.lm(f"openai/{name}", api_base=scripted.url) for name in ("weak", "strong"))
    one = fm.evaluate(fm.SingleAgent("cot"), QUESTIONS, lm=weak, out="one", tracking=False)
    program = fm.Deliberation(["intuitive", "reasoner"], max_rounds=1, lms={"reasoner": strong})
    team = fm.evaluate(program, QUESTIONS, lm=strong, out="team", tracking=False)
    alone = fm.compare(one, team, names=["one", "team"])
    differ = "team and one also differ in LM (team: openai/strong; one: openai/weak)"
    assert differ in alone.headline
    base = fm.match_budget(team, QUESTIONS, lm=strong)
    assert fm.compare(base, team, names=["base", "team"])[0].confounds == ()
    with_base = fm.compare("one", "team", names=["one", "team"])  # found in the folder of the run
    assert with_base.names == ["one", "team", "1 agent, same budget"]
    assert "not yet tried" not in with_base.headline


@pytest.fixture
def priced(scripted: ScriptedServer, ten: Path) -> list[str]:
    """A run of two who talk, made with a price, and the command that matches it."""
    scripted.reply = lambda body: said(40)
    words = ["--price", "openai/scripted=2000,4000", "--out", "talk"]
    assert evaluate(scripted, ten, *words, program=SPEC).exit_code == 0
    return ["compare", "talk", "--match-budget", "--api-base", scripted.url]


def test_the_plan_has_the_price_of_the_run(scripted: ScriptedServer, priced: list[str]) -> None:
    asked = len(scripted.bodies)
    paid = json.loads(Path("talk/summary.json").read_text())["paid"]["cost_usd"]
    done = folkmoot(*priced, "--dry-run", "--json")
    plan = json.loads(done.stdout)
    assert plan["cost_per_question"] == pytest.approx(paid / 10)
    assert 0 < plan["cost_usd"][0] <= plan["cost_usd"][1]
    assert plan["lms"]["openai/scripted"]["calls"] > 10
    assert plan["budget"] == f"{TOLERANCE * paid / 10 * 18:.3g} USD"
    assert "price unknown" not in done.stderr
    assert f"at most {plan['budget']}, as much as it took" in done.stderr
    assert len(scripted.bodies) == asked
    assert not Path("talk/match-budget").exists()
    words = ("--dry-run", "--json", "--price", "openai/scripted=1,2")
    other = json.loads(folkmoot(*priced, *words).stdout)
    # both sides at the price of now
    assert other["cost_per_question"] == pytest.approx(paid / 10 / 2000)


def test_it_asks_before_it_spends_much(scripted, priced, monkeypatch):
    monkeypatch.setattr(show, "agreed", lambda: False)
    asked = len(scripted.bodies)
    folkmoot(*priced, code=1)
    assert len(scripted.bodies) == asked
    assert folkmoot(*priced, "--budget", "4 calls", "--yes").exit_code == 1  # no result
    assert len(scripted.bodies) - asked == 4
    done = folkmoot(*priced, "--yes", "--json", code=0)
    baseline, talk = json.loads(done.stdout)["runs"]
    assert 0 < baseline["usage"]["cost_usd"] <= talk["usage"]["cost_usd"]
    assert len(scripted.bodies) - asked == 8 + baseline["usage"]["calls"]
    assert "per question, 0 calls\ncost: 0 USD; at most" in folkmoot(*priced, "--dry-run").stderr
