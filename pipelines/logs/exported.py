"""What every exported log says of its run: its model, task, program, and when it was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar, cast

from ...modules.reading.grading import FAILURE_SCORE
from ...modules.reading.row import ResultRow, TurnFields, score_in
from ..evaluation.earlier import Evaluation
from ..tracking.values import experiment_name, run_name, scrubbed
from .answers import MOST_NAME

Json = TypeVar("Json")


@dataclass(frozen=True)
class ExportedRun:
    """A run in the words that logs have for one.

    `strategy` is the program that its LMs were used by.
    """

    run: Evaluation
    about: Mapping[str, Any]
    model: str
    strategy: str | None
    task: str
    at: datetime
    metric: str
    is_rate: bool
    least: float

    def score(self, row: ResultRow) -> float:
        """As the run's score counts it: an error is the least."""
        return score_in(row, self.least)

    def rows(self) -> Iterator[ResultRow]:
        return map(encodable, self.run.rows)


def exported_run(run: Evaluation) -> ExportedRun:
    about = scrubbed(run.summary.run)
    origin = about.get("imported")
    metric: Mapping[str, Any] = about.get("metric") or {}
    least = metric.get("low")
    first = next(islice(run.rows, 1))
    return ExportedRun(
        run=run,
        about=about,
        model=" + ".join(dict.fromkeys(str(lm["name"]) for lm in about["lms"].values()))[:MOST_NAME]
        or "unknown",
        strategy=origin.get("strategy") if origin else run_name(about)[:MOST_NAME],
        task=str(first["meta"].get("task") or experiment_name(about))
        if origin
        else experiment_name(about),
        at=datetime.fromtimestamp(int(run.rows.path.stat().st_mtime), UTC),
        metric=run.summary.metric,
        is_rate=run.summary.is_rate,
        least=FAILURE_SCORE if least is None else least,
    )


def encodable(value: Json) -> Json:
    """The same without halves of surrogate pairs, which LMs do write and other tools do not
    read.
    """
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return cast(Json, json.loads(text.encode("utf-8", "replace")))
    return value


def asked_text(row: ResultRow) -> str:
    """The question with its options, as a person reads it."""
    options = [f"{label}) {text}" for label, text in (row["choices"] or {}).items()]
    return "\n".join([row["question"], *options])


def turn_text(row: ResultRow, turn: TurnFields) -> str:
    """The text of a turn, in a dialogue of several turns under the name of who spoke."""
    text = str(turn.get("text") or "")
    return (
        text if len(row["transcript"]) < 2 else f"{turn['agent']}, round {turn['round']}:\n{text}"
    )
