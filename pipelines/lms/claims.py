"""Which calls processes have under way: one of them makes a call, the others wait for its
answer.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from ...modules.base.files import open_regular


class Claims:
    """The calls of this process, each a locked byte of a file that all processes open.

    The system lets go of those of a process that ends, however it ends. Where the file cannot be
    made or locked nobody waits. Two of one file in one process do not see each other's, and when
    one is closed the other's may be taken: then a call is made twice, no more.
    """

    def __init__(self, path: Path) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = open_regular(path, os.O_RDWR | os.O_CREAT, links=False)

    def take(self, key: bytes) -> bool:
        """Whether no other process has this call."""
        if self._file is not None:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
            except (BlockingIOError, PermissionError):
                return False
            except OSError:
                self.close()
        return True

    def give_back(self, key: bytes) -> None:
        if self._file is not None:
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _place(key))

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)


def _place(key: bytes) -> int:
    return int.from_bytes(key[:7])
