"""How an evaluation's MLflow run begins: its experiment, its parameters and its data set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .store import artifact_location
from .values import LONGEST_TAG, experiment_name, params_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

LONGEST_DIGEST = 36


def experiment_of(client: MlflowClient, name: str) -> str:
    """The id of the experiment of that name, made if it is missing, brought back if it was deleted."""
    from mlflow import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            # The kind makes MLflow's UI open on the table of runs.
            return client.create_experiment(
                name,
                artifact_location=artifact_location(client.tracking_uri, name),
                tags={"mlflow.experimentKind": "custom_model_development"},
            )
        except MlflowException as problem:
            if problem.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)  # made by another process just now
            assert found is not None
    if found.lifecycle_stage != "active":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def describe_run(
    client: MlflowClient, run_id: str, run: Mapping[str, Any], logged: Mapping[str, str]
) -> None:
    """Log parameters and data set. Parameters never change: what differs on resuming is a tag."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Param, RunTag

    params = params_of(run)
    changed = {name: value for name, value in params.items() if logged.get(name, value) != value}
    tags = {"folkmoot.changed_on_resuming": json.dumps(changed)[:LONGEST_TAG]} if changed else {}
    client.log_batch(
        run_id,
        params=[Param(name, value) for name, value in params.items() if name not in logged],
        tags=[RunTag(name, value) for name, value in tags.items()],
    )
    data = Dataset(
        name=experiment_name(run),
        digest=run["data_fingerprint"][:LONGEST_DIGEST],
        source_type="folkmoot",
        source=json.dumps({"data": run["settings"].get("data"), "split": run["settings"].get("split")}),
        profile=json.dumps({"num_rows": run["questions"]}),
    )
    client.log_inputs(run_id, [DatasetInput(data, [InputTag("mlflow.data.context", "evaluation")])])
