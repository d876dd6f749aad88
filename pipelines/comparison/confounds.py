"""Reasons against a verdict, or against its usual meaning (unread answers, other LMs, other data),
and the rivals that a team must beat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from ...modules.base.saved_file import Described
from ..base.run_files import LMFields, Manifest
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
    """Return the differences of two runs other than their programs: LM (of any agent), data, prompt
    layout, sampling. Each is worded to follow "they differ in", such as `LM (talk: a, b as judge;
    cot: a)`.
    """
    found = list[str]()

    def note(what: str, first: str, second: str) -> None:
        if first != second:
            found.append(f"{what} ({names[0]}: {first}; {names[1]}: {second})")

    one, other = (run.summary.run for run in runs)
    if _by_agent(one.lms) == _by_agent(other.lms):
        # A provider may answer with another model than the name asked for, such as a newer
        # snapshot.
        models = [", ".join(run.summary.models) for run in runs]
        if all(models):
            note("the LM that answered", *models)
    # The best of a run's LMs, each run alone, is its fair opponent, whatever its LM.
    elif not one.endpoints <= _tried(runs[1]) and not other.endpoints <= _tried(runs[0]):
        if _seated(one.lms) == _seated(other.lms):  # of one name, at two addresses
            note("LM", _seated(one.lms, "endpoint"), _seated(other.lms, "endpoint"))
        note("LM", _seated(one.lms), _seated(other.lms))
    if one.data_fingerprint != other.data_fingerprint:
        if one.questions == other.questions:
            found.append("data (their files are not the same)")
        note("data", f"{one.questions:,} questions", f"{other.questions:,} questions")
    _note_settings(note, "prompt layout", "profile", one, other)
    _note_settings(note, "sampling", "settings", one, other)
    note("prompt layout", _layout(one.program), _layout(other.program))
    return found


def _note_settings(
    note: Callable[..., None], what: str, key: str, one: Manifest, other: Manifest
) -> None:
    """Note the differing settings of the first LM that both runs have with other settings."""
    others = _by_endpoint(other)
    for endpoint, lm in _by_endpoint(one).items():
        # Without the LM in the other run, it is compared with itself, and nothing is noted.
        settings = lm.get(key) or {}, others.get(endpoint, lm).get(key) or {}
        if settings[0] != settings[1]:
            note(what, *_differing(*settings))
            break


def _by_endpoint(run: Manifest) -> dict[str, LMFields]:
    return {lm.endpoint: lm for lm in run.lms.values()}


def _differing(one: Mapping[str, object], other: Mapping[str, object]) -> tuple[str, str]:
    """Return the settings that differ, in words, for each of the two."""
    texts = list[str](), list[str]()
    for key in {**one, **other}:
        if one.get(key) == other.get(key):
            continue
        for text, settings in zip(texts, (one, other), strict=True):
            value = json.dumps(settings[key]) if key in settings else "not set"
            text.append(f"{key} {value}")
    return ", ".join(texts[0]), ", ".join(texts[1])


def _layout(program: Described) -> str:
    """Return who writes the prompts of a program."""
    if program.get("program") == "command":
        return "the command's own"
    if program.get("program") != "foreign":
        return "folkmoot's"
    return str(program.get("adapter") or "DSPy's own, or the program's")


def rivals_of(
    runs: Mapping[str, Evaluation], compared: Sequence[Compared], prices: QuestionPrices
) -> dict[str, Rivals]:
    """Return, for each team, the rivals that it must beat to be called better. A team is a program
    that is not one agent and makes at least two calls per question.
    """
    samples = {}
    for name, run in runs.items():
        program: Described = run.summary.run.program
        # One that is shown near examples is the program inside.
        if isinstance(program.get("of"), Mapping):
            program = program["of"]
        if program.get("program") == SINGLE:
            samples[name] = program.get("samples")
    one_prompt = [name for name, times in samples.items() if times is None]
    rivals = {}
    for team in compared:
        calls, lms = team.takes.calls, runs[team.name].summary.run.endpoints
        # The bill of one call pays for one sample, which is the one prompt itself.
        if team.name in samples or calls is None or calls < 2 * team.answers:
            continue
        k_times = []
        for name, times in samples.items():
            own = runs[name].summary.run.endpoints
            fair = lms <= _tried(runs[name]) or (len(lms) == 1 and lms == own)
            # As often as the bill allows: one more sample would not fit.
            if isinstance(times, int) and fair:
                bill = prices.each[name] * (times + 1)
                if bill >= ROUGHLY * times * prices.each[team.name]:
                    k_times.append(name)
        rivals[team.name] = Rivals(one_prompt, k_times, max(1, len(lms)))
    return rivals


def unread_cause(run: Compared, evaluation: Evaluation) -> str:
    """Return why answers of a run could not be read, and advice, without a full stop."""
    lms = evaluation.summary.run.lms.values()
    limits = {(lm.settings or {}).get("max_tokens") for lm in lms} - {None}
    return say("unread_reason", run, list(limits))


def _tried(run: Evaluation) -> set[str]:
    """Return the LMs among which a matched baseline was chosen."""
    return set(run.summary.run.settings.alone or ())


def _by_agent(lms: Mapping[str, LMFields]) -> dict[str, str] | set[str]:
    """Return the LM of each agent, or the LM alone where all agents have the same one."""
    endpoints = {agent: str(lm.endpoint) for agent, lm in lms.items()}
    alone = set(endpoints.values())
    if len(alone) == 1:
        return alone
    return endpoints


def _seated(lms: Mapping[str, LMFields], field: Literal["name", "endpoint"] = "name") -> str:
    """Return the LMs in words, with their agents where there are several."""
    several = isinstance(_by_agent(lms), dict)
    words = list[str]()
    for agent, lm in lms.items():
        word = str(lm[field])
        if several and agent != "*":
            word += f" as {agent}"
        words.append(word)
    return ", ".join(dict.fromkeys(words))
