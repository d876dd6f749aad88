"""An LM for tests of compilation: it answers well with a key sentence or demonstrations."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import folkmoot as fm

KEY = "Mind the colour of the sky."
COLOURS = {"A": "red", "B": "blue", "C": "green"}
RULE = "Think about what is asked, way number {}."

Body = dict[str, Any]
Reply = Callable[[Body], str]


def colours(n: int, name: str) -> list[fm.Question]:
    """Questions NAME0, NAME1, … with the gold answers A, B, C in turn."""
    asked = []
    for i in range(n):
        known: Any = {"id": f"{name}{i}", "question": f"Which colour has {name} number {i}?"}
        known |= {"answer": "ABC"[i % 3], "meta": {"secret": f"meta of {name}{i}"}}
        asked.append(fm.Question(choices=COLOURS, **known))
    return asked


def digest(*parts: Any) -> int:
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:6], "big")


def is_proposal(body: Body) -> bool:
    return "response_format" not in body


def gold_of(body: Body) -> str:
    asked = re.findall(r"Which colour has \w+ number (\d+)\?", body["messages"][-1]["content"])
    return "ABC"[int(asked[-1]) % 3]


def answering(body: Body, right: bool) -> str:
    """A reply with every field that is asked for."""
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    gold = gold_of(body)
    said = gold if right else "ABC"[("ABC".index(gold) + 1) % 3]
    other = {"action": f"Finish[{said}]", "decision": "accept"}
    filled_in = {}
    for name, spec in fields.items():
        usual = (spec.get("enum") or [other.get(name, "because")])[0]
        filled_in[name] = said if name == "answer" else usual
    return json.dumps(filled_in)


def proposing(body: Body, instructions: str) -> str:
    """A reply in the form of DSPy's chat adapter, with the same words in every field."""
    text = body["messages"][0]["content"]
    listed = text.split("Your output fields are:")[1].split("All interactions")[0]
    modules = set(re.findall(r"^Module (\S+)$", body["messages"][-1]["content"], re.MULTILINE))
    parts = []
    for name in re.findall(r"^\d+\. `(\w+)`", listed, re.MULTILINE):
        advice = json.dumps(dict.fromkeys(sorted(modules), instructions))
        parts.append(f"[[ ## {name} ## ]]\n{advice if name == 'module_advice' else instructions}\n")
    return "\n".join([*parts, "[[ ## completed ## ]]"])


def of_instructions(
    *, share: int = 30, varied: bool = False, right_after: int | None = None
) -> Reply:
    """Right where the instructions hold KEY, else on `share` of 100; half the proposals hold it.

    The same request gets the same reply, unless `varied`: then proposals differ, and every
    so-manieth answer to the same request (`right_after`) is right, too.
    """
    times: Counter[int] = Counter()

    def reply(body: Body) -> str:
        if is_proposal(body):
            number = digest(body["messages"], body.get("temperature"))
            times[-1] += varied  # every other proposal holds it then, whatever the requests say
            number = times[-1] or number
            return proposing(body, RULE.format(number % 7) + (f" {KEY}" if number % 2 else ""))
        last = body["messages"][-1]["content"]
        lucky = digest(gold_of(body), re.findall(r"Which colour has .*", last)[-1]) % 100 < share
        if right_after is not None:
            name = digest(body["messages"])
            times[name] += 1
            lucky = lucky or times[name] % right_after == 0
        return answering(body, KEY in last or lucky)

    return reply


def of_demos(*, share: int = 30) -> Reply:
    """Right where a demonstration was shown, else on `share` of 100 questions."""

    def reply(body: Body) -> str:
        if is_proposal(body):
            return proposing(body, RULE.format(1))
        last = body["messages"][-1]["content"]
        lucky = digest(re.findall(r"Which colour has .*", last)[-1]) % 100 < share
        return answering(body, len(body["messages"]) > 2 or lucky)

    return reply


def compiled(url: str, train: int = 16, validation: int = 9, **arguments: Any) -> Any:
    """A compilation of a single agent with the LM at `url`."""
    program = arguments.pop("program", None) or fm.SingleAgent("simple")
    lm = arguments.pop("lm", None) or fm.lm("openai/scripted", api_base=url)
    held_out = colours(validation, "v") if validation else None
    given: Any = {"lm": lm, "tracking": False, "concurrency": 4, **arguments}
    return fm.compile(program, colours(train, "t"), held_out, **given)
