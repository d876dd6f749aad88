"""Asks an agent's LM the same request as DSPy would, but without DSPy in between, which is faster.

Around every call, DSPy keeps histories, traces and usage, calls callbacks, and converts types of
its own. Where all of that is switched off or not needed, it has no effect, and costs as much CPU
time as the request itself (0.2 to 0.4 ms).
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
    """Return the prediction of `predict.acall(**arguments)`; None, without a call, if DSPy has to
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
    """Return whether nothing would see the call, nor read its reply differently from our
    adapter.
    """
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
