"""Runs a check that is a Python command, and says at its end with which code it has ended.

The answer that is checked runs in the same process, and can end that with code 0 before anything is
checked: what counts stands before the end that this script writes.

It is a script of its own, which needs nothing but the standard library: `python -c WITNESS`, then
`-m MODULE …`, `-c CODE …` or `SCRIPT …`. Its input is a line of JSON: a secret word, and the names
of the files that are the check's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
from collections.abc import Container, Sequence
from importlib.util import find_spec
from typing import Any

CODE = "<check>"
"""What tracebacks call the code of `-c`; Python's own name is also that of what it executes."""


def _run(how: str, target: str) -> None:
    place = os.getcwd() if how else os.path.dirname(os.path.abspath(target))
    if sys.path[0] == "":  # which a Python that is told to be safe leaves out
        sys.path[0] = place
    if how == "-m":
        # Another module may be the answer's own, which has not made it.
        if target == "pytest" and find_spec(target) is None:
            print("there is no module pytest", file=sys.stderr)
            sys.exit(127)  # as a shell says that there is no command
        runpy.run_module(target, None, "__main__", alter_sys=True)
    elif how == "-c":
        exec(compile(target, CODE, "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(target, None, "__main__")


def _code_of(problem: BaseException, tests: Sequence[str]) -> int | None:
    """The exit code that an exception means; None where the answer has raised SystemExit."""
    trace = problem.__traceback__
    while trace and _is_here(trace.tb_frame.f_globals):
        trace = trace.tb_next
    if not isinstance(problem, SystemExit):
        sys.excepthook(type(problem), problem.with_traceback(trace), trace)
        return 1
    files = []
    while trace:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    own = {*map(os.path.abspath, [*tests, CODE])}
    foreign = [_is_of_answer(file, own) for file in files]
    # A command that is the answer itself may end anywhere.
    if any(foreign) and not foreign[0]:
        return None
    if problem.code is None or isinstance(problem.code, int):
        return int(problem.code or 0) & 255
    print(problem.code, file=sys.stderr)
    return 1


def _is_here(names: dict[str, Any]) -> bool:
    return names is globals() or names.get("__name__") == "runpy"


def _is_of_answer(file: str, own: Container[str]) -> bool:
    """Whether code is neither that of the check nor installed; what it executes has no file."""
    place = os.path.abspath(file)
    return place.startswith(os.getcwd() + os.sep) and place not in own and "<frozen" not in file


def witness() -> int:
    """Run the command; returns its exit code."""
    secret, tests = json.loads(sys.stdin.readline())
    how, rest = "", sys.argv[1:]
    if rest[0] in ("-m", "-c"):
        how, *rest = rest
    sys.argv[:] = rest
    code: int | None = 0
    try:
        _run(how, rest[0])
    except BaseException as problem:
        code = _code_of(problem, tests)
    if code is None:  # without the secret word it does not count
        return 0
    with contextlib.suppress(Exception):  # the check may have closed it
        sys.stdout.flush()
    os.write(1, f"\n{secret} {code}\n".encode())
    return code


if __name__ == "__main__":
    sys.exit(witness())
