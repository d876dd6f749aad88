"""Runs one command and, when it ends or is to end, stops every process that it has started.

It is a script of its own, which needs nothing but the standard library: `supervisor.py PARENT
FOLDER COMMAND…`. On Linux, processes whose parents have died become its children, wherever they
hide, and it ends when the process PARENT dies, however that happens. Where FOLDER is not empty, the
command works in it and has limits.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MOST_PROCESSES = 256
MOST_MEMORY = 2 * 2**30
MOST_FILE = 256 * 2**20
MOST_FOLDER = 2**30
"""The bytes of a file, and of all in the folder."""

LOOK_SECONDS = 0.25
"""Processes, memory in all, and the folder are looked at so often."""

LIMITS = {
    resource.RLIMIT_DATA: MOST_MEMORY,
    resource.RLIMIT_FSIZE: MOST_FILE,
    resource.RLIMIT_CORE: 0,
}


def _descendants() -> list[int]:
    """Return the processes below this one."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name in brackets may itself hold blanks and brackets.
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(name)] = int(fields[1])
    below, found = {os.getpid()}, []
    while new := [child for child in parents if child not in below and parents[child] in below]:
        below.update(new)
        found += new
    return found


def _stop_all() -> None:
    """Stop the processes below this one, until there are none left."""
    # More than once: a process may have started another before it was stopped.
    while below := _descendants():
        for process in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def _memory_of(process: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{process}/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
    return 0


def _size_of(folder: str) -> int:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_blocks * 512
    return size


def _look(folder: str) -> None:
    """Exit, and so stop the command, if it is over a limit."""
    below = _descendants()
    over = ""
    if len(below) > MOST_PROCESSES:
        over = f"it started more than {MOST_PROCESSES} processes"
    elif sum(map(_memory_of, below)) > MOST_MEMORY:
        over = f"it took more than {MOST_MEMORY >> 30} GB of memory"
    elif _size_of(folder) > MOST_FOLDER:
        over = f"it wrote more than {MOST_FOLDER >> 30} GB into its folder"
    if over:
        sys.exit(f"LimitError: {over}")


def main(parent: int, folder: str, command: list[str]) -> int:
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
        if folder:
            for limit, most in LIMITS.items():
                resource.setrlimit(limit, (most, most))
        try:
            os.execvp(command[0], command)
        except OSError as problem:
            print(f"it cannot be started ({problem.strerror})", file=sys.stderr)
        # This is a copy of the supervisor: an ordinary exit would run its clean-up, too.
        os._exit(127)
    # Only the command reads this input, so that who writes it learns when the command ends.
    os.close(0)
    if folder:
        signal.signal(signal.SIGALRM, lambda *_: _look(folder))
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        while True:
            ended, status = os.wait()
            # Others are orphans of the command's, which became children of this process.
            if ended == child:
                code = os.waitstatus_to_exitcode(status)
                # As a shell says that a signal ended it.
                return code if code >= 0 else 128 - code
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _stop_all()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
