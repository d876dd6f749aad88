"""Evaluation tables that MLflow logs: `eval_results_table.json`, a list of columns and one of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .answers import LogAnswer, json_document, log_amount, log_fault, log_name, log_text, right

_QUESTIONS = ("inputs", "request", "question", "input", "inputs/question")
_ANSWERS = ("outputs", "predictions", "response", "output", "answer")
_GOLDS = ("ground_truth", "targets", "target", "expectations/expected_response/value")
_SCORES = (
    "correct",
    "exact_match/score",
    "exact_match/v1/score",
    "correctness/value",
    "correctness/v1/score",
)
_VERDICTS = {"yes": True, "no": False}


def split_table(path: Path) -> Iterator[LogAnswer]:
    """The agent is the column `agent` or `model`, else the folder that the table stands in; a question's id
    is `question_id` or `id`, else its row."""
    table = json_document(path)
    columns, data = table.get("columns"), table.get("data")
    if not isinstance(columns, list) or not isinstance(data, list):
        raise log_fault(str(path), "there are no 'columns' and 'data'; give an eval_results_table.json")
    found = {name: place for place, name in reversed(list(enumerate(map(str, columns))))}
    score = next((name for name in _SCORES if name in found), None)
    if score is None:
        rated = [name for name in found if name.endswith(("/score", "/value")) and name not in _GOLDS]
        if len(rated) != 1:
            raise log_fault(
                str(path), f"which column says what is right? None of {', '.join(_SCORES)} is there"
            )
        score = rated[0]
    home = path.absolute().parent
    folder = home.parent.name if home.name == "artifacts" else home.name
    for number, cells in enumerate(data, 1):
        where = f"{path}, row {number}"
        if not isinstance(cells, list) or len(cells) != len(columns):
            raise log_fault(
                where, f"not {len(columns)} cells under {len(columns)} columns; export the table again"
            )
        row = {name: cells[place] for name, place in found.items()}

        def first(names: tuple[str, ...], row: dict[str, object] = row) -> str | None:
            return next((log_text(row[name]) for name in names if name in row), None)

        answer, verdict = first(_ANSWERS), row[score]
        if isinstance(verdict, str):
            verdict = _VERDICTS.get(verdict.strip().lower(), verdict)
        yield LogAnswer(
            where,
            log_name(first(("question_id", "id")) or number, "question_id", where),
            log_name(first(("agent", "model")) or folder, "agent", where),
            answer,
            right(verdict, score, where) and answer is not None,
            question=first(_QUESTIONS),
            gold=first(_GOLDS),
            seconds=log_amount(row.get("latency"), "latency", where),
        )
