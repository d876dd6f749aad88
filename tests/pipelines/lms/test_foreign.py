"""LMs of others are metered where DSPy makes their calls; the rest is unknown, not 0."""

import asyncio
import random
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from completions import completion
from mortal import questions

import folkmoot as fm
from folkmoot.pipelines.lms.ledger import read_ledger, totals
from folkmoot.pipelines.testing.server import ScriptedServer, first_option

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Metering(ScriptedServer):
    """A server that keeps the bill itself."""

    def __init__(self) -> None:
        super().__init__(lambda body: self.billed(body))
        self.bill = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0}
        self.bill |= {"cached_prompt_tokens": 0, "reasoning_tokens": 0}

    def billed(self, body: dict[str, Any]) -> Any:
        said = '{"answer": "A"}' if "response_format" not in body else first_option(body)
        words = sum(len(str(message["content"]).split()) for message in body["messages"])
        usage = {"prompt_tokens": words, "completion_tokens": 7, "total_tokens": words + 7}
        usage |= {"prompt_tokens_details": {"cached_tokens": words // 2}}
        usage |= {"completion_tokens_details": {"reasoning_tokens": 3}}
        counts = (1, words, 7, words // 2, 3)
        for name, count in zip(self.bill, counts, strict=True):
            self.bill[name] += count
        return 200, {}, {**completion(said, usage=usage), "model": body["model"]}


@pytest.fixture
def server() -> Any:
    with Metering() as running:
        yield running


def plain(server: ScriptedServer, model: str = "openai/scripted", **settings: Any) -> dspy.LM:
    given = {"cache": False, "num_retries": 0, **settings}
    return dspy.LM(model, api_base=server.url, api_key="sk-none-0000000000", **given)


def run(lm: Any, n: int = 4, program: Any = None, **options: Any) -> Any:
    program = program or fm.SingleAgent("cot")
    return fm.evaluate(program, questions(n), lm=lm, tracking=False, **options)


@pytest.mark.parametrize(
    "program", [fm.SingleAgent("cot"), fm.Deliberation(["intuitive", "critic"])]
)
def test_a_plain_lms_bill_is_the_servers(server: Metering, tmp_path: Path, program: Any) -> None:
    lm = plain(server)
    result = run(lm, program=program, out=tmp_path)
    assert server.bill["calls"] == len(server.bodies) >= 4
    for found in (result.summary.usage, result.summary.paid, totals(tmp_path).to_dict()):
        assert {name: found[name] for name in server.bill} == server.bill
        assert found["cost_usd"] is None
    rows = [row["usage"] for row in result.rows]
    assert all(sum(usage[name] for usage in rows) == server.bill[name] for name in server.bill)
    assert {line["question"] for line in read_ledger(tmp_path)} == {"q0", "q1", "q2", "q3"}
    assert all(line["seat"] for line in read_ledger(tmp_path))
    assert {row["finish_reason"] for row in result.rows} == {"stop"}
    assert lm.callbacks == []
    assert lm.history == []


def test_a_priced_lm_costs_what_the_table_says(server: Metering) -> None:
    result = run(plain(server, "openai/gpt-4.1"))
    found = server.bill
    fresh = found["prompt_tokens"] - found["cached_prompt_tokens"]
    cost = fresh * 2e-6 + found["cached_prompt_tokens"] * 5e-7
    cost += found["completion_tokens"] * 8e-6
    assert result.summary.usage["cost_usd"] == pytest.approx(cost)


@pytest.mark.parametrize(
    ("program", "n", "requests"),
    # DSPy makes three requests for `n=3`, and asks again since the reply is not as it wants it.
    [(fm.SingleAgent("cot"), 1, 4), (dspy.Predict("question -> answer"), 3, 24)],
)
def test_what_dspys_cache_answers_costs_nothing(server, tmp_path, program, n, requests) -> None:
    lm = plain(server, cache=True, rollout_id=random.getrandbits(60), temperature=0.5, n=n)
    first = run(lm, out=tmp_path / "a", program=program).summary.usage
    again = run(lm, out=tmp_path / "b", program=program).summary.usage
    assert {name: first[name] for name in server.bill} == server.bill
    assert (first["calls"], first["cached_calls"]) == (requests, 0)
    assert (again["calls"], again["cached_calls"]) == (requests, requests)
    assert (again["prompt_tokens"], again["cost_usd"]) == (0, 0.0)
    assert list(read_ledger(tmp_path / "b")) == []
    run(lm.copy(cache=False), 8, program, budget="8 calls", out=tmp_path / "c")
    assert requests < server.bill["calls"] <= requests + 8


@pytest.mark.parametrize(
    ("status", "words", "ends"),
    [
        (403, "Your input was flagged.", False),
        (404, "no allowed providers", False),
        (403, "Your team doesn't have any credits yet.", True),
        (401, "bad key", True),
    ],
)
def test_a_refusal_after_an_answer_concerns_its_question(status, words, ends):
    """One flagged question ended the run."""
    stated = {"prompt_tokens": 9, "completion_tokens": 2, "cost": 0.25}
    good = completion('{"reasoning": "so", "answer": "A"}', usage=stated)
    refused = status, {}, {"error": {"message": words}}
    with ScriptedServer(
        lambda body: refused if "Question 1?" in str(body) else (200, {}, good)
    ) as scripted:
        if ends:
            with pytest.raises(fm.UserError, match="the LM cannot be used"):
                run(plain(scripted), n=3, concurrency=1)
            return
        result = run(plain(scripted), n=3, concurrency=1)
    assert [row["id"] for row in result.rows if row["error"]] == ["q1"]
    assert result.summary.paid["cost_usd"] == 0.5  # as the provider states it


class Bare(dspy.BaseLM):  # type: ignore[misc]
    """An LM of a user's own that says nothing of tokens."""

    def __init__(self, reason: str = "stop", **usage: int) -> None:
        super().__init__("bare")
        self.reason = reason
        self.made = 0
        self.usage = usage

    def forward(self, prompt: Any = None, messages: Any = None, **_: Any) -> Any:
        self.made += 1
        message = SimpleNamespace(content='{"reasoning": "so", "answer": "A"}', tool_calls=None)
        choice = SimpleNamespace(message=message, finish_reason=self.reason)
        return SimpleNamespace(choices=[choice], usage=self.usage, model="bare")

    async def aforward(self, *arguments: Any, **settings: Any) -> Any:
        return self.forward(*arguments, **settings)


def test_how_a_reply_ended_is_read_in_any_spelling() -> None:
    for said, found, cut in (("MAX_TOKENS", "length", True), ("SAFETY", "safety", False)):
        (row,) = run(Bare(reason=said), n=1).rows
        assert (row["finish_reason"], row["truncated"]) == (found, cut)


def test_what_an_lm_does_not_report_is_unknown(tmp_path: Path) -> None:
    lm = Bare()
    result = run(lm, n=6, out=tmp_path)
    bills = (result.summary.usage, result.summary.paid)
    for usage in (*(row["usage"] for row in result.rows), *bills):
        assert usage["calls"] > 0
        names = ("prompt_tokens", "completion_tokens", "cost_usd")
        assert [usage[name] for name in names] == [None] * 3
    assert result.summary.paid["calls"] == lm.made == 6
    assert fm.compare(result, result, names=["a", "b"]).pairs[0].token_ratio is None
    page = Path(fm.report(tmp_path, out=tmp_path / "report.html", tracking=False).path).read_text()
    assert "6 calls, tokens unknown, price unknown" in page


class Threaded(fm.SingleAgent):
    """A program that also asks in a thread of its own, which knows nothing of the run."""

    def __init__(self, lm: Any) -> None:
        super().__init__("cot")
        self.other = lm

    async def solve(self, task: Any) -> Any:
        thread = threading.Thread(target=self.other, args=("Is it?",))
        thread.start()
        found = await super().solve(task)
        await asyncio.to_thread(thread.join)
        return found


def test_a_call_without_a_question_makes_rows_unknown(server: Metering, tmp_path: Path) -> None:
    lm = plain(server)
    result = run(lm, n=2, program=Threaded(lm), out=tmp_path, concurrency=1)
    assert len(server.bodies) == result.summary.paid["calls"] == 4
    assert result.summary.paid["prompt_tokens"] == server.bill["prompt_tokens"]
    assert [line["question"] for line in read_ledger(tmp_path)].count(None) == 2
    for row in result.rows:
        usage = row["usage"]
        assert {usage[name] for name in ("calls", "prompt_tokens", "cost_usd")} == {None}
    again = run(lm, n=2, program=Threaded(lm), out=tmp_path, concurrency=1)
    assert (again.summary.usage["calls"], len(server.bodies)) == (None, 4)
    assert "calls unknown" in again._repr_html_()


def test_a_functions_lm_is_metered_in_threads_of_its_own(server: Metering) -> None:
    lm = plain(server)

    def program(question: fm.Question) -> str:
        ask = threading.Thread(target=lm, args=("Is it?",))
        ask.start()
        ask.join()
        return "A"

    result = run(None, n=3, program=program)
    assert result.summary.paid["calls"] == 3 == len(server.bodies)
    assert result.summary.paid["prompt_tokens"] is not None
    assert [row["usage"]["calls"] for row in result.rows] == [None] * 3
    assert lm.callbacks == dspy.settings.callbacks == []


@pytest.mark.parametrize("patience", [5.0, 0.02])
def test_a_call_that_outlives_its_run_is_on_the_bill(server, tmp_path, monkeypatch, patience):
    monkeypatch.setattr("folkmoot.pipelines.lms.foreign.LAST_SECONDS", patience)
    server.delay, lm, threads = 0.4, plain(server), []

    def leaving(question: fm.Question) -> str:
        threads.append(threading.Thread(target=lm, args=("Is it?",)))
        threads[-1].start()
        while server.in_flight < len(threads):
            time.sleep(0.01)
        return "A"

    result = run(lm, n=3, program=leaving, out=tmp_path / "a", concurrency=1)
    answered = 3 if patience > 1 else 0
    assert (result.summary.paid["calls"], result.summary.lost["calls"]) == (answered, 3 - answered)
    other = run(lm, n=3, program=lambda question: "A", out=tmp_path / "b")
    for thread in threads:
        thread.join()
    assert totals(tmp_path / "a").calls == len(server.bodies) == 3
    assert totals(tmp_path / "b").calls == 0
    assert len((tmp_path / "b" / "results.jsonl").read_text().splitlines()) == len(other.rows) == 3


def test_two_runs_with_one_lm_keep_their_bills_apart(server: Metering, tmp_path: Path) -> None:
    lm, found = plain(server), {}

    def work(name: str, n: int) -> None:
        found[name] = run(lm, n=n, out=tmp_path / name).summary.paid["calls"]

    threads = [threading.Thread(target=work, args=given) for given in (("a", 3), ("b", 8))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": 3, "b": 8}
    assert lm.callbacks == []
