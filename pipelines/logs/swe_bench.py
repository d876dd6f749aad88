"""Reports of SWE-bench's harness and leaderboard, and the predictions of mini-SWE-agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..base.wording import counted
from .answers import (
    LogAnswer,
    json_document,
    log_amount,
    log_count,
    log_fault,
    log_left_out,
    log_list,
    log_name,
    log_object,
    log_text,
    right,
)
from .terminal_bench import entrant_of

_RESOLVED = ("resolved_ids", "resolved")
_LISTS = (
    *("submitted_ids", "completed_ids", "incomplete_ids", "unresolved_ids", "empty_patch_ids"),
    *("error_ids", "unresolved", "no_generation", "no_logs", "generated", "with_logs", "applied"),
    *("no_apply", "install_fail", "reset_failed", "test_errored", "test_timeout"),
)
"""The lists of a report, all of tasks: one that is in none of them is unknown."""

_TASK = re.compile(r"(?P<owner>.+?)(?:__|/)(?P<name>.+?)(?:-|:pr-)\d+")


def repository_of(task: str) -> str | None:
    """Return the repository of a task, such as `astropy/astropy` of `astropy__astropy-12907`, or
    `cli/cli` of `cli/cli:pr-1`: its tasks resemble one another.
    """
    found = _TASK.fullmatch(task)
    if found is None:
        return None
    return f"{found['owner']}/{found['name']}"


def is_report(document: Mapping[str, object]) -> bool:
    return any(isinstance(document.get(name), list) for name in _RESOLVED)


def swe_bench_report(path: Path) -> Iterator[LogAnswer]:
    """A report of the harness, or a submission's `results.json`. The agent is the file's name, or
    of `results.json` the folder's.
    """
    document, where = json_document(path), str(path)
    resolved, tasks = _verdicts(document, where)
    if missing := _listed(document, ("incomplete_ids",), where):
        said = f"nothing was submitted for {counted(len(missing), 'task')}, counted as failed"
        yield LogAnswer(where, "", "", None, None, read_as=said)
    for task in tasks:
        yield task_outcome(where, task, entrant_of(path), task in resolved)


def _verdicts(document: Mapping[str, object], where: str) -> tuple[set[str], list[str]]:
    """Return the tasks that are resolved, and all of which the report says whether they are."""
    named = next(name for name in _RESOLVED if isinstance(document.get(name), list))
    resolved = {log_name(task, named, where) for task in log_list(document[named], named, where)}
    # What is pending was submitted, but its tests have not run yet.
    tasks = resolved | _listed(document, _LISTS, where)
    tasks -= _listed(document, ("pending_ids",), where)
    # A task that stands in both lists cannot be told right or wrong.
    failed = log_list(document.get("unresolved_ids") or [], "unresolved_ids", where)
    if both := resolved.intersection(map(str, failed)):
        raise log_fault(where, f"{min(both)} is resolved and unresolved; make the report again")
    return resolved, sorted(tasks)


def _listed(document: Mapping[str, object], names: Iterable[str], where: str) -> set[str]:
    tasks: set[str] = set()
    for name in names:
        listed = document.get(name)
        if isinstance(listed, list):
            tasks.update(log_name(task, name, where) for task in listed)
    return tasks


def has_details(document: Mapping[str, object]) -> bool:
    first = next(iter(document.values()), None)
    # Other files, too, may begin with true or false: all values have to be outcomes.
    if isinstance(first, bool):
        return {*map(type, document.values())} == {bool}
    return isinstance(first, Mapping) and "resolved" in first


def swe_bench_details(path: Path) -> Iterator[LogAnswer]:
    """`per_instance_details.json`: the outcome, price and calls of each task; or its outcome alone,
    as in `eval_results.json` of SWE-bench Pro and in the `report.json` of each task.
    """
    yield from _details(json_document(path), entrant_of(path), str(path))


def leaderboards(path: Path) -> Iterator[LogAnswer]:
    """`leaderboards.json` of SWE-bench's site: its entries that say what became of each task."""
    document = json_document(path)
    where = str(path)
    seen: set[str] = set()
    for board in log_list(document.get("leaderboards"), "leaderboards", where):
        entries = log_object(board, "leaderboards", where).get("results")
        for entry in log_list(entries, "results", where):
            fields = log_object(entry, "results", where)
            agent = log_name(fields.get("name"), "name", where)
            details = log_object(fields.get("per_instance_details"), "per_instance_details", where)
            # The same entry stands on several boards.
            if details and agent not in seen:
                seen.add(agent)
                yield from _details(details, agent, where)


def _details(details: Mapping[str, object], agent: str, where: str) -> Iterator[LogAnswer]:
    for task, value in details.items():
        if isinstance(value, bool):
            value = {"resolved": value}
        found = log_object(value, task, where)
        cost = log_amount(found, "cost", where)
        calls = log_count(found, "api_calls", where)
        resolved = right(found.get("resolved"), "resolved", f"{where}, {task}")
        yield task_outcome(where, task, agent, resolved, cost=cost, calls=calls)


def is_predictions(document: Mapping[str, object]) -> bool:
    first = next(iter(document.values()), None)
    return isinstance(first, Mapping) and "model_patch" in first


def mini_swe_agent(path: Path) -> Iterator[LogAnswer]:
    """Read `preds.json` of SWE-agent or mini-SWE-agent, with a trajectory of each task in the same
    folder. A report of the harness, there or in `results` below, says which patches are right;
    without one, only tasks without a patch are known to have failed.
    """
    report = _report_beside(path)
    for task, value in json_document(path).items():
        where = f"{path}, {task}"
        predicted = log_object(value, task, where)
        patch = log_text(predicted.get("model_patch"))
        if report is not None and task in report[1]:
            resolved = task in report[0]
        elif patch is None:
            resolved = False
        else:
            yield log_left_out(where, "whose patch no report of the harness beside it judges")
            continue
        info = _trajectory(path.parent, task)
        used = log_object(info.get("model_stats"), "model_stats", where)
        agent = log_name(predicted.get("model_name_or_path") or entrant_of(path), "agent", where)
        cost = log_amount(used, "instance_cost", where)
        calls = log_count(used, "api_calls", where)
        ended = log_text(info.get("exit_status"))
        yield task_outcome(where, task, agent, resolved, cost=cost, calls=calls, text=ended)


def _report_beside(path: Path) -> tuple[set[str], list[str]] | None:
    beside = [*sorted(path.parent.glob("*.json")), *sorted(path.parent.glob("results/*.json"))]
    for other in beside:
        if other == path or other.is_symlink():
            continue
        try:
            document = json_document(other)
        except UserError:  # some other file of JSON
            continue
        if is_report(document):
            return _verdicts(document, str(other))
    return None


def _trajectory(folder: Path, task: str) -> Mapping[str, object]:
    """Return the `info` of a task's trajectory; empty where there is none."""
    named = (f"{task}.traj.json", f"{task}.traj")
    for place in [folder / below / name for below in (task, "") for name in named]:
        # A task's name comes from the log, and must not lead out of its folder.
        if place.is_file() and folder.resolve() in place.resolve().parents:
            return log_object(json_document(place).get("info"), "info", str(place))
    return {}


def task_outcome(where: str, task: Any, agent: str, solved: bool | None, **more: Any) -> LogAnswer:
    """What became of a task; tasks of one repository are a cluster."""
    name, who = log_name(task, "task", where), log_name(agent, "agent", where)
    cluster = repository_of(name)
    return LogAnswer(where, name, who, None, solved, outcome=True, cluster=cluster, **more)
