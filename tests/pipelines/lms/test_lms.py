"""What goes over the wire, what comes back and what does not: the LM engine on real HTTP."""

import asyncio
import itertools
import json
import ssl
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from completions import completion
from dspy.utils import DummyLM
from mortal import Forked, append_calls, in_child, questions, store_on_a_full_disk
from wire_server import Server
from wire_server import quick as quick

import folkmoot as fm
from folkmoot.modules.base.calls import CallError, FatalCallError, metered
from folkmoot.modules.base.sync import run_sync
from folkmoot.pipelines.lms.client import HttpEndpoint, not_trusted
from folkmoot.pipelines.lms.endpoint import Reply
from folkmoot.pipelines.lms.engine import same_model
from folkmoot.pipelines.lms.limits import _GATES, AdaptiveLimit, Gate
from folkmoot.pipelines.lms.named import engine_of, lm_identity
from folkmoot.pipelines.lms.store import CallStore, write_lms

CHOICES = {"A": "bank", "B": "library", "C": "mall"}
QUESTION = {"question": "Where do people keep their savings?", "choices": CHOICES}
CANARY = "sk-canary-4f1b9c2e7d"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def scripted_lm(server: Any, model: str = "scripted", **settings: Any) -> Any:
    return fm.lm(f"openai/{model}", api_base=server.url, **settings)


def gate_of(engine: Any) -> Gate:
    """The gate to the address of an engine, of which one event loop alone made calls."""
    address = engine.endpoint.address
    (gate,) = (gates[address] for gates in _GATES.values() if address in gates)
    return gate


def ask(lm: Any, question: dict[str, Any] = QUESTION, strategy: str = "simple") -> Any:
    return fm.SingleAgent(strategy, lm=lm)(**question)


def http(body: Any, status: int = 200, **headers: str) -> tuple[int, dict[str, str], bytes]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, content


def steps(*script: Any) -> Any:
    """One step of the script answers each request, the last one for ever."""
    arrived = itertools.count()
    return lambda _: script[min(next(arrived), len(script) - 1)]


GOOD = http(completion('{"answer": "A"}'))
HANG, HANG_UP = None, b""


def test_the_body_of_a_request(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    ask(scripted_lm(scripted, top_p=0.9, seed=7, stop=["###"]), strategy="cot")
    (request,) = scripted.requests
    body = request["body"]
    schema = body.pop("response_format")["json_schema"]["schema"]
    assert [message["role"] for message in body.pop("messages")] == ["system", "user"]
    sampling = {"temperature": 0.0, "top_p": 0.9, "seed": 7, "stop": ["###"]}
    assert body == {"model": "scripted", "stream": False, **sampling}
    assert schema["properties"]["answer"] == {"type": "string", "enum": ["A", "B", "C"]}
    assert schema["required"] == ["reasoning", "answer"]
    assert schema["additionalProperties"] is False
    assert request["headers"]["Authorization"] == f"Bearer {CANARY}"
    assert CANARY not in json.dumps(body)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(HANG_UP, id="hang up"),
        pytest.param(HANG, id="time-out"),
        pytest.param(http(b"\xff\xfe\x00garbage \x80"), id="garbage bytes"),
        pytest.param(http(b"[" * 100_000), id="deep nesting"),
        pytest.param(http(completion({"a": 1})), id="content is an object"),
        pytest.param(http({"error": {"message": "oops"}}), id="an error with status 200"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", id="cut off"),
        pytest.param(b"HTTP/1.1 nonsense\r\n\r\n", id="no http"),
        pytest.param(http(b"not gzip", Content_Encoding="gzip"), id="bad compression"),
    ],
)
def test_passing_troubles_are_tried_again(trouble: Any) -> None:
    with Server(steps(trouble, trouble, GOOD)) as server:
        assert ask(scripted_lm(server, timeout=0.3)).answer == "A"
        assert len(server.arrivals) == 3


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("status", [400, 422])
def test_other_refusals_are_not_tried_again(status: int) -> None:
    refused = http({"error": {"message": "bad\nrequest"}}, status, Location="/x")
    said = rf"refused the request \({status}: bad request\)"
    with Server(steps(refused)) as server:
        with pytest.raises(CallError, match=said) as failed:
            ask(scripted_lm(server))
        assert len(server.arrivals) == 2  # once more without our schema of the reply
    assert not isinstance(failed.value, FatalCallError)


def test_retry_after_in_seconds_is_waited_for() -> None:
    with Server(steps(http({}, 429, Retry_After="1"), GOOD)) as server:
        assert ask(scripted_lm(server)).answer == "A"
        first, second = server.arrivals
    assert 0.99 <= second - first < 2.5


@pytest.mark.usefixtures("quick")
def test_the_limit_shrinks_under_429_and_grows_back(scripted: Any) -> None:
    takes = 4

    def reply(body: dict[str, Any]) -> Any:
        return (429, {}, {}) if scripted.in_flight > takes else '{"answer": "A"}'

    scripted.reply, scripted.delay = reply, 0.02
    lm = scripted_lm(scripted, concurrency=32)
    engine: Any = engine_of(lm)
    engine.max_retries = 1000
    first = fm.evaluate(fm.SingleAgent(), questions(100), lm=lm, concurrency=32, tracking=False)
    assert first.summary.counts.errors == 0
    limit = gate_of(engine).limit
    shrunk = limit.limit
    assert shrunk < 16
    takes, scripted.delay = 1000, 0.0
    fm.evaluate(fm.SingleAgent(), questions(500)[100:], lm=lm, concurrency=32, tracking=False)
    assert limit.limit > shrunk + 4


def test_a_wait_that_is_cancelled_when_its_turn_has_come_gives_the_place_on() -> None:
    async def scene() -> None:
        limit = AdaptiveLimit(1)

        async def wait() -> None:
            await limit.enter()
            limit.leave()

        await limit.enter()
        unlucky, lucky = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        limit.leave()
        unlucky.cancel()
        await asyncio.wait_for(lucky, 5)
        assert limit.in_flight == 0

    asyncio.run(scene())


def test_equal_requests_in_flight_reach_the_endpoint_once(scripted: Any) -> None:
    scripted.delay = 0.2
    program = fm.SingleAgent(lm=scripted_lm(scripted))

    async def together() -> list[Any]:
        return list(await asyncio.gather(*(program.acall(**QUESTION) for _ in range(64))))

    predictions = run_sync(together)
    assert len(scripted.bodies) == 1
    assert [p.answer for p in predictions] == ["A"] * 64
    assert sum(p.usage["cached_calls"] for p in predictions) == 63
    assert sum(p.usage["prompt_tokens"] > 0 for p in predictions) == 1


def test_whoever_waits_for_a_stopped_call_makes_it_himself(scripted: Any) -> None:
    scripted.delay = 0.15
    program = fm.SingleAgent(lm=scripted_lm(scripted))

    async def scene() -> list[Any]:
        first = asyncio.create_task(program.acall(**QUESTION))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(program.acall(**QUESTION)) for _ in range(3)]
        await asyncio.sleep(0.05)
        first.cancel()
        return list(await asyncio.gather(*others))

    assert [p.answer for p in run_sync(scene)] == ["A"] * 3
    assert len(scripted.bodies) == 2


CHANGES = [{"model": "other"}, {"temperature": 0.5}, {"max_tokens": 9}, {"top_p": 0.5}]
CHANGES += [{"top_k": 5}, {"seed": 1}, {"reasoning_effort": "low"}, {"stop": ["x"]}]
CHANGES += [{"answer_form": "text"}, {"profile": fm.Profile(constrain="none")}]


@pytest.mark.parametrize("changed", CHANGES)
def test_what_changes_the_key(scripted: Any, tmp_path: Path, changed: dict[str, Any]) -> None:
    record = tmp_path / "r"

    def recorded(**settings: Any) -> int:
        """The requests so far, after a question was answered into the record."""
        # a record is of one set of LMs; without the note of which, only keys tell calls apart
        (record / "lms.json").unlink(missing_ok=True)
        lm = scripted_lm(scripted, **settings)
        fm.evaluate(fm.SingleAgent("cot"), questions(1), lm=lm, record=record, tracking=False)
        return len(scripted.bodies)

    scripted.reply = lambda _: '{"reasoning": "r", "answer": "A"}'
    assert [recorded(), recorded(), recorded(**changed)] == [1, 1, 2]


KEYS = [f"{i:064x}" for i in range(100)]
REPLY = Reply("é\ud800", "stop", 1, None)


def test_a_torn_last_line_is_skipped_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    store = CallStore(tmp_path)
    store.put(KEYS[0], "m", REPLY)
    store.put(KEYS[1], "m", REPLY)
    store.close()
    path = tmp_path / "calls.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    store = CallStore(tmp_path)
    assert (store.get(KEYS[0]), store.get(KEYS[1])) == (REPLY, None)
    store.put(KEYS[2], "m", REPLY)
    store.close()
    again = CallStore(tmp_path, readonly=True)
    assert [again.get(key) for key in KEYS[:3]] == [REPLY, None, REPLY]
    again.close()


def test_a_cut_off_reply_is_shared_in_a_run_and_not_with_the_next(tmp_path: Path) -> None:
    cut = replace(REPLY, finish_reason="length")
    store = CallStore(tmp_path)
    store.put(KEYS[0], "m", cut)
    assert store.get(KEYS[0]) == cut
    store.close()
    resumed, replay = CallStore(tmp_path), CallStore(tmp_path, readonly=True)
    assert (resumed.get(KEYS[0]), replay.get(KEYS[0])) == (None, cut)
    resumed.put(KEYS[0], "m", REPLY)
    assert (resumed.get(KEYS[0]), replay.get(KEYS[0])) == (REPLY, REPLY)
    resumed.close()
    replay.close()


@pytest.mark.parametrize(
    "line",
    [
        b'{"key": "zz", "reply": {}}',
        b'{"key": "' + KEYS[5].encode() + b'"}',
        b'{"key": "' + KEYS[5].encode() + b'", "reply": {"text": 1}}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_damaged_line_is_no_reply(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "calls.jsonl").write_bytes(line + b"\n")
    store = CallStore(tmp_path)
    assert store.get(KEYS[5]) is None
    store.put(KEYS[5], "m", REPLY)
    assert store.get(KEYS[5]) == REPLY
    store.close()


@pytest.mark.nightly
def test_a_full_disk_spoils_nothing(tmp_path: Path) -> None:
    kept, said = in_child(store_on_a_full_disk, tmp_path)
    assert 0 < len(kept) < 5
    assert all("calls.jsonl could not be written" in sentence for sentence in said)
    store = CallStore(tmp_path, readonly=True)
    assert [i for i in range(5) if store.get(KEYS[i])] == kept
    assert store.get(KEYS[77]) is not None
    store.close()


def test_two_processes_append_to_one_record(tmp_path: Path) -> None:
    writers = [Forked(target=append_calls, args=(tmp_path, first, 100, 2)) for first in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    store = CallStore(tmp_path, readonly=True)
    assert len(store) == 100
    replies = [store.get(KEYS[i]) for i in range(100)]
    assert all(r and r.text.startswith(f"{i} ") for i, r in enumerate(replies))
    store.close()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
def test_the_key_is_nowhere(scripted, tmp_path, monkeypatch, status):
    """Not even when the endpoint repeats it."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    right = json.dumps({"reasoning": f"Your key is {CANARY}", "answer": "A"})
    wrong = (status, {}, {"error": {"message": f"Incorrect key: {CANARY}"}})
    scripted.reply = lambda _: right if status == 200 else wrong
    try:
        given: Any = {"out": tmp_path / "out", "record": tmp_path / "r", "tracking": False}
        result = fm.evaluate(fm.SingleAgent("cot"), questions(2), lm=scripted_lm(scripted), **given)
        seen = [repr(result) + repr(result.summary)]
    except fm.UserError as problem:
        seen = ["".join(traceback.format_exception(problem))]
    assert CANARY in scripted.requests[0]["headers"]["Authorization"]
    seen += [file.read_text() for file in tmp_path.rglob("*.*") if file.is_file()]
    assert len(seen) > 4
    assert not [text for text in seen if CANARY in text]


def test_a_foreign_lms_secrets_reach_no_file(tmp_path: Path) -> None:
    lm = DummyLM([{"answer": "A"}] * 4)
    lm.kwargs.update(api_key=CANARY, extra_headers={"X": CANARY}, aws_secret=CANARY)
    fm.evaluate(fm.SingleAgent(), questions(2), lm=lm, out=tmp_path / "out", tracking=False)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert files
    assert not [path.name for path in files if CANARY.encode() in path.read_bytes()]


def test_other_dspy_modules_can_use_our_lms(scripted: Any) -> None:
    scripted.reply = lambda _: "[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]"
    lm = scripted_lm(scripted)
    with dspy.context(lm=lm):
        assert dspy.Predict("question -> answer")(question="Capital of France?").answer == "Paris"
    scripted.reply = lambda _: "hello"
    assert lm("Say hello") == ["hello"]
    with metered() as usage:
        assert lm("Say hello", n=2) == ["hello", "hello"]
    assert usage.calls == 2


def test_a_saved_lm_has_no_address_or_key(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    lm = fm.lm("openai/gpt-4o-mini", temperature=0.5, concurrency=7)
    state = json.loads(json.dumps(lm.dump_state()))
    assert CANARY not in json.dumps(state)
    back = dspy.BaseLM.load_state(state, allow_custom_lm_class=True)
    engine: Any = engine_of(back)
    assert engine.identity == "openai/gpt-4o-mini at https://api.openai.com/v1"
    assert engine.concurrency == 7
    assert back.kwargs["temperature"] == 0.5
    elsewhere = scripted_lm(scripted, "gpt-4o-mini").dump_state()
    with pytest.raises(fm.UserError, match="set them again"):
        dspy.BaseLM.load_state(elsewhere, allow_custom_lm_class=True)


@pytest.mark.parametrize("name", ["openai/scripted", "hosted_vllm/scripted"])
def test_a_key_that_is_given_is_sent_and_kept_nowhere(scripted, monkeypatch, tmp_path, name):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment-1")
    lm = fm.lm(name, api_base=scripted.url, api_key=CANARY)
    program = fm.SingleAgent("simple").deepcopy()  # as DSPy's optimizers copy programs
    program.set_lm(lm)
    fm.evaluate(program, questions(1), out=tmp_path / "run", tracking=False)
    assert {one["headers"]["Authorization"] for one in scripted.requests} == {f"Bearer {CANARY}"}
    program.save(str(tmp_path / "program.json"))
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert not any(CANARY.encode() in path.read_bytes() for path in kept)
    assert CANARY not in repr((lm, vars(lm), lm.dump_state()))


@pytest.mark.parametrize(
    ("endpoint", "priced"),
    [("https://api.openai.com/v1", True), ("litellm", True), ("http://10.0.0.7:8000/v1", False)],
)
def test_a_replay_knows_its_price(tmp_path: Path, endpoint: str, priced: bool) -> None:
    lm = fm.lm("openai/gpt-4o-mini", api_key="sk-none")
    identity = {**lm_identity(lm), "endpoint": f"openai/gpt-4o-mini at {endpoint}"}  # type: ignore[dict-item]
    write_lms(tmp_path, {"*": identity})
    (tmp_path / "calls.jsonl").touch()
    engine: Any = engine_of(fm.lm(f"replay/{tmp_path}"))
    known: Any = engine_of(lm)
    assert engine.prices == (known.prices if priced else None)


@pytest.mark.parametrize(("scheme", "reads"), [("http", 0), ("https", 1)])
def test_certificates_are_read_once_and_for_tls(scheme, reads, scripted, monkeypatch):
    """Each LM read it anew, and so did each run: 60 ms."""
    read, make = list[str | None](), ssl.create_default_context
    monkeypatch.setenv("SSL_CERT_FILE", f"{scheme}.pem")

    def reading(cafile: str | None = None) -> ssl.SSLContext:
        read.append(cafile)
        return make()

    monkeypatch.setattr(ssl, "create_default_context", reading)
    for _ in range(3):
        endpoint = HttpEndpoint(scripted.url.replace("http", scheme), "scripted")
        with suppress(CallError):  # which the server answers in plain HTTP
            asyncio.run(endpoint.send({"messages": []}))
    assert read.count(f"{scheme}.pem") == reads


@pytest.mark.parametrize(
    ("code", "advice"), [(18, "in SSL_CERT_FILE"), (64, "give --api-base"), (10, "the clock")]
)
def test_what_to_do_about_a_certificate(code: int, advice: str) -> None:
    problem = ssl.SSLCertVerificationError("x")
    problem.verify_code = code
    assert advice in str(not_trusted("there", problem))


@pytest.mark.parametrize("bundle", ["nothing.pem", "empty.pem"])
def test_certificates_that_cannot_be_read(bundle, tmp_path, scripted, monkeypatch):
    """They were a broken connection, which was waited for."""
    (tmp_path / "empty.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / bundle))
    endpoint = HttpEndpoint(scripted.url.replace("http", "https"), "scripted")
    with pytest.raises(FatalCallError, match=f"{bundle} holds no certificates that can be read"):
        asyncio.run(endpoint.send({"messages": []}))


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("openai/gpt-4o", "gpt-4o-2024-08-06", True),
        ("openai/qwen3", "Qwen/Qwen3:32b-instruct", True),
        ("openai/gpt-oss-20b", "/models/gpt-oss:20b.gguf", True),
        ("openai/gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("openai/gemini-2.5-flash", "gemini-2.5-flash-lite", False),
        ("openai/gpt-4", "gpt-4o", False),
    ],
)
def test_names_of_one_model(asked: str, answered: str, same: bool) -> None:
    """A larger model that was answered by its little sister passed for the same one."""
    assert same_model(asked, answered) is same
