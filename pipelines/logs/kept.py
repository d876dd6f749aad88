"""What an exported log keeps of a run beyond the log's own fields, so that it is imported as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ...modules.reading.row import ResultRow
from ..runs.rows import row_misfit
from .answers import LogAnswer, log_fault, log_name

KEPT = "folkmoot"
"""The name in a sample's metadata under which it stands."""

_SAID = frozenset(("id", "question", "answer", "gold", "correct", "seconds", "error"))
"""Fields of a row that every log has fields for: what those say counts, since they may be edited there."""


def kept_of(row: ResultRow, strategy: str | None) -> dict[str, Any]:
    return {"strategy": strategy, "row": {name: of for name, of in row.items() if name not in _SAID}}


def with_kept(answered: LogAnswer, metadata: Mapping[str, Any]) -> LogAnswer:
    """The answer with what its sample's metadata keep of a run; as it is where they keep none."""
    kept = metadata.get(KEPT)
    if not isinstance(kept, Mapping) or not isinstance(kept.get("row"), Mapping):
        return answered
    strategy = kept.get("strategy")
    fields = {
        name: of for name, of in kept["row"].items() if name in ResultRow.__annotations__.keys() - _SAID
    }
    return answered._replace(
        strategy=None if strategy is None else log_name(strategy, "strategy", answered.where), kept=fields
    )


def restored(row: ResultRow, answered: LogAnswer) -> ResultRow:
    """The row with the fields that its log keeps. Raises UserError where they are none of a row."""
    if answered.kept is None:
        return row
    found = cast(ResultRow, {**row, **answered.kept})
    if "score" in found:
        found["score"] = None if answered.error else float(answered.correct)
    if wrong := row_misfit(found):
        raise log_fault(
            answered.where, f"{wrong} in its {KEPT!r} metadata is not as it must be; export again"
        )
    return found
