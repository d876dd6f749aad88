"""The meter: programs of any framework, with the exact bill, budget, resume and record."""

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import dspy
import httpx
import openai
import pytest
from children import BARE
from completions import completion
from mortal import questions
from openai import AsyncOpenAI

import folkmoot as fm
from folkmoot.modules.protocols.foreign import Foreign
from folkmoot.modules.protocols.short_names import short_name
from folkmoot.pipelines.lms.ledger import read_ledger, totals
from folkmoot.pipelines.testing.server import ScriptedServer

CREW = Path(__file__).parents[2] / "support" / "crew.py"
PRICE = (1e-6, 1e-5)


def right(body: dict[str, Any]) -> Any:
    """The gold answer of the question that the request begins with."""
    text = body["messages"][-1]["content"]
    text = text if isinstance(text, str) else text[0]["text"]
    number = int(text.partition(":")[0].lstrip("q"))
    return 200, {}, completion("ABC"[number % 3])


def client_at(endpoint: fm.Endpoint) -> AsyncOpenAI:
    """OpenAI's client, which would read all certificates anew for each question."""
    http = httpx.AsyncClient(verify=False)
    return AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, http_client=http)


@pytest.fixture
def server() -> Any:
    with ScriptedServer(right) as running:
        yield running


def run(program: Any, server: ScriptedServer, count: int = 6, **options: Any) -> fm.Evaluation:
    lm = options.pop("lm", None) or fm.lm("openai/m", api_base=server.url, price=PRICE)
    return fm.evaluate(program, questions(count), lm=lm, tracking=False, **options)


def script(folder: Path, text: str) -> str:
    path = folder / "child.py"
    path.write_text("import json, os, subprocess, sys, time\n" + text)
    return f"{BARE} {path}"


def test_a_command_is_asked_scored_and_billed(server: ScriptedServer, tmp_path: Path) -> None:
    result = run(fm.Command(f"{BARE} {CREW}"), server, out=tmp_path)
    assert result.score == 1.0
    assert result.summary.usage["calls"] == len(server.bodies) == 12
    assert result.summary.usage["cost_usd"] == pytest.approx(12 * (10 * 1e-6 + 2 * 1e-5))
    assert [turn["text"] for turn in result.rows[1]["transcript"]] == ["B", "B"]
    assert {body["model"] for body in server.bodies} == {"m"}
    assert totals(tmp_path).calls == 12


def test_a_dspy_lm_that_asks_the_meter_is_on_the_bill_once(server: ScriptedServer) -> None:
    def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        at = {"api_base": endpoint.base_url, "api_key": endpoint.api_key}
        return str(dspy.LM("openai/any", cache=False, **at)(f"{question.id}: hi")[0])

    result = run(crew, server, 2)
    assert result.score == 1.0
    assert len(server.bodies) == result.summary.paid.calls == 2
    assert [row["usage"]["calls"] for row in result.rows] == [1, 1]


def test_an_lm_of_ours_does_not_ask_the_meter(server: ScriptedServer) -> None:
    """Each call was on the bill twice."""

    def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        return str(fm.lm("openai/m", api_base=endpoint.base_url)(f"{question.id}: hi")[0])

    (row,) = run(crew, server, 1).rows
    assert "make it by dspy.LM" in str(row["error"])
    assert server.bodies == []


@pytest.mark.parametrize("place", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "openai.base_url"])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_an_address_for_the_whole_process_serves_one_question_at_a_time(
    place, concurrency, server, monkeypatch
):
    """All six calls came to one question, and five passed for free."""

    def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        module, _, name = place.rpartition(".")
        if module:
            monkeypatch.setattr(openai, name, endpoint.base_url)
        else:
            monkeypatch.setenv(name, endpoint.base_url)
        asked = {"messages": [{"role": "user", "content": f"{question.id}: hi"}]}
        said = httpx.post(f"{endpoint.base_url}/chat/completions", json=asked, timeout=30)
        return str(said.json()["choices"][0]["message"]["content"])

    if concurrency == 1:
        assert run(crew, server, concurrency=1).score == 1.0
        return
    with pytest.raises(fm.UserError, match=f"sets {place} for its whole process"):
        run(crew, server, concurrency=concurrency)


@pytest.mark.parametrize("count", [64])
def test_no_call_lands_on_another_question(server: ScriptedServer, count: int) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client_at(endpoint) as client:
            asked: Any = [{"role": "user", "content": f"{question.id}: hi"}]
            said = await client.chat.completions.create(model="any", messages=asked)
        return said.choices[0].message.content or ""

    result = run(crew, server, count, concurrency=64)
    assert result.score == 1.0
    assert [row["usage"]["calls"] for row in result.rows] == [1] * count


def test_equal_requests_of_a_question_are_samples_of_their_own(server: ScriptedServer) -> None:
    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client_at(endpoint) as client:
            asked: Any = {"messages": [{"role": "user", "content": f"{question.id}: hi"}]}
            create = client.chat.completions.create
            said = await asyncio.gather(*(create(model="m", **asked) for _ in range(5)))
            # the run's LM answers all of these, and none is the sample of another
            said += [await create(model="another", **asked)]
            await client.responses.create(model="m", input=f"{question.id}: hi")
            stream = await create(model="m", stream=True, **asked)
            parts = [part.choices[0].delta.content or "" async for part in stream if part.choices]
        assert said[0].choices[0].message.content == "".join(parts)
        return "".join(parts)

    result = run(crew, server, 2)
    assert result.score == 1.0
    assert len(server.bodies) == result.summary.usage["calls"] == 16


def test_tools_and_several_choices_pass_as_they_are(server: ScriptedServer, tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    calls = [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]

    def reply(body: dict[str, Any]) -> Any:
        whole = completion("", tool_calls=calls)
        return 200, {}, {**whole, "choices": whole["choices"] * body["n"]}

    def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        said = [{"role": "user", "content": [{"type": "text", "text": "Where?"}]}]
        asked = {"model": "theirs", "messages": said, "tools": tools, "n": 2}
        answer = post(f"{endpoint.base_url}/chat/completions", asked)
        assert [one["message"]["tool_calls"] for one in answer["choices"]] == [calls] * 2
        assert server.bodies[-1] == {**asked, "model": "m"}
        return "A"

    server.reply = reply
    result = run(crew, server, 1, out=tmp_path)
    assert result.score == 1.0
    (entry,) = read_ledger(tmp_path)
    assert (entry["question"], entry["cost_usd"]) == ("q0", pytest.approx(10 * 1e-6 + 2 * 1e-5))


def test_responses_and_messages_are_translated(server: ScriptedServer) -> None:
    """Canary: LiteLLM's translators, which are not public, as of 1.83 and later."""

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client_at(endpoint) as client:
            asked: Any = {"model": "m", "input": f"{question.id}: hi"}
            said = await client.responses.create(**asked)
            events = [event async for event in await client.responses.create(**asked, stream=True)]
            streamed = events[-1].response.output_text
            assert said.output_text == streamed
            deltas = [event.delta for event in events if event.type.endswith("text.delta")]
            assert "".join(deltas) == streamed
        messages = [{"role": "user", "content": f"{question.id}: hi"}]
        body = {"model": "m", "max_tokens": 9, "messages": messages}
        address = f"{endpoint.anthropic_url}/v1/messages"
        message = await asyncio.to_thread(post, address, body)
        assert message["content"] == [{"type": "text", "text": streamed}]
        assert message["usage"]["input_tokens"] == 10
        text = await asyncio.to_thread(post, address, {**body, "stream": True}, raw=True)
        assert "event: message_stop" in text
        assert json.dumps(streamed) in text
        return streamed

    result = run(crew, server, 2)
    assert [row["error"] for row in result.rows] == [None, None]
    assert result.score == 1.0
    assert len(server.bodies) == result.summary.usage["calls"] == 8


def test_embeddings_are_billed_at_their_own_price(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Any:
        if "messages" in body:
            return right(body)
        data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return 200, {}, {"object": "list", "data": data, "model": body["model"], "usage": usage}

    async def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        async with client_at(endpoint) as client:
            made = await client.embeddings.create(model="small", input=f"{question.id}: hi")
            assert made.data[0].embedding == [0.5, 0.25]
            asked: Any = [{"role": "user", "content": f"{question.id}: hi"}]
            said = await client.chat.completions.create(model="any", messages=asked)
        return said.choices[0].message.content or ""

    with ScriptedServer(reply) as server:
        lms = {
            "*": fm.lm("openai/m", api_base=server.url, price=PRICE),
            "small": fm.lm("openai/embeds", api_base=server.url, price=(1e-3, 0.0)),
        }
        result = run(crew, server, 2, lm=lms, out=tmp_path)
        assert [row["error"] for row in result.rows] == [None, None]
        assert sorted(body["model"] for body in server.bodies) == ["embeds", "embeds", "m", "m"]
    assert result.summary.usage["cost_usd"] == pytest.approx(2 * (7e-3 + 10 * 1e-6 + 2 * 1e-5))
    assert [turn["text"] for turn in result.rows[0]["transcript"]] == ["(1 embeddings)", "A"]


def post(address: str, body: Any, *, raw: bool = False, method: str = "POST") -> Any:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(address, data, method=method)
    with urllib.request.urlopen(request) as reply:
        text = reply.read().decode()
    return text if raw else json.loads(text)


def test_what_the_endpoint_refuses(server: ScriptedServer, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}
    asked = {"model": "m", "messages": [{"role": "user", "content": "q0: hi"}]}

    def refused(address: str, body: Any, method: str = "POST") -> tuple[int, str]:
        with pytest.raises(urllib.error.HTTPError) as raised:
            post(address, body, method=method)
        return raised.value.code, json.load(raised.value)["error"]["message"]

    def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        base = endpoint.base_url
        seen["models"] = post(f"{base}/models", None, method="GET")
        seen["path"] = refused(f"{base}/assistants", asked)
        wrong = base.replace(endpoint.api_key, "wrong")
        seen["token"] = refused(f"{wrong}/chat/completions", asked)
        seen["body"] = refused(f"{base}/chat/completions", b"[")
        seen["form"] = refused(f"{base}/chat/completions", {"model": "m"})
        again = {"input": "hi", "previous_response_id": "resp_1"}
        seen["state"] = refused(f"{base}/responses", again)
        seen["embeddings"] = refused(f"{base}/embeddings", {"model": "small", "input": "hi"})
        seen["address"] = f"{base}/chat/completions"
        return "A"

    result = run(crew, server, 1)
    assert result.score == 1.0
    codes = {"path": 404, "token": 401, "body": 400, "form": 400, "state": 400}
    assert {name: seen[name][0] for name in codes} == codes
    assert "make a client for each question" in seen["token"][1]
    assert seen["embeddings"][0] == 400
    assert "--lm small=openai/MODEL" in seen["embeddings"][1]
    assert [model["id"] for model in seen["models"]["data"]] == ["openai/m"]
    with pytest.raises(urllib.error.URLError):  # the address went with its question
        post(seen["address"], asked)
    assert server.bodies == []
    assert result.summary.report["refused_calls"] == len(result.rows[0]["transcript"]) == 5
    assert "5 refused calls, the last one: embeddings need" in "".join(result.lines())
    page = fm.report(result, out=tmp_path / "page.html", tracking=False).path.read_text()
    assert "5 refused calls" in page


def test_a_question_without_a_call_is_pointed_out(server: ScriptedServer, tmp_path: Path) -> None:
    result = run(fm.Command(script(tmp_path, "print('A')")), server, 1)
    assert result.summary.report == {"unmetered": 1}
    assert "no call came through the meter on 1 of 1 question" in "".join(result.lines())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("sys.exit('no such tool')", "ended with code 1: no such tool"),
        ("print('A'); sys.exit(3)", "ended with code 3"),
        ("print(os.environ['A_TOKEN'])", "gets it where --pass-env A_TOKEN is given"),
        ("sys.exit('OPENAI_API_KEY is wrong')", "ended with code 1: OPENAI_API_KEY is wrong"),
        ("time.sleep(60)", "longer than its timeout, 1.5 s"),
        ("subprocess.Popen(['sleep', '60']); print('A')", None),
        ("print('A') if os.fork() else time.sleep(60)", None),
        ("print('x' * 3_000_000); print('A')", None),
        ("print(json.dumps({'answer': 'A', 'why': 'so'}))", None),
        ("print(json.dumps({'answer': 'A', 'why': 'a\\u2028b'}, ensure_ascii=False))", None),
    ],
)
def test_a_child_that_misbehaves(server, tmp_path, text, error, monkeypatch):
    for name in ("A_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "set")
    (row,) = run(fm.Command(script(tmp_path, text), timeout=1.5), server, 1).rows
    if error is None:
        assert (row["error"], row["answer"]) == (None, "A")
    else:
        assert error in str(row["error"])
        assert "--pass-env OPENAI" not in str(row["error"])  # which is the meter's own


def test_a_command_never_gets_a_key(server, tmp_path, monkeypatch):
    for name in (
        *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY", "TOOL_API_KEY"),
        *("AWS_BEARER_TOKEN_BEDROCK", "WATSONX_APIKEY", "OPENAI_API_KEY_2", "TOKEN", "SECRET"),
        *("PGPASSWORD", "GITHUB_PAT", "DATABASE_URL"),
    ):
        monkeypatch.setenv(name, "sk-canary")
    keys = "' '.join(k for k, v in os.environ.items() if 'canary' in v)"
    text = f"print(json.dumps({{'answer': {keys}}}))"
    command = fm.Command(script(tmp_path, text), pass_env="TOOL_API_KEY")
    lm = fm.lm("openai/m", api_base=server.url)
    asked = [fm.Question(id="q0", question="Which keys?", answer="none", kind="span")]
    (row,) = fm.evaluate(command, asked, lm=lm, tracking=False).rows
    assert row["answer"] == "TOOL_API_KEY"


def test_a_spent_budget_ends_it_and_more_goes_on(server: ScriptedServer, tmp_path: Path) -> None:
    command = fm.Command(f"{BARE} {CREW}")
    first = run(command, server, out=tmp_path, budget="5 calls", concurrency=1)
    assert "5 calls" in str(first.summary.stopped)
    assert len(server.bodies) == 5
    assert len(first.rows) == 2
    second = run(command, server, out=tmp_path, budget="100 calls", concurrency=1)
    assert second.score == 1.0
    # The first call of the third question was paid before, and is not made again.
    assert len(server.bodies) == 12
    assert second.summary.usage["calls"] == 12


def test_a_request_without_a_limit_has_that_of_the_lm(server: ScriptedServer) -> None:
    limits = ({}, {"max_tokens": 7}, {"max_completion_tokens": 9})

    def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        for own in limits:
            asked = {"messages": [{"role": "user", "content": f"{question.id}: hi"}], **own}
            post(f"{endpoint.base_url}/chat/completions", asked)
        return "A"

    run(crew, server, 1, lm=fm.lm("openai/m", api_base=server.url, max_tokens=50))
    assert [body.get("max_tokens") for body in server.bodies] == [50, 7, None]


@pytest.mark.parametrize("members", [0, 2])
def test_names_of_models_are_seats(server: ScriptedServer, tmp_path: Path, members: int) -> None:
    """Alone and as members of an ensemble, whose names of models were no agents."""
    with ScriptedServer(lambda body: "A") as other:
        lms = {
            "*": fm.lm("openai/m", api_base=other.url),
            "theirs": fm.lm("openai/big", api_base=server.url),
        }
        command = fm.Command(f"{BARE} {CREW}")
        team = fm.Ensemble([command] * members) if members else command
        first = run(team, server, 3, lm=lms, out=tmp_path / "run", record=tmp_path / "record")
        assert (first.score, other.bodies) == (1.0, [])
        assert list(first.summary.run.lms) == ["*", "theirs"]
    calls = first.summary.usage["calls"]
    assert (calls, len(server.bodies)) == (6 * max(1, members), 6)  # equal calls are made once
    again = run(team, server, 3, lm=f"replay/{tmp_path / 'record'}")
    assert [row["answer"] for row in again.rows] == [row["answer"] for row in first.rows]
    assert len(server.bodies) == 6


def test_the_lm_of_all_other_names_is_of_the_run(server: ScriptedServer, tmp_path: Path) -> None:
    """With an LM for one name, that of the others could be exchanged in a run's folder."""

    def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        for model in ("theirs", "another"):
            asked = {"messages": [{"role": "user", "content": f"{question.id}: hi"}]}
            said = post(f"{endpoint.base_url}/chat/completions", {**asked, "model": model})
        return str(said["choices"][0]["message"]["content"])

    theirs = fm.lm("openai/big", api_base=server.url)
    lms = {"*": fm.lm("openai/m", api_base=server.url), "theirs": theirs}
    first = run(crew, server, 2, lm=lms, out=tmp_path)
    assert [lm.name for lm in first.summary.run.lms.values()] == ["openai/m", "openai/big"]
    with pytest.raises(fm.UserError, match="holds another run"):
        run(crew, server, 2, lm=lms | {"*": fm.lm("openai/n", api_base=server.url)}, out=tmp_path)
    again = run(crew, server, 2, lm=f"replay/{tmp_path}")
    assert [row["answer"] for row in again.rows] == [row["answer"] for row in first.rows]


def test_a_team_with_several_models_enters_a_contest(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "the-key")
    server.reply = lambda body: "A"
    asked: Any = {"lm": ["openai/m", "theirs=openai/big"], "only": ["one prompt"], "confirm": False}
    command = f"cmd:{BARE} {CREW}"
    found = fm.contest(questions(6), added=[command], out=tmp_path, tracking=False, **asked)
    assert {body["model"] for body in server.bodies} == {"m", "big"}
    for folder in found.folders.values():  # each program has paid for its own calls
        summary = json.loads((folder / "summary.json").read_text())
        assert summary["paid"]["calls"] == summary["usage"]["calls"] > 0
    (folder,) = (folder for name, folder in found.folders.items() if "crew" in name)
    assert set(json.loads((folder / "run.json").read_text())["lms"]) == {"*", "theirs"}
    with pytest.raises(fm.UserError, match="theirs its own LM, and no program here"):
        fm.contest(questions(6), tracking=False, **asked)


FAULTY: list[dict[str, Any]] = [{"n": -1_000_000}, {"n": "3"}, {"n": 1.5}, {"max_tokens": -1}]
FAULTY += [{"max_completion_tokens": True}, {"stream_options": [1]}]


def test_a_number_from_a_client_is_not_believed(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """With such a number and a lost reply, minus 12,288 USD were paid."""
    codes: list[int] = []

    def crew(question: fm.Question, endpoint: fm.Endpoint) -> str:
        asked = {"model": "m", "messages": [{"role": "user", "content": "q0: hi"}]}
        deep = b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        for body in (*({**asked, **fault} for fault in FAULTY), deep):
            with pytest.raises(urllib.error.HTTPError) as raised:
                post(f"{endpoint.base_url}/chat/completions", body)
            codes.append(raised.value.code)
            raised.value.close()
        packed = {"Content-Encoding": "zstd"}
        odd = urllib.request.Request(f"{endpoint.base_url}/chat/completions", b"x", packed)
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(odd)
        return "A"

    result = run(crew, server, 1)
    assert codes == [400] * (len(FAULTY) + 1)
    assert "Traceback" not in caplog.text
    assert not server.bodies
    assert result.summary.paid["calls"] == 0


def test_a_file_names_no_command(server: ScriptedServer, tmp_path: Path) -> None:
    command = f"{BARE} {CREW}"
    result = run(fm.Command(command), server, 1, out=tmp_path / "run")
    with pytest.raises(fm.UserError, match="is a command, which no file holds: name it again"):
        fm.load_program(result.folder)
    assert short_name(fm.Command(command).describe()) == "crew"
    (tmp_path / "program.yaml").write_text("program: 'cmd:touch planted'\n")
    with pytest.raises(fm.UserError, match="names the command"):
        fm.evaluate(str(tmp_path / "program.yaml"), questions(1), tracking=False)
    with pytest.raises(fm.UserError, match="not saved"):
        fm.Command("python crew.py").save(tmp_path / "saved")
    for member in (fm.Command("python crew.py"), Foreign(len)):  # a folder that nothing loads
        with pytest.raises(fm.UserError, match="not saved"):
            fm.Ensemble(["simple", member]).save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    for command in ("", "python 'crew.py"):
        with pytest.raises(fm.UserError, match=r"empty|cannot be read"):
            fm.Command(command)
    with pytest.raises(fm.UserError, match="has a value for A_KEY: give its name alone"):
        fm.Command("python crew.py", pass_env="A_KEY=secret")
    lm = fm.lm("openai/m", api_base="http://127.0.0.1:9")
    for program, said in (
        ("cmd:no-such-command", "cannot be started"),
        (fm.Command("python crew.py", pass_env="NOT_SET"), "get NOT_SET, which is not set"),
    ):
        with pytest.raises(fm.UserError, match=said):
            fm.evaluate(program, questions(1), lm=lm)
