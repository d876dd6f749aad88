"""Trained strategy networks as programs: `network:DIR`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.errors import UserError
from ...modules.base.saved_file import read_plain

if TYPE_CHECKING:
    from ...modules.protocols.strategy_network import StrategyNetwork
    from .untrained import Untrained

SETTINGS, TENSORS = "network.json", "tensors.safetensors"
OF_PROGRAM = ("samples", "sampling")


class Unanswered(UserError):  # noqa: N818
    """A training cannot go on, since a question has no answer; `what` says which and why."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: what is finished is kept, and the same command goes on from there")
        self.what = what


class ToTrain:
    """Makes networks that are still to be trained, from settings of network, training and program.

    Its signature has all of their names, which PyTorch has to be imported for.
    """

    @property
    def __signature__(self) -> inspect.Signature:
        from ...modules.network.config import NetworkConfig
        from ...optimizers.policy.settings import TrainingSettings

        of = (field.name for kind in (NetworkConfig, TrainingSettings) for field in fields(kind))
        names = dict.fromkeys((*of, *OF_PROGRAM))
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, kind, default=None) for name in names])

    def __call__(self, **settings: Any) -> Untrained:
        """Raises UserError for settings that cannot be."""
        from .untrained import Untrained

        program = {name: settings.pop(name) for name in OF_PROGRAM if name in settings}
        return Untrained(settings, **program)


def trained_network(
    folder: str, *, samples: int | None = None, sampling: Mapping[str, Any] | None = None
) -> StrategyNetwork:
    """The network that a training left in a folder, as a program.

    Args:
        folder: what `folkmoot train --out` named.
        samples: how many answers strategies that sample draw; None is theirs.
        sampling: LM settings of every seat, such as `{"temperature": 0.5}`.

    Raises UserError for a folder without a network, and one whose strategies are not prompting strategies.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise UserError(f"there is no folder {folder}: name one that folkmoot train wrote")
    # PyTorch takes a second to import, which no other program should wait for.
    from ...modules.network.state import NetworkState
    from ...modules.protocols.strategy_network import StrategyNetwork
    from ..data.embeddings import Embedder

    embed = Embedder(NetworkState.load(place).config.embedding)
    return StrategyNetwork.load(place, embed, samples=samples, sampling=sampling)


def saved_network(place: Path, described: Mapping[str, Any], where: str) -> StrategyNetwork:
    """The network in a saved program's folder, as `describe()` said, with the prompts that it begins with.

    Raises UserError for files that leave the folder or are of another network, and for an embedding model
    that is a folder: those may bring code along.
    """
    for name, most in ((SETTINGS, 2**20), (TENSORS, 2**30)):
        read_plain(place / name, most)
    from ...modules.network.state import NetworkState
    from ...modules.protocols.strategy_network import StrategyNetwork
    from ..data.embeddings import Embedder

    state = NetworkState.load(place)
    if state.identity != described.get("learned"):
        raise UserError(f"{where} does not fit the network in {place}: copy both from one network")
    if state.config.to_dict() != described.get("config"):
        raise UserError(f"{where} describes other settings than the network in {place} has: save it again")
    model = state.config.embedding
    if not re.fullmatch(r"\w[\w.-]*(?:/\w[\w.-]*)?", model) or Path(model).exists():
        raise UserError(
            f"the network in {place} wants the embedding model in the folder {model!r}, which may hold code: "
            f"if you trust it, name the program network:{place}"
        )
    unknown = sorted(described.keys() - {"config", "learned", "samples", "sampling"})
    if unknown:
        raise UserError(f"{where}: network has no parameter {unknown[0]!r}; save the program again")
    return StrategyNetwork(
        state, Embedder(model), samples=described.get("samples"), sampling=described.get("sampling")
    )


def default_embedding() -> tuple[str, str | None]:
    """The embedding model for a training that names none, and a warning when it is not the paper's.

    all-mpnet-base-v2; where only all-MiniLM-L6-v2 is on this machine, that one.
    """
    from ..data.embeddings import MINILM, MPNET

    if _here(MPNET) or not _here(MINILM):
        return MPNET, None
    return MINILM, (
        f"{MPNET} is not on this machine: questions are embedded with {MINILM}; --embedding {MPNET} fetches "
        "the other"
    )


def _here(model: str) -> bool:
    """Whether a model needs no download: it is installed, or was fetched before."""
    from ..data.embeddings import Embedder, fetched

    return isinstance(Embedder(model)._where(), Path) or fetched(model)
