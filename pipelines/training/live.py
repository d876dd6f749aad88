"""Trains a strategy network with live LM calls, which are all recorded, so that none is made
twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import dspy

from ...modules.base.calls import CallError, FatalCallError
from ...modules.base.errors import UserError
from ...modules.network.strategy_network import StrategyNetwork
from ...modules.reading.question import Question
from ...optimizers.policy.known_answers import TrainingQuestion
from ...optimizers.policy.settings import STANDING, TrainingSettings
from ..base.budget import Unanswered
from ..base.run_files import books_of
from ..data.questions import fingerprint
from ..evaluation.answering import lms_in
from ..lms.foreign import metering
from ..runs.books import open_books
from ..runs.describe import lms_of
from ..runs.summary import GROUPS
from .card import CALLS
from .train import Progress, Trained, TrainingAbout, learn, training_about, training_folder

Asked = Callable[[int, int, int], Awaitable[tuple[str | None, bool]]]


def live(
    network: StrategyNetwork,
    questions: Sequence[Question],
    training: TrainingSettings,
    out: str | Path,
    *,
    lm: object = None,
    preset: str = STANDING,
    options: Mapping[str, object] | None = None,
    data: str | None = None,
    record: str | Path | None = None,
    cache: bool = True,
    tracking: bool = True,
    parent: str | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train a network by asking LMs, and save it in `out`; `network` is trained in place.

    Every answered call is kept in `out/training`. The same call with the same folder resumes from
    the last checkpoint, and calls answered since then are not made again. `lm` is the LM of every
    seat without its own; the other arguments are those of `evaluate` and of `train_by_replay`.

    Raises UserError for settings that only a replay can meet and a folder of another training, and
    Unanswered for a call that failed for good; BudgetSpent and KeyboardInterrupt are passed on, and
    finished work is kept.
    """
    check_live(training)
    state = network.state
    about: TrainingAbout = {
        **training_about("live", state.config, training, preset, options or {}, data),
        "data_fingerprint": fingerprint(questions),
        "questions": len(questions),
        "agents": list(map("agent.{}".format, range(state.config.agents))),
        "strategies": list(state.config.strategies),
        "lms": lms_of(network, lm),
        "wording": network.wording() or None,
    }
    asked = list[TrainingQuestion]()
    vectors = network.embed([question.question for question in questions])
    for question, vector in zip(questions, vectors, strict=True):
        asked.append(TrainingQuestion(question.id, vector, _group(question)))
    with training_folder(
        Path(out), about, tracking=tracking, parent=parent, lm=lm or dspy.settings.lm
    ) as (folder, tracked):
        kept = folder / CALLS
        # The first is the training's own, from which a resumed one has its answers.
        records = [books_of(kept), *([Path(record)] if record is not None else [])]
        # DSPy would keep the last 10,000 calls in its history and again in its trace.
        quiet = dspy.context(lm=lm or dspy.settings.lm, disable_history=True, trace=None)
        books = open_books(kept, records=records, lms=about["lms"], cache=cache)
        with books, quiet, metering(lms_in(network, lm)):
            log = learn(
                folder, state, asked, _answering(network, questions), training, tracked, progress
            )
        network.save(folder)
        tracked.end()
        about["mlflow_run_id"] = tracked.run_id
    return Trained(folder, network, log, about)


def check_live(training: TrainingSettings) -> None:
    """Raise UserError for settings that only a training on recorded answers supports."""
    if training.full_information or not isinstance(training.epochs, int):
        raise UserError(
            "full_information and epochs auto ask every agent for every strategy, which is only "
            "possible when training on recorded answers: add --set full_information=false --set "
            "epochs=10, or train from --outcomes"
        )


def _answering(network: StrategyNetwork, questions: Sequence[Question]) -> Asked:
    """Ask the network's agents; a call that fails for good ends the training, since its answer is
    neither right nor wrong.
    """
    ask = network.answering(questions)

    async def answer(question: int, agent: int, strategy: int) -> tuple[str | None, bool]:
        try:
            reply: tuple[str | None, bool] = await ask(question, agent, strategy)
        # Such as a wrong key: it would fail every question, and says so itself.
        except FatalCallError:
            raise
        except CallError as problem:
            why = " ".join(str(problem).split())
            raise Unanswered(
                f"question {questions[question].id!r} could not be answered ({why})"
            ) from None
        return reply

    return answer


def _group(question: Question) -> str | None:
    for name in GROUPS:
        if question.meta.get(name) is not None:
            return str(question.meta[name])
    return None
