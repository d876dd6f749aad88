"""Asks a seat's LM without DSPy in between, for calls that nothing observes.

Around every call DSPy keeps histories, traces and usage, tells callbacks, and resolves types of its
own. Where none of that is switched on or needed, it leaves nothing behind, and costs more than the
request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy

from .adapter import SAMPLING, Asked, ProfileAdapter, profile_of, unobserved
from .fields import fields_of

_CONFIG = frozenset((*SAMPLING, "rollout_id"))


async def predict_directly(
    predict: dspy.Predict, given: Mapping[str, Any]
) -> dspy.Prediction | None:
    """The prediction of `predict.acall(**given)`; None, without a call, where DSPy has to
    make it.
    """
    known = dspy.settings.config
    lm = predict.lm or known["lm"]
    inputs = dict(given)
    config = {**predict.config, **inputs.pop("config", {})}
    demos = inputs.pop("demos", predict.demos)
    if not _unwatched(predict, lm, known) or not config.keys() <= _CONFIG:
        return None
    signature = predict.signature
    fields = fields_of(signature)
    inputs = {**fields.defaults, **inputs}
    if not fields.plain or inputs.keys() != set(fields.inputs):
        return None
    answered = await Asked(
        lm, config, signature, demos, inputs, known["adapter"].wording
    ).directly()
    return dspy.Prediction.from_completions([answered], signature=signature)


def _unwatched(predict: dspy.Predict, lm: Any, known: Mapping[str, Any]) -> bool:
    return (
        type(known["adapter"]) is ProfileAdapter
        and profile_of(lm) is not None
        and unobserved(lm, known)
        and not (
            known["track_usage"]
            or known["warn_on_type_mismatch"]
            or predict.callbacks
            or predict.fields
        )
        and known["trace"] is None
        and "n" not in lm.kwargs
        and "num_generations" not in lm.kwargs
    )
