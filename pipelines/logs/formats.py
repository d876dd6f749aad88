"""The formats of logs: detects a file's format, and names its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ...modules.base.errors import UserError
from ...modules.base.files import opened
from ...modules.base.registry import Registry, instances
from .answers import LogAnswer, log_document, log_rows, table_rows
from .dialogues import dialogues
from .every_eval_ever import every_eval_ever
from .inspect_logs import inspect_log, task_of
from .lm_eval import lm_eval, task_at
from .plain import has_row_an_answer, plain
from .promptfoo import are_results, promptfoo
from .split_tables import split_table
from .swe_bench import (
    is_report,
    leaderboards,
    mini_swe_agent,
    swe_bench_details,
    swe_bench_report,
)
from .terminal_bench import harbor, harbor_job, terminal_bench
from .wide import agents_by_task, is_agents_row, outcomes_by_task, wide


class Format(NamedTuple):
    """A kind of log: its files' endings, keys that its first object has, and its reader."""

    name: str
    endings: tuple[str, ...]
    keys: frozenset[str]
    read: Callable[..., Iterator[LogAnswer]]
    scored: bool = False
    """Whether its reader takes the name of a score."""
    task: Callable[[Path], tuple[tuple[str, ...], str] | None] = lambda path: None
    """What tells the task of a log from others, and when the log was made."""
    fits: Callable[[Mapping[str, object]], bool] = lambda first: True
    """Whether its first object is of this kind, where keys alone do not tell."""


_LINES = (".jsonl", ".ndjson")
_TABLES = (*_LINES, ".csv", ".tsv", ".parquet")
_RUN_FILES = (
    *("results.json", "result.json", "preds.json"),
    *("per_instance_details.json", "eval_results.json", "report.json"),
)
"""What the harnesses of agents call their results, among files of other kinds."""


def _first_has(key: str, within: object) -> bool:
    """Return whether the first of some values is an object with this key."""
    if isinstance(within, Mapping):
        within = [*within.values()]
    first = within[0] if isinstance(within, list) and within else None
    return isinstance(first, Mapping) and key in first


_HAVE_VERDICTS, _HAVE_PATCHES = partial(_first_has, "resolved"), partial(_first_has, "model_patch")


def _is_run(document: Mapping[str, object]) -> bool:
    """Return whether this is a run of Terminal-Bench, finished or not."""
    return "resolved_ids" in document or _first_has("is_resolved", document["results"])


def _are_verdicts(document: Mapping[str, object]) -> bool:
    # Other files, too, may begin with true or false: all values have to be outcomes.
    return {*map(type, document.values())} == {bool}


_OF_AGENTS = ("terminal-bench", "harbor", "swe-bench", "mini-swe-agent")
_FORMATS = (
    Format("inspect", (".eval",), frozenset(), inspect_log, True, task_of),
    Format("inspect", (".json",), frozenset({"eval", "status"}), inspect_log, True, task_of),
    Format("lm-eval", _LINES, frozenset({"doc_id", "filtered_resps"}), lm_eval, task=task_at),
    Format(
        "every-eval-ever",
        _LINES,
        frozenset({"sample_id", "model_id", "evaluation"}),
        every_eval_ever,
    ),
    Format("dialogues", _LINES, frozenset({"question_id", "run", "turns"}), dialogues),
    Format("wide", _LINES, frozenset({"header", "agents"}), wide),
    Format("dialogues", _LINES, frozenset({"header"}), dialogues),
    Format("agents by task", _LINES, frozenset({"tasks"}), outcomes_by_task),
    # Before those of agents: with numbers as ids and answers it looks like one of them.
    Format("table", _TABLES, frozenset(), plain, fits=has_row_an_answer),
    Format("agents by task", _TABLES, frozenset(), agents_by_task, fits=is_agents_row),
    Format("terminal-bench", (".json",), frozenset({"results"}), terminal_bench, fits=_is_run),
    Format("terminal-bench", (".json",), frozenset({"is_resolved", "task_id"}), terminal_bench),
    Format("harbor", (".json",), frozenset({"trial_name", "task_name", "verifier_result"}), harbor),
    Format("harbor job", (".json",), frozenset({"n_total_trials", "stats"}), harbor_job),
    Format("swe-bench leaderboards", (".json",), frozenset({"leaderboards"}), leaderboards),
    Format("swe-bench", (".json",), frozenset(), swe_bench_report, fits=is_report),
    Format("swe-bench", (".json",), frozenset(), swe_bench_details, fits=_HAVE_VERDICTS),
    Format("swe-bench", (".json",), frozenset(), swe_bench_details, fits=_are_verdicts),
    Format("mini-swe-agent", (".json",), frozenset(), mini_swe_agent, fits=_HAVE_PATCHES),
    Format("promptfoo", _LINES, frozenset({"testIdx", "provider", "success"}), promptfoo),
    Format("promptfoo", (".json",), frozenset({"results"}), promptfoo, fits=are_results),
    Format("evaluation-table", (".json",), frozenset({"columns", "data"}), split_table, True),
    Format("table", (*_LINES, ".json", ".csv", ".tsv", ".parquet"), frozenset(), plain),
)
"""In the order in which they are tried."""


OTHERS: Registry[Format] = Registry("logs", instances(Format, "a format of logs"))
"""The formats of other packages, by their entry points."""


def known_formats() -> list[Format]:
    """Return all formats in the order in which they are tried: those of other packages first."""
    # Theirs first: a plain table of ours would take nearly every file.
    others = filter(None, map(OTHERS.find, OTHERS.names()))
    return [*others, *_FORMATS]


def _endings(formats: Sequence[Format]) -> dict[str, None]:
    return dict.fromkeys(chain.from_iterable(kind.endings for kind in formats))


def format_of(path: Path) -> Format:
    """Return the format of a file, by its ending and first object. Raises UserError for a file of
    none.
    """
    suffix = path.suffix.casefold()
    formats = known_formats()
    ours = [kind for kind in formats if suffix in kind.endings]
    if not path.is_file():
        raise UserError(f"there is no file {path}: name a log, or a folder of logs")
    # Files of other packages' kinds have endings of their own: they are named, too.
    if not ours:
        raise UserError(f"{path} is of no known type: give {', '.join(_endings(formats))}")
    first: Mapping[str, object] = {}
    if suffix in _LINES:
        first = next((row.fields for row in log_rows(path)), {})
    elif suffix in _TABLES:
        with suppress(UserError):  # which its reader will report
            first = next((row.fields for row in table_rows(path)), {})
    elif suffix == ".json":
        with opened(path) as file:
            # An array has no keys to tell it by, and need not be held in memory here.
            start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        if start.startswith(b"{"):
            first = log_document(path).fields
    return next(kind for kind in ours if kind.keys <= first.keys() and kind.fits(first))


def logs_in(place: Path) -> list[Path]:
    """Return the file itself, or the logs in a folder, not through links; of samples and other
    files the samples.
    """
    if not place.is_dir():
        return [place]
    files = sorted(file for file in place.rglob("*") if file.is_file() and not file.is_symlink())
    # Their folders hold much other JSON, such as trajectories and settings.
    if runs := _runs_of_agents(files):
        return runs
    # JSON holds anything: it is taken for logs only where there is nothing else.
    endings = _endings(known_formats()).keys() - {".json"}
    logs = [file for file in files if file.suffix.casefold() in endings]
    logs = [log for log in logs if log.name.startswith("samples_")] or logs
    logs = logs or [file for file in files if file.suffix.casefold() == ".json"]
    if not logs:
        raise UserError(f"{place} holds no log: name a file, or a folder with logs in it")
    return logs


def _runs_of_agents(files: Sequence[Path]) -> list[Path]:
    """Return the results that harnesses of agents wrote, without those that another of them
    includes.
    """
    named = [file for file in files if file.name in _RUN_FILES]
    found = [file for file in named if format_of(file).name in _OF_AGENTS]
    # `result.json` is what Harbor calls the result of a trial and of a whole job alike.
    whole = {file.parent for file in found if file.name != "result.json"}
    found = [file for file in found if not whole.intersection(file.parent.parents)]
    # A report beside predictions is read with them.
    predicted = {file.parent for file in found if file.name == "preds.json"}
    return [file for file in found if file.name == "preds.json" or file.parent not in predicted]
