"""What an exported log keeps of a run beyond the log's own fields, so that it is imported as it
was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...modules.reading.row import ResultRow
from ..runs.manifest import metric_misfit
from ..runs.rows import row_misfit
from .answers import LogAnswer, log_fault, log_name

KEPT = "folkmoot"
"""The name in a sample's metadata under which it stands."""

_SAID = frozenset(("id", "repeat", "question", "answer", "gold", "correct", "seconds", "error"))
"""Fields of a row that every log has fields for: what those say counts, since they may be edited
there.
"""


def kept_of(
    row: ResultRow, strategy: str | None, metric: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Of a row what else there is, what it was asked of, and how the run was scored (None:
    accuracy).
    """
    fields = {name: of for name, of in row.items() if name not in _SAID}
    return {"strategy": strategy, "metric": metric, "row": fields}


def with_kept(answered: LogAnswer, metadata: Mapping[str, Any]) -> LogAnswer:
    """The answer with what its sample's metadata keep of a run; as it is where they keep none."""
    kept = metadata.get(KEPT)
    if not isinstance(kept, Mapping) or not isinstance(kept.get("row"), Mapping):
        return answered
    strategy, metric, where = kept.get("strategy"), kept.get("metric"), answered.where
    if metric is not None and (wrong := metric_misfit(metric)):
        raise log_fault(
            where,
            f"the metric's {wrong} in its {KEPT!r} metadata is not as it must be; export again",
        )
    fields = {
        name: of
        for name, of in kept["row"].items()
        if name in ResultRow.__annotations__.keys() - _SAID
    }
    answered = answered._replace(
        strategy=None if strategy is None else log_name(strategy, "strategy", where), kept=fields
    )
    if metric is None or (metric.get("rate") is not False and answered.metric is not None):
        return answered  # by accuracy, or with scores between since it was exported
    if metric.get("rate") is False and not answered.error:
        answered = answered._replace(correct=None)
    return answered._replace(metric=metric)


def restored(row: ResultRow, answered: LogAnswer) -> ResultRow:
    """The row with the fields that its log keeps. Raises UserError where they are none of a row."""
    if answered.kept is None:
        return row
    score = row.get("score", float(bool(answered.correct)))
    found = cast(ResultRow, {**row, **answered.kept})
    if "score" in found:
        found["score"] = None if answered.error else score
    if wrong := row_misfit(found):
        raise log_fault(
            answered.where, f"{wrong} in its {KEPT!r} metadata is not as it must be; export again"
        )
    return found
