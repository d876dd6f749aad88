"""Runs a command, and stops it with all that it has started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

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


async def exit_code(
    words: Sequence[str],
    out: IO[bytes],
    err: IO[bytes],
    *,
    environment: Mapping[str, str],
    cwd: Path | None,
    seconds: float,
    given: bytes = b"",
    folder: Path | None = None,
) -> int:
    """Run a command, stop all its processes, and return its exit code.

    Args: out, err: where it prints. given: its standard input. folder: where it works, if it has
        limits (`supervisor`).

    Raises OSError where it cannot be started, TimeoutError where it takes longer.
    """
    process = await asyncio.create_subprocess_exec(
        *_supervised(folder),
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=out,
        stderr=err,
        env=environment,
        cwd=cwd,
        # Its own process group, so that all processes that it starts can be stopped with it.
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        async with asyncio.timeout(seconds):
            with contextlib.suppress(ConnectionError):  # from one that does not read its input
                process.stdin.write(given)
                await process.stdin.drain()
                process.stdin.close()
            return await process.wait()
    finally:
        await _stop(process)


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


def last_lines(file: IO[bytes], most: int = 1) -> list[str]:
    """Return the last lines of a file, without empty ones at its end; only its end is read."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_OUTPUT))
    # as bytes: a text has ends of lines that are none of a terminal's
    lines = file.read().rstrip().splitlines()[-most:]
    return [line.decode("utf-8", "replace") for line in lines]
