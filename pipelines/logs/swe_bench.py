"""Reports of SWE-bench's harness and leaderboard, and the predictions of mini-SWE-agent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..base.journal import read_object
from ..base.wording import counted
from .answers import LogAnswer, Record, log_document, log_name
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
    return any(map(partial(_is_listed, document), _RESOLVED))


def _is_listed(document: Mapping[str, object], name: str) -> bool:
    return isinstance(document.get(name), list)


def swe_bench_report(path: Path) -> Iterator[LogAnswer]:
    """A report of the harness, or a submission's `results.json`. The agent is the file's name, or
    of `results.json` the folder's.
    """
    report = log_document(path)
    if missing := _listed(report, "incomplete_ids"):
        said = f"nothing was submitted for {counted(len(missing), 'task')}, counted as failed"
        yield LogAnswer(report.where, read_as=said)
    for task, resolved in _verdicts(report).items():
        yield task_outcome(report, task, entrant_of(path), resolved)


def _verdicts(report: Record) -> dict[str, bool]:
    """Return whether tasks are resolved, of all of which the report says it."""
    resolved = _listed(report, next(filter(partial(_is_listed, report.fields), _RESOLVED)))
    # What is pending was submitted, but its tests have not run yet.
    tasks = resolved | _listed(report, *_LISTS)
    tasks -= _listed(report, "pending_ids")
    # A task that stands in both lists cannot be told right or wrong.
    if both := resolved & _listed(report, "unresolved_ids"):
        raise report.fault(f"{min(both)} is resolved and unresolved; make the report again")
    return {task: task in resolved for task in sorted(tasks)}


def _listed(report: Record, *names: str) -> set[str]:
    tasks: set[str] = set()
    for name in filter(partial(_is_listed, report.fields), names):
        tasks.update(log_name(task, name, report.where) for task in report.members(name))
    return tasks


def swe_bench_details(path: Path) -> Iterator[LogAnswer]:
    """`per_instance_details.json`: the outcome, price and calls of each task; or its outcome alone,
    as in `eval_results.json` of SWE-bench Pro and in the `report.json` of each task.
    """
    yield from _details(log_document(path), entrant_of(path))


def leaderboards(path: Path) -> Iterator[LogAnswer]:
    """`leaderboards.json` of SWE-bench's site: its entries that say what became of each task."""
    seen: set[str] = set()
    for board in log_document(path).objects("leaderboards"):
        for entry in board.objects("results"):
            agent, details = entry.name("name"), entry.inner("per_instance_details")
            # The same entry stands on several boards.
            if details.fields and agent not in seen:
                seen.add(agent)
                yield from _details(details, agent)


def _details(details: Record, agent: str) -> Iterator[LogAnswer]:
    for task, value in details.fields.items():
        if isinstance(value, bool):
            value = {"resolved": value}
        found = Record(f"{details.where}, {task}", value, task)
        cost, calls = found.amount("cost"), found.count("api_calls")
        yield task_outcome(found, task, agent, found.right("resolved"), cost=cost, calls=calls)


def mini_swe_agent(path: Path) -> Iterator[LogAnswer]:
    """Read `preds.json` of SWE-agent or mini-SWE-agent, with a trajectory of each task in the same
    folder. A report of the harness, there or in `results` below, says which patches are right;
    without one, only tasks without a patch are known to have failed.
    """
    verdicts = _verdicts_beside(path)
    for task, value in log_document(path).fields.items():
        predicted = Record(f"{path}, {task}", value, task)
        resolved = verdicts.get(task)
        if resolved is None and predicted.text("model_patch") is not None:
            yield predicted.left_out("whose patch no report of the harness beside it judges")
            continue
        info = _trajectory(path.parent, task)
        yield task_outcome(
            predicted,
            task,
            predicted.text("model_name_or_path") or entrant_of(path),
            bool(resolved),
            cost=info.amount("model_stats.instance_cost"),
            calls=info.count("model_stats.api_calls"),
            text=info.text("exit_status"),
        )


def _verdicts_beside(path: Path) -> dict[str, bool]:
    """Return the verdicts of the first report beside predictions; empty without one."""
    beside = [*sorted(path.parent.glob("*.json")), *sorted(path.parent.glob("results/*.json"))]
    for other in beside:
        # None of some other file, which need not hold an object.
        document = None if other.is_symlink() else read_object(other)
        report = Record(str(other), document)
        if is_report(report.fields):
            return _verdicts(report)
    return {}


def _trajectory(folder: Path, task: str) -> Record:
    """Return the `info` of a task's trajectory; empty where there is none."""
    named = (f"{task}.traj.json", f"{task}.traj")
    for place in [folder / below / name for below in (task, "") for name in named]:
        # A task's name comes from the log, and must not lead out of its folder.
        if place.is_file() and folder.resolve() in place.resolve().parents:
            return log_document(place).inner("info")
    return Record("", None)


def task_outcome(
    record: Record, task: object, agent: object, solved: bool | None, **more: Any
) -> LogAnswer:
    """What became of a task; tasks of one repository are a cluster."""
    name, who = log_name(task, "task", record.where), log_name(agent, "agent", record.where)
    cluster = repository_of(name)
    return LogAnswer(record.where, name, who, None, solved, outcome=True, cluster=cluster, **more)
