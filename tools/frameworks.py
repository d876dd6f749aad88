"""Runs the teams of examples/frameworks: `python tools/frameworks.py [NAME…]`.

Each framework is installed into an environment of its own, since some need another `openai` than
LiteLLM takes. Its team answers the same questions through the meter, by a strict server that counts
its requests and tokens itself: once undisturbed, once killed on the way and started again, and once
by an account that runs empty. An agent that acts does the same with tasks, in the sandbox. Exits
with 1 where a bill differs from the count, in all or of a question, where a question is lost or
paid twice, or where a team tried to reach another host.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openai.types.chat.completion_create_params import CompletionCreateParamsBase

import folkmoot as fm
from folkmoot.pipelines.lms.ledger import totals
from folkmoot.pipelines.testing.server import ScriptedServer

ROOT = Path(__file__).resolve().parents[1]
TEAMS = ROOT / "examples" / "frameworks"
PACKAGES = {
    "openai": ["openai"],
    "langgraph": ["langgraph", "langchain-openai"],
    "agents": ["openai-agents"],
    "autogen": ["autogen-agentchat", "autogen-ext[openai]"],
    "crewai": ["crewai"],
    "pydantic_ai": ["pydantic-ai-slim[openai]"],
    "agent_framework": ["agent-framework-openai"],
    "anthropic": ["anthropic"],
    "mini_swe_agent": ["mini-swe-agent"],
    "aisdk": ["ai", "@ai-sdk/openai", "zod"],
}
"""The packages of each framework's environment, by the name of its team."""

NODE, ACTS = ("aisdk",), ("mini_swe_agent",)
QUESTIONS = 6
AT_ONCE = 2  # questions
PARALLEL = {"agents": 2, "langgraph": 2}  # calls of a question that a team makes side by side
PRICE = (1e-6, 2e-6)
PLACE = "place.txt"
"""The file of a task."""

_ASKED = re.compile(r"thing (\d+)")

# What OpenAI's server takes; it answers 400 to anything else.
FIELDS = {*CompletionCreateParamsBase.__annotations__, "stream"} - {"max_tokens"}
MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "audio", "tool_calls", "function_call"},
    "tool": {"role", "content", "tool_call_id"},
}


def refused_field(body: dict[str, Any]) -> str | None:
    """Return the first field of a request that OpenAI's server would not take."""
    for name in body.keys() - FIELDS:
        return str(name)
    for message in body["messages"]:
        for name in message.keys() - MESSAGE_FIELDS[message["role"]]:
            return f"messages.{name}"
        for call in message.get("tool_calls") or ():
            for name in call.keys() - {"id", "type", "function"}:
                return f"messages.tool_calls.{name}"
        if message.get("content") is None and not message.get("tool_calls"):
            return "messages.content"
        for name, value in message.items():
            if isinstance(value, dict | list) and has_null(value):
                return f"messages.{name}"
    for name, value in body.items():
        if name != "messages" and has_null(value):
            return str(name)
    return None


def has_null(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return any(has_null(part) for part in value)
    return value is None


class Mock(ScriptedServer):
    """Answers with the gold option, calls every tool once, and counts what it bills. From the call
    after `funds` on, the account is empty.
    """

    def __init__(self, funds: int | None = None, delay: float = 0.0) -> None:
        super().__init__(self._reply, delay)
        self.count: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.funds = funds
        self._counting = threading.Lock()

    def _reply(self, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        if name := refused_field(body):
            said = {"message": f"Unsupported parameter: '{name}'.", "code": "unsupported_parameter"}
            if name == "max_tokens":
                said["message"] += " Use 'max_completion_tokens' instead."
            return 400, {}, {"error": said | {"param": name, "type": "invalid_request_error"}}
        text = json.dumps(body["messages"])
        asked = _ASKED.search(text)
        assert asked is not None, f"a request names no question: {text[:300]}"
        answer, tools = "AB"[int(asked[1]) % 2], body.get("tools") or []
        message: dict[str, Any] = {"role": "assistant", "content": answer}
        called = any(one["role"] == "tool" for one in body["messages"])
        if tools and not called:
            given = f"echo {asked[0]} {answer} > {PLACE}" if PLACE in text else asked[0]
            message |= {"content": None, "tool_calls": [_call(tool, given) for tool in tools]}
        elif tools and tools[0]["function"]["name"] == "bash":
            done = f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {answer}"
            message |= {"content": None, "tool_calls": [_call(tools[0], done)]}
        prompt, completion = len(text.split()), 3 + len(tools)
        with self._counting:
            if self.funds is not None and self.count["calls"] >= self.funds:
                self.count["refused"] += 1
                said = {"message": "You exceeded your current quota.", "code": "insufficient_quota"}
                return 402, {}, {"error": said}
            self.count.update(calls=1, prompt=prompt, completion=completion)
            self.asked[asked[1]] += 1
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
    own = tool["function"].get("parameters", {}).get("properties") or ["input"]
    arguments = json.dumps(dict.fromkeys(own, text))
    function = {"name": tool["function"]["name"], "arguments": arguments}
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


def command_of(name: str) -> str:
    """Return the command of a team; its framework's environment is made where there is none."""
    (file,) = (file for file in TEAMS.iterdir() if file.stem in (name, f"{name}_team"))
    place = ROOT / ".venv" / f"frameworks-{name}"
    mark = place / ".installed"
    if name in NODE:
        if not mark.exists():
            place.mkdir(exist_ok=True)
            subprocess.run(["npm", "install", "--silent", *PACKAGES[name]], cwd=place, check=True)
            mark.touch()
        # a module finds its packages from the folder that it lies in
        return f"node {shutil.copy(file, place)}"
    python = place / "bin" / "python"
    if not mark.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([python, *install, "--no-cache-dir", *PACKAGES[name]], check=True)
        mark.touch()
    return f"{python} {file}"


def tasks() -> list[fm.Question]:
    """Return tasks that are done where the file says what only the mock knows, from their own
    text.
    """
    return [
        fm.Question(
            id=f"q{number}",
            question=f"Write into {PLACE} where thing {number} is kept.",
            kind="task",
            files={PLACE: "?\n"},
            tests={"right": f"thing {number} {'AB'[number % 2]}\n"},
        )
        for number in range(QUESTIONS)
    ]


def questions() -> list[fm.Question]:
    """Return questions whose gold option the mock knows from their text."""
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


def evaluated(program: Any, url: str, out: str | Path, acts: bool) -> fm.Evaluation:
    lm = fm.lm("openai/mock", api_base=url, price=PRICE)
    options: Any = {"cache": False, "concurrency": AT_ONCE, "tracking": False, "out": out}
    if acts:
        return fm.evaluate(program, tasks(), lm=lm, check=f"cmp {PLACE} right", **options)
    return fm.evaluate(program, questions(), lm=lm, **options)


def faults_of(program: Any, acts: bool, trap: Trap, out: Path) -> tuple[list[str], Counter[str]]:
    """Return what is wrong with an undisturbed run, and what the server counted."""
    trap.hosts.clear()
    with Mock() as server:
        result = evaluated(program, server.url, out, acts)
    bill, count = result.summary.usage, server.count
    faults = sorted({str(row["error"]) for row in result.rows if row["error"]})
    counted = (count["calls"], count["prompt"], count["completion"])
    billed = (bill["calls"], bill["prompt_tokens"], bill["completion_tokens"])
    if billed != counted or not count["calls"]:
        faults.append(f"billed {billed}, and the server counted {counted}")
    if result.score != 1.0:
        faults.append(f"right {result.score:.0%}")
    each = {row["id"][1:]: row["usage"]["calls"] for row in result.rows}
    if each != server.asked:
        faults.append(f"billed by question {each}, and the server counted {dict(server.asked)}")
    faults += [f"tried to reach {host}, {times} times" for host, times in trap.hosts.items()]
    return faults, count


def faults_after_a_kill(
    command: str, acts: bool, calls: int, in_flight: int, out: Path
) -> list[str]:
    """Return what is wrong when the run is killed after half of its calls, and started again. At
    most the calls in flight are paid again.
    """
    with Mock(delay=0.05) as server:
        kind = "tasks" if acts else "questions"
        words: list[Any] = [sys.executable, __file__, "--child", command, server.url, out, kind]
        child = subprocess.Popen(words)
        while server.count["calls"] < calls // 2 and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        result = evaluated(fm.Command(command, timeout=300), server.url, out, acts)
    ids = Counter(row["id"] for row in result.rows)
    faults = []
    if len(ids) != QUESTIONS or max(ids.values()) > 1 or result.score != 1.0:
        faults.append(f"after a kill: rows {dict(ids)}, right {result.score:.0%}")
    if not 0 <= server.count["calls"] - calls <= in_flight:
        faults.append(f"after a kill: {server.count['calls']} calls, and {calls} are needed")
    return faults


def faults_without_funds(command: str, acts: bool, calls: int, out: Path) -> list[str]:
    """Return what is wrong when the account is empty after half of the calls."""
    with Mock(funds=calls // 2) as server:
        began = time.monotonic()
        result = evaluated(fm.Command(command, timeout=300), server.url, out, acts)
    faults = []
    if result.stopped is None or "quota" not in result.stopped:
        faults.append(f"without funds: the run says {result.stopped!r}")
    if totals(out).calls != calls // 2:
        faults.append(f"without funds: {totals(out).calls} calls billed of {calls // 2}")
    if server.count["refused"] > 4 * AT_ONCE:
        faults.append(f"without funds: {server.count['refused']} refused calls")
    if (seconds := time.monotonic() - began) > 120:
        faults.append(f"without funds: it took {seconds:.0f} s")
    return faults


def checked(name: str, team: Any, trap: Trap, acts: bool = False) -> bool:
    """Return whether a team (a command, or a function) passes all that it is put through, on
    questions or on tasks, which is printed in a line.
    """
    program = fm.Command(team, timeout=300) if isinstance(team, str) else team
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        faults, count = faults_of(program, acts, trap, Path(scratch) / "whole")
        if isinstance(team, str):
            calls, in_flight = count["calls"], AT_ONCE * PARALLEL.get(name, 1)
            faults += faults_after_a_kill(team, acts, calls, in_flight, Path(scratch) / "killed")
            faults += faults_without_funds(team, acts, calls, Path(scratch) / "empty")
    print(
        f"{name:<20} {'WRONG' if faults else 'ok':<6} {count['calls']:3} calls, "
        f"{count['prompt']:5} + {count['completion']:4} tokens; "
        f"{time.perf_counter() - began:.1f} s",
        flush=True,
    )
    for fault in faults:
        print(f"  {fault}")
    return not faults


@contextmanager
def proxied(trap: Trap) -> Iterator[None]:
    """Whatever is sent to another host than this one goes to the trap."""
    address = f"http://127.0.0.1:{trap.server_address[1]}"
    proxies = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "NO_PROXY": "127.0.0.1"}
    proxies |= {name.lower(): value for name, value in proxies.items()}
    os.environ.update(proxies)
    try:
        yield
    finally:
        for name in proxies:
            del os.environ[name]


def main(names: list[str]) -> int:
    """Return the exit code: 1 where a team did not pass."""
    if names[:1] == ["--child"]:
        command, url, out, kind = names[1:]
        evaluated(fm.Command(command, timeout=300), url, out, kind == "tasks")
        return 0
    unknown = sorted({*names} - PACKAGES.keys())
    if unknown:
        print(f"there is no team {unknown[0]!r}: there are {', '.join(PACKAGES)}")
        return 2
    good = True
    with Trap() as trap:
        for name in names or PACKAGES:
            command = command_of(name)
            with proxied(trap):
                good &= checked(name, command, trap)
                if name in ACTS:
                    good &= checked(f"{name}, tasks", command, trap, acts=True)
                if name == "openai":  # this process has the client, too
                    sys.path.insert(0, str(TEAMS))
                    from openai_team import team  # type: ignore[import-not-found]

                    good &= checked("openai, a function", team, trap)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
