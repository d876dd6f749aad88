"""The call cache: complete answers of hosted LMs, shared by all runs and processes of one user."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ...modules.base.files import own_folder
from ...modules.base.keyvalue import KeyValue
from ..base.journal import to_json
from ..base.settings import settings
from .claims import Claims
from .store import is_reply

FILE = "calls.sqlite"
CLAIMS = "calls.claims"
BATCH = 64  # answers written at once; those that a kill loses are on the record of their run
WRITE_SECONDS = 0.2  # an answer is there for other processes after so long at most


class CallCache:
    """Replies by call key in `DIR/calls.sqlite`.

    Unlike a `CallStore`, which indexes a whole record in memory, it may be large and opens at once.
    It is a `KeyValue` of at most `most_bytes`: trouble with the disk warns once, and calls are
    made.
    """

    readonly = False

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.path = folder / FILE
        self._store = KeyValue(
            self.path, "call cache", "calls are made without it", most_bytes=most_bytes, batch=BATCH
        )
        self._claims = Claims(folder / CLAIMS)
        self._ended: set[bytes] = set()
        self._write_at = 0.0

    def close(self) -> None:
        self._store.close()
        self._claims.close()

    def claim(self, key: str) -> bool:
        """Whether a call is this process's to make: no other has it under way. Then
        `release` it.
        """
        return self._claims.take(bytes.fromhex(key))

    def release(self, key: str) -> None:
        """Let others have a call that has ended, once its answer is on disk if there is one to
        keep.
        """
        self._ended.add(bytes.fromhex(key))
        loop = asyncio.get_running_loop()
        if loop.time() >= self._write_at:
            self._write_at = loop.time() + WRITE_SECONDS
            loop.call_later(WRITE_SECONDS, self._write)

    def _write(self) -> None:
        ended, self._ended = self._ended, set()
        if self._store.write():
            for key in ended:
                self._claims.give_back(key)
        else:
            self._ended |= ended

    def get(self, key: str) -> dict[str, Any] | None:
        """The cached reply, with the fields of `Reply`, or None."""
        kept = self._store.get(bytes.fromhex(key))
        if kept is None:
            return None
        try:
            reply = json.loads(kept)
        except (ValueError, RecursionError):
            return None
        return reply if is_reply(reply) else None

    def put(self, key: str, model: str, reply: Mapping[str, Any]) -> None:
        """Keep a complete reply; the first one for a key stays."""
        self._store.put(bytes.fromhex(key), to_json(reply))


@contextmanager
def open_cache(wanted: bool = True) -> Iterator[CallCache | None]:
    """The user's call cache; None when it is not wanted or switched off (FOLKMOOT_CALLS_MB=0).

    Warns, and gives None, where the folder is a link or somebody else may have filled it.
    """
    limits = settings()
    if not wanted or not limits.calls_mb:
        yield None
        return
    folder = limits.cache / "calls"
    try:
        own_folder(folder)
    except OSError as problem:
        warnings.warn(
            f"the call cache {folder} cannot be used ({problem.strerror}): calls are made "
            f"without it; delete "
            "it, or set FOLKMOOT_CACHE to a folder of your own",
            RuntimeWarning,
            stacklevel=4,
        )
        yield None
        return
    cache = CallCache(folder, limits.calls_mb * 2**20)
    try:
        yield cache
    finally:
        cache.close()


ACTIVE_CACHE: ContextVar[CallCache | None] = ContextVar("folkmoot_call_cache", default=None)
"""The cache of the run in progress: read after its records, for LMs whose answers do not depend on
order.
"""
