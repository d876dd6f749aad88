"""Runs a command, and stops it with all that it has started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from ...modules.base.calls import CallError
from ...modules.base.errors import UserError

MOST_OUTPUT = 1_000_000
"""The number of last bytes of a command's output that are read."""

_SETS = re.compile(r"\w+=")
_OF_SHELLS = {"&&", "||", "|", "&", "<", ">", ">>", "2>", "2>&1"}

ENDING_SECONDS = 5.0
"""The time that a command has left once it is to end."""


class CommandError(CallError):
    """A command that ended badly on a question, which becomes an error row."""


def words_of(command: str, what: str, such: str) -> list[str]:
    """Return the words of a command line, which no shell runs. Raises UserError for one without
    words, with a quote that does not end, or with what only a shell understands.
    """
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise UserError(f"the {what} {command!r} cannot be read: {problem}") from None
    if not words:
        raise UserError(f"the {what} is empty: give one such as {such!r}")
    if _SETS.match(words[0]) or _OF_SHELLS.intersection(words):
        raise UserError(
            f"the {what} {command!r} needs a shell, and none runs it: give "
            f"{shlex.join(['sh', '-c', command])}"
        )
    return words


class Started(NamedTuple):
    """How a command is started; `after` ends what may be left of it."""

    words: list[str]
    environment: dict[str, str]
    cwd: Path | None
    after: list[str]


class Ended(NamedTuple):
    """How a command ended, and the last lines of its output and of its errors, without empty ones
    at their end. `code` is None where it took too long.
    """

    code: int | None
    printed: list[str]
    complaint: list[str]


async def run(how: Started, folder: Path | None, seconds: float, given: bytes = b"") -> Ended:
    """Run a command, stop all its processes, and return how it ended.

    Args: folder: where it works, if it has limits (`supervisor`). given: its standard input.

    Raises OSError where it cannot be started.
    """
    code = None
    with TemporaryFile() as out, TemporaryFile() as err:
        process = await asyncio.create_subprocess_exec(
            *_supervised(folder),
            *how.words,
            stdin=asyncio.subprocess.PIPE,
            stdout=out,
            stderr=err,
            env=how.environment,
            cwd=how.cwd,
            # Its own process group, so that all processes that it starts can be stopped with it.
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    with contextlib.suppress(ConnectionError):  # it need not read its input
                        process.stdin.write(given)
                        await process.stdin.drain()
                        process.stdin.close()
                    code = await process.wait()
        finally:
            try:
                await _stop(process)
            finally:  # a second Ctrl-C may interrupt the first, and a container would go on
                if how.after:
                    quiet = asyncio.subprocess.DEVNULL
                    ending = await asyncio.create_subprocess_exec(
                        *how.after, stdout=quiet, stderr=quiet
                    )
                    await ending.wait()
        return Ended(code, _last_lines(out), _last_lines(err))


def _supervised(folder: Path | None) -> tuple[str, ...]:
    """Return what starts a command so that all its processes can be stopped; empty where the system
    has no way.
    """
    if sys.platform != "linux":
        return ()
    script = str(Path(__file__).with_name("supervisor.py"))
    # -I and -S: nothing of the user's is imported, and it starts in no time.
    return sys.executable, "-I", "-S", script, str(os.getpid()), str(folder or "")


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Stop a command with all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        process.terminate()  # its supervisor then stops everything below it
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ENDING_SECONDS):
            await process.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Where there is no supervisor, or it did not end by itself.
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _last_lines(file: IO[bytes]) -> list[str]:
    file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_OUTPUT))
    # as bytes: a text has ends of lines that are none of a terminal's
    return [line.decode("utf-8", "replace") for line in file.read().rstrip().splitlines()]
