"""The user's own instructions for agents: read from a file or a mapping, and matched to agents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..base.errors import UserError

ROLE_LAST, ROLE_FIRST = LAYOUTS = ("role_last", "role_first")

_NUMBER = re.compile(r"\.\d+(?=\.|$)")


def prompts_given(prompts: object) -> dict[str, str]:
    """Return agent → instructions, from a mapping or the path of a YAML file. Raises UserError for
    anything else.
    """
    where = "prompts"
    if isinstance(prompts, str | Path):
        from ..base.yaml_file import read_yaml

        where = str(prompts)
        prompts = read_yaml(
            Path(prompts).expanduser(), "prompts", "reasoner: You weigh every option …"
        )
    if not isinstance(prompts, Mapping | None):
        raise UserError(
            f"prompts is {prompts!r}: give instructions by agent, or a YAML file with them"
        )
    for agent, instructions in (prompts or {}).items():
        if not isinstance(instructions, str) or not instructions.strip():
            raise UserError(
                f"{where}: the agent {str(agent)!r} has no instructions: write a text, or drop it"
            )
    return {str(agent): instructions.strip() for agent, instructions in (prompts or {}).items()}


def meant_for(seat: str, names: Iterable[str]) -> str | None:
    """Return the most specific of the names that mean an agent: its full name (`agent.0.cot`), that
    without numbers (`agent.cot`), or its last parts (`cot`); None if none of them means it.
    """
    plain = _NUMBER.sub("", seat)
    fitting = [name for name in names if name in (seat, plain) or plain.endswith(f".{name}")]
    return max(fitting, key=lambda name: (name == seat, name == plain, len(name)), default=None)
