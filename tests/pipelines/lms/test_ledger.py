"""The ledger: every paid call once, on disk before it is used, whatever happens to the process."""

import json
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from completions import USAGE, completion
from mortal import (
    Forked,
    deliberate,
    deliberate_on_a_full_disk,
    in_child,
    ledger_on_a_full_disk,
    questions,
)

import folkmoot as fm
from folkmoot.modules.agents.profile import DEFAULT_PROFILE
from folkmoot.modules.base.calls import DETAILS, Usage
from folkmoot.modules.base.connections import back_off
from folkmoot.modules.base.context import OPEN_BOOKS, bound
from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.base.run_files import books_of
from folkmoot.pipelines.lms import engine as engine_module
from folkmoot.pipelines.lms.endpoint import (
    Reply,
    charges_in,
    searches_in,
    tokens_in,
    usage_of_events,
)
from folkmoot.pipelines.lms.engine import Engine
from folkmoot.pipelines.lms.ledger import LEDGER, Entry, Ledger, read_ledger, totals
from folkmoot.pipelines.lms.prices import Prices, known_model, price_per_token, search_fee
from folkmoot.pipelines.lms.store import Booking, BooksAround, CallStore
from folkmoot.pipelines.testing.server import ScriptedServer, first_option

FIELDS = {
    *("time", "endpoint", "model", "key", "prompt_tokens", "completion_tokens", "cost_usd"),
    *("seat", "question", "attempts", "kept", "finish_reason"),
    *("cached_prompt_tokens", "cache_write_tokens", "reasoning_tokens"),
}


def run(server: ScriptedServer, out: Path, program: Any = None, n: int = 4, **options: Any) -> Any:
    price = options.pop("price", None)
    lm = fm.lm("openai/scripted", api_base=server.url, price=price)
    program = program or fm.SingleAgent()
    return fm.evaluate(program, questions(n), lm=lm, out=out, tracking=False, **options)


def entry(**fields: Any) -> Entry:
    known = {"endpoint": "e", "model": "m", "key": "k", "prompt_tokens": 10, "completion_tokens": 2}
    known |= {"cost_usd": 0.5, "seat": "s", "question": "q", "attempts": 1, "kept": True}
    known |= dict.fromkeys(DETAILS, 0)
    return Entry(**{**known, **fields})


def said(text: Any, reason: str = "stop", usage: Any = USAGE) -> tuple[int, dict[str, str], Any]:
    return 200, {}, completion(text, reason, usage)


def test_a_line_says_who_asked_whom(scripted: ScriptedServer, tmp_path: Path) -> None:
    program = fm.Deliberation(["intuitive", "reasoner"], max_rounds=1)
    result = run(scripted, tmp_path, program, n=2, price=(1e-6, 2e-6))
    lines = list(read_ledger(tmp_path))
    assert all(set(line) == FIELDS for line in lines)
    asked = Counter((line["question"], line["seat"]) for line in lines)
    assert asked == {(q, seat): 1 for q in ("q0", "q1") for seat in ("intuitive", "reasoner")}
    assert len({line["key"] for line in lines}) == 4
    first = lines[0]
    assert (first["endpoint"], first["model"]) == (scripted.url, "openai/scripted")
    assert first["attempts"] == 1
    assert first["kept"] is True
    assert first["time"].endswith("+00:00")
    price = first["prompt_tokens"] * 1e-6 + first["completion_tokens"] * 2e-6
    assert first["cost_usd"] == pytest.approx(price)
    assert result.summary.paid == totals(tmp_path).to_dict() == result.summary.usage


def test_all_tokens_cost_what_the_table_says(scripted: ScriptedServer, tmp_path: Path) -> None:
    usage: dict[str, Any] = {"prompt_tokens": 2000, "completion_tokens": 700}
    usage |= {"prompt_tokens_details": {"cached_tokens": 1920}}
    usage |= {"completion_tokens_details": {"reasoning_tokens": 300}}
    scripted.reply = lambda _: said('{"answer": "A"}', usage=usage)
    result = run(scripted, tmp_path, n=1, price=price_per_token("openai/gpt-4.1"))
    bill = 80 * 2e-6 + 1920 * 0.5e-6 + 700 * 8e-6
    assert bill == pytest.approx(0.0067, abs=5e-5)
    (line,) = read_ledger(tmp_path)
    assert [line[name] for name in DETAILS] == [1920, None, 300]
    first = next(iter(result.rows))
    for found in (line, first["usage"], result.summary.usage, result.summary.paid):
        assert found["cost_usd"] == pytest.approx(bill)
        assert [found["prompt_tokens"], found["completion_tokens"]] == [2000, 700]
        assert [found[name] for name in DETAILS] == [1920, None, 300]


COUNTS = {"prompt_tokens": 10, "completion_tokens": 4}
UNKNOWN = (None,) * 5


@pytest.mark.parametrize(
    ("more", "tokens"),
    [
        ({"cache_read_input_tokens": 6}, (10, 4, 6, None, None)),
        ({"cache_creation_input_tokens": 3}, (10, 4, None, 3, None)),
        ({"prompt_cache_hit_tokens": 2}, (10, 4, 2, None, None)),
        (
            {"total_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 6}},
            (10, 10, None, None, 6),
        ),
        ({"completion_tokens": True, "prompt_tokens_details": 1}, (10, *UNKNOWN[1:])),
        ({"prompt_tokens": 10**400, "completion_tokens": 10**12}, UNKNOWN),
        ({"prompt_tokens": 0, "completion_tokens": 0}, UNKNOWN),
        ({"total_tokens": 10, "completion_tokens": None}, (10, 0, None, None, None)),
        ({"total_tokens": 13}, UNKNOWN),
        ({"reasoning_tokens": 5}, UNKNOWN),
        ({"prompt_cache_hit_tokens": 11}, UNKNOWN),
        ({"total_tokens": 25, "cache_read_input_tokens": 11}, (21, 4, 11, None, None)),
        ({"cache_read_input_tokens": 6, "cache_creation_input_tokens": 5}, UNKNOWN),
    ],
)
def test_names_of_tokens_differ(more: dict[str, Any], tokens: tuple[int | None, ...]) -> None:
    """Counts that contradict one another are unknown."""
    assert tuple(tokens_in({**COUNTS, **more}).values()) == tokens


@pytest.mark.parametrize("delta", [{}, {"input_tokens": 0, "cache_read_input_tokens": None}])
def test_a_later_event_that_counts_nothing_erases_no_count(delta: dict[str, Any]) -> None:
    begun = {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 100}
    events = [{"message": {"usage": begun}}, {"usage": {**delta, "output_tokens": 10}}]
    assert tuple(tokens_in(usage_of_events(events), "A").values()) == (125, 10, 100, None, None)


def test_a_long_prompt_costs_what_the_table_says_for_long_ones() -> None:
    table, prices = known_model("gemini/gemini-2.5-pro"), price_per_token("gemini/gemini-2.5-pro")
    assert prices is not None
    short, long = 200_000, 200_001  # prompt tokens
    names = ("input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token")
    for prompt, suffix in ((short, ""), (long, "_above_200k_tokens")):
        fresh, cached, completion = (table[name + suffix] for name in names)
        wanted = (prompt - 1920) * fresh + 1920 * cached + 700 * completion
        usage = Usage(1, prompt, 700, 0, None, 1920, 0, 300)
        assert prices.cost(usage) == pytest.approx(wanted, rel=1e-12)
    again = Prices.read(json.loads(json.dumps(prices)))  # as a saved LM has them
    assert again == prices
    assert again.cost(Usage(1, long, 700)) == prices.cost(Usage(1, long, 700))
    first, second = known_model("dashscope/qwen-flash")["tiered_pricing"]
    tiered = price_per_token("dashscope/qwen-flash")
    assert tiered is not None
    for prompt, tier in ((256_000, first), (256_001, second)):
        cost = prompt * tier["input_cost_per_token"] + 10 * tier["output_cost_per_token"]
        assert tiered.cost(Usage(1, prompt, 10)) == pytest.approx(cost, rel=1e-12)


ANTHROPIC_USAGE = {"input_tokens": 10, "output_tokens": 2, "cache_creation_input_tokens": 900}
OPENAI_USAGE = {"prompt_tokens": 910, "completion_tokens": 2}
LIVES = {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 800}


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("anthropic/claude-sonnet-4-5", {**ANTHROPIC_USAGE, "cache_creation": LIVES}, 5.235e-3),
        ("anthropic/claude-sonnet-4-5", {**ANTHROPIC_USAGE, "cache_creation": None}, 3.435e-3),
        (  # as LiteLLM has it
            "anthropic/claude-sonnet-4-5",
            {
                **OPENAI_USAGE,
                "prompt_tokens_details": {
                    "cache_creation_tokens": 900,
                    "cache_creation_token_details": LIVES,
                },
            },
            5.235e-3,
        ),
        (
            "openai/gpt-5.6",
            {
                **OPENAI_USAGE,
                "input_tokens_details": {"cache_write_tokens_details": {"ttl_12h_tokens": 800}},
                "prompt_tokens_details": {"cache_write_tokens": 900},
            },
            8.58e-3,
        ),
    ],
)
def test_what_stays_in_a_cache_for_hours_costs_more(
    model: str, usage: dict[str, Any], dollars: float
) -> None:
    prices, charges = price_per_token(model), charges_in({"usage": usage})
    assert prices is not None
    assert prices.cost(Reply("A", "stop", **tokens_in(usage), **charges)) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("usage", "factor"),
    [
        ({"speed": "standard", "inference_geo": "not_available"}, 1),
        ({"speed": "fast", "inference_geo": "us"}, 2.2),
        ({"speed": "fast", "inference_geo": None}, 2),
        ({"speed": 3, "inference_geo": "somewhere"}, 1),
    ],
)
def test_a_call_that_was_served_faster_or_nearby_costs_more(
    usage: dict[str, Any], factor: float
) -> None:
    name = "anthropic/claude-opus-5"
    made = Engine(name, None, DEFAULT_PROFILE, identity=name, prices=price_per_token(name))
    plain = made._cost(Reply("A", "stop", 10, 2))
    assert plain is not None
    cost = made._cost(Reply("A", "stop", 10, 2, **charges_in({"usage": usage})))
    assert cost == pytest.approx(plain * factor)


@pytest.mark.parametrize(("prompt", "ending"), [(272_000, ""), (272_001, "_above_272k_tokens")])
def test_a_tier_has_its_own_price_of_a_long_prompt(prompt: int, ending: str) -> None:
    table, prices = known_model("openai/gpt-5.6"), price_per_token("openai/gpt-5.6", "priority")
    assert prices is not None
    each = table[f"input_cost_per_token{ending}_priority"]
    assert prices.cost(Usage(1, prompt, 0)) == pytest.approx(prompt * each)
    assert charges_in({"usage": {"service_tier": "priority"}})["tier"] == "priority"


@pytest.mark.parametrize(
    ("model", "body", "searches"),
    [
        ("anthropic/claude-sonnet-4-5", {"server_tool_use": {"web_search_requests": 3}}, 3),
        ("anthropic/claude-sonnet-4-5", {"server_tool_use": {"web_search_requests": 0}}, None),
        ("openai/gpt-4.1", [{"type": "web_search_call"}, {"type": "message"}], 1),
        ("openai/gpt-4.1", [{"type": "web_search_call", "action": {"type": "open_page"}}], None),
        ("openai/gpt-4.1", [{"type": "web_search_call", "action": "search"}], 1),
        ("openai/gpt-4.1", "odd", None),
    ],
)
def test_searches_of_the_web_have_a_fee(model: str, body: Any, searches: int | None) -> None:
    whole = {"usage": body} if isinstance(body, dict) else {"output": body}
    assert searches_in(whole) == searches
    made = Engine(model, None, DEFAULT_PROFILE, identity=model, prices=price_per_token(model))
    plain = made._cost(Reply("A", "stop", 10, 2))
    fee = (searches or 0) * (search_fee(model) or 0.0)
    assert plain is not None
    assert made._cost(Reply("A", "stop", 10, 2, searches=searches)) == pytest.approx(plain + fee)
    unlisted = Engine("openai/x", None, DEFAULT_PROFILE, identity="x", prices=Prices(1e-6, 1e-6))
    assert (unlisted._cost(Reply("A", "stop", 10, 2, searches=searches)) is None) == bool(searches)


def test_an_lm_that_always_searches_has_a_fee_for_each_request() -> None:
    prices = price_per_token("openai/gpt-4o-search-preview")
    assert prices is not None
    assert prices.request == search_fee("openai/gpt-4o-search-preview") > 0  # type: ignore[operator]
    assert price_per_token("openai/gpt-4.1").request is None  # type: ignore[union-attr]


def test_replies_that_are_not_kept_were_paid_for_too(scripted, tmp_path, monkeypatch):
    monkeypatch.setattr(engine_module, "back_off", lambda n, after: back_off(n, after, first=0.001))
    answers = [said('{"answer": "', "length"), said(""), (429, {}, {})]
    answers += [(200, {}, {"no": "completion"}), said('{"answer": "B"}')]
    answers += [said("I will not", "content_filter"), said('{"answer": "A"}')]
    waiting = iter(answers)
    scripted.reply = lambda _: next(waiting)
    run(scripted, tmp_path, n=3, concurrency=1)
    lines = list(read_ledger(tmp_path))
    assert [line["kept"] for line in lines] == [False, False, False, True, False, True]
    assert [line["attempts"] for line in lines] == [1, 1, 2, 3, 1, 1]
    # What cannot be read may have been billed, which is said apart.
    assert [line.get("lost", False) for line in lines] == [False, False, True, *[False] * 3]
    assert [line["prompt_tokens"] for line in lines if not line.get("lost")] == [10] * 5
    assert len(CallStore(books_of(tmp_path))) == 2


def test_failures_and_records_cost_nothing(scripted: ScriptedServer, tmp_path: Path) -> None:
    scripted.reply = lambda body: (
        (400, {}, {}) if "Question 1?" in str(body) else first_option(body)
    )
    assert run(scripted, tmp_path).summary.paid["calls"] == 3
    run(scripted, tmp_path)
    (tmp_path / "results.jsonl").write_text("")
    again = run(scripted, tmp_path)
    # the run paid for them itself, at an earlier attempt
    assert again.summary.usage["cached_calls"] == 0
    assert again.summary.paid["calls"] == 3  # and does not pay twice
    given: Any = {"lm": fm.lm(f"replay/{tmp_path}"), "out": tmp_path / "r", "tracking": False}
    replayed = fm.evaluate(fm.SingleAgent(), questions(1), **given)
    assert replayed.summary.paid == Usage().to_dict()


def test_a_torn_line_is_skipped_and_ended(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(entry())
    ledger.close()
    whole = (tmp_path / LEDGER).read_bytes()
    for torn in (whole[:-1], whole[:20], b"\xff\n", b"{}\n", b"[[[\n", b"null\n"):
        (tmp_path / LEDGER).write_bytes(whole + torn)
        assert totals(tmp_path).calls == 1
        ledger = Ledger(tmp_path)
        ledger.add(entry(prompt_tokens=None, cost_usd=0.25))
        ledger.close()
        # What was whole but for its end of line is a line again; all else stays out.
        expected = 3 if torn == whole[:-1] else 2
        assert totals(tmp_path).calls == expected
        assert len(list(read_ledger(tmp_path))) == expected
    assert totals(tmp_path / "nowhere") == Usage()


def test_a_call_that_one_ledger_does_not_take_is_in_flight_in_none(tmp_path: Path) -> None:
    inner, outer = Ledger(tmp_path / "inner"), Ledger(tmp_path / "outer")
    (tmp_path / "outer").rename(tmp_path / "moved")
    with bound(OPEN_BOOKS, BooksAround((inner, outer))):
        booking = Booking()
        with pytest.raises(UserError, match="outer is gone"):
            booking.send(entry(lost=True))
        assert inner.bill()[1].calls == 1
        booking.settle(None)
    assert inner.bill()[1].calls == 0
    for ledger in (inner, outer):
        ledger.close()


def test_what_was_settled_before_the_kill_is_not_booked_twice(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    asked = {"question": "q" * 5000}
    places = [ledger.send(entry(key=key, lost=True, **asked)) for key in ("a", "b", "c")]
    ledger.settle(places[0], entry(key="a", **asked))
    ledger.add(entry(key="b", **asked))  # killed between the entry and the end of the call
    assert totals(tmp_path).calls == 2  # of a living process nothing is lost
    left = next(path for path in tmp_path.iterdir() if path.name.startswith(".in-flight"))
    as_killed = {path: path.read_bytes() for path in tmp_path.iterdir()}
    ledger.close()
    assert not left.exists()
    for path, content in as_killed.items():
        path.write_bytes(content)
    assert totals(tmp_path).calls == 3
    for _ in range(2):
        again = Ledger(tmp_path)
        again.close()
        assert Counter(line["key"] for line in read_ledger(tmp_path)) == {"a": 1, "b": 1, "c": 1}
    assert [usage.calls for usage in again.bill()] == [2, 1]
    assert not list(tmp_path.glob(".room-*"))  # nor is the killed one's space kept


def test_a_full_disk_is_said_and_later_lines_are_whole(tmp_path: Path) -> None:
    fitted, said, total, held = in_child(ledger_on_a_full_disk, tmp_path)
    assert "ledger.jsonl could not be written" in said
    assert fitted > 0
    assert (total, held) == (fitted + 2, fitted + 1)


def test_no_call_is_forgotten_when_the_disk_is_full(tmp_path: Path) -> None:
    """A budget of 300 calls let 565 through: those in flight were not on the ledger."""
    with ScriptedServer(delay=0.02) as server:
        for _ in range(3):
            said = in_child(deliberate_on_a_full_disk, server.url, tmp_path)
            assert "ledger.jsonl could not be written" in said
            assert len(server.bodies) <= totals(tmp_path).calls <= 100
        result = deliberate(server.url, tmp_path, 80, budget="100 calls")
        assert "100 calls" in result.summary.stopped
        assert len(server.bodies) <= totals(tmp_path).calls == result.summary.paid["calls"] == 100
        assert not list(tmp_path.glob(".in-flight*"))


@pytest.mark.nightly
def test_killed_at_random_points_the_bill_stays_exact(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    draw = random.Random(seed)
    with ScriptedServer(delay=0.01) as server:
        killed = 0
        for _ in range(5):
            process = Forked(target=deliberate, args=(server.url, tmp_path, 80))
            start, calls = len(server.requests), draw.randint(1, 25)
            process.start()
            end = time.monotonic() + 30
            while (
                process.is_alive()
                and len(server.requests) - start < calls
                and time.monotonic() < end
            ):
                time.sleep(0.002)
            time.sleep(draw.random() * 0.02)
            process.kill()
            process.join(10)
            killed += process.exitcode == -signal.SIGKILL
        assert killed >= 3
        result = deliberate(server.url, tmp_path, 80)
        answered = len(server.requests)
        paid = totals(tmp_path).calls
        # What was in flight when the process died counts, too, also where it had not reached the
        # server yet.
        assert answered <= paid <= answered + 8 * killed
        assert result.summary.paid["calls"] + result.summary.lost["calls"] == paid
        lines = list(read_ledger(tmp_path))
        assert sum(line.get("lost", False) for line in lines) <= 8 * killed
        keys = Counter(line["key"] for line in lines if not line.get("lost"))
        assert len(keys) == result.summary.usage["calls"] == 160
        # A request is on the bill twice only if it really was answered twice.
        asked = Counter(json.dumps(body, sort_keys=True) for body in server.bodies)
        twice, again = (sum(n - 1 for n in counts.values()) for counts in (keys, asked))
        assert twice <= again
