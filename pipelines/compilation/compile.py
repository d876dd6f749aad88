"""Improves a program's prompts with a DSPy optimizer, on a budget and with a held-out
comparison.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import dspy

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import system_errors
from ...modules.protocols.foreign import STATE, Foreign
from ...modules.protocols.program import Program
from ..base.budget import only_shows
from ..base.display import displayed
from ..base.journal import write_json
from ..base.request import entry, warned
from ..programs.saved import saved_program
from ..runs.manifest import RunFolder
from ..tracking.context import to_show
from ..tracking.run import is_sent, running, send_rest
from .attempt import Attempt, compiling_line
from .card import COMPILE, PROGRAM
from .outcome import COMPILED, GIVEN, Compilation, compilation_in
from .plan import CompilationPlan, plan_compilation
from .request import CompileRequest

_FIELDS = {
    "program_hash": "program",
    "lms": "LM",
    "prompt_lm": "prompt LM",
    "teacher": "teacher",
    "metric": "metric",
    "train_fingerprint": "training data",
    "validation_fingerprint": "validation data",
    "optimizer": "optimizer",
    "preset": "preset",
    "seed": "seed",
    "training": "training",
}
COMPILATION = RunFolder(
    "compilation",
    COMPILE,
    {name: f"its {what} differs" for name, what in _FIELDS.items()},
    dict.fromkeys(
        ("calls.jsonl", "results.jsonl", "run.json"), "something else than a compilation"
    ),
)


@entry(CompileRequest)
def compile(request: CompileRequest) -> dspy.Module:
    """Let an optimizer improve instructions and demonstrations in a copy of the program.

    The metric, by default accuracy, of spans their F1, compares candidates. With a trace it decides
    which answers may be shown as demonstrations (a number: from 0.8 up).

    Returns a new program, or a module of the class that was given, with the result as its
    `compilation`.

    Raises UserError for an unknown optimizer or preset, unusable questions, a budget, seed or
    concurrency of another type, a folder of another compilation, and as `evaluate`. The best so far
    is in the folder, also at a KeyboardInterrupt.
    """
    best = compile_as_planned(warned(plan_compilation(request)))
    if isinstance(best, Foreign):
        best.module.compilation = best.compilation
        return best.module
    return best


def _load_finished(plan: CompilationPlan) -> Program | None:
    """Return the result in the plan's folder, if that compilation is finished: it is shown as it is
    stored, without a call. Raises UserError where the folder holds something else.
    """
    if plan.out is None or not COMPILATION.earlier(plan.out, plan.about()):
        return None
    compilation = compilation_in(plan.out)
    if compilation is None or not only_shows(compilation.to_dict(), plan.request.budget):
        return None
    # --keep may now ask for the other one of the two programs in the folder.
    wanted = COMPILED if plan.request.keep == COMPILED else GIVEN
    if (plan.out / COMPILED).is_dir() and compilation.winner != wanted:
        return None
    if isinstance(plan.program, Foreign):
        program: Program = plan.program.deepcopy()
        program.module.load(str(plan.out / PROGRAM / STATE))
    else:
        program = saved_program(plan.out / PROGRAM)
    program.compilation = compilation
    return program


def compile_as_planned(
    plan: CompilationPlan, show: Callable[[Compilation], None] | None = None
) -> Program:
    """Carry out the plan; returns the best program, with its `compilation`.

    `show` gets a result that ended well before it is sent to the tracking store.
    """
    request, about, began = plan.request, plan.about(), time.monotonic()
    # A finished compilation may only lack its run in the store, which was down.
    stored = _load_finished(plan)
    if stored is not None:
        done = stored.compilation
        if request.tracking and not is_sent(done.folder, done.mlflow_run_id):
            done.mlflow_run_id = send_rest(done.folder, COMPILE, to_show(show, done))
        return stored
    with (
        running(
            COMPILATION,
            about,
            plan.out,
            cache=request.cache,
            budget=request.budget,
            engines=plan.engines,
        ) as run,
        system_errors(run.folder),
        displayed(request.progress, "compile", compiling_line) as tell,
    ):
        write_json(run.folder / COMPILE, {**about, "result": None})
        if request.tracking:
            run.track(COMPILE, lm=plan.lm)
        attempt = Attempt(plan, run, tell, began, compile_as_planned)
        attempt.run()
        if isinstance(attempt.problem, EndpointDown):  # nothing was ever answered
            raise attempt.problem
        best = attempt.finish(None if attempt.problem else show)
        if attempt.problem is not None:
            raise attempt.problem
    best.compilation.keep = run.keep
    return best
