"""What the children of tests find imported: the warm process imports it once, then forks."""

import gc
import os
from importlib import import_module

# it is read on import, and would start a thread
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

NAMES = (
    "matplotlib.figure",
    "mlflow.store.tracking.sqlalchemy_store",
    "folkmoot.pipelines.cli.app",
)


def import_all() -> None:
    for name in NAMES:
        import_module(name)
    folkmoot = import_module("folkmoot")
    for name in folkmoot.__all__:
        getattr(folkmoot, name)
    import_module("sqlalchemy.orm").configure_mappers()
    import_module("optuna").storages.RDBStorage("sqlite://")  # it reads its migrations


def draw_nothing() -> None:
    figures = import_module("figures")
    figures.Figure.savefig = figures.blank


gc.disable()
import_all()
draw_nothing()
import_module("stores").leave_out_syncs()
gc.freeze()  # what all children share is not searched by their collectors, and so not copied
gc.enable()
