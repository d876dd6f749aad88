"""Reports on runs: one HTML page that opens anywhere, verdict first, and the same figures
as JSON.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, system_errors
from ...modules.base.files import write_whole
from ...modules.reading.grading import ACCURACY
from ..base.wording import counted
from ..comparison.compare import compare, names_for, shared_questions
from ..comparison.matched import run_or_match, with_matches
from ..comparison.panel import MOST_MEMBERS
from ..comparison.sources import results_within, runs_in
from ..comparison.tested import asked_in
from ..evaluation.earlier import Evaluation, earlier
from ..programs.papers import bibtex, protocols_in
from ..runs.caveats import run_notes
from ..runs.lines import unmetered_line
from ..runs.manifest import MANIFEST
from ..runs.rows import RESULTS
from ..runs.summary import score_words
from ..tracking.store import add_to_runs
from ..tracking.values import scrubbed
from .contested import ContestResult, contest_in
from .export import export_report
from .page import RunGroup, ShownRun, page_of, runs_of

REPORT = "report.html"
MOST_NOTED = 10
"""Of more runs, only the pairs with the first have their notes on the page."""


@dataclass(repr=False)
class Report:
    """A report that was written: `path` of the page, its `headline`, and its `figures` as JSON."""

    path: Path
    headline: str
    figures: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.headline} ({self.path})"


def report(
    runs: Evaluation | str | Path | Sequence[Evaluation | str | Path],
    *,
    out: str | Path | None = None,
    names: Sequence[str] = (),
    tracking: bool = True,
    seed: int = 0,
    exact: bool = False,
    cluster: str | None = None,
    panel: int = MOST_MEMBERS,
    margin: float | str | None = None,
    export: str | Path | None = None,
) -> Report:
    """Write one self-contained HTML page about runs: which is best, how sure that is, and at what
    price.

    Args:
        runs: evaluations, or folders of any result; at least one. Others over the same data are
            compared with the first; runs over other data are shown apart.
        out: the page's file; None writes `report.html` into the first folder.
        names: Names for the runs. Default: the names of their programs.
        tracking: also add the page to the runs' MLflow runs.
        seed, exact, cluster, panel, margin: as in `compare`.
        export: also write the plots as SVG files and the tables as CSV files into this folder.

    Raises UserError for no run, something that is not a run, a folder without a run, no finished
    row, names that do not fit, and a file that cannot be written.
    """
    sources: list[Any] = [runs]
    if isinstance(runs, Iterable) and not isinstance(runs, str | Path):
        sources = list(runs)
    if not sources:
        raise UserError("a report needs a run: name a folder that an evaluation wrote")
    groups, others, notes = list[RunGroup](), list[Any](), list[str]()
    for run in list(chain.from_iterable(map(results_within, sources))):
        contest = _contest(run)
        if contest is None:
            others.append(run)
        else:
            groups.append(contest)
    if others:
        opened, notes = _open_runs(others)
        titles, opened = with_matches(names_for(names, opened), opened)
        how = {"seed": seed, "exact": exact, "cluster": cluster, "panel": panel, "margin": margin}
        compared, apart = _group(opened, titles, how)
        groups += compared
        notes += apart
    evaluations = list[Evaluation]()
    for group in groups:
        evaluations += group.runs
        notes += _warnings(group)
    # By default in the folder that was named first: also of a compilation or a study, not of a run
    # within.
    if out is None:
        home = sources[0].folder if isinstance(sources[0], Evaluation) else sources[0]
        out = Path(home) / REPORT
    path = Path(out).expanduser()
    headline = _headline(groups)
    shown = runs_of(groups)
    cited = bibtex(protocols_in([run.summary.run.program for run in evaluations]))
    _write(path, page_of(groups, shown, notes, headline, cited))
    exported = export_report(groups, shown, Path(export).expanduser()) if export else []
    tracked = [run.run_id for run in evaluations if tracking and run.run_id]
    # The page is written first, since the store may be down.
    if tracked and (problem := add_to_runs(tracked, path)):
        warnings.warn(
            f"MLflow did not take the report ({problem}): {path} has it",
            RuntimeWarning,
            stacklevel=2,
        )
    figures = {
        "out": str(path),
        "headline": headline,
        "bibtex": cited,
        "exported": list(map(str, exported)),
        "groups": [_figures(group, own) for group, own in zip(groups, shown, strict=True)],
        "warnings": notes,
    }
    return Report(path, headline, scrubbed(figures))


def _contest(run: Evaluation | str | Path) -> RunGroup | None:
    """Return the runs of the contest in a folder; None for another folder."""
    if not isinstance(run, str | Path):
        return None
    result = contest_in(Path(run).expanduser(), ContestResult)
    if result is None or not result.folders:
        return None
    runs = [earlier(folder) for folder in result.folders.values()]
    return RunGroup(list(result.folders), runs, contest=result)


def _open_runs(
    sources: Sequence[Evaluation | str | Path],
) -> tuple[list[Evaluation], list[str]]:
    """Return the runs with at least one row, and a note on each of the others. Raises UserError if
    there is none.
    """
    evaluations: list[Evaluation] = []
    empty: list[Path] = []
    for run in runs_in(sources):
        if not isinstance(run, Evaluation | str | Path):
            earlier(run)  # raises UserError
        folder = run.folder if isinstance(run, Evaluation) else Path(run).expanduser()
        rows = folder / RESULTS
        # A run that has only begun has an empty file of rows.
        if (folder / MANIFEST).exists() and not (rows.exists() and rows.stat().st_size):
            empty.append(folder)
        else:
            evaluations.append(run_or_match(run))
    if not evaluations:
        raise UserError(f"{empty[0]} has no finished row yet: give its command again")
    return evaluations, [f"Left out: {folder} has no finished row yet." for folder in empty]


def _group(
    runs: Sequence[Evaluation], names: Sequence[str], how: Mapping[str, Any]
) -> tuple[list[RunGroup], list[str]]:
    """Return each run with the first group whose questions it shares; and, in words, which are not
    compared.
    """
    groups: list[tuple[list[str], list[Evaluation], dict[str, int]]] = []
    apart = []
    for run, name in zip(runs, names, strict=True):
        asked = asked_in(run)
        for names_in, members, shared in groups:
            try:
                ids = shared_questions((shared, asked), (names_in[0], name))
            except UserError as problem:
                apart.append(f"{name} is shown apart from {names_in[0]}: {problem}.")
                continue
            names_in.append(name)
            members.append(run)
            # The group shrinks to what all of its runs share, as a comparison does.
            for other in shared.keys() - set(ids):
                del shared[other]
            break
        else:
            groups.append(([name], [run], asked))
    found = []
    for names_in, members, _ in groups:
        comparison = compare(*members, names=names_in, **how) if len(members) > 1 else None
        found.append(RunGroup(names_in, members, comparison))
    return found, apart


def _headline(groups: Sequence[RunGroup]) -> str:
    """Return the conclusion of each contest and comparison, or the score of a run alone."""
    first = groups[0]
    if concluded := " ".join(filter(None, [group.headline for group in groups])):
        return concluded
    if first.failure:
        return f"No verdict: {first.failure}"
    summary = first.runs[0].summary
    score, interval = score_words(summary.metric, summary.main)
    said = f"has {score}"
    if summary.metric == ACCURACY:
        said = f"is right on {score.removesuffix(' right')}"
    return f"{first.names[0]} {said} (95% interval {interval})"


def _warnings(group: RunGroup) -> list[str]:
    notes = []
    if group.comparison:
        notes += group.comparison.notes
    for name, run in zip(group.names, group.runs, strict=True):
        counts = run.summary.counts
        if group.comparison is None and group.contest is None:
            notes += run_notes(name, counts, run.summary.finished)
        if counts.unreadable:
            count = "counts" if counts.unreadable == 1 else "count"
            notes.append(
                f"{counts.unreadable:,} of the {counted(counts.rows, 'answer')} of {name} could "
                f"not be read and {count} as wrong."
            )
        if silent := unmetered_line(run.summary):
            notes.append(f"{name}: {silent}.")
        if run.summary.stopped and group.contest is None:
            notes.append(f"{name} was stopped: {run.summary.stopped}.")
    if group.comparison is not None:
        pairs, against = group.comparison.pairs, group.comparison.against
        if len(group.runs) > MOST_NOTED:
            pairs = against
        noted = chain.from_iterable(pair.notes for pair in pairs)
        causes = {f"{pair.cause}." for pair in against}  # the page has them with the pair
        notes = [note for note in dict.fromkeys([*notes, *noted]) if note not in causes]
    return notes


def _figures(group: RunGroup, shown: Sequence[ShownRun]) -> dict[str, object]:
    contest: dict[str, object] | None = None
    if (result := group.contest) is not None:
        contest = {
            "sentences": result.sentences,
            "winner": result.winner_name,
            "course": result.course,
        }
    runs = []
    for run in shown:
        named = {"name": run.name, "folder": str(run.evaluation.folder)}
        runs.append({**named, **run.evaluation.summary.to_dict()})
    return {
        "comparison": group.comparison and group.comparison.to_dict(),
        "contest": contest,
        "runs": runs,
    }


def _write(path: Path, page: str) -> None:
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file for the page, such as {path / REPORT}")
    with system_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A device or a pipe, such as /dev/stdout, would be replaced by a file.
        if path.exists() and not path.is_file():
            path.write_text(page, encoding="utf-8", errors="backslashreplace")
        else:
            write_whole(path.resolve(), page)
