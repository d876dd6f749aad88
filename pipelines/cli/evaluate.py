"""`folkmoot evaluate`: shows what is going to happen, runs it, and sums it up."""

from __future__ import annotations

from functools import partial

from ..evaluation.earlier import Evaluation, left_in
from ..evaluation.evaluate import carry_out
from ..evaluation.plan import EvaluationPlan, plan_evaluation
from ..evaluation.request import EvaluateRequest
from .life import live
from .options import EvaluateView
from .show import console, show_result
from .train import evaluate_outcomes


def evaluate(request: EvaluateRequest, view: EvaluateView) -> None:
    request.progress = view.progress
    if view.outcomes or request.questions is None:
        evaluate_outcomes(request, view)
    else:
        plan = plan_evaluation(request, stored=True)
        live(request, view, plan, carry_out, _left, partial(_show, view))


def _left(plan: EvaluationPlan) -> Evaluation | None:
    return left_in(plan.out)


def _show(view: EvaluateView, result: Evaluation) -> None:
    """Two lines and the next command; one line if quiet, all figures if verbose."""
    out, lines = console(), result.lines()
    lines = lines[:1] if view.quiet else [*lines, f"next: {result.next_command}"]
    for line in lines:
        out.print(line, soft_wrap=True)
    if view.verbose:
        show_result(out, "figures", result.in_words())
