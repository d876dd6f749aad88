"""What an evaluation logs: how it stands, and in the end scores, tables, dialogues and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.calls import numbers_of, tokens_of
from ...modules.base.fence import one_line
from ..base.wording import calls_used
from ..plots.dialogues import dialogues_page, most_informative
from ..plots.protocols import plot_of
from ..runs.manifest import MANIFEST
from ..runs.rows import RESULTS, read_rows
from ..runs.summary import score_words
from ..tracking.uploads import END, Content, TableUpload, Tracker, Upload, Uploads
from ..tracking.values import LONGEST_NAME, leaves, rounded, run_name, scrubbed, with_ends

if TYPE_CHECKING:
    from ..runs.progress import Progress
    from ..runs.summary import Summary

TABLE = "rows.json"
TABLE_ROWS = 2_000
_COUNTS = ("rows", "errors", "unreadable", "truncated")
COLUMNS = ["id", "question", "answer", "gold", "correct", "decided_by", "rounds", "calls", "seconds", "error"]


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
            name=name_at_the_end(summary),
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
    }
    if best and summary.default_metric:  # its marks are those of accuracy
        files["dialogues.html"] = dialogues_page(best, run_name(scrubbed(run)), total)
    kind = str(run["program"].get("program"))
    if (plot := plot_of(kind)) is not None:
        files[f"{kind}.png"] = partial(plot.draw, summary.report)
    cut = f"the first {len(table):,} of {total:,}" if len(table) < total else f"all {total:,}"
    return Upload(tags={"folkmoot.table_rows": cut}, files=files)


def _tabled(rows: Iterable[Mapping[str, Any]], table: list[list[Any]]) -> Iterator[Mapping[str, Any]]:
    """Pass the rows on, and put the first TABLE_ROWS of them into the table."""
    for row in rows:
        if len(table) < TABLE_ROWS:
            flat = {**row, "calls": row["usage"].get("calls")}
            table.append([flat.get(name) for name in COLUMNS])
        yield row


def evaluation_metrics(summary: Summary) -> dict[str, float]:
    """Scores with their interval's ends, counts, usage, seconds, groups, the protocol's report, forensics."""
    found: dict[str, float] = {}
    for name, score in summary.scores.items():
        found |= with_ends(name, score)
    found |= {name: summary.counts.get(name, 0) for name in _COUNTS}
    found |= numbers_of(summary.usage)
    found |= {f"seconds_{name}": summary.seconds[name] for name in ("p50", "p90") if name in summary.seconds}
    for group, values in summary.groups.items():
        for value, score in values.items():
            found[f"by_{group}/{value.replace('/', '_')}"] = score["value"]
    for name, tree in ((summary.run["program"]["program"], summary.report), ("forensics", summary.forensics)):
        for path, number in leaves(tree):
            if isinstance(number, int | float):
                parts = [str(part).replace("/", "_") for part in path]
                found["/".join([name, *parts])] = number
    return found


def name_at_the_end(summary: Summary) -> str | None:
    """Such as `single cot · gpt-4o-mini · 62.0% right, 52.1% to 70.9% · $0.0113`; None if it was named."""
    if summary.run["settings"].get("run_name"):
        return None
    lms = dict.fromkeys(str(lm.get("name")).rpartition("/")[2] for lm in summary.run["lms"].values())
    said, interval = score_words(summary.metric, summary.main)
    figures = f"{said}, {interval} · {_money(summary)}"
    who = one_line(" · ".join([run_name(summary.run), *([", ".join(lms)] if lms else [])]))
    return f"{who[: LONGEST_NAME - len(figures) - 3]} · {one_line(figures)}"


def _money(summary: Summary) -> str:
    cost = summary.usage["cost_usd"]
    return "unknown cost" if cost is None else f"${cost:,.4f}"


def evaluation_note(summary: Summary) -> str:
    """The run's description, in Markdown."""
    counts, usage = summary.counts, summary.usage
    tokens, cut_off = tokens_of(usage), counts.get("truncated", 0)
    said, interval = score_words(summary.metric, summary.main)
    return (
        f"**{said}** (95% interval {interval}) on {counts['rows']:,} of {counts['questions']:,} questions; "
        f"{counts['errors']:,} failed, {counts['unreadable']:,} unreadable, {cut_off:,} cut off. "
        f"{calls_used(usage['calls'])}, {usage['cached_calls']:,} of them from record; "
        f"{'unknown' if tokens is None else f'{tokens:,}'} tokens; {_money(summary)}."
    )
