"""What prevents or confounds a verdict (unread answers, other LMs, other data), and which rivals a
team must beat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, Final, Literal

from ...modules.base.saved_file import Described
from ..base.run_files import LMFields
from ..evaluation.earlier import Evaluation
from .compared import Compared
from .verdict import QuestionPrices, Rivals
from .words import say

SINGLE = "single"
"""The program of one agent, as manifests call it."""

ROUGHLY = 0.8
"""The tolerance of a matched bill: the pilot of a few questions may misjudge a sample's cost by
this factor.
"""

ARMS: Final = "alone"
"""Key in a matched baseline's settings: the LMs that were run alone; the baseline is the best of
them.
"""


def confounds(names: tuple[str, str], runs: tuple[Evaluation, Evaluation]) -> list[str]:
    """The differences of two runs beside their programs: LM (of any agent), data, prompt layout,
    sampling. Each is worded to follow "they differ in", such as `LM (talk: a, b as judge; cot: a)`.
    """
    differences, described = [], [run.summary.run for run in runs]
    # The best of a run's LMs, each run alone, is its fair opponent, whatever its LM.
    fair = any(_endpoints(run) <= _tried(other) for run, other in permutations(runs))
    if not fair and _places(described[0].lms) != _places(described[1].lms):
        lms = [_seated(run.lms) for run in described]
        if lms[0] == lms[1]:  # of one name, at two addresses
            lms = [_seated(run.lms, "endpoint") for run in described]
        differences.append(_each("LM", names, lms))
    # A provider may answer with another model than the name asked for, such as a newer snapshot.
    models = [", ".join(run.summary.models) for run in runs]
    same_name = _places(described[0].lms) == _places(described[1].lms)
    if same_name and all(models) and models[0] != models[1]:
        differences.append(_each("the LM that answered", names, models))
    if described[0].data_fingerprint != described[1].data_fingerprint:
        counts = [f"{run.questions:,} questions" for run in described]
        same = counts[0] == counts[1]
        differences.append(
            "data (their files are not the same)" if same else _each("data", names, counts)
        )
    for what, key in (("prompt layout", "profile"), ("sampling", "settings")):
        one, other = (_by_lm(run.lms, key) for run in described)
        apart = [lm for lm in one if lm in other and one[lm] != other[lm]]
        for lm in apart[:1]:
            differences.append(_each(what, names, _differing(one[lm], other[lm])))
    layouts = [_layout(run.program) for run in described]
    if layouts[0] != layouts[1]:
        differences.append(_each("prompt layout", names, layouts))
    return differences


def _layout(program: Described) -> str:
    """Who writes the prompts of a program."""
    if program.get("program") == "command":
        return "the command's own"
    if program.get("program") != "foreign":
        return "folkmoot's"
    return str(program.get("adapter") or "DSPy's own, or the program's")


def rivals_of(
    runs: Mapping[str, Evaluation], compared: Sequence[Compared], prices: QuestionPrices
) -> dict[str, Rivals]:
    """The rivals that each team has to beat before it is called better. A team is a program that is
    not one agent and makes at least two calls per question.
    """
    agents = {name: run for name, run in runs.items() if _program(run).get("program") == SINGLE}
    samples = {name: _program(run).get("samples") for name, run in agents.items()}
    one_prompt = [name for name in agents if samples[name] is None]
    rivals = {}
    for team in compared:
        calls, lms = team.takes.calls, _endpoints(runs[team.name])
        # The bill of one call pays for one sample, which is the one prompt itself.
        if team.name in agents or calls is None or calls < 2 * team.answers:
            continue
        k_times = [
            name
            for name, run in agents.items()
            if isinstance(k := samples[name], int)
            and (lms <= _tried(run) or (len(lms) == 1 and lms == _endpoints(run)))
            # As often as the bill allows: one more sample would not fit.
            and prices.each[name] * (k + 1) >= ROUGHLY * k * prices.each[team.name]
        ]
        rivals[team.name] = Rivals(one_prompt, k_times, max(1, len(lms)))
    return rivals


def _program(run: Evaluation) -> Described:
    """The description of a run's program in its manifest; of a nearest-neighbour program, that of
    the inner one.
    """
    program: Described = run.summary.run.program
    return program["of"] if isinstance(program.get("of"), Mapping) else program


def unread_cause(run: Compared, evaluation: Evaluation) -> str:
    """Why answers of a run could not be read, and what to do about it, without a full stop."""
    lms = evaluation.summary.run.lms.values()
    # LMs with different limits have no number in common that the sentence could name.
    limits = {(lm.settings or {}).get("max_tokens") for lm in lms} - {None}
    limit = f"{limits.pop():,} tokens" if len(limits) == 1 else "the token limit"
    return say("unread_reason", run, limit)


def _endpoints(run: Evaluation) -> set[str]:
    """The different LMs of a run."""
    return {str(lm.endpoint) for lm in run.summary.run.lms.values()}


def _tried(run: Evaluation) -> set[str]:
    """The LMs that a matched baseline was chosen from."""
    return set(run.summary.run.settings.alone or ())


def _places(lms: Mapping[str, LMFields]) -> dict[str, str] | str:
    """Seat → LM, or the LM alone where all seats have the same one."""
    endpoints = {str(lm.endpoint) for lm in lms.values()}
    return (
        endpoints.pop()
        if len(endpoints) == 1
        else {seat: str(lm.endpoint) for seat, lm in lms.items()}
    )


def _seated(lms: Mapping[str, LMFields], field: Literal["name", "endpoint"] = "name") -> str:
    several = len({lm.endpoint for lm in lms.values()}) > 1
    seats = [
        f"{lm[field]} as {seat}" if several and seat != "*" else str(lm[field])
        for seat, lm in lms.items()
    ]
    return ", ".join(dict.fromkeys(seats))


def _by_lm(lms: Mapping[str, Any], key: str) -> dict[str, Mapping[str, Any]]:
    return {str(lm.endpoint): lm.get(key) or {} for lm in lms.values()}


def _differing(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [
        ", ".join(
            f"{key} {json.dumps(settings[key]) if key in settings else 'not set'}" for key in keys
        )
        for settings in (one, other)
    ]


def _each(what: str, names: Sequence[str], values: Sequence[str]) -> str:
    return (
        f"{what} ({'; '.join(f'{name}: {each}' for name, each in zip(names, values, strict=True))})"
    )
