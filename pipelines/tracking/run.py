"""A run in progress, for every command: its folder, its books, and its display in the tracking
store.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.protocols.saved import saved_lm
from ..base.budget import Account, Budget
from ..base.run_files import LMFields, books_of
from ..runs.books import Books, open_books
from ..runs.folder import TemporaryFolder, out_folder, unwritable
from ..runs.manifest import RunFolder
from .context import ABOVE, caller_place
from .cursor import (
    Beginning,
    keep_copy,
    note_beginning,
    note_end,
    note_pushed,
    now,
    run_ids,
    waiting,
)
from .store import current_store, open_client, quiet, uncollected

FIRST_SECONDS, LIVE_SECONDS = 5.0, 10.0
FINISH_SECONDS = 120.0
PAUSES = (0.0, 1.0, 2.0)  # seconds before each attempt at a push
MOST_CPU = 0.5
"""Above this share of a core, the process is busy with more than waiting for LMs, so nothing is
sent.
"""

About = TypeVar("About", bound=Mapping[str, object])
"""The description of a folder's run: a manifest, or another command's document."""


class Tracking:
    """Shows a run in the tracking store, in its own thread, so that the run does not wait for it.

    Args:
        folder: the folder of the run; None turns tracking off.
        kind: the file that tells the run's kind, see `kinds`.
        keep: the object that keeps a temporary folder alive. model: whether to log the program as a
            model, if possible. lm: the LM of the model's seats without their own. registered: the
            name of the model in the registry. parent: the parent run; ABOVE for a part of a larger
            run.
    """

    def __init__(
        self,
        folder: Path | None = None,
        kind: str = "",
        *,
        keep: object = None,
        model: bool = True,
        lm: object = None,
        registered: str | None = None,
        parent: str | None = None,
    ) -> None:
        self.folder, self.kind, self._keep = folder, kind, keep
        self.run_id: str | None = None
        self.missing: dict[str, str] = {}
        self._standing: tuple[int, dict[str, float]] = (0, {})
        self._status: str | None = None
        self._ended = 0
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._warned = False
        if folder is None:
            return
        self.run_id = run_ids(folder).get(kind)
        beginning = Beginning(
            began=now(), place=caller_place(parent), model=model, registered=registered
        )
        if lm is not None:
            with suppress(UserError, AttributeError):  # an LM that cannot be stored in a file
                beginning.lm = saved_lm(lm).model_dump(exclude_unset=True)
        self._asks = note_beginning(folder, kind, beginning, pushes=parent != ABOVE)
        if parent != ABOVE:
            # A daemon: a store that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=self._work, name="folkmoot-push", daemon=True)
            self._thread.start()

    @property
    def on(self) -> bool:
        """Whether the run is shown in the store."""
        return self._thread is not None

    def show(self, step: int, figures: Mapping[str, float]) -> None:
        """Note the state of the run; only the latest state is sent."""
        self._standing = step, dict(figures)

    def end(self, show: Callable[[], object] | None = None) -> None:
        """Show the result, push the folder, and warn about parts that the store did not take. Waits
        until everything is sent, so that nothing is left to a thread when the process ends.
        """
        try:
            if show is not None:
                show()
        finally:
            self._ended = now()
            self._ending.set()
            if self._thread is not None:
                with suppress(KeyboardInterrupt):  # a second Ctrl-C: the next push sends the rest
                    self._thread.join(FINISH_SECONDS)
                if self._thread.is_alive():
                    self.missing["the run"] = "it does not answer in time"
                self._warn()
            elif self.folder is not None:
                note_end(self.folder, self.kind, self._ended)

    def stop(self, status: str) -> None:
        """End the run without a result: KILLED or FAILED."""
        if self.on and not self._ending.is_set():
            self._status = status
            self._ending.set()
            if self._thread is not None:
                self._thread.join(FINISH_SECONDS)

    def _warn(self) -> None:
        if self.missing and not self._warned:
            self._warned = True
            reasons = dict.fromkeys(self.missing.values())
            warnings.warn(
                f"the tracking store did not take {', '.join(self.missing)} "
                f"({'; '.join(reasons)}): {self.folder} has everything, and `folkmoot push "
                f"{self.folder}` sends it",
                RuntimeWarning,
                stacklevel=4,
            )

    def _work(self) -> None:
        try:
            self._show_now_and_then()
            if self._status is None:
                self._push()
            elif self.run_id is not None:
                with suppress(Exception), quiet():
                    open_client().set_terminated(self.run_id, self._status)
        finally:
            if self.folder is not None:
                self.run_id = run_ids(self.folder).get(self.kind, self.run_id)
            # Only now may a temporary folder go: what it held was sent, or copied.
            self._keep = None

    def _show_now_and_then(self) -> None:
        """Send the state of the run while the process does little but wait for LMs. Importing
        MLflow takes seconds of CPU time, which would slow down a short run.
        """
        assert self.folder is not None
        pause = FIRST_SECONDS
        began, used = time.monotonic(), time.process_time()
        while not self._ending.wait(pause):
            pause = LIVE_SECONDS
            # process_time counts all threads of this process, those of embedded LMs too.
            share = (time.process_time() - used) / (time.monotonic() - began)
            if share < MOST_CPU:
                with uncollected():
                    from .push import show_running

                with suppress(Exception):  # after a failure, everything is sent at the end
                    self.run_id = show_running(self.folder, self.kind, *self._standing)
            began, used = time.monotonic(), time.process_time()

    def _push(self) -> None:
        """Push the folder, with retries after pauses if the store fails, and then the waiting
        folders.
        """
        assert self.folder is not None
        asks, store = self._asks, current_store()
        note_end(self.folder, self.kind, self._ended)
        with uncollected():
            from .push import push, push_held

        for pause in PAUSES:
            time.sleep(pause)
            pushed = push_held(self.folder, self.kind, asks=asks)
            self.missing, asks = pushed.missing, True
            self.run_id = pushed.run_ids.get(self.kind, self.run_id)
            if not pushed.outage:
                break
        whole = not self.missing
        if not whole and self._keep is not None:
            with suppress(OSError):
                self.folder = keep_copy(self.folder)
        note_pushed(self.folder, store, whole=whole)
        # A store that has just refused something would most likely refuse the others, too.
        for other in waiting(store) if whole else ():
            with suppress(UserError):  # another process has it, or it is damaged
                push(other)


@dataclass
class Run(Generic[About]):
    """A folder that only this process writes to, with open books. `about` is the folder's
    description, and `keep` keeps a temporary folder alive.
    """

    folder: Path
    about: About
    books: Books
    keep: TemporaryFolder | None
    tracking: Tracking = field(default_factory=Tracking)
    ended: bool = False

    def track(self, kind: str, **beginning: Any) -> None:
        """Begin the tracked run, or resume that of an earlier attempt; see `Tracking`."""
        self.tracking = Tracking(self.folder, kind, keep=self.keep, **beginning)

    def end(self, show: Callable[[], object] | None = None) -> None:
        """Show the result, and push the folder to the tracking store."""
        self.ended = True
        self.tracking.end(show)


@contextmanager
def running(
    kind: RunFolder,
    about: About,
    out: str | Path | None,
    *,
    engines: Iterable[object] = (),
    records: Sequence[str | Path] = (),
    lms: Mapping[str, LMFields] | None = None,
    cache: bool | None = None,
    budget: str | Budget | None = None,
    account: Account | None = None,
    parts: bool = False,
    replayed: Path | None = None,
    spent: Usage | None = None,
) -> Iterator[Run[About]]:
    """Open a run: lock its folder for this process, and keep the books of every call in the block.

    Args:
        kind: the kind of run, which compares folders. about: the description of this run; it gets
            the ids of an earlier attempt in the folder. out: the folder; None makes a temporary
            one. engines: the engines of the LMs that the budget covers. records: further folders
            that record every call, in addition to the run's own. lms, cache, budget, account,
            replayed, spent: as for `open_books`. parts: whether the run consists of runs that keep
            their own books, and keeps none itself.

    If the block fails, the tracked run ends as failed, or as killed where the user stopped it.
    Raises UserError for a folder of another run, one that cannot be written, and a budget that
    cannot be enforced.
    """
    with (
        out_folder(out) as (folder, keep),
        kind.opened(folder, about),
        open_books(
            None if parts else folder,
            records=() if parts else (books_of(folder), *map(Path, records)),
            replayed=replayed,
            spent=spent,
            lms=lms,
            cache=cache,
            budget=budget,
            account=account,
            engines=engines,
        ) as books,
    ):
        run = Run(folder, about, books, keep)
        try:
            yield run
        except BaseException as problem:
            if not run.ended:
                stopped = isinstance(problem, KeyboardInterrupt | UserError)
                run.tracking.stop("KILLED" if stopped else "FAILED")
            raise


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn an error of the disk in the block into a one-sentence UserError."""
    try:
        yield
    except OSError as problem:
        raise unwritable(
            problem, folder, "make room, or choose another --out, and run it again"
        ) from None
