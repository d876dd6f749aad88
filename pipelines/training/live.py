"""Trains a strategy network with live LM calls, all of them kept, so that none is made twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.calls import CallError, FatalCallError, bound
from ...modules.base.errors import UserError
from ...modules.network.state import NetworkState
from ...modules.protocols.strategy_network import StrategyNetwork
from ...modules.reading.question import Question
from ...optimizers.policy.training import TrainingQuestion, TrainingSettings
from ..data.embeddings import Embedder
from ..data.load import fingerprint
from ..lms.cache import ACTIVE_CACHE, open_cache
from ..lms.ledger import LEDGERS, Ledger
from ..lms.store import ACTIVE, CallStore, write_lms
from ..programs.networks import Unanswered
from ..runs.manifest import lms_of
from ..runs.summary import GROUPS
from .train import Progress, Trained, described, learn, training_folder

CALLS = "training"
"""Folder, in that of the network, of the calls that training made and of their ledger."""

Asked = Callable[[int, int, int], Awaitable[tuple[str | None, bool]]]


def live(
    network: StrategyNetwork,
    questions: Sequence[Question],
    training: TrainingSettings,
    out: str | Path,
    *,
    lm: Any = None,
    preset: str = "paper",
    given: Mapping[str, Any] | None = None,
    data: str | None = None,
    record: str | Path | None = None,
    cache: bool = True,
    tracking: bool = True,
    progress: Progress | None = None,
) -> Trained:
    """Train a network by asking LMs, and save it in `out`; `network` is trained in place.

    Every answered call is kept in `out/training`: the same call with the same folder goes on from the last
    checkpoint, and what was answered since is not asked again. `lm` is that of every seat without one of its
    own; the other arguments are those of `evaluate` and of `replay`.

    Raises UserError for settings that only a replay can meet and a folder of another training, and Unanswered
    for a call that failed for good; BudgetSpent and KeyboardInterrupt go through, and what is finished is
    kept.
    """
    if training.full_information:
        raise UserError(
            "full_information asks every agent for every strategy, which only a replay can afford: add --set "
            "full_information=false --set epochs=10, or train from --outcomes"
        )
    state = network.state
    about = {
        **described("live", state.config, training, preset, given or {}, data),
        "data_fingerprint": fingerprint(questions),
        "questions": len(questions),
        "agents": [f"agent.{i}" for i in range(state.config.agents)],
        "strategies": list(state.config.strategies),
        "lms": lms_of(network, lm),
    }
    vectors = network.embed([question.question for question in questions])
    asked = [
        TrainingQuestion(question.id, vector, _group(question))
        for question, vector in zip(questions, vectors, strict=True)
    ]
    with training_folder(Path(out), about, tracking=tracking) as (folder, tracker):
        with kept_calls(folder / CALLS, about["lms"], record, cache), _asking(lm):
            log = learn(folder, state, asked, _told(network, questions), training, tracker, progress)
        network.save(folder)
        tracker.end(log.steps, None, folder)
    return Trained(folder, state, log, about)


@contextmanager
def kept_calls(
    folder: Path, lms: Mapping[str, Any], record: str | Path | None, cache: bool
) -> Iterator[None]:
    """Keep every LM call of the block in `folder`, as an evaluation does: its answer and what it cost."""
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            ledger = Ledger(folder)
            held.callback(ledger.close)
            stores = [CallStore(folder), *([CallStore(Path(record))] if record is not None else [])]
            for store in stores:
                held.callback(store.close)
                write_lms(store.folder, lms)
        except OSError as problem:
            raise UserError(
                f"{problem.filename or folder} cannot be written ({problem.strerror}): choose another --out"
            ) from None
        held.enter_context(bound(LEDGERS, (ledger, *LEDGERS.get())))
        held.enter_context(bound(ACTIVE_CACHE, held.enter_context(open_cache(cache))))
        held.enter_context(bound(ACTIVE, (*stores, *ACTIVE.get())))
        yield


def fresh_network(
    config: Any, *, samples: int | None = None, sampling: Mapping[str, Any] | None = None
) -> StrategyNetwork:
    """An untrained network of these settings, with the embedding model that they name."""
    embed = Embedder(config.embedding)
    return StrategyNetwork(NetworkState.fresh(config, embed.width), embed, samples=samples, sampling=sampling)


@contextmanager
def _asking(lm: Any) -> Iterator[None]:
    # DSPy would keep the last 10,000 calls in its history and again in its trace.
    with dspy.context(lm=lm or dspy.settings.lm, disable_history=True, trace=None):
        yield


def _told(network: StrategyNetwork, questions: Sequence[Question]) -> Asked:
    """The network's answers; a call that fails for good ends the training, since it says nothing of right."""
    ask = network.answering(questions)

    async def answer(question: int, agent: int, strategy: int) -> tuple[str | None, bool]:
        try:
            found: tuple[str | None, bool] = await ask(question, agent, strategy)
        except FatalCallError:
            raise
        except CallError as problem:
            why = " ".join(str(problem).split())
            raise Unanswered(f"question {questions[question].id!r} could not be answered ({why})") from None
        return found

    return answer


def _group(question: Question) -> str | None:
    return next((str(question.meta[name]) for name in GROUPS if question.meta.get(name) is not None), None)
