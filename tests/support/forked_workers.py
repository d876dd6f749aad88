"""The workers of pytest-xdist begin as forks, too, of the process that has imported everything."""

import atexit
import os
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

from children import FORKED, Forked
from execnet import gateway_io
from execnet.gateway_base import Popen2IO


class ForkedIO(Popen2IO):
    """execnet's end of the pipes to a worker, as `Popen2IOMaster` is."""

    def __init__(self, _spec: Any, execmodel: Any) -> None:
        given, write = os.pipe()
        read, said = os.pipe()
        ends = Connection(given, writable=False), Connection(said, readable=False)
        self._process = Forked(target=serve, args=ends)
        self._process.start()
        for end in ends:
            end.close()
        super().__init__(os.fdopen(write, "wb"), os.fdopen(read, "rb"), execmodel)

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()


def serve(given: Connection, said: Connection) -> None:
    """Do what execnet has a new interpreter do: run the line that it sends first."""
    for number, end in enumerate((given, said)):
        os.dup2(end.fileno(), number)
        end.close()
    server = forkserver._forkserver
    if not hasattr(server, "_forkserver_authkey"):  # with which, from 3.14 on, only one may ask
        server.ensure_running = lambda: None  # the children of tests are forks of the same process
    with open(0, closefd=False) as orders:
        line = orders.readline()
    exec(eval(line), {"__name__": "__main__"})
    atexit._run_exitfuncs()  # which a fork leaves out


def fork_workers() -> None:
    FORKED.set_forkserver_preload(["warm", "warm_workers"])
    gateway_io.create_io = ForkedIO
