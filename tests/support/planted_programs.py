"""Programs of planted accuracy: an LM reads in its instructions how often to be right."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from scripted_lm import scripted_lm

import folkmoot as fm
from folkmoot.pipelines.testing.replies import filled, gold, text_of, wrong

TAG = re.compile(r"\[(\w+) is right in (\d+)%")


def questions(count: int) -> list[fm.Question]:
    choices = {"A": "a flask", "B": "a sieve", "C": "a net"}
    asked = []
    for n in range(count):
        text = f"What holds soup {n:04d}?"
        asked.append(fm.Question(id=f"q{n}", question=text, choices=choices, answer="ABC"[n % 3]))
    return asked


def coin(*what: Any) -> float:
    """A number in 0 … 1 that these things alone decide."""
    digest = hashlib.sha256("|".join(map(str, what)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def planted_lm(asked: Sequence[fm.Question], plain: int = 60, seed: int = 0, **more: Any) -> Any:
    """An LM as often right as a prompt's tag says, on the same questions; `plain` % without one."""
    numbers = {number_in(one.question): one for one in asked}

    def reply(body: dict[str, Any]) -> str:
        whole = " ".join(str(message["content"]) for message in body["messages"])
        tag = TAG.search(whole)
        name, percent = (tag[1], int(tag[2])) if tag else ("plain", plain)
        question = numbers[number_in(text_of(body))]
        right = coin(seed, question.id, name) < percent / 100
        return filled(body, gold(question) if right else wrong(question), "since it fits so well")

    return scripted_lm(reply, **more)


def number_in(text: str) -> str:
    found = re.findall(r"soup (\d{4})", text)
    return str(found[-1])


def solo(name: str, percent: int) -> fm.SingleAgent:
    prompts = {"simple": f"[{name} is right in {percent}%] Answer."}
    return fm.SingleAgent("simple", prompts=prompts)


def team(name: str, percent: int, members: int = 3) -> fm.Ensemble:
    agents: list[str | fm.Program] = []
    for number in range(members):
        text = f"[{name} is right in {percent}%] You are member {number}."
        agents.append(fm.SingleAgent("simple", prompts={"simple": text}))
    return fm.Ensemble(agents)
