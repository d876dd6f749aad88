"""The files of a strategy network: `network.json` and `tensors.safetensors`, nothing that could run."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors
from torch import Tensor

from ..base.errors import UserError
from ..base.files import write_whole
from ..reading.voting import LOWEST_TRUST
from .config import NetworkConfig
from .fused import FusedPolicies
from .state import NetworkState
from .tracker import StrategyTracker
from .trust import HIGHEST_TRUST
from .vote import VoteWeights

SETTINGS, TENSORS = "network.json", "tensors.safetensors"
FORMAT = 1
_PACKAGES = ("folkmoot", "torch", "torch-geometric", "safetensors", "numpy")

Array = npt.NDArray[Any]


def save(state: NetworkState, folder: str | Path) -> None:
    """Write the network into a folder, which is made if it is not there. A file is whole or not there."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    tensors = write_tensors(tensors_of(state))
    about = {
        "format": FORMAT,
        "config": state.config.to_dict(),
        "width": state.width,
        "questions": state.questions,
        "tensors_sha256": hashlib.sha256(tensors).hexdigest(),
        "versions": {name: _version(name) for name in _PACKAGES},
    }
    write_file(place / TENSORS, tensors)
    write_file(place / SETTINGS, (json.dumps(about, indent=2) + "\n").encode())


def load(folder: str | Path) -> NetworkState:
    """The network in a folder, exactly as it was saved.

    Raises UserError, naming the file, for files that are not there, not whole, or not of one network.
    """
    place = Path(folder)
    about = read_json(place / SETTINGS)
    if about.get("format") != FORMAT:
        raise UserError(
            f"{place / SETTINGS} has the format {about.get('format')!r}, not {FORMAT}: it was written by "
            "another version of folkmoot; train again."
        )
    raw = read_bytes(place / TENSORS)
    if hashlib.sha256(raw).hexdigest() != about.get("tensors_sha256"):
        raise UserError(
            f"{place / TENSORS} is not the file that {SETTINGS} was saved with: copy both from one network."
        )
    try:
        config = NetworkConfig.from_dict(about["config"])
        return _state(config, int(about["width"]), int(about["questions"]), read_tensors(raw))
    except (KeyError, TypeError, SafetensorError, UserError) as problem:
        what = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem).rstrip(".")
        raise UserError(f"the network in {place} cannot be loaded: {what}.") from None


def tensors_of(state: NetworkState) -> dict[str, Tensor]:
    """Every number of a network by name; policies under GATConv's own names, `agents.0.gat1.att_src`, …."""
    arrays: dict[str, Array] = {
        "adjacency": state.adjacency,
        "trust": state.trust,
        "average": state.average,
        "recent": state.recent,
        "centre": state.centre,
        **{f"tracker.{name}": part for name, part in state.tracker.state().items()},
    }
    if state.vote is not None:
        arrays |= {f"vote.{name}": part for name, part in vars(state.vote).items() if part is not None}
    found = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in arrays.items()}
    return state.policies.weights() | found


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole. Raises UserError when it cannot be written."""
    try:
        write_whole(path, content)
    except OSError as problem:
        raise UserError(
            f"{path} cannot be written ({problem.strerror}): check the folder and its space."
        ) from None


def read_bytes(path: Path) -> bytes:
    """The content of a file. Raises UserError when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror}): name a saved network.") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises UserError when it cannot be read."""
    try:
        found = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, UserError):
            raise
        raise UserError(f"{path} is not valid JSON: name a saved network.") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} does not hold an object: name a saved network.")
    return found


def _state(config: NetworkConfig, width: int, questions: int, tensors: dict[str, Tensor]) -> NetworkState:
    n, s = config.agents, len(config.strategies)
    arrays = {name: part.numpy() for name, part in tensors.items() if not name.startswith("agents.")}
    policies = FusedPolicies(config.policy(width), n, config.seed)
    policies.load_weights({name: part for name, part in tensors.items() if name.startswith("agents.")})
    remembered = {name: arrays.pop(f"tracker.{name}") for name in ("questions", "scores", "tried")}
    state = NetworkState(
        config=config,
        policies=policies.eval(),
        adjacency=_take(arrays, "adjacency", (n, n), np.bool_),
        trust=_take(arrays, "trust", (n, n)),
        average=_take(arrays, "average", (n, n)),
        tracker=StrategyTracker.from_state(remembered, config.tracker),
        recent=_take(arrays, "recent", (n,)),
        centre=_take(arrays, "centre", (width,), np.float32),
        vote=_vote(arrays, (n, s, width)) if "vote.base" in arrays else None,
        questions=questions,
    )
    if arrays:
        raise UserError(f"{next(iter(arrays))} belongs to no network")
    if any(part.shape[1] != size for part, size in zip(remembered.values(), (width, s, s), strict=True)):
        raise UserError("the tracker is of another network")
    graph = state.adjacency
    if (graph != graph.T).any() or graph.diagonal().any() or questions < 0:
        raise UserError("the adjacency is not that of a graph")
    for trust in (state.trust, state.average):
        between = trust[~np.eye(n, dtype=bool)]
        if ((between < LOWEST_TRUST) | (between > HIGHEST_TRUST)).any() or trust.diagonal().any():
            raise UserError("trust is out of bounds")
    return state


def _vote(arrays: dict[str, Array], shape: tuple[int, int, int]) -> VoteWeights:
    base = _take(arrays, "vote.base", shape[:2])
    if "vote.slopes" not in arrays:
        return VoteWeights(base)
    return VoteWeights(base, _take(arrays, "vote.slopes", shape), _take(arrays, "vote.centre", shape[2:]))


def _take(arrays: dict[str, Array], name: str, shape: tuple[int, ...], kind: Any = np.float64) -> Array:
    found = arrays.pop(name)
    if found.shape != shape or found.dtype != kind or not np.isfinite(found).all():
        raise UserError(f"{name} must hold {np.dtype(kind).name} of shape {shape}, not {found.shape}")
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
