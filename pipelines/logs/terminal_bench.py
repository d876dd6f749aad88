"""Results of Terminal-Bench's harness, and of Harbor, its successor.

An agent that fails has failed the task. A trial that never reached its agent says nothing about it,
so it is left out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from ...modules.base.errors import UserError
from ..base.journal import read_object
from .answers import LogAnswer, Record, log_document, log_name, right_by

_TIME = re.compile(r"\d{4}-\d\d-\d\d(__|T|_)\d\d-\d\d-\d\d.*")
_NEVER_BEGAN = "that ended before their agent began"
_UNKNOWN_ERRORS = ("unknown", "unknown_agent_error")


def entrant_of(path: Path) -> str:
    """Return the name of a log's agent where the log has none: its file's name, or that of its
    folder where the file has the name that its harness gives to all.
    """
    if path.name == "report.json":  # of one task, below its agent
        return path.absolute().parents[1].name
    if path.stem not in ("results", "result", "preds", "eval_results", "per_instance_details"):
        return path.stem.removesuffix(".results")
    # Folders that a harness names by the time, or by what is in them, say nothing of the agent.
    folder = path.absolute().parent
    while (folder.name in ("results", "runs") or _TIME.fullmatch(folder.name)) and folder.name:
        folder = folder.parent
    return folder.name or path.stem


def terminal_bench(path: Path) -> Iterator[LogAnswer]:
    """`results.json` of a run, or of one of its trials. The agent is the one of
    `run_metadata.json` beside it, else the folder's name.
    """
    document = log_document(path)
    about = Record(str(path), read_object(path.parent / "run_metadata.json"))
    agent = _agent(about.text("agent_name"), about.text("model_name")) or entrant_of(path)
    values = [document.fields]
    if "is_resolved" not in document.fields:
        values = document.members("results")
    results = [
        Record(f"{path}, result {number}", value, "results")
        for number, value in enumerate(values, start=1)
    ]
    # An entry that records no tokens writes 0 everywhere.
    counts_tokens = any(map(_tokens, results))
    for result in results:
        failure = result.text("failure_mode") or "unset"
        resolved = result.value("is_resolved")
        # Without a single token the agent never asked its LM: its set-up failed.
        failed_at_once = failure in _UNKNOWN_ERRORS and counts_tokens and not _tokens(result)
        not_begun = result.fields.get("agent_started_at", "") is None
        if resolved is not True and (
            failure == "agent_installation_failed" or failed_at_once or not_begun
        ):
            yield result.left_out(_NEVER_BEGAN)
            continue
        yield LogAnswer(
            result.where,
            result.name("task_id"),
            log_name(agent, "agent", result.where),
            # Tests that did not end, or whose output could not be read, were not passed.
            correct=resolved is not None and result.right("is_resolved"),
            question=result.text("instruction"),
            prompt_tokens=_tokens(result) if counts_tokens else None,
            completion_tokens=result.count("total_output_tokens") if counts_tokens else None,
            seconds=_seconds(result, "agent_started_at", "agent_ended_at"),
            text=None if failure in ("unset", "none") else failure,
            repeat=f"{path.parent}/{result.text('trial_name', 'id') or 1}",
            outcome=True,
        )


def _tokens(result: Record) -> int | None:
    return result.count("total_input_tokens")


def _agent(*names: str | None) -> str:
    return " ".join(filter(None, names))


def harbor(path: Path) -> Iterator[LogAnswer]:
    """`result.json` of one trial. The reward is the score."""
    trial = log_document(path)
    unjudged = trial.value("verifier_result") is None
    if unjudged and not trial.value("agent_execution.started_at"):
        yield trial.left_out(_NEVER_BEGAN)
        return
    problem = trial.text("exception_info.exception_type")
    # Harbor's errors name whose they are, such as AgentTimeoutError and VerifierTimeoutError.
    if unjudged and "Agent" not in (problem or ""):
        yield trial.left_out("that their harness could not judge")
        return
    rewards = trial.inner("verifier_result.rewards")
    names = {"reward"}.intersection(rewards.fields) or {*rewards.fields}
    if len(names) > 1:
        yield trial.left_out("with several rewards, none of which is called 'reward'")
        return
    reward = rewards.amount("reward", *names)
    if reward is None:  # of older versions; one that was never given is 0
        reward = trial.amount("verifier_result.reward") or 0.0
    agent = _agent(
        trial.text("agent_info.name", "config.agent.name"),
        trial.text("agent_info.model_info.name", "config.agent.model_name"),
    )
    yield LogAnswer(
        trial.where,
        trial.name("task_name"),
        log_name(agent or path.absolute().parents[1].name, "agent", trial.where),
        correct=right_by(reward),
        group=trial.text("source"),
        prompt_tokens=trial.count("agent_result.n_input_tokens"),
        completion_tokens=trial.count("agent_result.n_output_tokens"),
        cost=trial.amount("agent_result.cost_usd"),
        seconds=_seconds(trial, "agent_execution.started_at", "agent_execution.finished_at"),
        text=problem,
        score=reward,
        scorer="reward",
        # A job that was run again may give its trials the same names.
        repeat=f"{path.absolute().parents[1]}/{trial.value('trial_name')}",
        outcome=True,
    )


def harbor_job(path: Path) -> Iterator[LogAnswer]:
    """`result.json` of a job: its trials, each in a folder beside it."""
    trials = sorted(path.parent.glob("*/result.json"))
    if not trials:
        raise UserError(f"{path} has no trial beside it: name a job's whole folder")
    for trial in trials:
        yield from harbor(trial)


def _seconds(record: Record, began: str, ended: str) -> float | None:
    try:
        first, last = (datetime.fromisoformat(record.value(path)) for path in (began, ended))
        return max(0.0, (last - first).total_seconds())
    except (TypeError, ValueError):
        return None
