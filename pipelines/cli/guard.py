"""What surrounds every command: messages for people, errors as one line and an exit code, clean output."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, ParamSpec

import typer

from ...modules.base.errors import UserError
from ...modules.base.fence import one_line

STOPPED, BAD_INPUT, INTERRUPTED = 1, 2, 130

P = ParamSpec("P")


def say(message: str) -> None:
    """One line for people, on standard error."""
    typer.echo(f"folkmoot: {one_line(message)}", err=True)


def heed_interrupts() -> None:
    """Let no Ctrl-C get lost: what Python drops of it in a finaliser or a callback is sent anew."""
    before = sys.unraisablehook

    def dropped(what: Any) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            before(what)
            return
        again = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = dropped


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn what a command raises into one line on standard error and an exit code."""

    @functools.wraps(command)
    def guard(*args: P.args, **kwargs: P.kwargs) -> None:
        os.environ.setdefault(
            "LITELLM_LOCAL_MODEL_COST_MAP", "True"
        )  # litellm fetches a price table otherwise
        try:
            command(*args, **kwargs)
        except UserError as problem:
            say(str(problem))
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except (typer.Exit, BrokenPipeError):
            raise
        except Exception as problem:
            if kwargs.get("debug"):
                traceback.print_exc()
            raise typer.Exit(_unexpected(problem, bool(kwargs.get("debug")))) from None

    return guard


def _unexpected(problem: Exception, debug: bool) -> int:
    from ...modules.base.calls import CallError

    if isinstance(problem, CallError):
        say(str(problem))
    else:
        hint = "" if debug else " (run it again with --debug for the traceback)"
        say(f"unexpected {type(problem).__name__}: {problem}{hint}")
    return STOPPED


@contextmanager
def warned(known: Collection[str] = ()) -> Iterator[None]:
    """Say what the block warned of and is not `known`, a line each, when it has ended."""
    with warnings.catch_warnings(record=True) as said:
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", kind)
        try:
            yield
        finally:
            kinds = (UserWarning, RuntimeWarning)
            told = dict.fromkeys(str(one.message) for one in said if issubclass(one.category, kinds))
            for message in told:
                if message not in known:
                    say(f"warning: {message}")


@contextmanager
def clean_stdout() -> Iterator[None]:
    """Keep what libraries print off standard output, which is for results."""
    with redirect_stdout(sys.stderr):
        yield
