"""Child processes that begin at once: forks of one that has imported everything already."""

import atexit
import multiprocessing
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

BARE = f"{sys.executable} -S"
"""Python without installed packages, which begins in a fifth of the time, for a command line."""
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["warm"])


class Forked(FORKED.Process):
    """A forked process that Ctrl-C interrupts, with the environment of its maker."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._environment = dict(os.environ)

    def run(self) -> None:
        assert "warm" in sys.modules, "the warm process has not found what it is to import"
        # ignored where tests run in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


WARM = SimpleNamespace(Pipe=FORKED.Pipe, Process=Forked)
"""What takes the place of a context of `multiprocessing` whose processes are to begin at once."""


class Child:
    """A function in a process of its own, handled as a `subprocess.Popen`; its output is kept.

    It is found by its name, and gets this process's working folder and environment alone.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="folkmoot-child-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        for name in ("out", "err"):
            Path(self._folder, name).touch()
        given = (str(self._folder), function, arguments)
        self._process = Forked(target=_alone, args=given)
        self._process.start()
        atexit.register(self.kill)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self._process.pid or 0, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = 60) -> int:
        """The exit code. Raises TimeoutError for a child that does not end, after killing it."""
        self._process.join(timeout)
        if self.returncode is None:
            self.kill()
            raise TimeoutError(f"the child did not end within {timeout} s: {self.said('err')}")
        atexit.unregister(self.kill)
        return self.returncode

    def communicate(self, timeout: float = 60) -> tuple[str, str]:
        """What it printed on standard output and error, once it has ended."""
        self.wait(timeout)
        return self.said("out"), self.said("err")

    def said(self, name: str) -> str:
        """What it has printed so far: its "out" or "err"."""
        return Path(self._folder, name).read_text()


def wait_until(true: Callable[[], object], why: Callable[[], object] = str) -> None:
    """An error, with what `why` gives, where it is not so after two minutes."""
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end, why()
        time.sleep(0.002)


def wait_for_requests(server: Any, count: int, alive: Callable[[], bool] = lambda: True) -> None:
    """Until the scripted server has had so many requests, or who sends them is not alive."""
    had = server.requests
    wait_until(lambda: len(had) >= count or not alive(), lambda: f"{len(had)} of {count} came")


def run(
    function: Callable[..., Any], *arguments: Any, timeout: float = 120
) -> CompletedProcess[str]:
    """Run a function in a process of its own to its end."""
    child = Child(function, *arguments)
    out, err = child.communicate(timeout)
    return CompletedProcess([], child.wait(), out, err)


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own, and give back what it returned."""
    here, there = FORKED.Pipe(duplex=False)
    process = Forked(target=_send, args=(there, function, arguments))
    process.start()
    there.close()
    try:
        return here.recv()
    finally:
        process.join(60)
        process.kill()


def command(*words: Any) -> None:
    """`folkmoot WORDS`, as a function for a child."""
    from folkmoot.pipelines.cli import main

    sys.argv = ["folkmoot", *map(str, words)]
    sys.exit(main())


def code(text: str, *words: Any) -> None:
    """`python -c TEXT WORDS`, as a function for a child."""
    sys.argv = ["-c", *map(str, words)]
    exec(compile(text, "<child>", "exec"), {"__name__": "__main__"})


def script(path: Path, *words: Any) -> None:
    """`python PATH WORDS`, as a function for a child."""
    sys.argv = [str(path), *map(str, words)]
    runpy.run_path(str(path), run_name="__main__")


def _alone(folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    tempfile.tempdir = None  # where the environment says, not where the warm process found it
    for number, name in ((1, "out"), (2, "err")):
        with open(os.path.join(folder, name), "wb") as file:
            os.dup2(file.fileno(), number)
    function(*arguments)


def _send(there: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    there.send(function(*arguments))
