"""Results of Terminal-Bench's harness, and of Harbor, its successor.

An agent that fails has failed the task. A trial that never reached its agent says nothing about it,
so it is left out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..base.journal import read_object
from .answers import (
    LogAnswer,
    json_document,
    log_amount,
    log_count,
    log_left_out,
    log_list,
    log_name,
    log_object,
    log_text,
    right,
)

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


def is_run(document: Mapping[str, object]) -> bool:
    """Return whether this is a run of Terminal-Bench, finished or not."""
    if "resolved_ids" in document:
        return True
    results = document.get("results")
    if not isinstance(results, list) or not results:
        return False
    return isinstance(results[0], Mapping) and "is_resolved" in results[0]


def terminal_bench(path: Path) -> Iterator[LogAnswer]:
    """`results.json` of a run, or of one of its trials. The agent is the one of
    `run_metadata.json` beside it, else the folder's name.
    """
    document = json_document(path)
    about = read_object(path.parent / "run_metadata.json") or {}
    named = [log_text(about.get(name)) for name in ("agent_name", "model_name")]
    agent = " ".join(filter(None, named)) or entrant_of(path)
    values = [document] if "is_resolved" in document else document.get("results")
    results = [
        (f"{path}, result {number}", log_object(value, "results", str(path)))
        for number, value in enumerate(log_list(values, "results", str(path)), start=1)
    ]
    # An entry that records no tokens writes 0 everywhere.
    counts_tokens = any(result.get("total_input_tokens") for _, result in results)
    for where, result in results:
        failure = log_text(result.get("failure_mode")) or "unset"
        resolved = result.get("is_resolved")
        used = log_count(result, "total_input_tokens", where)
        # Without a single token the agent never asked its LM: its set-up failed.
        failed_at_once = failure in _UNKNOWN_ERRORS and counts_tokens and not used
        not_begun = "agent_started_at" in result and result["agent_started_at"] is None
        if resolved is not True and (
            failure == "agent_installation_failed" or failed_at_once or not_begun
        ):
            yield log_left_out(where, _NEVER_BEGAN)
            continue
        said = log_count(result, "total_output_tokens", where)
        if not counts_tokens:
            used = said = None
        trial = log_text(result.get("trial_name")) or log_text(result.get("id")) or "1"
        yield LogAnswer(
            where,
            log_name(result.get("task_id"), "task_id", where),
            log_name(agent, "agent", where),
            None,
            # Tests that did not end, or whose output could not be read, were not passed.
            resolved is not None and right(resolved, "is_resolved", where),
            question=log_text(result.get("instruction")),
            prompt_tokens=used,
            completion_tokens=said,
            seconds=_seconds(result.get("agent_started_at"), result.get("agent_ended_at")),
            text=None if failure in ("unset", "none") else failure,
            repeat=f"{path.parent}/{trial}",
            outcome=True,
        )


def harbor(path: Path) -> Iterator[LogAnswer]:
    """`result.json` of one trial. The reward is the score."""
    trial = json_document(path)
    where = str(path)
    about = log_object(trial.get("agent_info"), "agent_info", where)
    model = log_object(about.get("model_info"), "model_info", where)
    config = log_object(trial.get("config"), "config", where)
    asked = log_object(config.get("agent"), "agent", where)
    name = about.get("name") or asked.get("name")
    lm = model.get("name") or asked.get("model_name")
    names = [log_text(name), log_text(lm)]
    agent = " ".join(filter(None, names)) or path.absolute().parents[1].name
    work = log_object(trial.get("agent_execution"), "agent_execution", where)
    fault = log_object(trial.get("exception_info"), "exception_info", where)
    verdict = trial.get("verifier_result")
    if verdict is None and not work.get("started_at"):
        yield log_left_out(where, _NEVER_BEGAN)
        return
    problem = log_text(fault.get("exception_type"))
    # Harbor's errors name whose they are, such as AgentTimeoutError and VerifierTimeoutError.
    if verdict is None and "Agent" not in (problem or ""):
        yield log_left_out(where, "that their harness could not judge")
        return
    reward = _reward(log_object(verdict, "verifier_result", where), where)
    used = log_object(trial.get("agent_result"), "agent_result", where)
    between = reward not in (0, 1)
    yield LogAnswer(
        where,
        log_name(trial.get("task_name"), "task_name", where),
        log_name(agent, "agent", where),
        None,
        None if between else reward == 1,
        group=log_text(trial.get("source")),
        prompt_tokens=log_count(used, "n_input_tokens", where),
        completion_tokens=log_count(used, "n_output_tokens", where),
        cost=log_amount(used, "cost_usd", where),
        seconds=_seconds(work.get("started_at"), work.get("finished_at")),
        text=problem,
        score=reward,
        metric={"name": "reward", "rate": False} if between else None,
        # A job that was run again may give its trials the same names.
        repeat=f"{path.absolute().parents[1]}/{trial.get('trial_name')}",
        outcome=True,
    )


def harbor_job(path: Path) -> Iterator[LogAnswer]:
    """`result.json` of a job: its trials, each in a folder beside it."""
    trials = sorted(path.parent.glob("*/result.json"))
    if not trials:
        raise UserError(f"{path} has no trial beside it: name a job's whole folder")
    for trial in trials:
        yield from harbor(trial)


def _reward(verdict: Mapping[str, object], where: str) -> float:
    """Return the reward of a trial; 0 for one that was never given."""
    rewards = verdict.get("rewards")
    if isinstance(rewards, Mapping):
        value = rewards.get("reward", next(iter(rewards.values()), None))
    else:
        value = verdict.get("reward")
    return log_amount({"reward": value}, "reward", where) or 0.0


def _seconds(began: Any, ended: Any) -> float | None:
    try:
        took = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    except (TypeError, ValueError):
        return None
    return max(0.0, took.total_seconds())
