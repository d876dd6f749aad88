"""What tests of tuning share: an LM whose answers depend on settings, questions, studies."""

import itertools
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mortal import questions as numbered

import folkmoot as fm
from folkmoot.pipelines.testing.replies import filled, text_of
from folkmoot.pipelines.testing.server import wanted_fields

ROLES = {"explanation": "intuitive", "reasoning": "reasoner", "findings": "retriever"}
ROLES |= {"critique": "critic", "summary": "judge"}
LABELS = "ABC"


def questions(first: int, last: int) -> list[fm.Question]:
    return numbered(last)[first:]


Rule = Callable[[str, int, int, list[str]], bool]
"""(role, round, number of the question, who has spoken so far) → whether this speaker is right."""


def scripted_by(rule: Rule) -> Callable[[dict[str, Any]], str]:
    """A reply that is right when the rule says so; all who are wrong say different things."""

    def reply(body: dict[str, Any]) -> str:
        text = "\n".join(message["content"] for message in body["messages"])
        number = int(re.findall(r"Question: Question (\d+)\?", text)[-1])
        spoken = re.findall(r"<<<(\w+), round (\d+)", text)
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        role = next((ROLES[name] for name in fields if name in ROLES), "alone")
        before = [name for name, _ in spoken]
        right = rule(role, before.count(role) + 1, number, before)
        wrong = 1 if role in ("critic", "retriever") else 2
        answer = LABELS[(number + (0 if right else wrong)) % 3]
        return filled(body, answer, f"{role} says so")

    return reply


def reasoned(every: int) -> Callable[[dict[str, Any]], str]:
    """A reply that is right with a reasoning before it, else on one question of so many."""

    def reply(body: dict[str, Any]) -> str:
        number = int(re.findall(r"Question: Question (\d+)\?", text_of(body))[-1])
        right = set(wanted_fields(body)) == {"reasoning", "answer"} or number % every == 0
        return filled(body, LABELS[(number + (not right)) % 3])

    return reply


def critic_first(role: str, round: int, number: int, before: list[str]) -> bool:
    """The reasoner is right once a critic has spoken, else now and then; nobody else ever is."""
    return role == "reasoner" and ("critic" in before or number % 5 == 0)


def second_thoughts(role: str, round: int, number: int, before: list[str]) -> bool:
    """The reasoner is right on 1 of 4 questions, on 9 of 10 in round 2, on 1 of 2 later."""
    if role != "reasoner":
        return False
    return (number % 4 == 0, number % 10 != 0, number % 2 == 0)[min(round, 3) - 1]


def lm_at(url: str) -> Any:
    return fm.lm("openai/scripted", api_base=url)


ORDERS: dict[str, Any] = {"program": "deliberation", "max_rounds": 1}
ORDERS["roles"] = {"of": ["intuitive", "critic", "reasoner"], "least": 2, "most": 2}
ORDERS |= {"tie_break": ["majority", "strongest"], "sampling": {"temperature": [None, 0.7]}}


def study_at(url: str, out: Path, **options: Any) -> Any:
    """The study over orders that tests kill and resume."""
    given: dict[str, Any] = {"trials": 8, "lm": lm_at(url), "out": out}
    given |= {"tracking": False, "concurrency": 4}
    return fm.tune(ORDERS, questions(0, 20), questions(20, 30), **{**given, **options})


def killed_at(owner: Any, name: str, count: int) -> None:
    """Have this process killed when a function is called for the so-manieth time."""
    whole, calls = getattr(owner, name), itertools.count(1)

    def deadly(*arguments: Any, **named: Any) -> Any:
        if next(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments, **named)

    setattr(owner, name, deadly)


def settings_of(study: Any) -> list[Any]:
    """Every place and replayed setting with its scores: equal however a study was stopped."""
    names = ("place", "state", "setting", "scores", "told_by")
    kept = [entry for entry in study.trials if entry.state != "given back"]
    found = [[getattr(entry, name) for name in names] for entry in kept]
    return sorted(found, key=lambda entry: json.dumps(entry, sort_keys=True))


def without_numbers(study: Any, name: str) -> Any:
    """A part of a report without its clock and Optuna's numbers, which count those given back."""
    text = json.dumps(getattr(study.report, name))

    def kept(found: dict[str, Any]) -> dict[str, Any]:
        dropped = ("trial", "began", "ended")
        return {key: value for key, value in found.items() if key not in dropped}

    return json.loads(text, object_hook=kept)
