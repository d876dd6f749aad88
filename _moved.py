"""Modules that documentation named at other places before 0.1: importing one still works, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "folkmoot.modules.errors": "folkmoot.modules.base.errors",
    "folkmoot.modules.program": "folkmoot.modules.protocols.program",
    "folkmoot.modules.question": "folkmoot.modules.reading.question",
    "folkmoot.modules.seat": "folkmoot.modules.agents.seat",
    "folkmoot.modules.sync": "folkmoot.modules.base.sync",
    "folkmoot.modules.together": "folkmoot.modules.base.together",
    "folkmoot.modules.transcript": "folkmoot.modules.agents.transcript",
    "folkmoot.pipelines.compare": "folkmoot.pipelines.comparison.compare",
    "folkmoot.pipelines.dialogues": "folkmoot.pipelines.plots.dialogues",
    "folkmoot.pipelines.evaluate": "folkmoot.pipelines.evaluation.evaluate",
    "folkmoot.pipelines.mlflow_store": "folkmoot.pipelines.tracking.store",
    "folkmoot.pipelines.saved_mlflow": "folkmoot.pipelines.tracking.models",
    "folkmoot.pipelines.step_limits": "folkmoot.pipelines.evaluation.step_limits",
}
"""Old name → new name. MLflow models of earlier versions import `folkmoot.pipelines.saved_mlflow`."""


class MovedModules(MetaPathFinder, Loader):
    """Finds a moved module under its old name; it comes last, so names that exist never reach it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = MOVED[module.__name__]
        warnings.warn(f"{module.__name__} is now {new}", DeprecationWarning, stacklevel=2)
        vars(module).update(
            {name: value for name, value in vars(import_module(new)).items() if name[:2] != "__"}
        )


def install() -> None:
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
