"""Evaluation tables of MLflow: columns and rows, as its classic evaluation logs
them, and as `result_df.to_json(…, orient="split")` writes those of `mlflow.genai.evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .answers import (
    LogAnswer,
    json_document,
    json_value,
    log_amount,
    log_count,
    log_fault,
    log_list,
    log_name,
    log_object,
    log_seconds,
    log_text,
    right,
)

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
_VERDICTS = {"yes": True, "no": False}
_USAGE, _COST = ".trace.tokenUsage", ".trace.cost"


def split_table(path: Path, scorer: str | None = None) -> Iterator[LogAnswer]:
    """The agent is the column `agent` or `model`, else the folder that the table stands in; a
    question's id is `question_id` or `id`, else its row. `scorer` names the column of the score,
    or what stands before its `/value`. A row without a score is left out.
    """
    table = json_document(path)
    columns, data = table.get("columns"), table.get("data")
    if not isinstance(columns, list) or not isinstance(data, list):
        raise log_fault(
            str(path), "there are no 'columns' and 'data'; give an eval_results_table.json"
        )
    # of columns with the same name the first one counts, which is set last
    places = {name: place for place, name in reversed(list(enumerate(map(str, columns))))}
    score = next(filter(places.__contains__, _SCORES), None)
    if scorer is not None:
        names = (scorer, f"{scorer}/value", f"{scorer}/score")
        score = next(filter(places.__contains__, names), None)
        if score is None:
            raise log_fault(str(path), f"there is no column {scorer!r} with a score; name another")
    if score is None:
        golds = _expected(data, places.get("assessments"), str(path)) | set(_GOLDS)
        ends = ("/score", "/value")
        rated = [name for name in places if name.endswith(ends) and name not in golds]
        if len(rated) != 1:
            found = ", ".join(name.rpartition("/")[0] for name in rated) or "none"
            raise log_fault(
                str(path), f"which column says what is right? Give it as --score; there is {found}"
            )
        score = rated[0]
    home = path.absolute().parent
    if home.name == "artifacts":  # MLflow puts a run's files there, below the run's own folder
        home = home.parent
    for number, cells in enumerate(data, 1):
        where = f"{path}, row {number}"
        if not isinstance(cells, list) or len(cells) != len(columns):
            raise log_fault(
                where,
                f"not {len(columns)} cells under {len(columns)} columns; export the table again",
            )
        row = {name: cells[place] for name, place in places.items()}

        def first(names: tuple[str, ...], row: dict[str, object] = row) -> str | None:
            return next((_text(row[name]) for name in names if name in row), None)

        answer, verdict = first(_ANSWERS), row[score]
        # Judges of MLflow answer with yes and no.
        if isinstance(verdict, str):
            verdict = _VERDICTS.get(verdict.strip().lower(), verdict)
        failed = row.get("state") == "ERROR"
        took = log_seconds(row, "execution_duration", where)
        usage = _metadata(row.get("trace_metadata"), _USAGE, where)
        cost = _metadata(row.get("trace_metadata"), _COST, where)
        yield LogAnswer(
            where,
            log_name(first(("question_id", "id")) or number, "question_id", where),
            log_name(first(("agent", "model")) or home.name, "agent", where),
            answer,
            not failed and right(verdict, score, where),
            question=first(_QUESTIONS),
            gold=first(_GOLDS),
            prompt_tokens=log_count(usage, "input_tokens", where),
            completion_tokens=log_count(usage, "output_tokens", where),
            cost=log_amount(cost, "total_cost", where),
            seconds=log_amount(row, "latency", where) if took is None else took,
            error="the call failed" if failed else None,
        )


def _expected(data: list[object], place: int | None, where: str) -> set[str]:
    """Return the columns of expected answers, which have the same ending as those of scores."""
    if place is None:
        return set()
    expected = set()
    for cells in data:
        if not isinstance(cells, list) or place >= len(cells):
            continue  # a row with too few cells is refused when it is read
        for assessment in log_list(cells[place], "assessments", where):
            about = log_object(assessment, "assessments", where)
            if "expectation" in about:
                expected.add(f"{about.get('assessment_name')}/value")
    return expected


def _text(value: object) -> str | None:
    """Return a text; of a function's arguments the only one, if it is a text."""
    if isinstance(value, dict) and len(value) == 1:
        (alone,) = value.values()
        if isinstance(alone, str):
            return log_text(alone)
    return log_text(value)


def _metadata(metadata: object, name: str, where: str) -> Mapping[str, object]:
    """Return the object under the key that ends with `name`."""
    fields = log_object(metadata, "trace_metadata", where)
    value = next((fields[key] for key in fields if str(key).endswith(name)), None)
    if isinstance(value, str):
        value = json_value(value.encode(), where)
    return log_object(value, name, where)
