"""Runs the teams of examples/frameworks: `python tools/frameworks.py [NAME…]`.

Each framework is installed into a virtual environment of its own, since some need another `openai`
than LiteLLM takes. Its team answers the same questions through the meter, by a server that counts
its requests and tokens itself. Exits with 1 where a bill differs from that count, or where a team
tried to reach another host.
"""

from __future__ import annotations

import json
import os
import re
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

ROOT = Path(__file__).resolve().parents[1]
TEAMS = ROOT / "examples" / "frameworks"
PACKAGES = {
    "openai": ["openai"],
    "langgraph": ["langgraph", "langchain-openai"],
    "agents": ["openai-agents"],
    "autogen": ["autogen-agentchat", "autogen-ext[openai]"],
    "crewai": ["crewai"],
}
"""The packages of each framework's environment, by the name of its team."""

QUESTIONS = 6
PRICE = (1e-6, 2e-6)
_ASKED = re.compile(r"thing (\d+)")


class Mock(ScriptedServer):
    """Answers with the gold option, calls every tool once, and counts what it bills."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.count: Counter[str] = Counter()
        self._counting = threading.Lock()

    def _reply(self, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        text = json.dumps(body["messages"])
        asked = _ASKED.search(text)
        assert asked is not None, f"a request names no question: {text[:300]}"
        message: dict[str, Any] = {"role": "assistant", "content": "AB"[int(asked[1]) % 2]}
        tools = body.get("tools") or []
        if tools and not any(one["role"] == "tool" for one in body["messages"]):
            message |= {"content": None, "tool_calls": [_call(tool, asked[0]) for tool in tools]}
        prompt, completion = len(text.split()), 3 + len(tools)
        with self._counting:
            self.count.update(calls=1, prompt=prompt, completion=completion)
        return 200, {}, {
            "id": "mock",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }  # fmt: skip


def _call(tool: dict[str, Any], text: str) -> dict[str, Any]:
    function = {"name": tool["function"]["name"], "arguments": json.dumps({"input": text})}
    return {"id": f"call_{function['name']}", "type": "function", "function": function}


class Trap(socketserver.ThreadingTCPServer):
    """Stands where a proxy would: what a team sends to another host arrives here, and is noted."""

    def __init__(self) -> None:
        self.hosts: Counter[str] = Counter()
        super().__init__(("127.0.0.1", 0), _Trapped)

    def __enter__(self) -> Trap:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Trapped(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        words = self.rfile.readline().decode("latin-1").split()
        assert isinstance(self.server, Trap)
        self.server.hosts[words[1] if len(words) > 1 else "?"] += 1
        self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


def python_of(name: str) -> Path:
    """The interpreter of a framework's environment, which is made where there is none."""
    place = ROOT / ".venv" / f"frameworks-{name}"
    python, mark = place / "bin" / "python", place / ".installed"
    if not mark.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([python, *install, "--no-cache-dir", *PACKAGES[name]], check=True)
        mark.touch()
    return python


def questions() -> list[fm.Question]:
    """Questions whose gold option the mock knows from their text."""
    choices = {"A": "bank", "B": "mall"}
    return [
        fm.Question(
            id=f"q{number}",
            question=f"Where is thing {number} kept?",
            choices=choices,
            answer="AB"[number % 2],
        )
        for number in range(QUESTIONS)
    ]


def run(name: str, program: Any, trap: Trap) -> bool:
    """Whether a team was billed what the server counted and answered everything."""
    trap.hosts.clear()
    began = time.perf_counter()
    with Mock() as server:
        lm = fm.lm("openai/mock", api_base=server.url, price=PRICE)
        result = fm.evaluate(
            program, questions(), lm=lm, cache=False, concurrency=2, tracking=False
        )
        count = server.count
    bill = result.summary.usage
    billed = (bill["calls"], bill["prompt_tokens"], bill["completion_tokens"])
    counted = (count["calls"], count["prompt"], count["completion"])
    errors = sorted({str(row["error"]) for row in result.rows if row["error"]})
    good = billed == counted and count["calls"] > 0 and not errors and result.score == 1.0
    good = good and not trap.hosts
    print(
        f"{name:<20} {'ok' if good else 'WRONG':<6} server: {counted[0]:3} calls, "
        f"{counted[1]:5} + {counted[2]:4} tokens; bill: {billed[0]:3} calls, "
        f"{billed[1]:5} + {billed[2]:4} tokens, {bill['cost_usd']:.6f} USD; "
        f"right {result.score:.0%}; {time.perf_counter() - began:.1f} s",
        flush=True,
    )
    for error in errors:
        print(f"  {error}")
    for host, times in trap.hosts.items():
        print(f"  tried to reach {host}, {times} times")
    return good


def main(names: list[str]) -> int:
    """The exit code: 1 where a team's bill is not what the server counted."""
    unknown = sorted({*names} - PACKAGES.keys())
    if unknown:
        print(f"there is no team {unknown[0]!r}: there are {', '.join(PACKAGES)}")
        return 2
    good = True
    with Trap() as trap:
        address = f"http://127.0.0.1:{trap.server_address[1]}"
        proxies = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "NO_PROXY": "127.0.0.1"}
        for name in names or PACKAGES:
            python = python_of(name)
            os.environ.update(proxies)
            os.environ.update({key.lower(): value for key, value in proxies.items()})
            command = fm.Command(f"{python} {TEAMS / f'{name}_team.py'}", timeout=300)
            good &= run(name, command, trap)
            if name == "openai":  # this process has the client, too
                sys.path.insert(0, str(TEAMS))
                from openai_team import team  # type: ignore[import-not-found]

                good &= run("openai, a function", team, trap)
            for key in proxies:
                del os.environ[key], os.environ[key.lower()]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
