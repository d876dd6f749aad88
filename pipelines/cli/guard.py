"""What is around every command: log messages for people, errors as one line with an exit code,
signals, and a standard output with results alone.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

import typer

from ...modules.base.errors import UserError
from ...modules.base.fence import clean, one_line

STOPPED, BAD_INPUT, VERDICT_FAILED, INTERRUPTED = 1, 2, 3, 130
"""Exit codes: no result, wrong input, a verdict that `--fail-if` names, Ctrl-C."""

# For the whole process, as the standard output that `redirect_stdout` replaces is.
_RESULTS: list[TextIO] = []


def say(message: str) -> None:
    """Write one line for people to standard error."""
    typer.echo(f"folkmoot: {one_line(message)}", err=True)


class _Lines(logging.Handler):
    """Shows the package's log messages as lines for people while a command runs."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def results() -> TextIO:
    """Return the original standard output, to which only results are written."""
    return _RESULTS[-1] if _RESULTS else sys.stdout


def handle_interrupts() -> None:
    """Make sure that no Ctrl-C is lost: Python drops one that comes within a finaliser or a
    callback, so it is sent again. SIGTERM, by which schedulers end a job, counts as Ctrl-C.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    before = sys.unraisablehook

    def again(left: threading.Event) -> None:
        # Only after the callback has ended, within which it would be dropped again.
        left.wait()
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            before(what)
            return
        left = threading.Event()
        threading.Thread(target=again, args=(left,), daemon=True).start()
        left.set()

    sys.unraisablehook = dropped


def leave_quietly() -> None:
    """End silently when the reader of a pipe is gone, as after `folkmoot … | head`."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # Otherwise Python would flush the rest at exit, and print an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say_warnings() -> None:
    """Show warnings as lines for people, also those of threads and at exit."""
    before = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, UserWarning | RuntimeWarning):
            say(f"warning: {message}")
        else:
            before(message, category, filename, lineno, file, line)

    warnings.showwarning = show


@contextmanager
def guarded(*, debug: bool = False, verbose: bool = False) -> Iterator[None]:
    """Keep the output of libraries off standard output, and turn an error into one line and an exit
    code. The package's warnings are shown; with `verbose`, all its log messages.
    """
    # Otherwise LiteLLM would fetch a price table, and read a `.env` file, which may name servers.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character shows a ?
            stream.reconfigure(errors="replace")
    _RESULTS.append(sys.stdout)
    # The package's own logger, so that no library's messages are shown.
    log, handler = logging.getLogger("folkmoot"), _Lines()
    before = log.level
    log.setLevel(logging.INFO if verbose else logging.WARNING)
    log.addHandler(handler)
    try:
        with redirect_stdout(sys.stderr):
            yield
    except UserError as problem:
        first, *others = getattr(problem, "lines", (str(problem),))
        say(first)
        for line in others:
            typer.echo(f"  {one_line(line)}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, BrokenPipeError):
        raise
    except Exception as problem:
        if debug:
            typer.echo(clean(traceback.format_exc()), err=True)
        from ...modules.base.calls import CallError  # imports DSPy, which --help does not need

        said = str(problem)
        if not isinstance(problem, CallError):
            said = f"unexpected {type(problem).__name__}: {problem}"
            if not debug:
                said += " (run it again with --debug for the traceback)"
        say(said)
        raise typer.Exit(STOPPED) from None
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        _RESULTS.pop()
