"""What the children of tests find imported already: the warm process imports this once, then forks them."""

from __future__ import annotations

import gc
import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it is read on import, and would start a thread
gc.disable()

import matplotlib.figure
import mlflow.store.tracking.sqlalchemy_store
import optuna
import torch_geometric.nn

import folkmoot
from folkmoot.pipelines.cli import main

ALL = [getattr(folkmoot, name) for name in folkmoot.__all__]
LIBRARIES = [matplotlib.figure, mlflow.store.tracking.sqlalchemy_store, optuna, torch_geometric.nn, main]
gc.freeze()  # what the children share is neither searched nor copied by their collectors
gc.enable()
