"""What rows of `results.jsonl` say as outcomes: which agent answered what in which way, and was it
right.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.protocols.strategies import STRATEGIES
from ...modules.reading.answers import answer_key, score
from ...modules.reading.row import ResultRow, TurnFields
from .summary import GROUPS

UNKNOWN_LM = "lm"
"""The agent of a run whose LM nobody noted."""


def outcomes_of_row(row: ResultRow, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The outcomes in a row of `results.jsonl`, as fields of an outcome table.

    Every agent's last answer counts; of an agent alone, the row's answer. Turns that prepare an
    answer do not count. In a network an agent has a strategy for each question. Elsewhere an agent
    with the name of a strategy (`cot`, `cot.1`) has that strategy and its LM is the agent, so that
    runs of several strategies with one LM make one table; a second one of the same LM is `LM #2`.
    Agents of other names have no strategy. Right is what scores as right against the row's gold
    answer; equal answers have one spelling. A question is told from others by its id, text and
    options.

    `run` is what `run.json` says of the run, as far as known. Raises KeyError, TypeError,
    ValueError or AttributeError for a damaged row.
    """
    kind, choices = row["kind"], row.get("choices")
    last = {turn["agent"]: turn for turn in row["transcript"] if turn.get("step") is None}
    alone = len(last) == 1 and "imported" in run  # scored by who measured it
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for name, turn in last.items():
        said = row["answer"] if len(last) == 1 else turn["answer"]
        own, strategy = _agent(name, turn, run)
        agent, number = own, 1
        while (agent, strategy) in found:
            number += 1
            agent = f"{own} #{number}"
        found[agent, strategy] = {
            "question_id": _question_key(row),
            "question": row["question"],
            "group": _group(row, run),
            "agent": agent,
            "strategy": strategy,
            "answer": said if said is None or alone else answer_key(said, kind),
            "correct": row["correct"]
            if alone
            else score(said, row["gold"] or "", kind, choices).correct,
            "repeat": row["repeat"],
        }
    return list(found.values())


def _agent(name: str, turn: TurnFields, run: Mapping[str, Any]) -> tuple[str, str | None]:
    if turn.get("strategy") is not None or "imported" in run:
        return name, turn.get("strategy")
    strategy = re.sub(r"\.\d+$", "", name)
    if STRATEGIES.find(strategy) is None:
        return name, None
    lms = run.get("lms") or {}
    lm = lms.get(name) or lms.get(strategy) or lms.get("*") or {}
    return str(lm.get("name") or UNKNOWN_LM), strategy


def _question_key(row: ResultRow) -> str:
    """The row's id and a digest of the question: ids of different data sets may be the same."""
    asked = json.dumps([row["question"], row.get("choices")], ensure_ascii=False)
    return f"{row['id']} {hashlib.sha256(asked.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _group(row: ResultRow, run: Mapping[str, Any]) -> str | None:
    """The first of the groups that scores are reported by, else the name of the data set."""
    meta = row.get("meta") or {}
    for name in GROUPS:
        if meta.get(name) is not None:
            return str(meta[name])
    data = (run.get("settings") or {}).get("data")
    return Path(data).stem if isinstance(data, str) and data else None
