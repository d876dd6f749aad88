"""Programs that ask their LM through the meter: commands, and functions with an `endpoint`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import json
import os
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.calls import FatalCallError
from ...modules.base.errors import UserError
from ...modules.protocols.declaration import Protocol
from ...modules.protocols.foreign import ENDPOINT, Foreign
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.settings import settings
from .server import Endpoint, Session, metered_endpoint

COMMAND = "cmd:"
"""What a command begins with where programs are named."""

MOST_OUTPUT = 1_000_000
"""Bytes of a command's output that are kept, the last ones."""

DRAIN_SECONDS = 1.0
"""How long the rest of a command's output is read after it has ended."""

QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "OTEL_SDK_DISABLED": "true"}
"""Frameworks that would send prompts to somebody else do not, with these."""


class CommandFailed(RuntimeError):
    """A command that ended badly on a question, which becomes an error row."""


class Metered(Foreign):
    """A function of the user's own with a parameter `endpoint`, which gets an `Endpoint`.

    It is asked as other functions are, and its LM calls are those that it sends to the endpoint.
    `lms` are the LMs of names that it gives as `model`; every other name is the run's LM.
    """

    def __init__(
        self, module: Any, inputs: Mapping[str, str] | None = None, spec: str | None = None
    ) -> None:
        super().__init__(module, inputs, spec)
        self.lms: dict[str, dspy.LM] = {}

    def assign(self, lms: Mapping[str, Any] | None) -> None:
        """Give names that the program uses for models LMs of their own; any name may be given."""
        self.lms |= lms or {}

    def report(self, rows: Iterable[ResultRow]) -> dict[str, Any]:
        """`unmetered`: on how many questions it made no call through the meter, if on any."""
        silent = sum(row["error"] is None and row["usage"]["calls"] == 0 for row in rows)
        return {"unmetered": silent} if silent else {}

    async def _asked(self, *given: Any, **fields: Any) -> tuple[Any, list[dict[str, Any]]]:
        async with metered_endpoint(self.lms, dspy.settings.lm) as (endpoint, session):
            said = await self._call(*given, **fields, **{ENDPOINT: endpoint})
        return said, transcript_of(session)


class Command(Metered):
    """A command that is started once for each question and asks its LM through the meter.

    It gets the question's fields as a JSON object on its standard input, and an environment in
    which OpenAI's and Anthropic's clients find the meter. Its answer is the last line that it
    prints: text, or an object with `answer`. When the question ends, all its processes end.

    Args:
        command: what is started, such as `"python crew.py"`; no shell reads it.
        timeout: seconds that one question may take; None sets no limit.
        pass_env: names of environment variables with keys that it is given all the same.
        cwd: the folder that it is started in; by default this one.

    A command that ends with another code than 0, or takes too long, makes an error row. Raises
    UserError for a command that is empty or cannot be started.
    """

    protocol = Protocol("command", named=False, title=lambda described: str(described["command"]))

    def __init__(
        self,
        command: str,
        *,
        timeout: float | None = None,
        pass_env: Sequence[str] | str = (),
        cwd: str | Path | None = None,
    ) -> None:
        try:
            words = shlex.split(command)
        except ValueError as problem:
            raise UserError(f"the command {command!r} cannot be read: {problem}") from None
        if not words:
            raise UserError("the command is empty: give one such as 'python crew.py'")
        if timeout is not None and timeout <= 0:
            raise UserError(f"the timeout is {timeout}: give seconds above 0")
        self.command = command
        passed = (pass_env,) if isinstance(pass_env, str) else tuple(pass_env)
        super().__init__(Start(tuple(words), timeout, passed, None if cwd is None else Path(cwd)))

    def describe(self) -> dict[str, Any]:
        """The command, and a hash of the files that it names, so that an edited one starts anew."""
        start: Start = self.module
        digest = hashlib.sha256()
        for path in ((start.cwd or Path()) / word for word in start.words):
            if path.is_file():
                digest.update(path.read_bytes())
        described: dict[str, Any] = {"program": self.protocol.name, "command": self.command}
        if start.timeout is not None:
            described["timeout"] = start.timeout
        if start.pass_env:
            described["pass_env"] = list(start.pass_env)
        return {**described, "code": digest.hexdigest()}

    def save(
        self, path: str | Path, save_program: bool = False, modules_to_serialize: Any = None
    ) -> None:
        raise UserError(
            "a command is not saved, since a file could then start anything: name it again, as "
            f"{COMMAND}{self.command}"
        )


@dataclass(frozen=True)
class Start:
    """Starts a command's words on a question; see `Command`."""

    words: tuple[str, ...]
    timeout: float | None
    pass_env: tuple[str, ...]
    cwd: Path | None

    async def __call__(self, question: Question, endpoint: Endpoint) -> Any:
        """The command's answer to one question. Raises CommandFailed where it gives none."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment(endpoint),
                cwd=self.cwd,
                # A group of its own, so that all that it starts ends with it.
                start_new_session=True,
            )
        except OSError as problem:
            raise FatalCallError(
                f"the command {self.words[0]!r} cannot be started ({problem.strerror}): check its "
                "name, and that it may be run"
            ) from None
        assert process.stdin and process.stdout and process.stderr
        reading = [
            asyncio.create_task(_last_bytes(stream)) for stream in (process.stdout, process.stderr)
        ]
        try:
            async with asyncio.timeout(self.timeout):
                await _write(process.stdin, _fields_of(question))
                code = await process.wait()
        except TimeoutError:
            raise CommandFailed(f"it took longer than {self.timeout:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            # What left the group may hold the output open: it is not waited for.
            await asyncio.wait(reading, timeout=DRAIN_SECONDS)
            for task in reading:
                task.cancel()
            outputs = await asyncio.gather(*reading)
        printed, complaint = (bytes(kept).decode("utf-8", "replace") for kept in outputs)
        if code != 0:
            reason = _last_line(complaint)[:500] or "it printed no reason"
            raise CommandFailed(f"the command ended with code {code}: {reason}")
        return _answer(_last_line(printed))

    def _environment(self, endpoint: Endpoint) -> dict[str, str]:
        """This process's environment with the meter in place of keys and addresses."""
        known = settings()
        return {
            **known.environment_without(known.key_names() - set(self.pass_env)),
            **QUIET,
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_BASE": endpoint.base_url,
            "ANTHROPIC_BASE_URL": endpoint.anthropic_url,
            "OPENAI_API_KEY": endpoint.api_key,
            "ANTHROPIC_API_KEY": endpoint.api_key,
        }


def _fields_of(question: Question) -> dict[str, Any]:
    """What a command is told of a question: all but the gold answer."""
    fields = {name: question[name] for name in ("id", "question", "choices", "context", "kind")}
    meta = {name: value for name, value in question.meta.items() if name != "answer"}
    return {**fields, "meta": meta}


async def _write(stream: asyncio.StreamWriter, fields: Mapping[str, Any]) -> None:
    with contextlib.suppress(ConnectionError):  # of a command that reads no question
        stream.write(json.dumps(fields, ensure_ascii=False, default=str).encode())
        await stream.drain()
        stream.close()


def takes_endpoint(function: Any) -> bool:
    """Whether a function has a parameter for its question's endpoint."""
    if isinstance(function, dspy.Module):
        return False
    try:
        return ENDPOINT in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def transcript_of(session: Session) -> list[dict[str, Any]]:
    """The calls of a question as the turns of a transcript."""
    return [
        {
            "agent": call.model,
            "round": number,
            "answer": None,
            "text": call.text,
            "usage": call.usage,
            "step": True,
        }
        for number, call in enumerate(session.calls, 1)
    ]


async def _last_bytes(stream: asyncio.StreamReader) -> bytearray:
    """The end of what a process prints; it is read to its end, so that nothing blocks."""
    kept = bytearray()
    with contextlib.suppress(asyncio.CancelledError):
        while part := await stream.read(65_536):
            kept += part
            del kept[:-MOST_OUTPUT]
    return kept


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _answer(line: str) -> Any:
    """The answer in a command's last line; an object that holds none is text."""
    try:
        value = json.loads(line)
    except ValueError:
        return line or None
    return value["answer"] if isinstance(value, dict) and "answer" in value else line
