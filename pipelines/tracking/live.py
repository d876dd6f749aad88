"""A command's run in the tracking store: how it stands while it runs, and all of it at its end."""

from __future__ import annotations

import atexit
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.protocols.saved import saved_lm
from .context import ABOVE, caller_place
from .cursor import Noted, note_beginning, note_end, now, run_ids
from .push import Pushed, push, push_held, show_running
from .store import current_store, open_client, quiet
from .waiting import keep_copy, note_pushed, waiting

FIRST_SECONDS, LIVE_SECONDS = 5.0, 10.0
FINISH_SECONDS = 120.0
PAUSES = (0.0, 1.0, 2.0)  # before each attempt at a push
MOST_CPU = 0.5
"""Above this share of a core the process does not only wait for LMs, and is left alone."""


class Tracking:
    """Shows a run in the tracking store by a thread of its own, which nobody waits for meanwhile.

    Args:
        folder: that of the run; None tracks nothing.
        kind: the file that tells the run's kind, see `kinds`.
        keep: what a temporary folder lives as long as.
        model: whether the program is to be logged as a model, if it can be.
        lm: the LM of the model's seats without one of their own.
        registered: the name under which the model enters the registry.
        parent: the run that this one is shown below; ABOVE for a part of a larger run.
    """

    def __init__(
        self,
        folder: Path | None = None,
        kind: str = "",
        *,
        keep: Any = None,
        model: bool = True,
        lm: Any = None,
        registered: str | None = None,
        parent: str | None = None,
    ) -> None:
        self.folder, self.kind, self._keep = folder, kind, keep
        self.run_id = run_ids(folder).get(kind) if folder is not None else None
        self.pushed = Pushed()
        self._standing: tuple[int, dict[str, float]] = (0, {})
        self._status: str | None = None
        self._ended = 0
        self._ending, self._reported = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._warned = False
        if folder is None:
            return
        saved = None
        with suppress(UserError, AttributeError):  # an LM that no file can hold
            saved = saved_lm(lm).model_dump(exclude_unset=True) if lm is not None else None
        place = caller_place(parent)
        beginning = Noted(now(), None, place, model, saved, registered)
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
        """Tell how the run stands; what is told between two looks at it is not sent."""
        self._standing = step, dict(figures)

    def end(self, show: Callable[[], object] | None = None) -> None:
        """Show the result, which is in the folder, and push that; warn of what the store has not.

        Waits for the push, but for many traces.
        """
        try:
            if show is not None:
                show()
        finally:
            self._ended = now()
            self._ending.set()
            if self.folder is not None and not self.on:
                note_end(self.folder, self.kind, self._ended)
            if self.on:
                atexit.register(self.wait)
                self._finish()

    def stop(self, status: str) -> None:
        """End the run without a result: KILLED or FAILED."""
        if self.on and not self._ending.is_set():
            self._status = status
            self._ending.set()
            self._reported.wait(FINISH_SECONDS)

    def _finish(self) -> None:
        if not self._reported.wait(FINISH_SECONDS):
            self.pushed.missing.setdefault("the run", "it does not answer in time")
        self.run_id = self.pushed.run_ids.get(self.kind, self.run_id)
        self._warn()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until everything is sent, and say whether it was. A process that ends waits, too."""
        if self._thread is None:
            return True
        with suppress(KeyboardInterrupt):  # a second Ctrl-C: the next push sends the rest
            self._thread.join(seconds)
        if not self._thread.is_alive():
            atexit.unregister(self.wait)
            self._warn()
        return not self._thread.is_alive() and not self.pushed.missing

    def _warn(self) -> None:
        if self._warned or not self.pushed.missing:
            return
        self._warned = True
        reasons = dict.fromkeys(self.pushed.missing.values())
        warnings.warn(
            f"the tracking store did not take {', '.join(self.pushed.missing)} "
            f"({'; '.join(reasons)}): {self.folder} has everything, and `folkmoot push "
            f"{self.folder}` sends it",
            RuntimeWarning,
            stacklevel=4,
        )

    # What runs in the thread ----------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._show_now_and_then()
            if self._status is None:
                self._push()
            elif self.run_id is not None:
                with suppress(Exception), quiet():
                    open_client().set_terminated(self.run_id, self._status)
        finally:
            self._keep = None
            self._reported.set()

    def _show_now_and_then(self) -> None:
        """Send how the run stands, as long as the process does little but wait for LMs.

        MLflow takes seconds to import, which the answers of a short run would share with it.
        """
        assert self.folder is not None
        pause = FIRST_SECONDS
        began, used = time.monotonic(), time.process_time()
        while not self._ending.wait(pause):
            pause = LIVE_SECONDS
            share = (time.process_time() - used) / (time.monotonic() - began)
            if share < MOST_CPU:
                with suppress(Exception):  # whatever fails now is sent at the end
                    self.run_id = show_running(self.folder, self.kind, *self._standing)
            began, used = time.monotonic(), time.process_time()

    def _push(self) -> None:
        """Push the folder, again after a pause if the store fails, and then those that wait."""
        assert self.folder is not None
        asks, store = self._asks, current_store()
        note_end(self.folder, self.kind, self._ended)
        for pause in PAUSES:
            time.sleep(pause)
            self.pushed = push_held(self.folder, self.kind, asks=asks, reported=self._reported.set)
            if not self.pushed.outage:
                break
            asks = True
        whole, folder = not self.pushed.missing, self.folder
        if not whole and self._keep is not None:
            with suppress(OSError):
                self.folder = folder = keep_copy(folder)
        note_pushed(folder, store, whole=whole)
        for other in waiting(store) if whole else ():
            with suppress(UserError):  # another process has it, or it is damaged
                push(other)
