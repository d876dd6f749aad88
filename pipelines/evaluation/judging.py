"""Makes the metric that a request asks for, with its judge's LM."""

from __future__ import annotations

import dspy

from ...modules.agents.judge import JudgeMetric
from ...modules.base.errors import UserError
from ...modules.reading.metrics import JUDGE, Metric, metric_of
from ..base.request import Judged
from ..programs.seats import Seating


def metric_given(request: Judged, seating: Seating, judge_sample: object = None) -> Metric:
    """Return the metric of a request: a check of tasks, a judge, or what `metric_of` makes of its
    `metric`. Raises UserError for a judge's LM or sample without a judge.
    """
    metric, judge_lm = request.metric, None
    if request.judge_lm:
        judge_lm = seating.make(request.judge_lm)
    if request.checks_tasks:
        from ..tasks.check import metric_asked

        metric = metric_asked(request)
    if metric == JUDGE and judge_lm is not None:
        if not isinstance(judge_lm, dspy.BaseLM):
            raise UserError(
                f"judge_lm is a {type(judge_lm).__name__}, not an LM: pass fm.lm('…') or its name"
            )
        return JudgeMetric(judge_lm)
    chosen = metric_of(metric)
    for name, value in (("judge_lm", judge_lm), ("judge_sample", judge_sample)):
        if value is not None and not chosen.lms:
            raise UserError(
                f"{name} is given, but the metric is {chosen.name}: take metric='judge', or drop it"
            )
    return chosen
