"""The metric of a run, and its judge's LM."""

from __future__ import annotations

import dspy

from ...modules.agents.judge import JudgeMetric
from ...modules.base.errors import UserError
from ...modules.reading.metrics import JUDGE, Metric, metric_of
from ..lms.named import lm_given


def metric_given(metric: object, judge_lm: object = None, judge_sample: object = None) -> Metric:
    """Do what `metric_of` does, and give a judge its LM. Raises UserError for an LM or a sample
    without a judge.
    """
    if metric == JUDGE and judge_lm is not None:
        lm = lm_given(judge_lm)
        if not isinstance(lm, dspy.BaseLM):
            raise UserError(
                f"judge_lm is a {type(lm).__name__}, not an LM: pass fm.lm('…') or its name"
            )
        return JudgeMetric(lm)
    chosen = metric_of(metric)
    for name, value in (("judge_lm", judge_lm), ("judge_sample", judge_sample)):
        if value is not None and not chosen.lms:
            raise UserError(
                f"{name} is given, but the metric is {chosen.name}: take metric='judge', or drop it"
            )
    return chosen
