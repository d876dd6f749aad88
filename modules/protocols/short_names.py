"""Short names of programs, such as `2 agents + judge`, and legends that say the rest.

Both come from what a program's `describe()` says, as `run.json` has it, so that old runs can be
named without importing the program or DSPy.
"""

from __future__ import annotations

from pathlib import Path

from ..base.saved_file import Described
from ..reading.row import DECIDERS


def short_name(described: Described, examples: int = 0) -> str:
    """Name a program in at most a few words: who answers, and how often.

    `examples` is how many labelled questions each agent was shown. A protocol that this file does
    not know is called by its own name, and a user's own class or function by its name.
    """
    try:
        name = _named(described)
    except (KeyError, TypeError, ValueError, AttributeError):  # a file may describe anything
        name = str(described.get("program") or "program")
    if not examples:
        return name
    return f"{name}, {_count(examples, 'example')}"


def legend(described: Described) -> str:
    """Say of a program what its short name leaves out; empty where nothing is left out."""
    try:
        return "; ".join(filter(None, _details(described)))
    except (KeyError, TypeError, ValueError, AttributeError):
        return ""


def full_name(described: Described, examples: int = 0) -> str:
    """Name a program by its short name and its legend: `2 agents + judge: intuitive, critic`."""
    return ": ".join(filter(None, (short_name(described, examples), legend(described))))


def _named(described: Described) -> str:
    match str(described["program"]).partition(" ")[0]:
        case "single":
            return f"1 agent{_times(described)}"
        case "ensemble":
            members, vote = described["members"], described["vote"]
            if vote == "pick":
                return f"{_count(len(members), 'agent')}{_times(described)} + pick"
            kind = "weighted vote" if vote == "weighted" else "vote"
            return f"{kind} of {len(members)}"
        case "deliberation":
            asked = described["tie_break"]
            agents = _count(_seats(described, "roles"), "agent")
            return f"{agents} + {asked}" if asked in DECIDERS else agents
        case "team":
            return f"{_count(_seats(described, 'workers'), 'worker')} + supervisor"
        case "causal":
            evaluators = described["evaluators"]
            name = _count(described["reasoners"], "reasoner")
            if evaluators > 1:
                return f"{name} + {evaluators} evaluators"
            if evaluators:
                return f"{name} + evaluator"
            return name
        case "network":
            return f"network of {described.get('config', described)['agents']}"
        case "router":
            return f"{short_name(described['cheap'])}, else {short_name(described['team'])}"
        case "nearest":
            return f"{short_name(described['of'])}, {described['k']} near examples"
        case "command":
            return command_name(str(described["command"]))
        case "foreign":
            return str(described["class"]).rpartition(":")[2]
    return str(described["program"])


def command_name(command: str) -> str:
    """Name a command by the script that it starts, else by its program and what that is given."""
    words = command.split()
    # `env NAME=VALUE … COMMAND`: settings are no part of the name.
    if words and words[0] == "env":
        words = [word for word in words[1:] if "=" not in word]
    scripts = [word for word in words[1:] if Path(word).suffix and not word.startswith("-")]
    if scripts:
        return Path(scripts[0]).stem
    if not words:
        return command
    return " ".join([Path(words[0]).name, *words[1:]])


def _details(described: Described) -> list[str]:
    """Return the parts that the short name leaves out; the caller drops empty ones."""
    parts = _members_of(described)
    if rounds := described.get("max_rounds") or described.get("d_max"):
        parts.append(f"at most {_count(rounds, 'round')}")
    if without := described.get("without"):
        parts.append(f"without {', '.join(without)}")
    if described.get("demonstration"):
        parts.append("one-shot")
    if described.get("prompt_layout") == "role_first":
        parts.append("role first")
    if described.get("prompts"):
        parts.append("own prompts")
    if own := described.get("own_roles"):
        parts.append(f"own roles: {', '.join(own)}")
    return parts


def _members_of(described: Described) -> list[str]:
    """Return the agents, and their rule of agreement."""
    match str(described["program"]).partition(" ")[0]:
        case "single":
            return [str(described.get("role") or described["strategy"])]
        case "ensemble":
            members = [
                legend(member) if member["program"] == "single" else short_name(member)
                for member in described["members"]
            ]
            return [", ".join(members), str(described["vote"])]
        case "deliberation":
            parts, ties = [", ".join(described["roles"])], str(described["tie_break"])
            if ties != "judge":
                parts.append(f"ties: {ties}")
            return parts
        case "team":
            return [", ".join(described["workers"]), f"{described['max_steps']} steps"]
        case "network":
            return [", ".join(filter(None, described.get("config", described)["strategies"]))]
        case "router":
            return [f"{part}: {legend(described[part])}" for part in ("cheap", "team")]
        case "nearest":
            return [legend(described["of"])]
    return []


def _seats(described: Described, parameter: str) -> int:
    """Return how many seats the named roles take."""
    own = described.get("own_roles") or {}
    return sum(own.get(name, {}).get("repeats", 1) for name in described[parameter])


def _times(described: Described) -> str:
    """Return how often each agent is sampled; empty for once."""
    samples = described.get("samples")
    return f" × {samples}" if samples else ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
