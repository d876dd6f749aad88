"""Runs a check that is a Python command, and says at its end with which code it has ended.

The answer that is checked runs in the same process, and can end that with code 0 before anything is
checked: what counts stands before the end that this script writes.

It is a script of its own, which needs Python 3.6 alone, as old images have it: `python -c WITNESS`,
then `-m MODULE …`, `-c CODE …` or `SCRIPT …`. Its input is a secret word, and the names of the
files that are the check's own, with a 0 between them.
"""

import os
import sys

CODE = "<check>"
"""What tracebacks call the code of `-c`; Python's own name is also that of what it executes."""
HERE = os.getcwd()  # which the answer may leave


def _run(how: str, target: str) -> None:
    place = HERE if how else os.path.dirname(os.path.join(HERE, target))
    in_place = sys.path[0] == ""  # which a Python that is told to be safe leaves out
    if in_place:
        del sys.path[0]
    import runpy  # not the answer's own
    from importlib.util import find_spec

    if in_place:
        sys.path.insert(0, place)
    if how == "-m":
        # Another module may be the answer's own, which has not made it.
        if target == "pytest" and find_spec(target) is None:
            print("there is no module pytest", file=sys.stderr)
            sys.exit(127)  # as a shell says that there is no command
        runpy.run_module(target, None, "__main__", alter_sys=True)
    elif how == "-c":
        main = type(sys)("__main__")
        sys.modules["__main__"] = main
        exec(compile(target, CODE, "exec"), main.__dict__)
    else:
        runpy.run_path(os.path.join(HERE, target), None, "__main__")


def _code_of(problem: BaseException, tests: "list[str]") -> "int | None":
    """Return the exit code that an exception means; None where the answer has raised SystemExit."""
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
    own = {os.path.join(HERE, file) for file in [*tests, CODE]}
    foreign = [file for file in files if _is_of_answer(file, own)]
    # A command that is the answer itself may end anywhere.
    if foreign and foreign[0] != files[0]:
        print(f"SystemExit in {foreign[-1]}, which is not among the tests", file=sys.stderr)
        return None
    if problem.code is None or isinstance(problem.code, int):
        return int(problem.code or 0) & 255
    print(problem.code, file=sys.stderr)
    return 1


def _is_here(names: "dict[str, object]") -> bool:
    return names is globals() or names.get("__name__") == "runpy"


def _is_of_answer(file: str, own: "set[str]") -> bool:
    """Return whether code is neither that of the check nor installed; what it executes has no
    file.
    """
    place = os.path.normpath(os.path.join(HERE, file))
    return place.startswith(HERE + os.sep) and place not in own and "<frozen" not in file


def witness() -> int:
    """Run the command; returns its exit code."""
    secret, *tests = os.fsdecode(sys.stdin.buffer.read()).split("\0")
    how, rest = "", sys.argv[1:]
    if rest[0] in ("-m", "-c"):
        how, *rest = rest
    target = rest[0]
    if how == "-c":
        rest[0] = how
    sys.argv[:] = rest
    code: int | None = 0
    try:
        _run(how, target)
    except BaseException as problem:
        code = _code_of(problem, tests)
    if code is None:  # without the secret word it does not count
        return 0
    try:  # noqa: SIM105 (contextlib may be the answer's own)
        sys.stdout.flush()
    except Exception:  # the check may have closed it
        pass
    os.write(1, f"\n{secret} {code}\n".encode())
    return code


if __name__ == "__main__":
    sys.exit(witness())
