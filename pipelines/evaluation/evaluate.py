"""`evaluate`: answers questions with a program and scores them. Every row is written at once, so
that a run can be resumed, however it ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import UserError
from ...modules.base.sync import run_sync
from ...modules.reading.question import Question
from ..base.budget import BudgetSpent, only_shows
from ..base.display import displayed
from ..base.journal import read_object, write_json
from ..base.request import entry, warned
from ..base.run_files import FittedWeights
from ..base.wording import paused, shortened
from ..runs.books import open_books
from ..runs.lines import evaluation_line
from ..runs.manifest import MANIFEST, RUN
from ..runs.summary import SUMMARY
from ..tracking.context import awaitable, caller_place, to_show
from ..tracking.run import is_sent, running
from .answering import (
    CONCURRENCY,
)
from .earlier import Evaluation, earlier
from .plan import WEIGHTS, EvaluationPlan, plan_evaluation
from .request import EvaluateRequest
from .sheet import AnswerSheet

MOST_LABEL = 30  # characters of a progress line that say what is asked


@entry(EvaluateRequest)
def evaluate(request: EvaluateRequest) -> Evaluation:
    """Answer every question with the program and score the answers.

    Raises UserError for something that is not a program or not questions; no questions, unlabelled
    or repeated ones; an `out` folder of another run; a wrong key or unknown model; too many
    failures; a disk that cannot be written. Finished rows are kept, also at a KeyboardInterrupt,
    with a summary so far.
    """
    return carry_out(warned(plan_evaluation(request)))


def recheck(
    run: Evaluation | str | Path,
    check: Callable[..., object] | str,
    questions: Iterable[Question] | str | Path | None = None,
    **options: Any,
) -> Evaluation:
    """Check the answers of an earlier run of tasks once more, without an LM call.

    Args:
        run: the run, or its folder.
        check: a command or a function, as for `evaluate`.
        questions: the tasks, if the run does not say where they come from.
        options: `out`, `answer_file`, `sandbox` and other arguments of `evaluate`.
    """
    return evaluate(run, questions, recheck=True, check=check, **options)


_ASYNC = """Do what `evaluate` does, for async code, with the same arguments:
`await fm.aevaluate(…)`.

After it is cancelled, the finished rows stay in the folder, and the same call with the same `out`
goes on from there.
"""

aevaluate = awaitable(evaluate, _ASYNC)


def carry_out(plan: EvaluationPlan, show: Callable[[Evaluation], None] | None = None) -> Evaluation:
    """Carry out a plan; returns the result. `show` is called with a result that ended well, before
    it is sent to the tracking store.
    """
    if not plan.program.lacks_weights:
        return _carry_out(plan, show)
    with open_books(account=plan.account()):
        training = _fit_weights(plan)
        # The account around both has the budget, from which the weights are paid, too.
        within = replace(plan, request=replace(plan.request, budget=None))
        return _carry_out(within, show, training)


def _fit_weights(plan: EvaluationPlan) -> FittedWeights:
    """Run the ensemble on the training questions by majority, and set the weights of its members by
    how well each answered; returns the weights. Raises BudgetSpent if the budget ends the run.
    """
    program = plan.program
    with program.unweighed():
        training = _carry_out(plan.on_training(WEIGHTS))
        if training.summary.stopped:
            raise BudgetSpent(training.summary.stopped)
        weights = dict(zip(program.names, program.fit_weights(training.rows), strict=True))
        usage = training.summary.usage
        return FittedWeights(weights=weights, questions=len(plan.train), usage=usage)


def _carry_out(
    plan: EvaluationPlan,
    show: Callable[[Evaluation], None] | None = None,
    training: FittedWeights | None = None,
) -> Evaluation:
    """Answer the questions of a plan whose program needs no fitting (any more)."""
    request, began = plan.request, time.monotonic()
    if (stored := _load_finished(plan)) is not None:
        return stored
    manifest = plan.manifest.but(**caller_place(request.parent))
    with running(
        RUN,
        manifest,
        plan.out,
        lms=manifest.lms,
        records=[request.record] if request.record else [],
        cache=request.cache,
        budget=request.budget,
        engines=plan.engines,
    ) as run:
        with AnswerSheet.opened(plan, run) as sheet:
            if request.tracking:
                run.track(
                    MANIFEST,
                    parent=request.parent,
                    # Of candidates and trials, only the winner is registered.
                    model=request.parent is None,
                    lm=plan.lm,
                    registered=request.register,
                )
            stopped = _answer_rest(plan, sheet)
            summary = sheet.summed_up(stopped)
        result = Evaluation(
            run.folder,
            summary,
            run.keep,
            run.tracking,
            program=plan.program.as_given,
            seconds=time.monotonic() - began,
            training=training,
        )
        run.end(to_show(show, result, well=stopped is None and not result.stopped))
        if stopped is not None:
            raise stopped
    return result


def _load_finished(plan: EvaluationPlan) -> Evaluation | None:
    """Return the evaluation that is stored in the plan's folder, if nothing is left to do; else
    None.
    """
    request, folder = plan.request, plan.out
    if folder is None:
        return None
    written = RUN.earlier(folder, plan.manifest)
    if not written or request.register or request.record:
        return None
    if request.tracking and not is_sent(folder, written.get("mlflow_run_id")):
        return None
    summary = read_object(folder / SUMMARY) or {}
    if not summary or not only_shows(summary, request.budget):
        return None
    try:
        stored = earlier(folder)
    except UserError:  # rows are damaged, of which the run itself will tell
        return None
    counts = stored.summary.counts
    whole = counts.rows == len(plan.questions) * request.times
    asks_again = request.retry_errors and counts.errors
    if asks_again or not (whole or summary.get("spent")):
        return None
    return Evaluation(folder, stored.summary, program=plan.program.as_given)


def _answer_rest(plan: EvaluationPlan, sheet: AnswerSheet) -> BaseException | None:
    """Answer the questions without a row; returns the exception that ended it early, if any."""
    noted = {"command": "evaluate", **(plan.request.settings or {})}
    # One of several evaluations of a command says which it is.
    command = shortened(str(noted.get("label") or noted["command"]), MOST_LABEL)
    line = partial(evaluation_line, command)
    try:
        with sheet.asking(), displayed(plan.request.progress, command, line) as sheet.progress:
            _check_judge(plan, sheet)
            sheet.ask()
            sheet.doubts.end()
    except EndpointDown as problem:
        # If nothing was ever answered, the address is more likely wrong than the endpoint down.
        if not sheet.state.done:
            return problem
        sheet.stopped, sheet.paused = paused(problem), True
    except BaseException as problem:
        return problem
    return None


def _check_judge(plan: EvaluationPlan, sheet: AnswerSheet) -> None:
    """Ask the judge about answers that people graded, and write the agreement into `run.json`."""
    if plan.judge_sample is not None:
        from .judge_sample import agreement_with_people  # heavy, by the readers of files

        at_once = min(plan.request.concurrency, CONCURRENCY)
        sheet.run.about["judge"] = run_sync(
            agreement_with_people, plan.metric, plan.judge_sample, at_once
        )
        write_json(sheet.run.folder / MANIFEST, sheet.run.about)
