"""Plain tables of answers: CSV, JSONL or Parquet with a row per answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .answers import LogAnswer, Record, lettered, right_by, table_rows
from .swe_bench import repository_of
from .terminal_bench import entrant_of

NEEDED = ("question_id", "agent", "answer", "correct")
_OTHERS = {
    "question_id": ("task", "task_id", "instance_id"),
    "agent": ("model", "model_name", "model_name_or_path", "model_id"),
    "correct": ("resolved", "is_resolved", "solved", "passed", "success", "is_correct"),
    "score": ("reward",),
    "prompt_tokens": ("input_tokens",),
    "completion_tokens": ("output_tokens",),
    "cost": ("cost_usd", "instance_cost"),
    "text": ("failure", "failure_mode", "exit_status"),
}
"""What other tables call the columns, those of agents that act above all."""


_NAMES = ("question_id", *_OTHERS["question_id"])
_VERDICTS = ("correct", "score", *_OTHERS["correct"], *_OTHERS["score"])


def has_row_an_answer(first: Mapping[str, object]) -> bool:
    """Return whether the rows of a table say to which question they belong, and what became
    of it.
    """
    columns = first.keys()
    return not columns.isdisjoint(_NAMES) and not columns.isdisjoint(_VERDICTS)


def plain(path: Path) -> Iterator[LogAnswer]:
    """`question_id, agent, answer, correct[, strategy, question, group, gold, choices, text,
    tokens, prompt_tokens, completion_tokens, cost, seconds, error, repeat | epoch | sample]`, in
    any order; other columns are left. The last three say which of several answers to the question a
    row is.

    A table of agents that act has `task` and `resolved` in place of `question_id` and `correct`, no
    answer, and as you like `trial`, `score`, `cost_usd`, `cluster`, `api_calls` and `failure`. One
    that does not say who answered is of one agent, which is called after the file.
    """
    alone: dict[str, object] = {}
    for number, given in enumerate(table_rows(path)):
        acts = _is_of_tasks(given.fields)
        row = _by_our_names(given, acts)
        if number == 0 and "agent" not in row.fields:
            alone = {"agent": entrant_of(path)}
            said = f"no column says who answered, so all rows are of {alone['agent']!r}"
            yield LogAnswer(str(path), read_as=said)
        row.fields = {**row.fields, **alone}
        for name in NEEDED:
            if name not in row.fields:
                raise row.fault(f"there is no {name!r}; a table of answers has {', '.join(NEEDED)}")
        choices = row.value("choices")
        labelled = isinstance(choices, dict) and all(isinstance(v, str) for v in choices.values())
        if not labelled:
            choices = lettered(choices)
        name = row.name("question_id")
        yield LogAnswer(
            row.where,
            name,
            row.name("agent"),
            row.text("answer"),
            row.right("correct"),
            question=row.text("question"),
            strategy=row.name_if_any("strategy"),
            gold=row.text("gold"),
            choices=choices,
            group=row.name_if_any("group"),
            text=row.text("text"),
            prompt_tokens=row.count("prompt_tokens"),
            completion_tokens=row.count("completion_tokens"),
            tokens=row.count("tokens"),
            cost=row.amount("cost"),
            seconds=row.amount("seconds"),
            error=row.text("error"),
            repeat=row.repeat(),
            # A task may have a score in place of a verdict, an answer may not.
            score=row.amount("score") if acts else None,
            outcome=acts,
            cluster=row.name_if_any("cluster") or (repository_of(name) if acts else None),
            calls=row.count("api_calls"),
        )


def _is_of_tasks(cells: Mapping[str, object]) -> bool:
    """Return whether a row is what became of a task, not an answer."""
    names = ("trial", *_NAMES[1:], *_VERDICTS[2:])
    return "answer" not in cells and any(name in cells for name in names)


def _by_our_names(row: Record, acts: bool) -> Record:
    """Return the row under the names of a table of answers; what became of a task has none."""
    named = dict(row.fields)
    if acts:
        named.setdefault("answer", None)
    for name, others in _OTHERS.items():
        called = next((other for other in (name, *others) if other in named), None)
        if called is not None:
            named[name] = named[called]
    if acts and "correct" not in named and "score" in named:
        named["correct"] = right_by(Record(row.where, named).amount("score"))
    return Record(row.where, named)
