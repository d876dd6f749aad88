"""How often the programs of a space can ask an LM at most, before any of them has run."""

from __future__ import annotations

import random
from typing import Any

from ...modules.base.space import key_of, options
from .network import OF_TURNS, training_turns
from .space import TuneSpace

TRIED = 100  # points of the space that the longest program is looked for among


def most_turns(space: TuneSpace) -> tuple[int, int]:
    """The most calls that a question can take, and that training a network can ask of one, among points of
    the space drawn at random."""
    dice = random.Random(0)

    def draw(_: str, values: Any) -> Any:
        known = options(values)
        return dice.choice(known) if known else dice.uniform(values.low, values.high)

    found: dict[str, tuple[int, int]] = {}
    for _ in range(TRIED):
        setting = space.point(draw)
        branch, own, _ = space.own(setting)
        if branch.trains:  # building one takes long, and most settings do not change what it asks
            own = {name: value for name, value in own.items() if name in OF_TURNS}
        key = key_of({"": branch.label, **own})
        if key not in found:
            program = branch.build(branch.parameters(own), {}, space.make_lm)
            found[key] = program.most_turns(), training_turns(program)
    return max(turns for turns, _ in found.values()), max(training for _, training in found.values())
