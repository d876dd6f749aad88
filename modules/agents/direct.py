"""Asks a seat's LM by the same request without DSPy in between, where nothing observes the call.

Around every call DSPy keeps histories, traces and usage, tells callbacks, and resolves types of its
own. Where none of that is switched on or needed, it leaves nothing behind and takes as much CPU as
the request (0.2 to 0.4 ms).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy

from .adapter import Asked, ProfileAdapter, profile_of, unobserved
from .fields import fields_of
from .profile import SAMPLING

_CONFIG = frozenset((*SAMPLING, "rollout_id"))


async def predict_directly(
    predict: dspy.Predict, arguments: Mapping[str, Any]
) -> dspy.Prediction | None:
    """The prediction of `predict.acall(**arguments)`; None, without a call, where DSPy has to
    make it.
    """
    settings = dspy.settings.config
    lm = predict.lm or settings["lm"]
    inputs = dict(arguments)
    config = {**predict.config, **inputs.pop("config", {})}
    demos = inputs.pop("demos", predict.demos)
    if not _unwatched(predict, lm, settings) or not config.keys() <= _CONFIG:
        return None
    signature = predict.signature
    fields = fields_of(signature)
    inputs = {**fields.defaults, **inputs}
    if not fields.plain or inputs.keys() != set(fields.inputs):
        return None
    asked = Asked(lm, config, signature, demos, inputs, settings["adapter"].wording)
    answered = await asked.directly()
    return dspy.Prediction(answered)


def _unwatched(predict: dspy.Predict, lm: dspy.BaseLM, settings: Mapping[str, object]) -> bool:
    # Whatever would see a call, or read a reply otherwise than we do, is left to DSPy.
    return (
        type(settings["adapter"]) is ProfileAdapter
        and profile_of(lm) is not None
        and unobserved(lm, settings)
        and bool(settings["disable_history"])
        and not (
            settings["track_usage"]
            or settings["warn_on_type_mismatch"]
            or predict.callbacks
            or predict.fields
        )
        and settings["trace"] is None
        and "n" not in lm.kwargs
        and "num_generations" not in lm.kwargs
    )
