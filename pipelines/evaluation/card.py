"""The card of an evaluation's folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from ...modules.protocols.short_names import full_name
from ...modules.reading.grading import ACCURACY, metric_name
from ..base.cards import Card, Content, Drawn, Kind, Score, State, question_costs
from ..base.journal import read_object, write_json
from ..base.run_files import Counts, Manifest, SummaryFields
from ..base.wording import counted
from ..lms.ledger import totals
from ..plots.dialogues import dialogues_page, most_informative
from ..plots.protocols import drawings
from ..runs.manifest import MANIFEST, name_of_run
from ..runs.rows import RESULTS, read_rows
from ..runs.summary import SUMMARY, Ending
from .earlier import earlier

TABLE_ROWS = 2_000
COLUMNS = (
    *("id", "question", "answer", "gold", "correct", "decided_by", "rounds", "calls"),
    *("seconds", "error"),
)
WITHIN = ("controls", "match-budget")
"""Sub-folders in which other commands put their results about a run."""


def about(title: str, run: Manifest) -> Card:
    """Return a card that has what a manifest says of program, LMs and data; `title` is before the
    program.
    """
    program = run.settings.program_spec or full_name(run.program)
    parts = (run.settings.data, run.settings.split)
    data = " ".join(map(str, filter(None, parts))) or None
    return Card(f"{title} {program}", program=program, lm=names_of_lms(run), data=data)


def names_of_lms(run: Manifest) -> str | None:
    """Return the LMs in a manifest, as `AGENT=NAME` unless one is for all; None without any."""
    names = [f"{seat}={lm.name}".removeprefix("*=") for seat, lm in run.lms.items()]
    return ", ".join(names) or None


def _describe(folder: Path, document: Mapping[str, object]) -> Card:
    """Return the card of an evaluation, from its manifest and its summary."""
    run = Manifest.of(document)
    card = about("evaluation of", run)
    card.run, card.traced = partial(dict, run), True
    summary = SummaryFields.of(read_object(folder / SUMMARY) or {})
    card.begun = not summary
    rows = folder / RESULTS
    ahead = rows.exists() and rows.stat().st_size > 0
    if ahead and summary and rows.stat().st_mtime_ns <= (folder / SUMMARY).stat().st_mtime_ns:
        ahead = False
    if ahead:  # the run was killed after its last summary, so it is made from the rows
        summary = SummaryFields.of(earlier(folder).summary.to_dict())
    card.paid(summary.paid or totals(folder).to_dict(), summary.lost)
    counts = summary.counts if summary else Counts(questions=run.questions)
    finished = 0
    if counts.rows:
        card.scores = [Score.of(name, score) for name, score in summary.scores.items()]
        main = metric_name(run)
        # The score by the run's own metric comes first, since False sorts before True.
        card.scores.sort(key=lambda score: score.name != main)
        card.costs = costs_of(summary)
        card.artifacts = partial(_artifacts, folder, summary)
        if card.score and card.score.n:
            finished = card.score.n
        card.sentences = [_counted(counts, card, finished)]
    if 0 < counts.rows == counts.errors:
        card.state, card.problem = State.FAILED, "every question failed"
        card.scores, card.sentences = [], []  # what was never answered has no score
    # Unless it has left a contest: then it will not answer the rest.
    elif finished < counts.questions and summary.ending != Ending.LEFT:
        unfinished = f"{finished:,} of {counts.questions:,} rows"
        card.ended(summary.stopped or unfinished)
    if rows.exists():
        card.files = [rows]
    card.children = [folder / name for name in WITHIN if (folder / name).is_dir()]
    card.next = shlex.join(["folkmoot", "report", str(folder)])
    return card


def judged(score: Score, counts: Counts) -> str:
    """Return a score, on how many questions, and how many of these have no answer."""
    words = f"{score} on {counted(counts.rows, 'question')}"
    for what, number in (("failed", counts.errors), ("unreadable", counts.unreadable)):
        if number:
            words += f", {number:,} {what}"
    return words


def costs_of(summary: SummaryFields) -> dict[str, float]:
    """Return the costs per question of a run: those without a cache, and the median seconds if no
    answer came from a cache.
    """
    costs = question_costs(summary.takes or summary.usage, summary.counts.rows)
    seconds = summary.seconds.p50
    if seconds is not None and not summary.usage.cached_calls:
        costs["seconds_p50"] = seconds
    return costs


def _counted(counts: Counts, card: Card, finished: int) -> str:
    questions = f"{finished:,} of {counts.questions:,} questions"
    return (
        f"{card.score} on {questions}: {counts.errors:,} failed, {counts.unreadable:,} unreadable, "
        f"{counts.truncated:,} cut off."
    )


def _artifacts(folder: Path, summary: SummaryFields) -> dict[str, Content]:
    """Name → content of the files for MLflow: the rows, also as a table, the most informative
    dialogues, and the protocol's plots.
    """
    manifest = Manifest.of(read_object(folder / MANIFEST) or {})
    rows, total = folder / RESULTS, summary.counts.rows
    files: dict[str, Content] = {
        "rows.json": Drawn([rows], partial(_write_table, rows), table=True),
        MANIFEST: manifest,
        SUMMARY: summary,
    }
    if metric_name(manifest) == ACCURACY:  # since the page marks right and wrong answers
        write = partial(_write_dialogues, rows, name_of_run(manifest), total)
        files["dialogues.html"] = Drawn([rows], write)
    program, report = str(manifest.program.get("program")), summary.report or {}
    for name, plot in drawings(program, report).items():
        files[f"{name}.png"] = Drawn([folder / SUMMARY], partial(plot.draw, report))
    return {**files, RESULTS: rows}


def _write_table(rows: Path, path: Path) -> None:
    table = []
    for row in islice(read_rows(rows), TABLE_ROWS):
        flat = {**row, "calls": row.usage.calls}
        table.append([flat.get(name) for name in COLUMNS])
    write_json(path, {"columns": COLUMNS, "data": table})


def _write_dialogues(rows: Path, name: str, total: int, path: Path) -> None:
    best = most_informative(read_rows(rows))
    if best:
        page = dialogues_page(best, name, total)
        path.write_text(page, encoding="utf-8", errors="backslashreplace")


KIND = Kind(MANIFEST, "evaluate", "an evaluation", _describe, program="program")
