"""The caller's place in MLflow: the active run, the experiment, the name of a model, autologging;
and what stands for no place.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import dspy
from typing_extensions import TypedDict  # which pydantic takes on Python 3.11, too

from ...modules.base.context import CALLER, CANCELLING, bound
from ...modules.base.errors import UserError

T = TypeVar("T")
P = ParamSpec("P")


class CallerPlace(TypedDict):
    """The place of a run in MLflow; None for values that the caller has not set."""

    mlflow_parent_id: str | None
    mlflow_experiment_id: str | None
    mlflow_experiment: str | None


CURSOR = "pushed.json"
"""The name of the cursor file in a run's books."""
ABOVE = ".."
"""The value of `parent` for a part of a run: the run in a folder above pushes it."""
NOWHERE = CallerPlace(mlflow_parent_id=None, mlflow_experiment_id=None, mlflow_experiment=None)


class Untracked:
    """Stands for `live.Tracking` in a run that no store shows."""

    run_id: str | None = None

    def show(self, step: int, figures: Mapping[str, float]) -> None:
        """Note the state of the run, by names that its result has, too; only the latest is sent."""

    def end(self, show: Callable[[], object] | None = None) -> None:
        """Show the result, and send it."""
        if show is not None:
            show()

    def stop(self, status: str) -> None:
        """End the run without a result: KILLED or FAILED."""


def caller_place(parent: str | None = None) -> CallerPlace:
    """Return the fields that place a run in MLflow: under `parent`, else at the caller's place.
    That is this thread's active run, and the experiment that was set (`mlflow.set_experiment`
    writes it to MLFLOW_EXPERIMENT_ID) or that the environment names. The caller's state is not
    changed.
    """
    if parent == ABOVE:
        return NOWHERE
    here: CallerPlace = CALLER.get() or _here()
    if parent is not None:
        here = {**here, "mlflow_parent_id": parent}
    return here


def to_show(
    show: Callable[[T], object] | None, result: T, *, well: bool = True
) -> Callable[[], object] | None:
    """Return what shows a result that ended well; None where nobody is shown it."""
    if show is None or not well:
        return None
    return partial(show, result)


class _Cancelling:
    """The current call of `run_sync` in a thread, so that another thread can cancel it."""

    # Without a lock, since each side first says what it does and then looks at the other.
    cancelled = False
    _call: Future[object] | None = None

    def watch(self, call: Future[object]) -> None:
        self._call = call
        if self.cancelled:
            call.cancel()

    def cancel(self) -> None:
        self.cancelled = True
        if self._call is not None:
            self._call.cancel()


def awaitable(function: Callable[P, T], doc: str) -> Callable[P, Coroutine[object, object, T]]:
    """Return the async form of a function that waits by `run_sync`: it runs in a thread of its own,
    at the caller's place in MLflow.

    Cancelling cancels that call, waits until the function has put its things in order, and then
    goes on.
    """

    @wraps(function)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> T:
        cancelling = _Cancelling()
        # The thread's task has a copy of the context; what this task does next is not its business.
        with bound(CALLER, _here()), bound(CANCELLING, cancelling):
            thread = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            cancelling.cancel()
            await asyncio.wait([thread])
            with suppress(asyncio.CancelledError):
                thread.exception()  # what it ended with is known: it was cancelled
            raise

    awaited.__name__ = awaited.__qualname__ = f"a{function.__name__}"
    awaited.__doc__ = doc
    return awaited


def _here() -> CallerPlace:
    # Without MLflow imported there is no active run, and importing it takes a second.
    active_run = getattr(sys.modules.get("mlflow"), "active_run", None)
    active = active_run() if active_run else None
    return {
        "mlflow_parent_id": active.info.run_id if active else None,
        "mlflow_experiment_id": os.environ.get("MLFLOW_EXPERIMENT_ID") or None,
        "mlflow_experiment": os.environ.get("MLFLOW_EXPERIMENT_NAME") or None,
    }


def check_model_name(name: object, *, tracked: bool = True) -> None:
    """Raise UserError, before anything is paid, for a name that MLflow's registry refuses, and for
    one without MLflow. Without a name (None) nothing is checked.
    """
    if name is None:
        return
    text = name if isinstance(name, str) else ""  # a file may hold any value
    if not text.strip().strip(".") or re.search(r"[/:]", text):
        raise UserError(
            f"the model cannot be registered as {name!r}: give a name without / and :, such as "
            "support-bot"
        )
    if not tracked:
        raise UserError("--register needs MLflow: drop --no-track")


def without_autolog() -> list[object]:
    """Return DSPy's callbacks without the one of `mlflow.dspy.autolog()`, which would trace calls a
    second time.
    """
    return [
        callback
        for callback in dspy.settings.callbacks
        if not type(callback).__module__.startswith("mlflow.")
    ]
