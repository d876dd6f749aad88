"""Trains a strategy network from Python: from recorded answers, or by asking."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.strategy_network import StrategyNetwork as StrategyNetwork
from ...optimizers.policy.settings import STANDING, TrainingSettings, configured
from ..base.budget import Budget
from ..base.wording import counted
from ..data import load as data
from ..data.embeddings import Embedder
from ..evaluation.answering import seat_engines
from ..evaluation.forecast import account_of
from ..lms.named import lm_given
from ..programs.networks import OF_PROGRAM, default_embedding
from ..programs.resolve import program_of
from ..runs.books import open_books
from ..runs.folder import out_folder
from ..runs.outcomes import outcomes_in
from .live import CALLS, live
from .recorded import network_of
from .train import Embed, Trained, displayed_training, train_on_outcomes

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ...modules.network.state import NetworkState


def train(
    outcomes: Any = None,
    program: Program | str | None = None,
    *,
    train: Any = None,
    lm: Any = None,
    embedding: str | Embed | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    budget: str | Budget | None = None,
    preset: str = STANDING,
    test: Any = None,
    cache: bool = True,
    tracking: bool = True,
    progress: bool | Callable[[Mapping[str, Any]], None] | None = None,
) -> StrategyNetwork:
    """Teach a strategy network which agent should use which strategy on which question, and whom to trust.

    Either from `outcomes`, without a call, or from `train`, by asking. The result is that of `folkmoot train`
    with the same settings.

    Args:
        outcomes: recorded answers: the path of an outcome table, of `results.jsonl` files or run folders, or
            several; or the rows of a table as a DataFrame or dicts, with `question_id`, `question`, `agent`,
            `answer`, `correct` and, where known, `strategy` and `group`.
        program: a network with settings, LMs and prompts of its own, trained before or not; it stays as it
            is. None makes one by the settings. Outcomes teach it anew, questions in addition.
        train: labelled questions, or what `fm.load` takes, to learn on by asking `lm`. Nobody is asked the
            same twice.
        lm: the LM of every seat that has none of its own; None takes DSPy's configured one.
        embedding: the model that embeds questions: a sentence-transformers name or folder, an `Embedder`, or
            a function of texts (n) that gives their vectors (n, D). None takes all-mpnet-base-v2, or
            all-MiniLM-L6-v2 where only that is on this machine.
        out: folder of the network, its log and plots, and of all answered calls. The same call with the same
            folder goes on where it was stopped. None uses a temporary folder: `save` the network.
        seed: of the graph, the weights and all draws.
        settings: of `NetworkConfig` and `TrainingSettings` by name, before those of the preset; and `samples`
            and `sampling`, as in `StrategyNetwork`.
        budget: ceilings such as `"2 USD, 500 calls"` on what training asks, over all attempts at a folder.
        preset: `standing`; `paper`, the paper's policy to the letter, or one of its ablations; or `beyond`,
            what did best on recorded answers.
        test: outcomes that the trained network is scored on; the scores are in `training.scores`.
        cache: take answers from the user's call cache, and leave complete ones there.
        tracking: log to the tracking store as one run.
        progress: as in `evaluate`; a function gets the figures of each batch.

    Returns a network with the course of its training as `training`: `folder`, `log`, `scores`. Outcomes of
    agents whose strategies are not in `fm.STRATEGIES` make a network that can only be scored: nobody can be
    asked in those ways.

    Raises:
        UserError: nothing, or both, to learn from; settings that do not fit; unusable outcomes or questions;
            a folder of another training; a budget that cannot be held, or is spent; a call that failed for
            good. What was finished is in the folder.
    """
    if (outcomes is None) == (train is None):
        raise UserError("give what to learn from: either outcomes, or questions as train=")
    chosen = dict(settings or {})
    if seed and chosen.get("seed", seed) != seed:
        raise UserError(f"seed is {seed} and in the settings {chosen['seed']}: keep one of them")
    if seed or program is None:
        chosen.setdefault("seed", seed)
    network = _given(program, chosen, embedding)
    if train is None:
        for name, given in (("lm", lm), ("budget", budget)):
            if given is not None:
                raise UserError(f"{name} is for training by asking: leave it out, or the outcomes")
        return _on_outcomes(outcomes, network, embedding, out, chosen, preset, test, tracking, progress)
    if test is not None:
        raise UserError("test takes outcomes: pass the trained network and the questions to fm.evaluate")
    network, training = _untrained(network, chosen, embedding, preset)
    questions = data.listed(train, "train")
    data.check_asked(questions)
    lm = lm_given(lm)
    with out_folder(out) as (folder, keep):
        account = account_of(budget, seat_engines(network, lm), folder, folder / CALLS)
        with open_books(account=account), displayed_training(progress) as tell:
            trained = live(
                network,
                questions,
                training,
                folder,
                lm=lm,
                preset=preset,
                given=chosen,
                cache=cache,
                tracking=tracking,
                progress=tell,
            )
    return _with(network, trained, keep)


def _on_outcomes(
    outcomes: Any,
    program: StrategyNetwork | None,
    embedding: str | Embed | None,
    out: str | Path | None,
    settings: dict[str, Any],
    preset: str,
    test: Any,
    tracking: bool,
    progress: bool | Callable[[Mapping[str, Any]], None] | None,
) -> StrategyNetwork:
    table = outcomes_in(outcomes)
    tested = None if test is None else outcomes_in(test)
    if program is not None:
        config = vars(program.state.config)
        named = {name: value for name, value in config.items() if name != "alike"} | _of_training(settings)
        embed: Embed = program.embed

        def made(state: NetworkState) -> StrategyNetwork:
            network: StrategyNetwork = program.deepcopy()
            network.state = state
            return network

    else:
        named = {name: value for name, value in settings.items() if name not in OF_PROGRAM}
        embed = _embedder(embedding, named)
        of_program = {name: settings[name] for name in OF_PROGRAM if name in settings}

        def made(state: NetworkState) -> StrategyNetwork:
            return network_of(state, embed, **of_program)

    with out_folder(out) as (folder, keep), displayed_training(progress) as tell:
        trained = train_on_outcomes(
            table,
            folder,
            named,
            test=tested,
            preset=preset,
            embed=embed,
            data=Path(outcomes).stem if isinstance(outcomes, str | Path) else None,
            tracking=tracking,
            progress=tell,
            program=made,
        )
    assert trained.network is not None
    return _with(trained.network, trained, keep)


def _given(
    program: Program | str | None, settings: Mapping[str, Any], embedding: str | Embed | None
) -> StrategyNetwork | None:
    """The network to teach; None for one that the settings make. Raises UserError where both say the same."""
    if program is None or program == "network":
        return None
    if isinstance(program, str):
        program = program_of(program)
    if not isinstance(program, StrategyNetwork):
        raise UserError(f"a {type(program).__name__} cannot be trained: give a strategy network")
    if embedding is not None:
        raise UserError("the program has an embedding of its own: leave embedding out")
    config = program.state.config
    own = {**vars(config), **config.to_dict()} | {"samples": program.samples, "sampling": program.sampling}
    for name in settings.keys() - _of_training(settings).keys():
        if name not in own or settings[name] != own[name]:
            known = f", and {own[name]!r} in the program" if name in own else ""
            raise UserError(f"{name} is {settings[name]!r}{known}: leave it out")
    return program


def _untrained(
    program: StrategyNetwork | None,
    settings: dict[str, Any],
    embedding: str | Embed | None,
    preset: str,
) -> tuple[StrategyNetwork, TrainingSettings]:
    """The network to teach, which nobody else holds, and how."""
    if program is not None:
        network: StrategyNetwork = program.deepcopy()
        network.state = copy.deepcopy(program.state)
        return network, configured(_of_training(settings), preset)[1]
    named = {name: value for name, value in settings.items() if name not in OF_PROGRAM}
    embed = _embedder(embedding, named)
    config, training = configured(named, preset)
    of_program = {name: settings[name] for name in OF_PROGRAM if name in settings}
    return StrategyNetwork.untrained(config, embed, **of_program), training


def _of_training(settings: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(TrainingSettings)}
    return {name: value for name, value in settings.items() if name in known}


def _embedder(embedding: str | Embed | None, settings: dict[str, Any]) -> Embed:
    """What embeds questions; its name goes into the settings."""
    if embedding is not None and "embedding" in settings:
        raise UserError("embedding is given, and in the settings, too: keep one of them")
    if callable(embedding):
        name = getattr(embedding, "__name__", type(embedding).__name__)
        settings["embedding"] = getattr(embedding, "model", name)
        return embedding if isinstance(embedding, Embedder) else partial(_vectors, embedding)
    if embedding is None and "embedding" not in settings:
        embedding, warning = default_embedding()
        if warning:
            warnings.warn(warning, stacklevel=4)
    if embedding is not None:
        settings["embedding"] = embedding
    return Embedder(settings["embedding"])


def _vectors(embedding: Embed, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """What a function of the user's own makes of texts. Raises UserError for what are no vectors of them."""
    made = embedding(texts)
    try:
        found = np.asarray(made, dtype=np.float32)
    except (TypeError, ValueError):
        found = np.zeros(0, dtype=np.float32)
    if found.ndim != 2 or len(found) != len(texts) or not np.isfinite(found).all():
        raise UserError(
            f"the embedding function gave no vectors of {counted(len(texts), 'text')}: return an array of "
            "finite numbers with a row for each"
        )
    return found


def _with(network: StrategyNetwork, trained: Trained, keep: Any) -> StrategyNetwork:
    trained.keep = keep
    network.training = trained
    return network


StrategyNetwork.trained_by = staticmethod(train)
"""For `fm.StrategyNetwork.from_outcomes`: the class, on a floor below, is handed its training."""
