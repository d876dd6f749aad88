"""Where the caller is in MLflow: her active run, her experiment, her autologging."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import dspy
from typing_extensions import TypedDict  # which pydantic takes on Python 3.11, too

T = TypeVar("T")
P = ParamSpec("P")


class CallerPlace(TypedDict):
    """Where a run goes in MLflow; None for what the caller has not set."""

    mlflow_parent_id: str | None
    mlflow_experiment_id: str | None
    mlflow_experiment: str | None


_CALLER: ContextVar[CallerPlace | None] = ContextVar("_CALLER", default=None)


ABOVE = ".."
"""As the `parent` of a run: it is part of a run whose folder lies above, which pushes it."""
NOWHERE = CallerPlace(mlflow_parent_id=None, mlflow_experiment_id=None, mlflow_experiment=None)


def caller_place(parent: str | None = None) -> CallerPlace:
    """The fields of a run that say where it goes in MLflow: under `parent`, else where the caller
    is.

    That is her active run, of this thread, and the experiment that she set (`mlflow.set_experiment`
    notes it as MLFLOW_EXPERIMENT_ID) or the environment names. Nothing of hers is changed.
    """
    if parent == ABOVE:
        return NOWHERE
    here = _CALLER.get() or _here()
    if parent is not None:
        here = {**here, "mlflow_parent_id": parent}
    return here


def from_caller(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Take where the caller is along into the thread that an async function works in."""

    @wraps(function)
    async def called(*args: P.args, **kwargs: P.kwargs) -> T:
        token = _CALLER.set(_here())
        try:
            return await function(*args, **kwargs)
        finally:
            _CALLER.reset(token)

    return called


def _here() -> CallerPlace:
    # Who has not imported MLflow has no active run, and importing it takes a second.
    active_run = getattr(sys.modules.get("mlflow"), "active_run", None)
    active = active_run() if active_run else None
    return {
        "mlflow_parent_id": active.info.run_id if active else None,
        "mlflow_experiment_id": os.environ.get("MLFLOW_EXPERIMENT_ID") or None,
        "mlflow_experiment": os.environ.get("MLFLOW_EXPERIMENT_NAME") or None,
    }


def without_autolog() -> list[Any]:
    """DSPy's callbacks but that of `mlflow.dspy.autolog()`, which would trace what is traced
    already.
    """
    return [
        one for one in dspy.settings.callbacks if not type(one).__module__.startswith("mlflow.")
    ]
