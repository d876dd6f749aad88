"""Evaluation tables of MLflow: columns and rows, as its classic evaluation logs
them, and as `result_df.to_json(…, orient="split")` writes those of `mlflow.genai.evaluate`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from ...modules.base.errors import UserError
from .answers import LogAnswer, Record, json_value, log_document, log_name, log_text

_QUESTIONS = ("inputs", "request", "question", "input", "inputs/question")
_ANSWERS = ("outputs", "predictions", "response", "output", "answer")
_GOLDS = ("ground_truth", "targets", "target", "expected_response/value")
_SCORES = (
    "correct",
    "correct/value",
    "exact_match/score",
    "exact_match/v1/score",
    "correctness/value",
    "correctness/v1/score",
)


def split_table(path: Path, scorer: str | None = None) -> Iterator[LogAnswer]:
    """The agent is the column `agent` or `model`, else the folder that the table stands in; a
    question's id is `question_id` or `id`, else its row. `scorer` names the column of the score,
    or what stands before its `/value`. A row without a score is left out.
    """
    table = log_document(path)
    rows = []
    # of columns with the same name the first one counts, which is set last
    names = [str(name) for name in reversed(table.members("columns"))]
    for number, cells in enumerate(table.members("data"), 1):
        where = f"{path}, row {number}"
        if not isinstance(cells, list) or len(cells) != len(names):
            raise UserError(
                f"{where}: not {len(names)} cells under {len(names)} columns; export the table "
                "again"
            )
        rows.append(Record(where, dict(zip(names, reversed(cells), strict=True))))
    score = _score_in(dict.fromkeys(names), rows, table, scorer)
    home = path.absolute().parent
    if home.name == "artifacts":  # MLflow puts a run's files there, below the run's own folder
        home = home.parent
    for number, row in enumerate(rows, 1):
        failed = row.value("state") == "ERROR"
        took = row.seconds("execution_duration")
        usage, cost = _traced(row, ".trace.tokenUsage"), _traced(row, ".trace.cost")
        yield LogAnswer(
            row.where,
            log_name(_first(row, "question_id", "id") or number, "question_id", row.where),
            log_name(_first(row, "agent", "model") or home.name, "agent", row.where),
            _first(row, *_ANSWERS),
            not failed and row.right(score),
            question=_first(row, *_QUESTIONS),
            gold=_first(row, *_GOLDS),
            prompt_tokens=usage.count("input_tokens"),
            completion_tokens=usage.count("output_tokens"),
            cost=cost.amount("total_cost"),
            seconds=row.amount("latency") if took is None else took,
            error="the call failed" if failed else None,
        )


def _score_in(
    columns: Collection[str], rows: list[Record], table: Record, scorer: str | None
) -> str:
    """Return the column that says what is right."""
    wanted: tuple[str, ...] = _SCORES
    if scorer is not None:
        wanted = (scorer, f"{scorer}/value", f"{scorer}/score")
    score = next(filter(columns.__contains__, wanted), None)
    if score is not None:
        return score
    if scorer is not None:
        raise table.fault(f"there is no column {scorer!r} with a score; name another")
    # The columns of expected answers have the same ending as those of scores.
    golds = {*_GOLDS}
    for row in rows:
        for assessed in row.objects("assessments"):
            if "expectation" in assessed.fields:
                golds.add(f"{assessed.value('assessment_name')}/value")
    ends = ("/score", "/value")
    rated = [name for name in columns if name.endswith(ends) and name not in golds]
    if len(rated) != 1:
        found = ", ".join(name.rpartition("/")[0] for name in rated) or "none"
        raise table.fault(f"which column says what is right? Give it as --score; there is {found}")
    return rated[0]


def _first(row: Record, *names: str) -> str | None:
    """Return the text under the first of these columns; of a function's arguments the only one, if
    it is a text.
    """
    value = next((row.fields[name] for name in names if name in row.fields), None)
    if isinstance(value, dict) and len(value) == 1:
        (alone,) = value.values()
        if isinstance(alone, str):
            return log_text(alone)
    return log_text(value)


def _traced(row: Record, name: str) -> Record:
    """Return the object under the key of a trace's metadata that ends with `name`."""
    fields = row.inner("trace_metadata").fields
    value = next((fields[key] for key in fields if str(key).endswith(name)), None)
    if isinstance(value, str):
        value = json_value(value.encode(), row.where)
    return Record(row.where, value, name)
