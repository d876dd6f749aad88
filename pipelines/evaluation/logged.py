"""What an evaluation logs: how it stands, and in the end scores, tables, dialogues and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.calls import tokens_of
from ...modules.base.fence import one_line
from ..base.wording import calls_used
from ..plots.dialogues import dialogues_page, most_informative
from ..plots.protocols import plot_of
from ..runs.manifest import MANIFEST
from ..runs.rows import RESULTS, read_rows
from ..runs.summary import score_words
from ..tracking.uploads import END, Content, TableUpload, Tracker, Upload, Uploads
from ..tracking.values import bill, cost_words, ended_name, rounded, run_name, scrubbed, with_ends

if TYPE_CHECKING:
    from ..runs.progress import Progress
    from ..runs.summary import Summary

TABLE = "rows.json"
TABLE_ROWS = 2_000
FIGURES = "figures.json"
_COUNTS = ("rows", "errors", "unreadable", "truncated")
ENDS = ("value", "low", "high", "n")
COLUMNS = [
    "id",
    "question",
    "answer",
    "gold",
    "correct",
    "decided_by",
    "rounds",
    "calls",
    "seconds",
    "error",
]


def standing(state: Progress) -> Upload:
    """How a running evaluation stands after so many rows."""
    figures = {
        state.metric: state.score / state.done,
        "errors": float(state.errors),
        "rows": float(state.done),
    }
    return Upload(metrics=figures, step=state.done)


def evaluation_uploads(summary: Summary, folder: Path, tracker: Tracker) -> Uploads:
    """The parts of a finished run. It ends before its largest file is sent, which may take long."""
    return {
        "scores": lambda: Upload(
            metrics=rounded(evaluation_metrics(summary)),
            step=summary.counts["rows"],
            note=evaluation_note(summary),
            name=ended_name(summary.run, *score_words(summary.metric, summary.main), summary.usage),
        ),
        "tables and dialogues": lambda: _tables(summary, folder, tracker),
        END: None,
        RESULTS: lambda: Upload(files={RESULTS: folder / RESULTS}),
    }


def _tables(summary: Summary, folder: Path, tracker: Tracker) -> Upload:
    total, run = summary.counts["rows"], summary.run
    table: list[list[Any]] = []
    best = most_informative(_tabled(read_rows(folder / RESULTS), table))
    files: dict[str, Content] = {
        MANIFEST: {**run, "mlflow_run_id": tracker.run_id},
        "summary.json": summary.to_dict(),
        TABLE: TableUpload(COLUMNS, table),
        FIGURES: figures_table(summary),
    }
    if best and summary.default_metric:  # its marks are those of accuracy
        files["dialogues.html"] = dialogues_page(best, run_name(scrubbed(run)), total)
    kind = str(run["program"].get("program"))
    if (plot := plot_of(kind)) is not None:
        files[f"{kind}.png"] = partial(plot.draw, summary.report)
    cut = f"the first {len(table):,} of {total:,}" if len(table) < total else f"all {total:,}"
    return Upload(tags={"folkmoot.table_rows": cut}, files=files)


def _tabled(
    rows: Iterable[Mapping[str, Any]], table: list[list[Any]]
) -> Iterator[Mapping[str, Any]]:
    """Pass the rows on, and put the first TABLE_ROWS of them into the table."""
    for row in rows:
        if len(table) < TABLE_ROWS:
            flat = {**row, "calls": row["usage"].get("calls")}
            table.append([flat.get(name) for name in COLUMNS])
        yield row


def evaluation_metrics(summary: Summary) -> dict[str, float]:
    """What runs are compared by: scores with their interval's ends, counts, the bill, seconds."""
    found: dict[str, float] = {}
    for name, score in summary.scores.items():
        found |= with_ends(name, score)
    found |= bill(summary.usage) | {
        name: float(count)
        for name, count in summary.counts.items()
        if name in _COUNTS and isinstance(count, int)
    }
    return found | {
        f"seconds_{name}": summary.seconds[name] for name in ("p50", "p90") if summary.seconds
    }


def figures_table(summary: Summary) -> TableUpload:
    """Every other figure: groups, the protocol's report, forensics, and what is rare in a bill."""
    tree = {
        **{f"by_{group}": values for group, values in summary.groups.items()},
        str(summary.run["program"]["program"]): summary.report,
        "forensics": summary.forensics,
        "usage": dict(summary.usage),
        "seconds": summary.seconds,
    }
    return TableUpload(("figure", *ENDS), list(_figures(tree, ())))


def _figures(tree: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[list[Any]]:
    """A line for each number, and one for each score with what is known of its interval."""
    for name, value in tree.items():
        here = (*path, str(name))
        if not isinstance(value, Mapping):
            value = {"value": value}
        elif "value" not in value:
            yield from _figures(value, here)
            continue
        if isinstance(value["value"], int | float):
            yield ["/".join(here), *(value.get(end) for end in ENDS)]


def evaluation_note(summary: Summary) -> str:
    """The run's description, in Markdown: what came out, what it took, and why it has stopped."""
    counts, usage = summary.counts, summary.usage
    tokens, cut_off = tokens_of(usage), counts.get("truncated", 0)
    said, interval = score_words(summary.metric, summary.main)
    stopped = (
        f" Stopped early: {one_line(str(scrubbed(summary.stopped)))}." if summary.stopped else ""
    )
    return (
        f"**{said}** (95% interval {interval}) on {summary.finished:,} of {counts['questions']:,} "
        f"questions; {counts['errors']:,} failed, {counts['unreadable']:,} unreadable, "
        f"{cut_off:,} cut off. "
        f"{calls_used(usage['calls'])}, {usage['cached_calls']:,} of them from record; "
        f"{'unknown' if tokens is None else f'{tokens:,}'} tokens; {cost_words(usage)}.{stopped}"
    )
