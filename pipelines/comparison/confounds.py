"""What keeps a verdict off or confounds it: unread answers, other LMs, data, layout or sampling."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluation.earlier import Evaluation
from .compared import Compared

ARMS = "alone"
"""In the settings of a matched baseline: the LMs that were tried alone, of which it is the best."""


def confounds(names: tuple[str, str], runs: tuple[Evaluation, Evaluation]) -> list[str]:
    """In what two runs differ beside their programs: LM (of any seat), data, prompt layout, sampling.

    Each as words that follow "they differ in", such as `LM (talk: a, b as judge; cot: a)`.
    """
    found, described = [], [run.summary.run for run in runs]
    if not _opponent_of(*runs) and _places(described[0]["lms"]) != _places(described[1]["lms"]):
        found.append(_each("LM", names, [_seated(run["lms"]) for run in described]))
    if described[0]["data_fingerprint"] != described[1]["data_fingerprint"]:
        counts = [f"{run['questions']:,} questions" for run in described]
        same = counts[0] == counts[1]
        found.append("data (their files are not the same)" if same else _each("data", names, counts))
    for what, key in (("prompt layout", "profile"), ("sampling", "settings")):
        one, other = (_by_lm(run["lms"], key) for run in described)
        apart = [lm for lm in one if lm in other and one[lm] != other[lm]]
        for lm in apart[:1]:
            found.append(_each(what, names, _differing(one[lm], other[lm])))
    layouts = [_layout(run["program"]) for run in described]
    if layouts[0] != layouts[1]:
        found.append(_each("prompt layout", names, layouts))
    return found


def _layout(program: Mapping[str, Any]) -> str:
    """Who writes the prompts of a program."""
    if program.get("program") != "foreign":
        return "folkmoot's"
    return str(program.get("adapter") or "DSPy's own, or the program's")


def fair_opponent(names: tuple[str, str], runs: tuple[Evaluation, Evaluation]) -> str:
    """Who would have to be beaten where the LMs differ, in a sentence; empty where they do not."""
    if _opponent_of(*runs):
        return ""
    lms = [run.summary.run["lms"] for run in runs]
    if _places(lms[0]) == _places(lms[1]):
        return ""
    for name, seats, others in zip(names, lms, reversed(lms), strict=True):
        known, their = ([*dict.fromkeys(lm["name"] for lm in each.values())] for each in (seats, others))
        if len(known) > 1 and len(known) >= len(their):
            return (
                f"The fair opponent of {name} is the best of its LMs alone, {' or '.join(known)}: "
                "folkmoot compare RUN --match-budget runs each"
            )
    return "The difference may be the LM's alone: a fair opponent has the same LM"


def matched_opponent(run: Evaluation, others: Mapping[str, Evaluation]) -> str | None:
    """The name of the one of the others that is the best of the run's LMs alone, where several may be."""
    lms = {lm["endpoint"] for lm in run.summary.run["lms"].values()}
    return (
        next((name for name, other in others.items() if lms <= _tried(other)), None) if len(lms) > 1 else None
    )


def unread_cause(run: Compared, evaluation: Evaluation) -> str:
    """Why answers of a run could not be read, and what to do about it, without a full stop."""
    n, other = run.answers, run.unread - run.cut_off
    found = []
    if run.cut_off:
        lms = evaluation.summary.run["lms"].values()
        limits = {(lm.get("settings") or {}).get("max_tokens") for lm in lms} - {None}
        limit = f"{limits.pop():,} tokens" if len(limits) == 1 else "the token limit"
        found.append(
            f"{run.cut_off:,} of {n:,} replies of {run.name} were cut off at {limit}: raise max_tokens"
        )
    if other:
        found.append(
            f"{other:,} of {n:,} answers of {run.name} were empty or could not be read: look at them in "
            "results.jsonl, and raise max_tokens or choose another layout or answer form for its LM"
        )
    return "; ".join(found)


def _opponent_of(one: Evaluation, other: Evaluation) -> bool:
    """Whether one of the two is the best of the other's LMs alone."""
    return any(
        {lm["endpoint"] for lm in run.summary.run["lms"].values()} <= _tried(matched)
        for run, matched in ((one, other), (other, one))
    )


def _tried(run: Evaluation) -> set[str]:
    """The LMs of which a matched baseline is the best."""
    return set(run.summary.run["settings"].get(ARMS) or ())


def _places(lms: Mapping[str, Any]) -> dict[str, str] | str:
    """Seat → LM, or the LM alone where all seats have the same one."""
    known = {str(lm["endpoint"]) for lm in lms.values()}
    return known.pop() if len(known) == 1 else {seat: str(lm["endpoint"]) for seat, lm in lms.items()}


def _seated(lms: Mapping[str, Any]) -> str:
    several = len({lm["endpoint"] for lm in lms.values()}) > 1
    said = [f"{lm['name']} as {seat}" if several and seat != "*" else lm["name"] for seat, lm in lms.items()]
    return ", ".join(dict.fromkeys(said))


def _by_lm(lms: Mapping[str, Any], key: str) -> dict[str, Mapping[str, Any]]:
    return {str(lm["endpoint"]): lm.get(key) or {} for lm in lms.values()}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [
        ", ".join(f"{key} {json.dumps(known[key]) if key in known else 'not set'}" for key in keys)
        for known in (one, other)
    ]


def _each(what: str, names: Sequence[str], said: Sequence[str]) -> str:
    return f"{what} ({'; '.join(f'{name}: {each}' for name, each in zip(names, said, strict=True))})"
