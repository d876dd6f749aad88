"""Reports on runs: one HTML page that opens anywhere, verdict first, and the same figures
as JSON.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.files import write_whole
from ...modules.reading.grading import ACCURACY
from ..base.papers import bibtex, protocols_in
from ..base.wording import counted, run_notes
from ..comparison.compare import compare, names_for, shared_questions
from ..comparison.matched import run_or_match, with_matches
from ..comparison.panel import MOST_MEMBERS
from ..comparison.tested import asked_in
from ..evaluation.earlier import Evaluation, earlier, imported_runs
from ..runs.lines import unmetered_line
from ..runs.manifest import MANIFEST
from ..runs.rows import RESULTS
from ..runs.summary import score_words
from ..tracking.store import add_to_runs, trace_pages
from ..tracking.values import scrubbed
from .contested import contest_result
from .export import export_report
from .page import Folder, RunGroup, ShownRun, page_of, runs_of

REPORT = "report.html"
FOUND = {"compile.json": "compile", "study.json": "tuning study"}
"""What other commands leave in their folders, and what it is."""

MOST_NOTED = 10
"""Of more runs, only the pairs with the first have their notes on the page."""

VALIDATED = ("validation/default", "validation/winner")
"""The folders in a study's that hold runs worth comparing."""


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
    export: str | Path | None = None,
) -> Report:
    """Write one self-contained HTML page about runs: which is best, how sure that is, and at what
    price.

    Args: runs: evaluations, or folders that `evaluate`, `try`, `compile`, `tune` or `import` wrote;
        at least one. The first is what the others over the same data are measured against; runs
        over other data are shown apart.
        out: the page's file; None writes `report.html` into the first folder.
        names: what to call the runs, one each; by default what they ran.
        tracking: also add the page to the runs' MLflow runs, where they have one, and link
            questions to their traces. A store that is down gives a warning.
        seed, exact, cluster, panel: as in `compare`.
        export: also write the plots as SVG files and the tables as CSV files into this folder.

    A baseline that `match_budget` made of one of the runs is shown beside it.

    Raises: UserError: no run, what is none, a folder that holds none, none with a finished row,
        names that do not fit, or a file that cannot be written.
    """
    given = (
        list(runs) if isinstance(runs, Iterable) and not isinstance(runs, str | Path) else [runs]
    )
    if not given:
        raise UserError("a report needs a run: name a folder that an evaluation wrote")
    contests: list[RunGroup] = []
    others: list[Evaluation | str | Path] = []
    for run in given:
        group = _contest(run)
        if group is None:
            others.append(run)
        else:
            contests.append(group)
    evaluations, folders, notes = _opened(others) if others else ([], [], [])
    titles, evaluations = with_matches(names_for(names, evaluations), evaluations)
    how = {"seed": seed, "exact": exact, "cluster": cluster, "panel": panel}
    groups, apart = _grouped(evaluations, titles, how)
    groups = contests + groups
    evaluations = [run for group in groups for run in group.runs]
    notes += apart + [note for group in groups for note in _warnings(group)]
    # By default in the folder that was named first: also of a compilation or a study, not of a run
    # within.
    home = given[0].folder if isinstance(given[0], Evaluation) else given[0]
    path = (Path(home) / REPORT if out is None else Path(out)).expanduser()
    headline = _headline(groups, folders, len(folders) == len(given))
    shown = runs_of(groups)
    cited = _cited(shown)
    tracked = [run.run_id for run in evaluations if run.run_id] if tracking else []
    traces = trace_pages(tracked) if tracked else {}
    _write(path, page_of(groups, shown, folders, notes, headline, traces, cited))
    exported = export_report(groups, shown, Path(export).expanduser()) if export else []
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
        "exported": [str(file) for file in exported],
        **_figures(groups, shown, folders),
        "warnings": notes,
    }
    return Report(path, headline, scrubbed(figures))


def _contest(run: Evaluation | str | Path) -> RunGroup | None:
    """The runs of the contest in a folder; None for anything else."""
    result = contest_result(Path(run).expanduser()) if isinstance(run, str | Path) else None
    if result is None or not result.runs:
        return None
    runs = [earlier(folder) for folder in result.runs.values()]
    return RunGroup(list(result.runs), runs, contest=result)


def _opened(
    given: Sequence[Evaluation | str | Path],
) -> tuple[list[Evaluation], list[Folder], list[str]]:
    evaluations: list[Evaluation] = []
    folders: list[Folder] = []
    empty: list[Path] = []
    for run in imported_runs(given):
        if isinstance(run, Evaluation):
            if run.summary.counts["rows"]:
                evaluations.append(run)
            else:
                empty.append(run.folder)
            continue
        if not isinstance(run, str | Path):
            earlier(run)  # says what is wrong with it
        folder = Path(run).expanduser()
        results = _results(folder)
        for place in _places(folder, results) if results else [folder]:
            rows = place / RESULTS
            if (place / MANIFEST).exists() and not (rows.exists() and rows.stat().st_size):
                empty.append(place)
            else:
                evaluations.append(run_or_match(place))
        folders += results
    if not evaluations and not folders:
        raise UserError(f"{empty[0]} has no finished row yet: run its evaluation first")
    return (
        evaluations,
        folders,
        [f"Left out: {folder} has no finished row yet." for folder in empty],
    )


def _places(folder: Path, results: Sequence[Folder]) -> list[Path]:
    """The runs within: of a compilation the one before and that of the winner after it; of a study
    the validation of the default and of the winner.
    """
    places = [folder / "before", *(folder / name for name in VALIDATED)]
    for one in results:
        result = one.content.get("result")
        selection = result.get("selection") if isinstance(result, dict) else None
        winner = selection.get("candidate") if isinstance(selection, dict) else None
        if isinstance(winner, str) and winner == Path(winner).name:  # no way out of the folder
            places.insert(1, folder / "after" / winner)
    return [place for place in places if (place / MANIFEST).exists()]


def _results(folder: Path) -> list[Folder]:
    results = []
    for name, kind in FOUND.items():
        if not (folder / name).is_file():
            continue
        try:
            content = json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            raise UserError(
                f"{folder / name} is damaged: run the {kind} again, or leave the folder out"
            ) from None
        results.append(
            Folder(folder, kind, content if isinstance(content, dict) else {"": content})
        )
    return results


def _grouped(
    runs: Sequence[Evaluation], names: Sequence[str], how: Mapping[str, Any]
) -> tuple[list[RunGroup], list[str]]:
    """Each run with the first group whose questions it shares; and, in words, which are not
    compared.
    """
    groups: list[tuple[list[str], list[Evaluation], dict[str, int]]] = []
    apart = []
    for run, name in zip(runs, names, strict=True):
        asked = asked_in(run)
        for names_in, runs_in, shared in groups:
            try:
                ids = shared_questions((shared, asked), (names_in[0], name))
            except UserError as problem:
                apart.append(f"{name} is shown apart from {names_in[0]}: {problem}.")
                continue
            names_in.append(name)
            runs_in.append(run)
            for other in shared.keys() - set(ids):
                del shared[other]
            break
        else:
            groups.append(([name], [run], asked))
    return [
        RunGroup(
            names_in,
            runs_in,
            compare(*runs_in, names=names_in, **how) if len(runs_in) > 1 else None,
        )
        for names_in, runs_in, _ in groups
    ], apart


def _headline(groups: Sequence[RunGroup], folders: Sequence[Folder], alone: bool) -> str:
    """What the folders of other commands say themselves, if nothing else is shown; else what is
    compared.
    """
    own = [one.verdict for one in folders]
    if alone and all(own):
        several = len(own) > 1
        return "; ".join(
            f"{one.name}: {one.verdict}" if several else one.verdict for one in folders
        )
    headlines = [group.contest.sentences[0] for group in groups if group.contest is not None]
    headlines += [group.comparison.headline for group in groups if group.comparison is not None]
    if headlines:
        return " ".join(headlines)
    if not groups:
        return f"A {folders[0].kind}: {folders[0].name}"
    if groups[0].failure:
        return f"No verdict: {groups[0].failure}"
    summary = groups[0].runs[0].summary
    score, interval = score_words(summary.metric, summary.main)
    right = summary.metric == ACCURACY
    score = f"is right on {score.removesuffix(' right')}" if right else f"has {score}"
    return f"{groups[0].names[0]} {score} (95% interval {interval})"


def _warnings(group: RunGroup) -> list[str]:
    notes = list(group.comparison.notes) if group.comparison is not None else []
    for name, run in zip(group.names, group.runs, strict=True):
        counts = run.summary.counts
        if group.comparison is None and group.contest is None:
            notes += run_notes(name, counts, run.summary.finished)
        if counts["unreadable"]:
            notes.append(
                f"{counts['unreadable']:,} of the {counted(counts['rows'], 'answer')} of {name} "
                f"could not be "
                f"read and {'counts' if counts['unreadable'] == 1 else 'count'} as wrong."
            )
        if silent := unmetered_line(run.summary):
            notes.append(f"{name}: {silent}.")
        if run.summary.stopped and group.contest is None:
            notes.append(f"{name} was stopped: {run.summary.stopped}.")
    if group.comparison is not None:
        against = group.comparison.against
        causes = [f"{pair.cause}." for pair in against]
        # Of many runs, only the pairs with the first have their notes on the page.
        pairs = against if len(group.runs) > MOST_NOTED else group.comparison.pairs
        for note in (note for pair in pairs for note in pair.notes):
            notes += [] if note in notes or note in causes else [note]
    return notes


def _cited(shown: Sequence[Sequence[ShownRun]]) -> list[str]:
    """The papers of the protocols that ran."""
    programs = [run.evaluation.summary.run["program"] for runs in shown for run in runs]
    return bibtex(protocols_in(programs))


def _figures(
    groups: Sequence[RunGroup], shown: Sequence[Sequence[ShownRun]], folders: Sequence[Folder]
) -> dict[str, object]:
    return {
        "groups": [
            {
                "comparison": group.comparison.to_dict() if group.comparison is not None else None,
                "contest": group.contest
                and {
                    "sentences": group.contest.sentences,
                    "winner": group.contest.winner,
                    "course": group.contest.course,
                },
                "runs": [
                    {
                        "name": run.name,
                        "folder": str(run.evaluation.folder),
                        **run.evaluation.summary.to_dict(),
                    }
                    for run in runs
                ],
            }
            for group, runs in zip(groups, shown, strict=True)
        ],
        "folders": [
            {"folder": str(one.path), "kind": one.kind, "told": one.content} for one in folders
        ],
    }


def _write(path: Path, page: str) -> None:
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file for the page, such as {path / REPORT}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, page)
    except OSError as problem:
        raise UserError(
            f"{path} cannot be written ({problem.strerror or problem}): choose another --out"
        ) from None
