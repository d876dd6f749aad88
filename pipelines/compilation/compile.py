"""Improves a program's prompts with a DSPy optimizer, on a budget and with a held-out comparison."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy

from ...modules.agents.adapter import profile_of
from ...modules.agents.judge import JudgeMetric
from ...modules.base.errors import UserError, checked_whole
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes, predictors_of
from ...modules.reading.metrics import check_metric
from ...modules.reading.question import Question
from ...optimizers.prompts.optimizers import PromptOptimizer, optimizer_of
from ..base.budget import Budget
from ..base.display import displayed
from ..base.journal import as_json, write_json
from ..data import load as data
from ..evaluation.answering import CONCURRENCY, seat_engines
from ..evaluation.check import check_concurrency, check_train, noted
from ..evaluation.judging import metric_given
from ..lms.foreign import billed_as
from ..lms.named import lm_given, lm_identity
from ..programs.resolve import program_given
from ..runs.books import open_books
from ..runs.folder import out_folder, unwritable
from ..runs.manifest import RunFolder, as_begun, lms_of, made_with
from ..tracking.context import caller_place
from ..tracking.tracker import start_tracking
from ..tracking.uploads import Tracker
from .attempt import COMPILE, Compiling, Work, compiling_line
from .logged import compilation_run

DEFAULT_OPTIMIZER, DEFAULT_PRESET = "mipro", "light"
MOST_QUESTIONS = {"light": 100, "medium": 300, "heavy": 1000}
"""The most training questions that are learned from, and the most that candidates are chosen by."""

_FIELDS = {
    "program_hash": "program",
    "lms": "LM",
    "prompt_lm": "prompt LM",
    "metric": "metric",
    "train_fingerprint": "training data",
    "validation_fingerprint": "validation data",
    "optimizer": "optimizer",
    "preset": "preset",
    "seed": "seed",
}
COMPILATION = RunFolder(
    "compilation",
    COMPILE,
    {name: f"its {what} differs" for name, what in _FIELDS.items()},
    dict.fromkeys(("calls.jsonl", "results.jsonl", "run.json"), "something else than a compilation"),
)


def compile(
    program: Program | dspy.Module | str,
    train: Iterable[Question],
    validation: Iterable[Question] | None = None,
    *,
    inputs: Mapping[str, str] | None = None,
    optimizer: str = DEFAULT_OPTIMIZER,
    preset: str = DEFAULT_PRESET,
    lm: Any = None,
    prompt_lm: Any = None,
    metric: Any = None,
    judge_lm: Any = None,
    budget: str | Budget | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    concurrency: int = CONCURRENCY,
    cache: bool = True,
    tracking: bool = True,
    settings: Mapping[str, Any] | None = None,
    progress: bool | Callable[[Compiling], None] | None = None,
) -> Any:
    """Let an optimizer improve instructions and demonstrations; the program that was given stays as it is.

    Args:
        program: a folkmoot program or its spec, or any `dspy.Module`.
        train: labelled questions, all that the optimizer sees. Half of them are learned from, the others
            choose between candidates (of an optimizer that only rewrites instructions by score: all choose).
        validation: held-out questions, on which the given program and the result are compared.
        inputs: of a module of your own, its field → the question's field, where their names differ.
        optimizer: one of `optimizers.prompts.optimizers.OPTIMIZERS`.
        preset: light, medium or heavy.
        lm: the LM of every seat that has none of its own, or its name; None takes DSPy's configured one.
        prompt_lm: the LM that proposes instructions; None takes `lm`.
        metric: what candidates are chosen and compared by, as `evaluate` takes it. What it says of an answer
            with a trace decides whether that may be shown as a demonstration (a number: from 0.8 up), and
            what it says to GEPA's five arguments may have `feedback`. None: accuracy, of spans their F1.
        judge_lm: the LM that grades, for the metric `judge`.
        budget: ceilings such as `"2 USD, 500 calls"` over everything, and over all attempts at a folder.
        out: folder of the compilation; the same call with the same folder goes on where it was stopped, and
            asks nothing again that was answered. None uses a temporary folder.
        seed: of the split of the training questions and of all that the optimizer draws.
        concurrency: most questions in flight.
        cache: take answers from the user's call cache, and leave complete ones there.
        tracking: log to MLflow as one run with candidates and evaluations under it.
        settings: what to note beside the run (data, split, …).
        progress: as in `evaluate`.

    Returns a new program, or a module of the class that was given, with the result as its `compilation`.
    When the budget is spent, that is the best so far, and `compilation.stopped` says so.

    Raises:
        UserError: an unknown optimizer or preset, unusable questions, training questions that are held out,
            too, a budget, seed or concurrency of another type, a folder of another compilation, and as
            `evaluate`. The best so far is in the folder.
        KeyboardInterrupt: likewise.
    """
    began = time.monotonic()
    chosen = optimizer_of(optimizer, preset)
    program = as_begun(program_given(program, inputs), None if out is None else Path(out), COMPILE)
    language_model = lm_given(lm)
    train = data.listed(train, "train")
    validation = data.listed(() if validation is None else validation, "validation")
    checked_whole("the seed", seed, 0)
    scored = metric_given(metric, judge_lm)
    warned = noted(program, [*train, *validation])
    warned += check_input(program, train, validation, chosen, concurrency)
    for questions in (train, validation):
        check_metric(scored, questions)
    asked = [program.example(question) for question in train] if isinstance(program, Foreign) else train
    learn, select = split(asked, chosen, preset, seed)
    seated = lms_of(program, language_model)
    task_lm = language_model or next(seat.predict.lm for seat in program.seats().values())
    prompt_lm = task_lm if prompt_lm is None else lm_given(prompt_lm)
    for warning in warned + advice(program, chosen, language_model):
        warnings.warn(warning, stacklevel=2)
    about = as_json(
        {
            "program": program.describe(),
            **hashes(program),
            "lms": seated,
            "prompt_lm": (lm_identity(prompt_lm) or {"name": prompt_lm.model}) if chosen.proposes else None,
            "metric": scored.identity(),
            "train_fingerprint": data.fingerprint(train),
            "validation_fingerprint": data.fingerprint(validation) if validation else None,
            "optimizer": optimizer,
            "preset": preset,
            "seed": seed,
            "questions": {"learn": len(learn), "select": len(select), "validation": len(validation)},
            "settings": dict(settings or {}),
            **made_with(),
        }
    )
    judges = [billed_as(scored.lm)] if isinstance(scored, JudgeMetric) else []
    engines = [*seat_engines(program, language_model), billed_as(prompt_lm), *judges]
    with (
        out_folder(out) as (folder, keep),
        COMPILATION.opened(folder, about),
        _disk_errors(folder),
        open_books(folder, records=[folder], cache=cache, budget=budget, engines=engines) as books,
        displayed(progress, "compile", compiling_line) as tell,
    ):
        write_json(folder / COMPILE, {**about, "result": None})
        tracker = start_tracking(compilation_run(about) | caller_place()) if tracking else Tracker()
        about["mlflow_run_id"] = tracker.run_id or about["mlflow_run_id"]
        write_json(folder / COMPILE, {**about, "result": None})
        work = Work(
            program,
            learn,
            select,
            validation,
            lm=language_model,
            task_lm=task_lm,
            prompt_lm=prompt_lm,
            metric=scored,
            whole={question.id: question for question in train},
            chosen=chosen,
            about=about,
            folder=folder,
            books=books,
            tracker=tracker,
            concurrency=concurrency,
            tracking=tracking,
            progress=tell,
            began=began,
        )
        work.run()
        best = work.finish()
        if work.problem is not None:
            raise work.problem
    best.compilation.keep = keep
    if isinstance(best, Foreign):
        best.module.compilation = best.compilation
        return best.module
    return best


def split(
    train: Sequence[Question], chosen: PromptOptimizer, preset: str, seed: int
) -> tuple[list[Question], list[Question]]:
    """The questions to learn from and those to select by, drawn by the seed; no question is both."""
    order = [Question(question, meta={}) for question in train]
    random.Random(seed).shuffle(order)
    most = MOST_QUESTIONS[preset]
    if not chosen.learns:
        return [], order[:most]
    half = len(order) // 2
    return order[:half][:most], order[half:][:most]


def check_input(
    program: Program,
    train: Sequence[Question],
    validation: Sequence[Question],
    chosen: PromptOptimizer,
    concurrency: int,
) -> list[str]:
    """Warnings about the input. Raises UserError for what cannot be used, before anything is spent."""
    if isinstance(program, Foreign):
        if chosen.name == "knn":
            raise UserError(
                "knn chooses demonstrations anew for each question, which folkmoot's programs alone can do: "
                "choose another optimizer"
            )
        if not predictors_of(program):
            raise UserError(
                f"{program.own_name} has no prompts to improve: give a dspy.Module with predictors"
            )
    check_concurrency(concurrency)
    least = 2 if chosen.learns else 1
    if len(train) < least:
        raise UserError(
            f"{chosen.name} needs at least {least} training questions, and there are {len(train)}: give more"
        )
    for questions in (train, validation):
        data.check_labelled(questions)
        data.check_contexts(questions)
        data.check_ids(questions)
    return check_train(train, validation)


def advice(program: Program, chosen: PromptOptimizer, lm: Any) -> list[str]:
    """A warning where the LM is shown nothing of what the optimizer changes."""
    if not chosen.instructs:
        return []
    plain = {
        used.model
        for seat in program.seats().values()
        for used in [seat.predict.lm or lm]
        if (profile := profile_of(used)) is not None and profile.layout == "plain"
    }
    if not plain:
        return []
    rest = "only its demonstrations count" if chosen.demonstrates else "it cannot change any answer"
    return [f"{', '.join(sorted(plain))} is asked without instructions, which {chosen.name} writes: {rest}"]


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise unwritable(problem, folder, "make room, or choose another --out, and run it again") from None
