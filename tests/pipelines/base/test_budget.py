"""Budgets: how they are written, and that they hold whatever is in flight."""

import json
import time
from pathlib import Path
from typing import Any

import dspy
import pytest
from by_day import some_by_day
from completions import completion
from mortal import questions

import folkmoot as fm
from folkmoot.modules.base.context import OPEN_BOOKS, bound
from folkmoot.pipelines.base.account import Account
from folkmoot.pipelines.base.budget import Budget
from folkmoot.pipelines.base.run_files import Counts
from folkmoot.pipelines.lms import engine as engine_module
from folkmoot.pipelines.lms.ledger import totals
from folkmoot.pipelines.lms.store import BooksAround
from folkmoot.pipelines.testing.server import ScriptedServer, first_option

PRICE = (1e-6, 2e-6)


def run(
    server: ScriptedServer, out: Path | None, n: int = 60, program: Any = None, **options: Any
) -> Any:
    known = {"api_base": server.url, "price": PRICE, "concurrency": 64}
    used = fm.lm("openai/scripted", **{**known, **options.pop("lm", {})})
    program = program or fm.Deliberation(["intuitive", "reasoner"])
    return fm.evaluate(program, questions(n), lm=used, out=out, tracking=False, **options)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("2 USD", Budget(usd=2)),
        ("$2.50", Budget(usd=2.5)),
        ("1 call", Budget(calls=1)),
        ("10k calls", Budget(calls=10_000)),
        ("1.5 k calls", Budget(calls=1500)),
        ("1M tokens", Budget(tokens=1_000_000)),
        ("1.5 h", Budget(seconds=5400)),
        (" 2 USD ,500calls,  1M tokens,20 min ", Budget(2, 500, 1_000_000, 1200)),
    ],
)
def test_forms_of_a_budget(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize(
    "text", ["", "2", "2 EUR", "-5 calls", "0.5 calls", "1 USD, 2 USD", "1,000 calls", "inf USD"]
)
def test_what_is_no_budget_is_said_in_one_sentence(text: str) -> None:
    with pytest.raises(fm.UserError, match="budget") as caught:
        Budget.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("calls", some_by_day([77, 1, 30, 64], 3))
def test_calls_are_never_exceeded_with_64_at_once(calls: int, tmp_path: Path) -> None:
    with ScriptedServer(delay=0.02) as server:
        result = run(server, tmp_path, n=100, budget=f"{calls} calls")
        assert len(server.bodies) == calls == result.summary.paid["calls"] == totals(tmp_path).calls
        assert result.summary.stopped.startswith(f"budget {calls} calls spent")
        assert result.summary.counts.errors == 0
        assert len((tmp_path / ".folkmoot" / "calls.jsonl").read_text().splitlines()) == calls


@pytest.mark.parametrize("budget", ["6k tokens", "0.006 USD"])
def test_tokens_and_money_are_not_exceeded(budget: str, tmp_path: Path) -> None:
    with ScriptedServer(delay=0.02) as server:
        result = run(server, tmp_path, n=100, budget=budget)
        paid = result.summary.paid
        limit = Budget.parse(budget)
        if limit.tokens:
            spent = paid["prompt_tokens"] + paid["completion_tokens"]
            assert 0.9 * limit.tokens <= spent <= limit.tokens
        else:
            assert 0.9 * limit.usd <= paid["cost_usd"] <= limit.usd
        assert paid["calls"] == len(server.bodies) < 200
        calls = (tmp_path / ".folkmoot" / "calls.jsonl").read_text()
        assert len(server.bodies) == len(calls.splitlines())


def test_time_ends_a_run_even_while_it_waits_to_try_again(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.reply = lambda _: (503, {"Retry-After": "30"}, {})
        began = time.monotonic()
        result = run(server, tmp_path, budget="0.3 s")
        assert time.monotonic() - began < 25
        none = dict.fromkeys(("rows", "correct", "errors", "unreadable", "truncated"), 0)
        assert result.summary.counts == Counts(questions=60, **none)
        assert "time is over" in result.summary.stopped


def test_failed_calls_are_free(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "back_off", lambda *_: 0.001)
    seen: set[str] = set()

    def fails_once(body: dict[str, Any]) -> Any:
        text = json.dumps(body)
        if text in seen:
            return first_option(body)
        seen.add(text)
        return 500, {}, {}

    scripted.reply = fails_once
    result = run(scripted, None, n=20, program=fm.SingleAgent(), budget="20 calls")
    assert result.summary.counts.rows == 20
    assert result.summary.stopped is None
    assert len(scripted.bodies) == 40


def test_a_larger_budget_goes_on_and_pays_nothing_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedServer(delay=0.005) as server:
        for calls, made in ((25, 25), (50, 50), (50, 50), (30, 50), (90, 90)):
            asked = len(server.bodies)
            run(server, tmp_path, budget=f"{calls} calls")
            assert len(server.bodies) == made
            said = f"the budget {calls} calls is not above the 50 calls that were spent here"
            assert (said in caplog.text) == (asked == made)
            caplog.clear()
        result = run(server, tmp_path)
        assert result.summary.stopped is None
        assert result.summary.counts.rows == 60
        assert result.summary.paid["calls"] == len(server.bodies) == 120


def finished_and_wasted(result: Any) -> tuple[int, int]:
    """How many questions have a row, and how many calls belong to none."""
    summary = result.summary
    return summary.counts.rows, summary.paid["calls"] - summary.usage["calls"]


@pytest.mark.parametrize("budget", some_by_day(["60 calls", "6k tokens", "0.006 USD"], 3))
def test_a_short_budget_finishes_questions_one_by_one(budget: str, tmp_path: Path) -> None:
    """60 calls bought 60 halves of questions of two calls, and no result."""
    with ScriptedServer(delay=0.005) as server:
        result = run(server, tmp_path, budget=budget)
        rows, wasted = finished_and_wasted(result)
        assert result.summary.stopped
        assert rows == len(server.bodies) // 2
        assert 20 <= rows <= 30
        assert wasted <= 1  # what tokens or dollars are left may do for one call and not for two
        again = run(server, tmp_path, budget=f"{len(server.bodies) + 40} calls")
        more, wasted = finished_and_wasted(again)
        assert more == rows + 20
        assert wasted <= 1


def test_an_account_holds_over_evaluations(scripted: ScriptedServer, tmp_path: Path) -> None:
    account = Account(Budget(calls=7))
    with bound(OPEN_BOOKS, BooksAround(accounts=(account,))):
        first = run(scripted, tmp_path / "a", n=5, program=fm.SingleAgent())
        second = run(scripted, tmp_path / "b", n=5, program=fm.SingleAgent("cot"))
    assert (first.summary.stopped, account.spent.calls, len(scripted.bodies)) == (None, 7, 7)
    assert second.summary.stopped


def test_money_needs_a_price_before_any_call(scripted: ScriptedServer, tmp_path: Path) -> None:
    with pytest.raises(fm.UserError, match=r"price of openai/scripted is unknown.*--price"):
        run(scripted, tmp_path, lm={"price": None}, budget="2 USD")
    assert not scripted.bodies
    named = fm.lm("openai/gpt-4o-mini", api_base=scripted.url)
    with pytest.raises(
        fm.UserError, match=r"unknown at another address than OpenAI's \(--api-base"
    ):
        fm.evaluate(fm.SingleAgent(), questions(2), lm=named, budget="2 USD", tracking=False)
    again = run(scripted, tmp_path, n=2, lm={"price": None}, budget="9 calls")
    assert again.summary.paid["calls"] == 4
    with pytest.raises(fm.UserError, match="cost so far is unknown"):
        run(scripted, tmp_path, n=2, budget="2 USD")


@pytest.mark.parametrize("budget", some_by_day(["1M tokens", "2 USD"]))
@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 70}]
)
def test_tokens_that_are_not_counted_or_contradict_themselves_end_the_run(
    scripted, tmp_path, usage, budget
):
    scripted.reply = lambda _: (200, {}, completion('{"answer": "A"}', usage=usage))
    names = ("openai/x", "hosted_vllm/x")
    lms = [fm.lm(name, api_base=scripted.url, price=PRICE) for name in names]
    lms.append(dspy.LM("openai/gpt-4.1", api_base=scripted.url, api_key="sk-none", cache=False))
    for number, each in enumerate(lms):
        scripted.requests.clear()
        given: Any = {"out": tmp_path / str(number), "tracking": False, "concurrency": 1}
        result = fm.evaluate(fm.SingleAgent(), questions(5), lm=each, budget=budget, **given)
        assert len(scripted.bodies) == 1
        assert "did not report the tokens" in result.summary.stopped
        assert [result.summary.paid[name] for name in ("prompt_tokens", "cost_usd")] == [None, None]
    assert run(scripted, None, n=5, budget="10 min").summary.counts.rows == 5
