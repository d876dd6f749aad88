"""Workers of pytest-xdist that begin at once: each is a fork of one process that has imported what
the tests need already, instead of importing it all again.
"""

import atexit
import gc
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from multiprocessing import forkserver, resource_tracker, util
from typing import Any

NAMES = ("warm", "datasets", "litellm", "mlflow", "scipy.stats", "torch_geometric.nn")


def python_of_workers() -> str:
    """What pytest-xdist is to start each worker with: a command line that takes the place of
    Python's.
    """
    folder = tempfile.TemporaryDirectory(prefix="folkmoot-workers-")
    address = os.path.join(folder.name, "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    words = [sys.executable, "-c", f"import workers; workers.fork_for({listener.fileno()})"]
    with listener:
        server = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])

    @atexit.register
    def end() -> None:
        server.stdin.close()  # the end of its input is its end
        with suppress(subprocess.TimeoutExpired):  # of workers that were starting at a Ctrl-C
            server.wait(5)
        folder.cleanup()

    return shlex.join([sys.executable, "-S", __file__, address])


def ask_for_one(address: str) -> None:
    """What pytest-xdist takes for Python: hands its own files on to a worker and waits until that
    has ended.
    """
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [b"."], [0, 1, 2])
        for file in (0, 1, 2):
            os.close(file)
        server.recv(1)


def fork_for(listening: int) -> None:
    """Import everything, then be the parent of workers until the input ends."""
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a Ctrl-C, workers end and then this
    for name in NAMES:
        with suppress(ImportError):  # of an extra that is not installed
            import_module(name)
    with suppress(ImportError, AttributeError):  # reads what each installed package holds
        import_module("mlflow.utils.requirements_utils")._init_packages_to_modules_map()
    gc.freeze()  # what all share is not searched, and so not copied
    workers = []
    with socket.socket(fileno=listening) as listener:
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            client = listener.accept()[0]
            files = socket.recv_fds(client, 1, 3)[1]
            worker = os.fork()
            if worker == 0:
                signal.signal(signal.SIGINT, usual)
                listener.close()
                _work(client, files)
                atexit._run_exitfuncs()
                os._exit(0)  # taking down all that was imported would take a second
            workers.append(worker)
            for file in files:
                os.close(file)
            client.close()
    for worker in workers:
        os.waitpid(worker, 0)  # or `time make test` would leave out what they took


def _work(client: socket.socket, files: list[int]) -> None:
    """Be the worker that the client asks for, as Python would be with what pytest-xdist tells it on
    standard input.
    """
    _fork_children_from_here(_open_files() - {client.fileno(), *files})
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    exec(eval(sys.stdin.readline()), vars(sys.modules["__main__"]))


def _fork_children_from_here(kept: set[int]) -> None:
    """The children of this worker's tests are forked from what has been imported already, too."""

    def fork(python: bytes, words: list[Any], passed: list[int]) -> int:
        process = os.fork()
        if process == 0:
            for file in _open_files() - kept - set(passed):
                os.close(file)
            forkserver._forkserver.__init__()  # type: ignore[misc]  # its lock is held
            try:
                exec(words[-1], {})
            finally:
                os._exit(0)
        return process

    resource_tracker.ensure_running()
    spawn, util.spawnv_passfds = util.spawnv_passfds, fork
    forkserver.ensure_running()
    util.spawnv_passfds = spawn


def _open_files() -> set[int]:
    with os.scandir("/dev/fd") as entries:
        listed = {int(entry.name) for entry in entries}
    return {file for file in listed if os.path.exists(f"/dev/fd/{file}")}


if __name__ == "__main__":
    ask_for_one(sys.argv[1])
