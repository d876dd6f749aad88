"""The entry of an evaluation's folder in the tracking store."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ...modules.base.calls import tokens_of
from ...modules.base.fence import one_line
from ..base.journal import read_object, write_json
from ..base.run_files import Manifest
from ..base.wording import calls_used, money
from ..plots.dialogues import dialogues_page, most_informative
from ..plots.protocols import drawings
from ..runs.folder import MANIFEST
from ..runs.manifest import read_run
from ..runs.rows import RESULTS, read_rows
from ..runs.summary import SUMMARY, Ending, Summary, score_words
from .entry import (
    Content,
    Drawn,
    RunEntry,
    TableEntry,
    described,
    figures,
    model_in,
)
from .values import bill, run_name, score_head, scrubbed, title

SAVED = "program"
STATUS = {
    Ending.FINISHED: "FINISHED",
    Ending.LEFT: "FINISHED",
    Ending.STOPPED: "KILLED",
    Ending.PAUSED: "KILLED",
    Ending.FAILED: "FAILED",
}
"""The store's status of a run by how it ended."""
TABLE_ROWS = 2_000
COUNTS = ("rows", "errors", "unreadable", "truncated")
COLUMNS = (
    *("id", "question", "answer", "gold", "correct", "decided_by", "rounds", "calls"),
    *("seconds", "error"),
)


def evaluation_entry(folder: Path, key: str) -> RunEntry:
    """An evaluation: scores, the bill, rows as a table, dialogues, a plot, the program, traces."""
    run: Manifest = {**read_run(folder), "mlflow_run_id": None}  # written when it is pushed
    summary = _summary(folder, run)
    begun = partial(described, run, key, document=folder / MANIFEST)
    if summary is None:
        return begun(name=title(run), status="RUNNING", traced=True)
    rows = folder / RESULTS
    total, kind = summary.counts["rows"], str(run["program"].get("program"))
    files: dict[str, Content] = {
        MANIFEST: scrubbed(run),
        SUMMARY: scrubbed(summary.to_dict()),
        "rows.json": Drawn([rows], partial(_write_table, rows), table=True),
    }
    if summary.default_metric:  # the page marks right and wrong answers
        files["dialogues.html"] = Drawn([rows], partial(_write_dialogues, summary, rows))
    for name, plot in drawings(kind, summary.report).items():
        files[f"{name}.png"] = Drawn([folder / SUMMARY], partial(plot.draw, summary.report))
    cut = f"the first {TABLE_ROWS:,} of {total:,}" if total > TABLE_ROWS else f"all {total:,}"
    return begun(
        name=title(run, score_head(summary.metric, summary.main)),
        status=STATUS[summary.ending],
        tags={"folkmoot.table_rows": cut},
        metrics=figures(
            {
                **summary.scores,
                **{name: summary.counts.get(name, 0) for name in COUNTS},
                **bill(summary.takes or summary.usage),  # whatever the cache held
                **{f"seconds_{name}": summary.seconds.get(name) for name in ("p50", "p90")},
            }
        ),
        step=total,
        note=_evaluation_note(summary),
        files={**files, RESULTS: rows},
        model=model_in(folder / SAVED),
        traced=True,
    )


def _summary(folder: Path, run: Any) -> Summary | None:
    """The summary in the folder; None if it is missing or damaged."""
    document = {**(read_object(folder / SUMMARY) or {}), "run": run}
    document.setdefault("ending", Ending.STOPPED if document.get("stopped") else Ending.FINISHED)
    try:
        summary = Summary(
            **{one.name: document[one.name] for one in fields(Summary) if one.name in document}
        )
        _ = summary.main["value"], summary.counts["rows"], summary.usage["calls"]
    except (TypeError, KeyError):
        return None
    return summary


def _write_table(rows: Path, path: Path) -> None:
    table = []
    for row in islice(read_rows(rows), TABLE_ROWS):
        flat = {**row, "calls": row["usage"].get("calls")}
        table.append([flat.get(name) for name in COLUMNS])
    write_json(path, TableEntry(COLUMNS, table).document)


def _write_dialogues(summary: Summary, rows: Path, path: Path) -> None:
    best = most_informative(read_rows(rows))
    if best:
        page = dialogues_page(best, run_name(scrubbed(summary.run)), summary.counts["rows"])
        path.write_text(page, encoding="utf-8", errors="backslashreplace")


def _evaluation_note(summary: Summary) -> str:
    """The run's description, in Markdown: the score, the cost, and why it stopped."""
    counts, usage = summary.counts, summary.usage
    tokens = tokens_of(usage)
    score, interval = score_words(summary.metric, summary.main)
    stopped = (
        f" Stopped early: {one_line(str(scrubbed(summary.stopped)))}." if summary.stopped else ""
    )
    return (
        f"**{score}** (95% interval {interval}) on {summary.finished:,} of {counts['questions']:,} "
        f"questions; {counts['errors']:,} failed, {counts['unreadable']:,} unreadable, "
        f"{counts.get('truncated', 0):,} cut off. "
        f"{calls_used(usage['calls'])}, {usage['cached_calls']:,} of them from record; "
        f"{'unknown' if tokens is None else f'{tokens:,}'} tokens; {money(usage['cost_usd'])}."
        f"{stopped}"
        "\n\nThe dialogues worth reading: `dialogues.html` under Artifacts."
    )
