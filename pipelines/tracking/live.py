"""Shows a run in the tracking store, while it is under way and when it has ended."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ...modules.base.errors import UserError
from ...modules.protocols.saved import saved_lm
from .context import ABOVE, Untracked, caller_place
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
from .store import current_store, open_client, quiet

FIRST_SECONDS, LIVE_SECONDS = 5.0, 10.0
FINISH_SECONDS = 120.0
PAUSES = (0.0, 1.0, 2.0)  # seconds before each attempt at a push
PATIENCE = 8.0
"""A store that took more seconds than this to fail is not asked again at the end of a run."""
MOST_CPU = 0.5
"""Above this share of a core, the process is busy with more than waiting for LMs, so nothing is
sent.
"""


class Tracking(Untracked):
    """Shows a run in the tracking store, in its own thread, so that the run does not wait for it.

    Args:
        folder: the folder of the run.
        kind: the file that tells the run's kind, see `kinds`.
        keep: the object that keeps a temporary folder alive. model: whether to log the program as a
            model, if possible. lm: the LM of the model's seats without their own. registered: the
            name of the model in the registry. parent: the parent run; ABOVE for a part of a larger
            run.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        *,
        keep: object = None,
        model: bool = True,
        lm: object = None,
        registered: str | None = None,
        parent: str | None = None,
    ) -> None:
        self.folder, self.kind, self._keep = folder, kind, keep
        self.missing: dict[str, str] = {}
        self._standing: tuple[int, dict[str, float]] = (0, {})
        self._status: str | None = None
        self._ended = 0
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        beginning = Beginning(
            began=now(), place=caller_place(parent), model=model, registered=registered
        )
        if lm is not None:
            with suppress(UserError, AttributeError):  # an LM that cannot be stored in a file
                beginning.lm = saved_lm(lm).model_dump(exclude_unset=True)
        self._asks = note_beginning(folder, kind, beginning, pushes=parent != ABOVE)
        self.run_id = run_ids(folder).get(kind)
        if parent != ABOVE:
            # A daemon: a store that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=self._work, name="folkmoot-push", daemon=True)
            self._thread.start()

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
                    self._wait()
                if self.missing:
                    reasons = dict.fromkeys(self.missing.values())
                    warnings.warn(
                        f"the tracking store did not take {', '.join(self.missing)} "
                        f"({'; '.join(reasons)}): {self.folder} has everything, and `folkmoot push "
                        f"{self.folder}` sends it",
                        RuntimeWarning,
                        stacklevel=3,
                    )
            else:
                note_end(self.folder, self.kind, self._ended)

    def stop(self, status: str) -> None:
        """End the run without a result: KILLED or FAILED."""
        if self._thread is not None and not self._ending.is_set():
            self._status = status
            self._ending.set()
            self._thread.join(FINISH_SECONDS)

    def _work(self) -> None:
        try:
            self._show_now_and_then()
            if self._status is None:
                self._push()
            elif self.run_id is not None:
                with suppress(Exception), quiet():
                    open_client().set_terminated(self.run_id, self._status)
        finally:
            self.run_id = run_ids(self.folder).get(self.kind, self.run_id)
            # Only now may a temporary folder go: what it held was sent, or copied.
            self._keep = None

    def _show_now_and_then(self) -> None:
        """Send the state of the run while the process does little but wait for LMs. Importing
        MLflow takes seconds of CPU time, which would slow down a short run.
        """
        pause = FIRST_SECONDS
        began, used = time.monotonic(), time.process_time()
        while not self._ending.wait(pause):
            pause = LIVE_SECONDS
            # process_time counts all threads of this process, those of embedded LMs too.
            share = (time.process_time() - used) / (time.monotonic() - began)
            if share < MOST_CPU:
                from .push import show_running

                with suppress(Exception):  # after a failure, everything is sent at the end
                    self.run_id = show_running(self.folder, self.kind, *self._standing)
            began, used = time.monotonic(), time.process_time()

    def _push(self) -> None:
        """Push the folder, with retries after pauses if the store fails, and then the waiting
        folders.
        """
        asks, store = self._asks, current_store()
        note_end(self.folder, self.kind, self._ended)
        # Until it is sent, it waits to be sent, also if this process is killed.
        note_pushed(self.folder, store, whole=False)
        from .push import push, push_held

        began = time.monotonic()
        for pause in PAUSES:
            time.sleep(pause)
            pushed = push_held(self.folder, self.kind, asks=asks)
            self.missing, asks = pushed.missing, True
            self.run_id = pushed.run_ids.get(self.kind, self.run_id)
            if not pushed.outage or time.monotonic() - began > PATIENCE:
                break
        # A store that has just refused something would most likely refuse the others, too.
        if self.missing:
            self._wait()
            return
        note_pushed(self.folder, store, whole=True)
        for other in waiting(store):
            with suppress(UserError):  # another process has it, or it is damaged
                push(other)

    def _wait(self) -> None:
        """Let the folder wait to be sent; of a temporary one, a copy waits."""
        store = current_store()
        if self._keep is not None:
            with suppress(OSError):
                copy = keep_copy(self.folder)
                note_pushed(self.folder, store, whole=True)  # the copy waits in its place
                self.folder = copy
            self._keep = None  # a thread that is still sending goes on with the copy
        note_pushed(self.folder, store, whole=False)
