"""Runs one command and, when it ends or is to end, stops every process that it has started.

It is a script of its own, which needs nothing but the standard library: `supervisor.py PARENT
COMMAND…`. On Linux, processes whose parents have died become its children, wherever they hide, and
it ends when the process PARENT dies, however that happens.
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def _descendants() -> list[int]:
    """The processes below this one."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(name)] = int(fields[1])
    below, found = {os.getpid()}, []
    while new := [one for one, parent in parents.items() if parent in below and one not in below]:
        below.update(new)
        found += new
    return found


def _stop_all() -> None:
    """Stop the processes below this one, until there are none left."""
    while below := _descendants():
        for process in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def main(parent: int, command: list[str]) -> int:
    """Run the command; returns its exit code."""
    control = ctypes.CDLL(None).prctl
    control(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    control(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # which died before this was set
        return 128 + signal.SIGTERM
    child = os.fork()
    if child == 0:
        control(PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            os.execvp(command[0], command)
        except OSError as problem:
            print(f"it cannot be started ({problem.strerror})", file=sys.stderr)
        os._exit(127)
    os.close(0)
    try:
        while True:
            ended, status = os.wait()
            if ended == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
    finally:
        _stop_all()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
