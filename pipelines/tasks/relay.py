"""Runs a command in a sandbox without a network, and lets it reach one socket on a port.

It is a script of its own, which needs nothing but the standard library: `relay.py SOCKET PORT
COMMAND…`.
"""

import contextlib
import socket
import subprocess
import sys
import threading


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        # Only this direction has ended: the answer may still be on its way.
        target.shutdown(socket.SHUT_WR)


def _join(near: socket.socket, far: socket.socket) -> None:
    with near, far:
        back = threading.Thread(target=_copy, args=(far, near), daemon=True)
        back.start()
        _copy(near, far)
        back.join()


def relay(server: socket.socket, kind: int, address: str | tuple[str, int]) -> None:
    """Pass on each connection of a server to an address of this kind, until it is shut down."""
    with contextlib.suppress(OSError):
        while True:
            near, _ = server.accept()
            far = socket.socket(kind)
            # The meter may be gone; the next connection is served all the same.
            if far.connect_ex(address):
                near.close()
                far.close()
                continue
            threading.Thread(target=_join, args=(near, far), daemon=True).start()


def relayed(path: str, port: int, command: list[str]) -> int:
    """Run the command; returns its exit code."""
    server = socket.create_server(("127.0.0.1", port), backlog=128)
    threading.Thread(target=relay, args=(server, socket.AF_UNIX, path), daemon=True).start()
    try:
        return subprocess.call(command)
    except OSError as problem:
        print(f"{command[0]} cannot be started ({problem.strerror})", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(relayed(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
