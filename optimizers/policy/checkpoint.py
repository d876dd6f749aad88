"""Checkpoints of a training: going on from one ends with the network that no stop would
have given.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors

from ...modules.base.errors import UserError
from ...modules.base.saved_file import read_plain
from ...modules.network import files
from ...modules.network.state import NetworkState
from .batches import PolicyTraining, TrainingLog
from .known_answers import TrainingQuestion
from .settings import TrainingSettings

_PREFIX, _PROGRESS = "step-", "training.json"
_OPTIMIZER, _BUFFER = "optimizer.safetensors", "buffer.safetensors"


def training_fingerprint(
    state: NetworkState, questions: Sequence[TrainingQuestion], settings: TrainingSettings
) -> str:
    """The identity of a training: a hash of the network that it begins with, its settings and
    questions.

    How often a checkpoint is written is no part of it.
    """
    learning = {**settings.to_dict(), "checkpoint_every": None}
    digest = hashlib.sha256(json.dumps([state.config.to_dict(), learning]).encode())
    for name, tensor in sorted(state.tensors().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    for question in questions:
        digest.update(json.dumps(question.key).encode())
        digest.update(np.asarray(question.vector, dtype=np.float32).tobytes())
    return digest.hexdigest()


class Checkpoints:
    """The checkpoints of one training in a folder, of which the last is kept."""

    def __init__(self, folder: str | Path, identity: str) -> None:
        self.folder, self.identity = Path(folder), identity

    def save(self, training: PolicyTraining) -> None:
        """Write where the training stands; a stop while writing leaves the checkpoint before."""
        final = self.folder / f"{_PREFIX}{training.done:09d}"
        scratch = self.folder / f".{final.name}.{os.getpid()}"
        shutil.rmtree(scratch, ignore_errors=True)
        training.state.save(scratch)
        states = training.optimizer.state_dict()["state"]
        tensors = {
            f"{k}.{name}": part for k, parts in states.items() for name, part in parts.items()
        }
        files.write_file(scratch / _OPTIMIZER, write_tensors(tensors))
        if training.buffer:
            files.write_file(scratch / _BUFFER, write_tensors(training.buffer))
        progress = {
            "identity": self.identity,
            "done": training.done,
            "total_reward": training.total_reward.tolist(),
            "answered": training.answered,
            "log": training.log.to_dict(),
            # With full information all is asked for anew at the start, for nothing.
            "known": [] if training.settings.full_information else training.known.rows(),
        }
        files.write_file(scratch / _PROGRESS, json.dumps(progress).encode())
        shutil.rmtree(final, ignore_errors=True)
        scratch.rename(final)
        for old in self._all():
            if old != final:
                shutil.rmtree(old, ignore_errors=True)

    def restore(self, training: PolicyTraining) -> bool:
        """Put a training where the last checkpoint stands; False when there is none.

        Raises UserError when the checkpoint is damaged or of another training.
        """
        found = self._all()
        if not found:
            return False
        place = found[-1]
        progress = files.read_json(place / _PROGRESS)
        if progress.get("identity") != self.identity:
            raise UserError(
                f"{place} is a checkpoint of another training (other settings, questions or "
                f"network): "
                "name another folder, or remove this one."
            )
        try:
            loaded = NetworkState.load(place)
            tensors = read_tensors(read_plain(place / _OPTIMIZER, files.MOST_BYTES))
            policies = training.state.policies  # whose tensors the optimizer holds
            policies.load_state_dict(loaded.policies.state_dict())
            training.state.__dict__.update(vars(loaded), policies=policies)
            states: dict[int, dict[str, torch.Tensor]] = {}
            for name, part in tensors.items():
                number, _, what = name.partition(".")
                states.setdefault(int(number), {})[what] = part
            training.optimizer.load_state_dict({**training.optimizer.state_dict(), "state": states})
            training.done, training.answered = int(progress["done"]), int(progress["answered"])
            training.total_reward = np.array(progress["total_reward"])
            training.log = TrainingLog(**progress["log"])
            training.log.epochs = int(training.log.epochs)
            training.edges_changed = training.log.steps[-1].get("edges_changed", 0)
            if (place / _BUFFER).exists():
                training.buffer = read_tensors(read_plain(place / _BUFFER, files.MOST_BYTES))
            training.known.restore(progress["known"])
        except (
            KeyError,
            TypeError,
            ValueError,
            IndexError,
            RuntimeError,
            SafetensorError,
        ) as problem:
            raise UserError(
                f"the checkpoint {place} cannot be read ({problem}): remove it to begin anew."
            ) from None
        return True

    def _all(self) -> list[Path]:
        return sorted(path for path in self.folder.glob(f"{_PREFIX}*") if path.is_dir())
