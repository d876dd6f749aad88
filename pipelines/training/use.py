"""How a trained network went about recorded questions: who used which strategy, and how sure it
was. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...modules.reports.network import Calibration, confidence
from .scores import Answers, NetworkDraws, Right

_MOST_GROUPS = 30


def network_use(
    answers: Answers,
    correct: Right,
    groups: Sequence[str | None],
    drawn: NetworkDraws,
    strategies: Sequence[str],
) -> dict[str, Any]:
    """What a network did, from the arrays of `network_scores`; over all draws, but where it says
    otherwise.

    - `ece` and `reliability` as in `network_report`, of the first draw; equal scores go to the
      earlier agent
    - with two strategies or more: `strategy`, for each its `accuracy` on all test questions,
      whoever chose it, and its `share` of the choices; `use`, the shares by agent, and
      `use_by_group` where there are between 2 and 30 groups
    """
    use = _calibration(answers, correct, drawn)
    if len(strategies) < 2:
        return use
    picks = np.arange(len(strategies)) == drawn.picks[..., None]  # (D, Q, N, S)
    use["strategy"] = {
        name: {"share": share, "accuracy": float(correct[:, :, s].mean())}
        for s, (name, share) in enumerate(_shares(picks, strategies).items())
    }
    use["use"] = {f"agent.{i}": _shares(picks[:, :, i], strategies) for i in range(picks.shape[2])}
    names = sorted({group for group in groups if group is not None})
    if 1 < len(names) <= _MOST_GROUPS:
        use["use_by_group"] = {
            name: _shares(picks[:, [group == name for group in groups]], strategies)
            for name in names
        }
    return use


def _shares(picks: npt.NDArray[np.bool_], strategies: Sequence[str]) -> dict[str, float]:
    counts = picks.reshape(-1, len(strategies)).sum(axis=0)
    return dict(zip(strategies, (counts / max(int(counts.sum()), 1)).tolist(), strict=True))


def _calibration(answers: Answers, correct: Right, drawn: NetworkDraws) -> dict[str, Any]:
    calibration = Calibration()
    agents = (
        np.arange(answers.shape[1])
        if answers.shape[1] > 1
        else np.zeros(drawn.picks.shape[2], dtype=int)
    )
    for q, (ways, weights) in enumerate(zip(drawn.picks[0], drawn.weights[0], strict=True)):
        codes = np.where(ways >= 0, answers[q, agents, np.maximum(ways, 0)], -1).tolist()
        keys = [str(code) if code >= 0 else None for code in codes]
        sure = {key: confidence(keys, weights.tolist(), key) for key in keys if key is not None}
        if sure:
            best = max(sure, key=lambda key: sure[key])
            i = keys.index(best)
            calibration.add(sure[best], float(correct[q, agents[i], ways[i]]))
    return calibration.report()
