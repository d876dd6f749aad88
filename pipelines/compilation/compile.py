"""Improves a program's prompts with a DSPy optimizer, on a budget and with a held-out comparison."""

from __future__ import annotations

import fcntl
import json
import os
import random
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dspy

from ...modules.agents.adapter import profile_of
from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...optimizers.prompts.optimizers import PromptOptimizer, optimizer_of
from ..base.budget import Account, Budget, open_account
from ..data import load as data
from ..evaluation.check import listed
from ..evaluation.evaluate import CONCURRENCY
from ..evaluation.overlap import check_train
from ..lms.cache import open_cache
from ..lms.ledger import Ledger
from ..lms.named import engine_of, lm_identity
from ..lms.store import CallStore
from ..runs.manifest import git_commit, hashes, lms_of, versions, write_json
from .attempt import COMPILE, Told, Work
from .tracking import CompileTracker, NoCompileTracker, start_compile_run

DEFAULT_OPTIMIZER, DEFAULT_PRESET = "mipro", "light"
MOST_QUESTIONS = {"light": 100, "medium": 300, "heavy": 1000}
"""The most training questions that are learned from, and the most that candidates are chosen by."""

_SAME = {
    "program_hash": "program",
    "lms": "LM",
    "prompt_lm": "prompt LM",
    "train_fingerprint": "training data",
    "validation_fingerprint": "validation data",
    "optimizer": "optimizer",
    "preset": "preset",
    "seed": "seed",
}


def compile(
    program: Program,
    train: Iterable[Question],
    validation: Iterable[Question] | None = None,
    *,
    optimizer: str = DEFAULT_OPTIMIZER,
    preset: str = DEFAULT_PRESET,
    lm: Any = None,
    prompt_lm: Any = None,
    budget: str | Budget | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    concurrency: int = CONCURRENCY,
    cache: bool = True,
    tracking: bool = True,
    settings: Mapping[str, Any] | None = None,
    progress: Told | None = None,
) -> Program:
    """Let an optimizer improve instructions and demonstrations; the program that was given stays as it is.

    Args:
        program: any folkmoot program.
        train: labelled questions, all that the optimizer sees. Half of them are learned from, the others
            choose between candidates (of an optimizer that only rewrites instructions by score: all choose).
        validation: held-out questions, on which the given program and the result are compared.
        optimizer: one of `optimizers.prompt_optimizers.OPTIMIZERS`.
        preset: light, medium or heavy.
        lm: the LM of every seat that has none of its own; None takes DSPy's configured one.
        prompt_lm: the LM that proposes instructions; None takes `lm`.
        budget: ceilings such as `"2 USD, 500 calls"` over everything, and over all attempts at a folder.
        out: folder of the compilation; the same call with the same folder goes on where it was stopped, and
            asks nothing again that was answered. None uses a temporary folder.
        seed: of the split of the training questions and of all that the optimizer draws.
        concurrency: most questions in flight.
        cache: take answers from the user's call cache, and leave complete ones there.
        tracking: log to MLflow as one run with candidates and evaluations under it.
        settings: what to note beside the run (data, split, …).
        progress: called as it goes on.

    Returns a new program with the result as its `compilation`. When the budget is spent, that is the best so
    far, and `compilation.stopped` says so.

    Raises:
        UserError: an unknown optimizer or preset, unusable questions, training questions that are held out,
            too, a budget, seed or concurrency of another type, a folder of another compilation, and as
            `evaluate`. The best so far is in the folder.
        KeyboardInterrupt: likewise.
    """
    began = time.monotonic()
    chosen = optimizer_of(optimizer, preset)
    language_model = lm or dspy.settings.lm
    train = listed(train, "train")
    validation = listed(() if validation is None else validation, "validation")
    _check_numbers(seed, concurrency)
    warned = checked(program, train, validation, chosen, concurrency)
    learn, select = split(train, chosen, preset, seed)
    seated = lms_of(program, language_model)
    task_lm = language_model or next(seat.predict.lm for seat in program.seats().values())
    prompt_lm = prompt_lm or task_lm
    warned += advice(program, chosen, language_model)
    for warning in warned:
        warnings.warn(warning, stacklevel=2)
    keep = tempfile.TemporaryDirectory(prefix="folkmoot-") if out is None else None
    folder = Path(keep.name if keep else str(out))
    about = {
        "program": program.describe(),
        **hashes(program),
        "lms": seated,
        "prompt_lm": (lm_identity(prompt_lm) or {"name": prompt_lm.model}) if chosen.proposes else None,
        "train_fingerprint": data.fingerprint(train),
        "validation_fingerprint": data.fingerprint(validation) if validation else None,
        "optimizer": optimizer,
        "preset": preset,
        "seed": seed,
        "questions": {"learn": len(learn), "select": len(select), "validation": len(validation)},
        "settings": dict(settings or {}),
        "versions": dict(versions()),
        "git_commit": git_commit(),
    }
    about = json.loads(json.dumps(about, default=str))
    with ExitStack() as held:
        if keep is not None:
            held.push(lambda kind, *_: keep.cleanup() if kind else None)
        tracker = held.enter_context(_folder(folder, about, tracking=tracking))
        ledger = Ledger(folder)
        held.callback(ledger.close)
        store = CallStore(folder)
        held.callback(store.close)
        opened = held.enter_context(open_cache(cache))
        account = _account(budget, program, [language_model, prompt_lm], ledger.total)
        work = Work(
            program=program,
            lm=language_model,
            task_lm=task_lm,
            chosen=chosen,
            preset=preset,
            folder=folder,
            ledger=ledger,
            store=store,
            cache=opened,
            account=account,
            tracker=tracker,
            seed=seed,
            concurrency=concurrency,
            tracking=tracking,
            settings={**about["settings"], "optimizer": optimizer, "preset": preset},
            progress=progress,
        )
        work.run(learn, select, validation, prompt_lm)
        best = work.finish(about, began)
        if work.problem is not None:
            raise work.problem
    best.compilation.keep = keep
    return best


def split(
    train: Sequence[Question], chosen: PromptOptimizer, preset: str, seed: int
) -> tuple[list[Question], list[Question]]:
    """The questions to learn from and those to select by, drawn by the seed; no question is both."""
    order = [Question({**dict(question.items()), "meta": {}}) for question in train]
    random.Random(seed).shuffle(order)
    most = MOST_QUESTIONS[preset]
    if not chosen.learns:
        return [], order[:most]
    half = len(order) // 2
    return order[:half][:most], order[half:][:most]


def checked(
    program: Program,
    train: Sequence[Question],
    validation: Sequence[Question],
    chosen: PromptOptimizer,
    concurrency: int,
) -> list[str]:
    """Warnings about the input. Raises UserError for what cannot be used, before anything is spent."""
    if not isinstance(program, Program):
        raise UserError(
            f"a {type(program).__name__} is no folkmoot program: give one such as fm.SingleAgent()"
        )
    if concurrency < 1:
        raise UserError(f"concurrency is {concurrency}: give a number of questions in flight from 1 up")
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


def _check_numbers(seed: Any, concurrency: Any) -> None:
    """Raises UserError for what is of another type than the annotations say."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"the seed is {seed!r}: give a whole number from 0 up")
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise UserError(f"concurrency is {concurrency!r}: give a number of questions in flight from 1 up")


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


def _account(
    budget: str | Budget | None, program: Program, lms: Sequence[Any], spent: Usage
) -> Account | None:
    if budget is None:
        return None
    used = [seat.predict.lm or lms[0] for seat in program.seats().values()]
    return open_account(budget, [engine_of(one) for one in (*used, lms[1])], spent)


@contextmanager
def _folder(
    folder: Path, about: dict[str, Any], *, tracking: bool
) -> Iterator[CompileTracker | NoCompileTracker]:
    """The folder of a compilation with its MLflow run, for one process at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)
    except OSError as problem:
        raise UserError(f"{folder} cannot be written ({problem.strerror}): choose another --out") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another process is writing to {folder}: wait for it, or choose another --out"
            ) from None
        try:
            about["mlflow_run_id"] = _resumed(folder, about)
            tracker = start_compile_run(about) if tracking else NoCompileTracker()
            about["mlflow_run_id"] = tracker.run_id or about["mlflow_run_id"]
            write_json(folder / COMPILE, {**about, "result": None})
            yield tracker
        except OSError as problem:
            raise UserError(
                f"{problem.filename or folder} cannot be written ({problem.strerror or problem}): make room, "
                "or choose another --out, and run it again"
            ) from None
    finally:
        os.close(lock)


def _resumed(folder: Path, about: Mapping[str, Any]) -> str | None:
    """The MLflow run of the compilation that the folder holds. Raises UserError when that is another one."""
    path = folder / COMPILE
    if not path.exists():
        if any((folder / name).exists() for name in ("calls.jsonl", "results.jsonl", "run.json")):
            raise UserError(f"{folder} holds something else than a compilation: choose another --out")
        return None
    try:
        earlier = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise UserError(f"{path} is damaged: choose another --out, or delete the folder") from None
    for key, what in _SAME.items():
        if earlier.get(key) != about[key]:
            raise UserError(
                f"{folder} holds another compilation (its {what} differs): choose another --out, or delete it"
            )
    found = earlier.get("mlflow_run_id")
    return found if isinstance(found, str) else None
