"""Logs programs as MLflow models: JSON and safetensors with four lines of code, and no pickle."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from platform import python_version

import dspy
from mlflow import MlflowClient, MlflowException
from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Run
from mlflow.models import Model as MlflowModel
from mlflow.models import ModelSignature
from mlflow.types.schema import AnyType, ColSpec, DataType, Schema

from ...modules.base.keyed import without, without_none
from ...modules.base.saved_file import FILE, MODULE
from ...modules.protocols.foreign import STATE
from ...modules.protocols.saved import saved_lm
from ..base.journal import read_object, write_json
from ..programs.saved import LEARNED, own_lm, program_folder
from ..programs.seats import program_given
from .context import caller_place, check_model_name
from .entry import ModelEntry
from .store import check_place, experiment_at, open_client, quiet
from .values import FOLKMOOT, LONGEST_PROMPT

CODE = Path(__file__).with_name("saved_model.py")
PROGRAM = "program"
FILES = ("program.json", "network.json", "tensors.safetensors", MODULE, STATE)
WINNER = "winner"
JOIN_SECONDS = 10.0
REQUIRED = ("folkmoot", "dspy", "mlflow")
EXAMPLE = {
    "question": "Where would you keep money that you do not need today?",
    "choices": {"A": "bank", "B": "river"},
    "kind": "choice",
}
SIGNATURE = ModelSignature(
    inputs=Schema(
        [
            ColSpec(DataType.string, "question"),
            ColSpec(AnyType(), "choices", required=False),  # type: ignore[no-untyped-call]
            ColSpec(AnyType(), "context", required=False),  # type: ignore[no-untyped-call]
            ColSpec(DataType.string, "kind", required=False),
        ]
    ),
    outputs=Schema(
        [
            ColSpec(DataType.string, "answer", required=False),
            ColSpec(DataType.string, "decided_by", required=False),
            ColSpec(DataType.long, "rounds", required=False),
            ColSpec(DataType.string, "error", required=False),
        ]
    ),
)
OUTPUTS = tuple(column.name for column in SIGNATURE.outputs)


def log_program(
    program: dspy.Module | str | Path,
    name: str,
    *,
    run_id: str | None = None,
    lm: dspy.BaseLM | None = None,
) -> str:
    """Log a program to MLflow as a model that `mlflow.pyfunc.load_model` loads, and register it.

    Args:
        program: a program, any `dspy.Module`, or the folder of a saved one.
        name: the name of the model, and of its registered version.
        run_id: a run of MLflow's store; by default your active run, else a new one.
        lm: the LM of agents without their own, stored by name and sampling settings.

    Returns the model's address.

    Raises UserError for a program that cannot be saved, and whatever MLflow raises.
    """
    check_model_name(name)
    own = None if lm is None else saved_lm(lm)
    if isinstance(program, str | Path):
        own = own or own_lm(program_folder(Path(program)))
    saved = None if own is None else own.model_dump(exclude_unset=True)
    with quiet(), tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
        folder = Path(scratch) / PROGRAM
        if isinstance(program, str | Path):
            folder = program_folder(Path(program))
        else:
            program_given(program).save(folder)
        client = open_client()
        here = caller_place()
        run_id = run_id or here["mlflow_parent_id"]
        if run_id is None:
            experiment = experiment_at(client, here, FOLKMOOT)
            run_id = client.create_run(experiment, run_name=name).info.run_id
            client.set_terminated(run_id)
        return log_model(client, client.get_run(run_id), ModelEntry(folder, name, saved, name))


def log_model(client: MlflowClient, run: Run, model: ModelEntry, *, asks: bool = True) -> str:
    """Log a saved program to a run as a model; returns its address.

    If the store is asked and has a complete model of that name, it is kept. The model holds no
    pickle: JSON, safetensors, and four lines of code.
    """
    experiment, run_id = run.info.experiment_id, run.info.run_id
    mine = f"source_run_id = '{run_id}' AND name = '{model.name}'"
    if asks:
        for earlier in client.search_logged_models([experiment], mine):
            if earlier.status == LoggedModelStatus.READY:
                return _register(client, run_id, earlier.model_id, model)
            client.delete_logged_model(earlier.model_id)  # left by a failed attempt
    with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
        made = client.create_logged_model(
            experiment, name=model.name, source_run_id=run_id, model_type="folkmoot"
        )
        # The database may come from somebody else, and name any folder of this machine.
        check_place(made.artifact_location)
        try:
            _write_model(Path(scratch), made.model_id, run_id, model)
            client.log_model_artifacts(made.model_id, scratch)
        except BaseException:
            client.finalize_logged_model(made.model_id, LoggedModelStatus.FAILED)
            raise
        client.finalize_logged_model(made.model_id, LoggedModelStatus.READY)
    return _register(client, run_id, made.model_id, model)


def _write_model(folder: Path, model_id: str, run_id: str, model: ModelEntry) -> None:
    """Write the files of a model of MLflow. Its own `pyfunc.save_model` first lists the files of
    every installed package, for seconds, to see whether the three that are required are installed.
    """
    required = [f"{package}=={version(package).partition('+')[0]}" for package in REQUIRED]
    about = {
        "python_env.yaml": {
            "python": python_version(),
            "build_dependencies": ["pip", "setuptools", "wheel"],
            "dependencies": ["-r requirements.txt"],
        },
        "conda.yaml": {
            "name": "mlflow-env",
            "channels": ["conda-forge"],
            "dependencies": [f"python={python_version()}", "pip", {"pip": required}],
        },
        "input_example.json": [EXAMPLE],
        "serving_input_example.json": {"inputs": [EXAMPLE]},
    }
    for name, content in about.items():  # JSON is YAML, too
        write_json(folder / name, content)
    (folder / "requirements.txt").write_text("\n".join(required))
    shutil.copyfile(CODE, folder / CODE.name)
    program = Path("artifacts", PROGRAM)
    _copy_program(model.folder, folder / program)
    stored = MlflowModel(
        run_id=run_id,
        signature=SIGNATURE,
        saved_input_example_info={
            "type": "json_object",
            "artifact_path": "input_example.json",
            "serving_input_path": "serving_input_example.json",
        },
        model_uuid=model_id,
        model_id=model_id,
    )
    # As `pyfunc.add_to_model` does, for which MLflow would import much more.
    stored.add_flavor(
        "python_function",
        loader_module="mlflow.pyfunc.loaders.code_model",
        python_version=python_version(),
        env={"conda": "conda.yaml", "virtualenv": "python_env.yaml"},
        config={"lm": model.lm, "api_base": {}, "environment": None},
        model_code_path=CODE.name,
        artifacts={PROGRAM: {"path": str(program), "uri": str(program)}},
    )
    stored.save(str(folder / "MLmodel"))


def _copy_program(folder: Path, target: Path) -> None:
    """Copy the files of a saved program from a folder that may also hold a run."""
    target.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.name in FILES:
            shutil.copyfile(path, target / path.name)
        elif path.is_dir() and LEARNED.fullmatch(path.name):
            shutil.copytree(path, target / path.name, symlinks=True)


def _register(client: MlflowClient, run_id: str, model_id: str, model: ModelEntry) -> str:
    """Make a model the run's output and register it under the name, if it has one, with what the
    run says of it; a `winner` is the `champion`. Returns its address.
    """
    address, name = f"models:/{model_id}", model.registered
    run = client.get_run(run_id)
    outputs = run.outputs
    if outputs is None or all(output.model_id != model_id for output in outputs.model_outputs):
        client.log_outputs(run_id, [LoggedModelOutput(model_id, 0)])
    if name is not None:
        prompts = instructions_in(model.folder)
        unfit = [agent for agent, words in prompts.items() if len(words) > LONGEST_PROMPT]
        versions = client.search_model_versions(f"run_id = '{run_id}'")
        if all((version.name, version.source) != (name, address) for version in versions):
            with suppress(MlflowException):  # the registered model already exists
                client.create_registered_model(name)
            said = {
                "accuracy": run.data.metrics.get("accuracy"),
                "outcome": run.data.tags.get("folkmoot.outcome"),
                "data": run.data.params.get("data"),
            }
            note = run.data.tags.get("mlflow.note.content", "").replace("**", "")
            if unfit:
                note += (
                    f"\n\nMLflow takes prompts of up to {LONGEST_PROMPT:,} characters: that of "
                    f"{', '.join(unfit)} is in the model alone."
                )
            made = client.create_model_version(
                name,
                address,
                run_id,
                tags={key: str(value) for key, value in without_none(said).items()},
                description=note,
                model_id=model_id,
            )
            if model.name == WINNER:
                client.set_registered_model_alias(name, "champion", made.version)
        _register_prompts(client, run_id, name, without(prompts, unfit))
    return address


def _register_prompts(
    client: MlflowClient, run_id: str, name: str, prompts: Mapping[str, str]
) -> None:
    """Register the prompt of each agent of a model, and link it to the run. One with the same words
    as its latest version is not registered again.
    """
    for agent, words in prompts.items():
        # MLflow takes only letters of ASCII.
        whole = f"{name}-{agent}".encode("ascii", "backslashreplace").decode()
        prompt_name = re.sub(r"[^\w.-]+", "-", whole)
        latest = client.load_prompt(prompt_name, allow_missing=True)
        if latest is None or latest.template != words:
            latest = client.register_prompt(
                prompt_name, words, commit_message=f"the prompt of {agent} in {name}"
            )
        client.link_prompt_version_to_run(run_id, latest)
    for thread in threading.enumerate():  # MLflow's own, which must not outlive the run
        if thread.name.startswith("link_prompt"):
            thread.join(JOIN_SECONDS)


def instructions_in(folder: Path) -> dict[str, str]:
    """Return the instructions of each agent of a saved program as a prompt of MLflow's, by the
    agent's name.
    """
    predictors = (read_object(folder / FILE) or {}).get("predictors") or {}
    found: dict[str, str] = {}
    for place, kept in predictors.items():
        agent = str(kept.get("seat") or place)
        # Several predictors may belong to one agent: the second one goes by its own name.
        if agent in found:
            agent = place
        # MLflow would take double braces for a variable.
        found[agent] = str(kept["instructions"]).replace("{{", "{ {")
    return found
