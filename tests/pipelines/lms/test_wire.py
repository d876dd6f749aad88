"""What a dead, slow or hostile endpoint can do to a run, and to its bill."""

import gzip
import json
import logging
import re
import resource
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from children import Forked, in_child
from cli_helpers import closed_port
from completions import completion
from mortal import answers_with_few_files, asks_anthropic, questions, ten_calls_at_once
from wire_server import Server
from wire_server import quick as quick

import folkmoot as fm
from folkmoot.modules.base.calls import CallError
from folkmoot.modules.base.connections import back_off, seconds_to_wait
from folkmoot.pipelines.base.request import LMs
from folkmoot.pipelines.evaluation.card import KIND
from folkmoot.pipelines.lms import engine as engine_module
from folkmoot.pipelines.lms import limits
from folkmoot.pipelines.lms.hosted import GuardedTransport, litellm_quiet
from folkmoot.pipelines.lms.ledger import lost_in, read_ledger, totals
from folkmoot.pipelines.programs.seats import Seating
from folkmoot.pipelines.testing.server import ScriptedServer

GOOD = completion('{"answer": "A"}')


def good(_: Any = None) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(GOOD).encode()


def hang(_: Any) -> None:
    return None


def hang_up(handler: Any) -> tuple[int, dict[str, str], bytes]:
    """An answer that breaks off after its first byte."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n{")
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)
    return 200, {}, b""


def run(url: str, out: Path | None = None, n: int = 3, timeout: float = 120, **more: Any) -> Any:
    lm = fm.lm("openai/x", api_base=url, timeout=timeout, price=(1e-6, 1e-6))
    return fm.evaluate(fm.SingleAgent(), questions(n), lm=lm, out=out, tracking=False, **more)


def nobody_there() -> str:
    return f"http://127.0.0.1:{closed_port()}/v1"


def test_the_calls_in_flight_are_limited_by_address_and_not_by_name() -> None:
    with ScriptedServer(delay=0.1) as server:
        lms = [fm.lm(f"openai/{name}", api_base=server.url, concurrency=16) for name in "abc"]
        program = fm.Ensemble(["simple", "cot", "self_ask"])
        program.assign(dict(zip(program.seats(), lms, strict=True)))
        fm.evaluate(program, questions(40), concurrency=64, tracking=False)
        assert len(server.bodies) == 120
        assert server.most_at_once == 16


NO_PATH = b'{"detail": "Not Found"}'


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("", 404, NO_PATH),
        ("", 405, b"<html><title>Models</title></html>"),
        ("", 403, b"<html><title>Just a moment</title></html>"),
        ("", 200, b"<!DOCTYPE html>\n<html><body></body></html>"),
        ("", 200, b'{"error": "Unexpected endpoint or method. (POST /chat/completions)"}'),
        ("/v1/chat/completions", 404, NO_PATH),
        ("/chat/completions", 404, NO_PATH),
        ("/v1/responses", 404, NO_PATH),
    ],
)
def test_an_address_without_v1_is_told_the_right_one(path: str, status: int, body: bytes) -> None:
    with Server(lambda _: (status, {}, body)) as server:
        said = f"no LM at this address .*did you mean --api-base {re.escape(server.url)}\\?"
        with pytest.raises(fm.UserError, match=said):
            run(server.url.removesuffix("/v1") + path)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1", NO_PATH),
        ("/openai/deployments/x", b'{"error": {"code": "DeploymentNotFound", "message": "No."}}'),
    ],
)
def test_an_address_that_looks_right_is_not_corrected(path: str, body: bytes) -> None:
    with (
        Server(lambda _: (404, {}, body)) as server,
        pytest.raises(fm.UserError, match="does not know the model"),
    ):
        run(server.origin + path)


@pytest.mark.parametrize("pace", [0.1, pytest.param(1.0, marks=pytest.mark.nightly)])
def test_a_dead_endpoint_speaks_within_seconds_and_costs_nothing(
    pace, tmp_path, caplog, monkeypatch
):
    """Three questions took 28 s, in silence. By day the pauses are a tenth of what they are."""
    slack = 10.0  # seconds of a busy machine
    paced = partial(back_off, first=0.5 * pace, longest=30.0 * pace)
    monkeypatch.setattr(engine_module, "back_off", paced)
    url = nobody_there()
    with caplog.at_level(logging.WARNING, "folkmoot"):
        began = time.monotonic()
        with pytest.raises(fm.UserError, match="given up after 6 retries"):
            run(url, tmp_path, n=3, budget="1 calls")
        took = time.monotonic() - began
        assert took < 14 * pace + slack
        assert totals(tmp_path).calls == 0
        said = [record.getMessage() for record in caplog.records if record.name == "folkmoot"]
        why = f"no connection to {url} (Connection refused)"
        assert said == [f"no answer from {url.removesuffix('/v1')}, retrying 6 times: {why}"]
        first = next(record for record in caplog.records if record.name == "folkmoot")
        assert first.created - (time.time() - (time.monotonic() - began)) < 3 * pace + slack


@pytest.mark.usefixtures("quick")
def test_an_endpoint_that_is_given_up_is_not_asked_for_every_question() -> None:
    with Server(lambda _: (503, {}, b"")) as server:
        with pytest.raises(fm.UserError, match="503"):
            run(server.url, n=100, concurrency=10)
        # Two rounds of ten, five single tries, and one more after that: not 700.
        assert len(server.arrivals) <= 10 + 10 + 5 + 1


@pytest.mark.usefixtures("quick")
def test_a_question_that_brings_the_endpoint_down_fails_alone(scripted: ScriptedServer) -> None:
    scripted.reply = lambda body: (503, {}, {}) if "Question 3?" in str(body) else '{"answer": "A"}'
    result = run(scripted.url, n=8, concurrency=1)
    assert [row["id"] for row in result.rows if row["error"]] == ["q3"]


@pytest.mark.usefixtures("quick")
def test_an_endpoint_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    down = 12
    with Server(lambda _: (503, {}, b"") if len(server.arrivals) <= down else good()) as server:
        result = run(server.url, tmp_path, n=40, concurrency=10)
        assert result.summary.counts.errors == 0
        assert len(server.arrivals) == 40 + down
        assert totals(tmp_path).calls == 40  # refusals cost nothing


@pytest.mark.nightly
def test_a_hanging_endpoint_speaks_and_is_not_asked_again_and_again(caplog, tmp_path, monkeypatch):
    """20 questions made 140 requests, without a word and without an entry on the ledger."""
    monkeypatch.setattr(limits, "WORD_SECONDS", 0.2)
    with Server(hang) as server, caplog.at_level(logging.WARNING, "folkmoot"):
        with pytest.raises(fm.UserError, match=r"within 0\.3 s"):
            run(server.url, tmp_path, n=20, timeout=0.3)
        assert len(server.arrivals) == 20 + 2
        first = next(record for record in caplog.records if record.name == "folkmoot")
        said = f"no answer from {server.origin} yet: an attempt may take 0.3 s (--timeout)"
        assert first.getMessage() == said
        lines = list(read_ledger(tmp_path))
        assert len(lines) == len(server.arrivals)
        assert all(line["lost"] and line["cost_usd"] > 0 for line in lines)


def test_a_budget_of_time_ends_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "GRACE_SECONDS", 0.5)
    with Server(hang) as server:
        began = time.monotonic()
        result = run(server.url, tmp_path, budget="1 s")
        assert time.monotonic() - began < 60
        assert "time is over" in result.summary.stopped
        assert result.summary.counts.rows == 0
        assert totals(tmp_path).calls == 3


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        *((text, None) for text in ("", "0", "-5", "inf", "nan", "1e300", "soon", "86401")),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("Mon, 99 Foo 2026", None),
        ("2m30s", 150.0),
        # by the clock of the server, whatever the time is here
        ("Thu, 01 Jan 2026 00:00:40 GMT", 40.0),
        ("2026-01-01T00:00:40Z", 40.0),
        ("1767225640", 40.0),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    headers = {"Retry-After": value, "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    assert seconds_to_wait(headers) == seconds


@pytest.mark.parametrize(("asked_for", "waits"), [("100", True), ("3600", False)])
def test_a_wait_of_more_than_two_minutes_pauses_the_run(asked_for, waits, tmp_path, monkeypatch):
    waited: list[Any] = []
    monkeypatch.setattr(
        engine_module, "back_off", lambda attempt, after: waited.append(after) or 0.001
    )
    with Server(
        lambda _: (429, {"Retry-After": asked_for}, b"") if len(server.arrivals) == 2 else good()
    ) as server:
        result = run(server.url, tmp_path, n=3, concurrency=1)
        assert waited == ([float(asked_for)] if waits else [])
        assert ("asks to wait until" in (result.stopped or "")) is not waits
        assert len(result.rows) == (3 if waits else 1)
        again = run(server.url, tmp_path, n=3, concurrency=1)
        assert (len(again.rows), len(server.arrivals)) == (3, 4)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("answer", [hang_up, hang])
def test_tries_that_may_be_billed_count(answer: Any, tmp_path: Path) -> None:
    """A budget of 25 calls let 140 requests through, none of them on the ledger."""
    with Server(answer) as server:
        with pytest.raises(fm.UserError):
            run(server.url, tmp_path, n=20, timeout=0.3, budget="25 calls")
        assert 0 < totals(tmp_path).calls == len(server.arrivals) <= 25
        assert lost_in(tmp_path).calls == len(server.arrivals)


def test_calls_in_flight_when_a_run_is_killed_are_spent(tmp_path: Path) -> None:
    """Six stops with 64 calls in flight let 484 of 100 calls through."""
    stopped: list[int] = []
    with Server(lambda _: good() if len(stopped) == 3 else None) as server:
        for stop in range(1, 4):
            process = Forked(target=ten_calls_at_once, args=(server.url, tmp_path))
            process.start()
            while len(server.arrivals) < 10 * stop and process.is_alive():
                time.sleep(0.02)
            process.kill()
            process.join(30)
            assert len(server.arrivals) == 10 * stop
            assert totals(tmp_path).calls == 10 * stop
            stopped.append(stop)
        result = run(server.url, tmp_path, n=80, budget="35 calls")
        assert (result.summary.counts.rows, result.summary.counts.errors) == (5, 0)
        assert len(server.arrivals) == totals(tmp_path).calls == 35
        assert (result.summary.paid["calls"], result.summary.lost["calls"]) == (5, 30)
        assert "30 calls without an answer" in KIND.card(tmp_path).lost
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".in-flight")]


@pytest.mark.parametrize("name", ["openai/x", "mistral/mistral-small"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_reply_has_a_size_limit(name, packed, hosted, tmp_path, monkeypatch):
    """A small body of gzip that unpacks to 1 GB ended in a segfault."""
    monkeypatch.setenv("FOLKMOOT_REPLY_MB", "2")
    body = json.dumps(GOOD).encode() + b" " * (120 << 20 if packed else 3 << 20)
    sent = gzip.compress(body, 1) if packed else body
    headers = {"Content-Encoding": "gzip"} if packed else {}
    litellm_quiet()  # its import takes more than a reply may
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Server(lambda _: (200, headers, sent)) as server:
        (row,) = asked(hosted(name, server.url), tmp_path).rows
        assert len(server.arrivals) == 1
    assert "more than 2 MB: lower max_tokens, or raise FOLKMOOT_REPLY_MB" in row["error"]
    assert totals(tmp_path).calls == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100 << 10


def head(*lines: str, body: bytes = b"") -> bytes:
    """The raw bytes of an answer with status 200."""
    return "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode() + body


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("answer", "error", "sent", "lost"),
    [
        (head("X: " + 20_000 * "a", body=json.dumps(GOOD).encode()), "", 1, 0),
        (head(*(300 * ["Set-Cookie: a=b"]), body=json.dumps(GOOD).encode()), "", 1, 0),
        (head("Content-Length: 2", "Transfer-Encoding: chunked"), "not HTTP", 3, 3),
        (head("X Y: 1"), "not HTTP", 3, 3),
        (b"HTTP/1.1 200 OK\r\nContent-Type:", "a broken connection", 7, 7),
        (b"", "a broken connection", 14, 0),
    ],
)
def test_an_answer_that_has_begun_may_be_billed(answer, error, sent, lost, tmp_path):
    """Heads that the client cannot read were sent for again 14 times, each for nothing."""
    with Server(lambda _: answer) as server:
        lm = fm.lm("openai/x", api_base=server.url)
        if error:
            assert error in failing(lm, tmp_path)
        else:
            assert asked(lm, tmp_path).accuracy == 1.0
        assert len(server.arrivals) == sent
    assert lost_in(tmp_path).calls == lost


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("status", "variable", "proxy", "words", "times"),
    [
        (407, "https_proxy", "http://me:a-secret-word@{}", "refuses the connection (407: ", 1),
        (407, "http_proxy", "http://me:a-secret-word@{}", "refuses the connection (407)", 1),
        (403, "https_proxy", "http://me:a-secret-word@{}", "refuses the connection (403: ", 1),
        (403, "https_proxy", "http://{}", "refuses the connection (403: ", 1),
        (407, "http_proxy", "http://{}", "refuses the connection (407)", 1),
        (502, "https_proxy", "http://me:a-secret-word@{}", "its proxy says 502: ", 7),
        (0, "https_proxy", "socks5://me:a-secret-word@{}", "speaks socks5", 0),
    ],
)
def test_a_proxy_that_lets_nothing_through(
    status, variable, proxy, words, times, tmp_path, monkeypatch
):
    """A refusal of the proxy told its password, one for SOCKS was waited for, and the key of the
    endpoint went to the proxy.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-for-the-endpoint")
    with Server(lambda _: (status, {}, b"")) as server:
        server_name = server.origin.removeprefix("http://")
        monkeypatch.setenv(variable, proxy.format(server_name))
        scheme = variable.partition("_")[0]
        with pytest.raises(fm.UserError) as failed:
            asked(fm.lm("openai/x", api_base=f"{scheme}://there.invalid/v1"), tmp_path)
        assert len(server.arrivals) == times
        assert not any("sk-for" in sent.get("proxy-authorization", "") for sent in server.headers)
    assert words in str(failed.value)
    assert "a-secret-word" not in str(failed.value)


@pytest.mark.parametrize("named", ["127.0.0.1", "there, 127.0.0.1:{}", "127.0.0.0/8"])
def test_an_address_that_needs_no_proxy(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in the network that NO_PROXY names was asked for through the proxy."""
    with Server(good) as server:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", named.format(server.origin.rpartition(":")[2]))
        assert run(server.url, n=1).accuracy == 1.0


def test_more_calls_at_once_than_open_files(tmp_path: Path) -> None:
    """1,014 answers were paid for and lost: no file was left to write them to."""
    with ScriptedServer(delay=0.05) as server:
        rows, said, soft = in_child(answers_with_few_files, server.url, tmp_path)
        assert rows == 300
        assert soft == 256
        assert server.most_at_once <= 256 - 128
    assert any("128 calls in flight to" in text and "256 open files" in text for text in said)


def test_user_info_and_a_query_in_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-endpoints-key")
    with Server(good) as server:
        address = server.url.replace("//", "//me:pass%20word@") + "/?api-version=2&x=1"
        assert run(address, n=1).accuracy == 1.0
        assert server.paths == ["/v1/chat/completions?api-version=2&x=1"]
        assert server.headers[0]["authorization"] == "Basic bWU6cGFzcyB3b3Jk"


def test_control_characters_of_a_server_reach_no_message() -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202eback\r\nline\x9b1m\u2028end"
    with Server(lambda _: (400, {}, json.dumps({"error": {"message": evil}}).encode())) as server:
        lm = fm.lm("openai/x", api_base=server.url)
        with pytest.raises(CallError) as failed:
            fm.SingleAgent(lm=lm)(question="Why?", choices={"A": "a", "B": "b"})
    said = str(failed.value)
    assert said.isprintable()
    assert "]0;title[2Jback line1m end" in said


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("openai/gpt-4o-mini", {"api_base": None}, "OPENAI_API_KEY"),
        ("gpt-4o-mini", {}, r"did you mean 'openai/gpt-4o-mini'.*PROVIDER/MODEL"),
        ("local/gemma-3-270", {"api_base": None}, "did you mean 'gemma-3-270m'"),
        ("local/hf:nothing", {"api_base": None}, "there is no embedded LM"),
        ("local/gemma-3-270m", {"api_key": "sk-x", "api_base": None}, "drop api_key"),
        ("openai/x", {"slots": 2}, "openai/x does not accept slots"),
        ("openai/x\ny", {}, r"'openai/x\\ny' is not an LM name"),
        *((name, {"api_key": "sk-a\nX: b"}, "no key has") for name in ("openai/x", "groq/x")),
        ("openai/x", {"api_key": "“sk-a”"}, "no key has: copy it once more"),
        ("openai/x", {"api_base": "localhost:8000"}, "http://HOST:PORT/v1"),
        ("openai/x", {"answer_form": "letter"}, "letter"),
        ("openai/x", {"reasoning_efort": "low"}, "did you mean 'reasoning_effort'"),
        ("openai/x", {"reasoning_effort": 3}, "give a word"),
        ("openai/x", {"max_completion_tokens": -1}, "above 0"),
        ("openai/x", {"extra_body": {"model": "y"}}, "'model', which folkmoot sets"),
        ("openai/x", {"extra_body": {"x": object()}}, "not JSON"),
        ("openai/gpt-5", {"max_tokens": 5}, "give max_completion_tokens"),
        ("openai/x", {"timeout": float("nan")}, "timeout is nan"),
    ],
)
def test_names_and_settings_that_cannot_be_used(name, settings, words, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(fm.UserError, match=words) as failed:
        fm.lm(name, **{"api_base": "http://127.0.0.1:9/v1", **settings})
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("words", "tokens", "said"), [(8000, 2050, True), (8000, 9000, False), (50, 40, False)]
)
def test_a_prompt_that_a_server_cuts_off_is_pointed_out_once(
    words: int, tokens: int, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    usage = {"prompt_tokens": tokens, "completion_tokens": 2}
    body = json.dumps(completion('{"answer": "A"}', usage=usage)).encode()
    asked = [
        fm.Question(
            id=str(n), question="word " * words, choices={"A": "a", "B": f"{n}"}, answer="A"
        )
        for n in range(3)
    ]
    with Server(lambda _: (200, {}, body)) as server:
        lm = fm.lm("openai/x", api_base=server.url)
        result = fm.evaluate(fm.SingleAgent(), asked, lm=lm, tracking=False, cache=False)
    assert caplog.text.count("its server may cut off") == said
    assert any("raise num_ctx" in note for note in result.summary.requests) == said


@pytest.mark.parametrize(
    ("key", "said", "calls"),
    [
        ("sk-of-the-environment\n", "refused the key (401: …)", 1),
        ("sk-of-the-\nenvironment", "no key has: copy it once more", 0),
        ("sk-of-the–environment", "no key has: copy it once more", 0),
    ],
)
@pytest.mark.parametrize("route", ["openai/x", "mistral/mistral-small", "groq/x"])
def test_a_key_of_the_environment_is_stripped_or_refused(
    route: str, key: str, said: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for provider in ("OPENAI", "MISTRAL", "GROQ"):
        monkeypatch.setenv(f"{provider}_API_KEY", key)

    def answer(handler: Any) -> Any:
        sent = handler.headers["Authorization"].removeprefix("Bearer ")
        return 401, {}, json.dumps({"error": {"message": sent}}).encode()

    def ask(url: str) -> None:
        fm.evaluate(fm.SingleAgent(), questions(1), lm=fm.lm(route, api_base=url), tracking=False)

    with Server(answer) as server, pytest.raises(fm.UserError) as failed:
        ask(server.url)
    assert said in str(failed.value)
    assert len(server.bodies) == calls


def test_the_command_lines_settings(scripted: ScriptedServer) -> None:
    for_all = ["reasoning_effort=low", "top_p=0.5"]
    for_some = ["judge.reasoning_effort=high", "judge.seed=4", 'reasoner.extra_body={"min_p": 0.1}']
    known: dict[str, Any] = {"lm": ["openai/x"], "api_base": [scripted.url], "timeout": 7.5}
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=1)
    program, rest = Seating(LMs(**known, lm_set=[*for_all, *for_some])).seat(program)
    seats = {name: seat.predict.lm or rest for name, seat in program.seats().items()}
    assert {name: lm.engine.engine.settings for name, lm in seats.items()} == {
        "intuitive": {"reasoning_effort": "low"},
        "reasoner": {"reasoning_effort": "low", "extra_body": {"min_p": 0.1}},
        "judge": {"reasoning_effort": "high"},
    }
    given = {name: (lm.kwargs.get("top_p"), lm.kwargs.get("seed")) for name, lm in seats.items()}
    assert given == {"intuitive": (0.5, None), "reasoner": (0.5, None), "judge": (0.5, 4)}
    assert {lm.engine.engine.endpoint.timeout for lm in seats.values()} == {7.5}
    for wrong in ("low", "reasoning_efort=low", "nobody.reasoning_effort=low", "seed"):
        with pytest.raises(fm.UserError):
            Seating(LMs(**known, lm_set=[wrong])).seat(program)


HOSTED = {
    "openai/x": ("OPENAI_API_KEY", "authorization"),
    "anthropic/claude-sonnet-4-5": ("ANTHROPIC_API_KEY", "x-api-key"),
    "gemini/gemini-2.5-flash": ("GEMINI_API_KEY", "x-goog-api-key"),
    "azure/gpt-4o": ("AZURE_API_KEY", "api-key"),
    "mistral/mistral-small": ("MISTRAL_API_KEY", "authorization"),
    "groq/llama-3.1-8b-instant": ("GROQ_API_KEY", "authorization"),
    "deepseek/deepseek-chat": ("DEEPSEEK_API_KEY", "authorization"),
    "openrouter/openai/gpt-4o": ("OPENROUTER_API_KEY", "authorization"),
    "cohere/command-r": ("COHERE_API_KEY", "authorization"),
    "together_ai/meta-llama/Llama-3-8b": ("TOGETHERAI_API_KEY", "authorization"),
    "xai/grok-3": ("XAI_API_KEY", "authorization"),
}
PROVIDER_KEY = "sk-canary-0c8f2d71ab"


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`hosted(NAME, URL)`: that LM of a provider, with a key, at another address."""

    def made(name: str, url: str, **settings: Any) -> Any:
        monkeypatch.setenv(HOSTED[name][0], PROVIDER_KEY)
        monkeypatch.setenv("AZURE_API_VERSION", "2024-06-01")
        return fm.lm(name, api_base=url, **settings)

    return made


def asked(lm: Any, out: Path | None = None, n: int = 1) -> Any:
    return fm.evaluate(fm.SingleAgent(), questions(n), lm=lm, out=out, tracking=False, cache=False)


def failing(lm: Any, out: Path | None = None) -> str:
    """Why a run fails that gets no answer."""
    with pytest.raises(fm.UserError) as failed:
        asked(lm, out)
    return str(failed.value)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        *((name, 307) for name in HOSTED if name != "openai/x"),
        *(("mistral/mistral-small", status) for status in (301, 302, 303, 308)),
    ],
)
def test_no_redirect_of_a_provider_is_followed(name: str, status: int, hosted: Any) -> None:
    """Six of six sent the key on to the other host, five the prompt."""
    with Server(good) as other:
        away = {"Location": f"{other.origin}/v1/x?key=1"}
        with Server(lambda _: (status, away, b"")) as server:
            error = failing(hosted(name, server.url))
        assert PROVIDER_KEY in server.headers[0][HOSTED[name][1]]
        assert len(server.arrivals) == 1
        assert other.arrivals == []
    assert f"redirects to {other.origin} ({status}), which is refused" in error


BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 2048}}


@pytest.mark.parametrize(
    ("name", "settings", "sent"),
    [
        ("anthropic/claude-sonnet-4-5", {**BUDGET, "temperature": 1.0}, '"budget_tokens": 2048'),
        ("gemini/gemini-2.5-flash", BUDGET, '"thinkingBudget": 2048'),
        ("mistral/mistral-small", {"extra_body": {"safe_prompt": True}}, '"safe_prompt": true'),
    ],
)
def test_settings_are_sent(name: str, settings: dict[str, Any], sent: str, hosted: Any) -> None:
    with Server(lambda _: (400, {}, b"{}")) as server:
        asked(hosted(name, server.url, **settings))
        assert sent in json.dumps(json.loads(server.bodies[0]))


@pytest.mark.usefixtures("quick")
def test_troubles_of_a_provider(hosted: Any, tmp_path: Path) -> None:
    name = "groq/llama-3.1-8b-instant"
    assert "given up after 7 attempts" in failing(hosted(name, nobody_there()), tmp_path / "dead")
    assert totals(tmp_path / "dead").calls == 0
    with Server(hang_up) as server:
        assert "given up after 7 attempts" in failing(hosted(name, server.url), tmp_path / "cut")
        assert totals(tmp_path / "cut").calls == len(server.arrivals) == 7
    with Server(hang) as server:
        error = failing(hosted(name, server.url, timeout=0.5), tmp_path / "slow")
        assert f"no answer from {name} within 0.5 s; given up after 3 attempts" in error
        assert totals(tmp_path / "slow").calls == len(server.arrivals) == 3
    with Server(lambda _: (200, {}, b"<odd>")) as server:
        assert "not a chat completion" in failing(hosted(name, server.url), tmp_path / "odd")
        assert totals(tmp_path / "odd").calls == len(server.arrivals) == 3
    evil = json.dumps({"error": {"message": "\x1b]0;t\x07no\u202e\nway"}}).encode()
    with Server(lambda _: (400, {}, evil)) as server:
        (row,) = asked(hosted(name, server.url), tmp_path / "evil").rows
        assert row["error"].isprintable()
        assert "way" in row["error"]


@pytest.mark.nightly
def test_litellm_fetches_and_prints_nothing(tmp_path: Path) -> None:
    """It fetched a table of beta headers when Anthropic was asked, and warned when that failed."""
    reached, printed = in_child(asks_anthropic, tmp_path)
    assert reached == ["localhost"]
    assert printed == ""


def test_litellms_clients_still_take_their_transport_from_where_it_is_guarded() -> None:
    """Checked with LiteLLM 1.106; the redirects above show it for each provider."""
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    litellm_quiet()
    assert isinstance(AsyncHTTPHandler().client._transport, GuardedTransport)
