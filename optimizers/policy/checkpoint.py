"""Checkpoints of a training: a resumed training gives the same network as one without a stop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as write_tensors

from ...modules.base.errors import UserError
from ...modules.network.state import NetworkState, write_file
from .batches import PolicyTraining, TrainingLog
from .known_answers import TrainingQuestion
from .settings import TrainingSettings

_NETWORK, _OPTIMIZER, _BUFFER = "network", "optimizer.", "buffer.all."


def training_fingerprint(
    state: NetworkState, questions: Sequence[TrainingQuestion], settings: TrainingSettings
) -> str:
    """Return the identity of a training: a hash of its initial network, its settings and questions,
    without the interval of checkpoints.
    """
    # How often it is saved changes nothing about what is learned.
    learning = {**settings.to_dict(), "checkpoint_every": None}
    digest = hashlib.sha256(json.dumps([state.config.to_dict(), learning]).encode())
    for name, tensor in sorted(state.tensors().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    for question in questions:
        digest.update(json.dumps(question.key).encode())
        digest.update(np.asarray(question.vector, dtype=np.float32).tobytes())
    return digest.hexdigest()


def save_checkpoint(path: Path, identity: str, training: PolicyTraining) -> None:
    """Write a checkpoint of the training `identity`, atomically. The file holds the tensors of
    network, optimizer and buffer, and the rest as JSON.
    """
    # Adam's moments: without them a resumed training would take other steps.
    moments = training.optimizer.state_dict()["state"]
    tensors = {f"{_BUFFER}{name}": part for name, part in training.buffer.items()}
    for number, parts in moments.items():
        tensors |= {f"{_OPTIMIZER}{number}.{name}": part for name, part in parts.items()}
    network = np.frombuffer(write_tensors(training.state.tensors()), dtype=np.uint8)
    tensors[_NETWORK] = torch.tensor(network)
    progress = {
        "identity": identity,
        "network": training.state.about(),
        "done": training.done,
        "total_reward": training.total_reward.tolist(),
        "answered": training.answered,
        "log": training.log.to_dict(),
        # With full information, all answers are read again at the start, at no cost.
        "known": [] if training.settings.full_information else training.answers.rows(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, write_tensors(tensors, {"progress": json.dumps(progress)}))


def restore_checkpoint(path: Path, identity: str, training: PolicyTraining) -> bool:
    """Restore a training from its last checkpoint; returns False when there is none. Raises
    UserError when the checkpoint is damaged or belongs to another training.
    """
    if not path.exists():
        return False
    try:
        with safe_open(path, "pt") as file:
            progress = json.loads(file.metadata()["progress"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, KeyError, ValueError) as problem:
        raise UserError(
            f"the checkpoint {path} cannot be read ({problem}): delete it to start again."
        ) from None
    # Checked before anything is restored: a refused checkpoint changes nothing.
    if progress["identity"] != identity:
        raise UserError(
            f"{path} is a checkpoint of another training (other settings, questions or "
            "network): name another folder, or remove this one."
        )
    network = tensors.pop(_NETWORK).numpy().tobytes()
    loaded = NetworkState.of(progress["network"], network, f"the checkpoint {path}")
    policies = training.state.policies  # in place, since the optimizer refers to these tensors
    policies.load_state_dict(loaded.policies.state_dict())
    training.state.__dict__.update(vars(loaded), policies=policies)
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, part in tensors.items():
        kind, number, what = name.split(".")
        if kind == "buffer":
            training.buffer[what] = part
        else:
            moments.setdefault(int(number), {})[what] = part
    training.optimizer.load_state_dict({**training.optimizer.state_dict(), "state": moments})
    training.done, training.answered = progress["done"], progress["answered"]
    training.total_reward = np.array(progress["total_reward"])
    training.log = TrainingLog(**progress["log"])
    training.edges_changed = training.log.steps[-1]["edges_changed"]
    training.answers.restore(progress["known"])
    return True
