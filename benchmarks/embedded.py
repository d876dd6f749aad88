"""Tokens a second of an embedded LM by threads and slots, held to a schema and free, beside plain
llama.cpp.

    nice -n 19 python benchmarks/embedded.py local/qwen2.5-coder-1.5b --threads 1 2 --slots 1 2
    --calls 4

`plain` is xllamacpp's server with its own defaults (but for threads and context), called without
HTTP. `rounds` are requests of one dialogue, each with all that was said before: `known` is the
share of their prompt tokens that were not read again. The machine's load stands in the first line,
since threads that share a core collapse.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import folkmoot as fm
from folkmoot.modules.agents.prompt import ReplyField, json_schema
from folkmoot.pipelines.base.settings import settings
from folkmoot.pipelines.lms.embedded import EmbeddedServer
from folkmoot.pipelines.lms.weights import weights_of

FIELDS: list[ReplyField] = [
    {"name": "argument", "type": "text"},
    {"name": "answer", "type": "option", "options": ["A", "B", "C", "D", "E"]},
]
FORM = {"type": "json_schema", "json_schema": {"name": "reply", "schema": json_schema(FIELDS)}}
ASKS = 'Answer with a JSON object {"argument": "two sentences", "answer": "the letter"}.'
Ask = Callable[[dict[str, Any]], dict[str, Any]]


def prompts(count: int) -> list[str]:
    questions = fm.load("sample-choice", "test", limit=count)
    options = [(one.choices or {}).items() for one in questions]
    listed = ["\n".join(f"{label}: {text}" for label, text in each) for each in options]
    return [f"{one.question}\n{text}" for one, text in zip(questions, listed, strict=True)]


def body(said: str, tokens: int, held: bool) -> dict[str, Any]:
    messages = [{"role": "system", "content": ASKS}, {"role": "user", "content": said}]
    form = {"response_format": FORM} if held else {}
    return {
        "messages": messages,
        "temperature": 0,
        "max_tokens": tokens,
        "cache_prompt": True,
        **form,
    }


def over_http(server: EmbeddedServer) -> Ask:
    server.start()
    place, key = urlsplit(server.address).netloc, server.key

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        connection = HTTPConnection(place, timeout=1800)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(request), headers)
        with connection.getresponse() as response:
            answer: dict[str, Any] = json.loads(response.read())
        connection.close()
        return answer

    return ask


def plainly(path: str, threads: int, context: int) -> Ask:
    from xllamacpp import CommonParams, Server  # pyright: ignore[reportAttributeAccessIssue]

    params = CommonParams()
    params.model.path = path
    params.n_ctx = context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = 0
    answered: Ask = Server(params).handle_chat_completions
    return answered


def measure(ask: Ask, asked: list[dict[str, Any]], at_once: int) -> dict[str, float]:
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        replies = list(pool.map(ask, asked))
    took = time.perf_counter() - began
    timings = [reply["timings"] for reply in replies]
    read, made = (sum(one[f"{kind}_n"] for one in timings) for kind in ("prompt", "predicted"))
    known = sum(one.get("cache_n", 0) for one in timings)
    return {
        "seconds_a_call": took / len(asked),
        "prompt_tokens_s": 1000 * read / sum(one["prompt_ms"] for one in timings),
        "made_tokens_s": made
        / max(took - sum(one["prompt_ms"] for one in timings) / 1000 / at_once, 1e-9),
        "known": known / max(known + read, 1),
    }


def rounds(said: str, turns: int, tokens: int) -> Iterator[dict[str, Any]]:
    """Two agents in turn: first the material, with which their requests begin alike, then their own
    words.
    """
    for turn in range(turns):
        yield body(f"{said}\n\nYou are agent {turn % 2}.", tokens, True)
        said += (
            f"\nAgent {turn % 2} said: it is the most likely place, as everybody knows from home."
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("lm", nargs="?", default="local/qwen2.5-coder-1.5b")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--slots", type=int, nargs="+", default=[1])
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args()
    weights = weights_of(options.lm.partition("/")[2], settings().cache)
    cores, load = os.cpu_count(), ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{options.lm}, {cores} cores, load {load}")
    said = prompts(options.calls)

    def show(name: str, found: dict[str, float]) -> None:
        print(
            f"{name:40}",
            "  ".join(f"{key} {value:.2f}" for key, value in found.items()),
            flush=True,
        )

    for threads in options.threads:
        ask = plainly(str(weights.path(settings().cache)), threads, 4096)
        show(
            f"plain, {threads} threads",
            measure(ask, [body(one, options.tokens, False) for one in said], 1),
        )
        del ask
        for slots in options.slots:
            server = EmbeddedServer(
                weights, cache_dir=settings().cache, threads=threads, context=4096, slots=slots
            )
            try:
                ask, name = over_http(server), f"{threads} threads, {slots} slots"
                for held in (False, True):
                    asked = [body(one, options.tokens, held) for one in said]
                    show(f"{name}, {'schema' if held else 'free'}", measure(ask, asked, slots))
                show(f"{name}, rounds", measure(ask, list(rounds(said[0], 4, options.tokens)), 1))
            finally:
                server.stop()


if __name__ == "__main__":
    main()
