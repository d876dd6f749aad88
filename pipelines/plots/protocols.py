"""The plots of a program's report, ready to be drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...modules.protocols.registry import PROTOCOLS
from . import evaluation

AGREEMENT = "How often each two agents gave the same answer, in the last round where they talked."


class Drawing(NamedTuple):
    """A function that draws a protocol's report, (report, path) → whether there was anything to
    show, and the picture's caption.
    """

    draw: Callable[..., bool]
    caption: str


def drawings(program: str, report: Mapping[str, object]) -> dict[str, Drawing]:
    """Return the functions that draw a program's report, by the picture's name: the plot that its
    protocol declares, and the agreement of agents, if the report has it.
    """
    pictures = {}
    protocol = PROTOCOLS.find(program)
    if protocol is not None and protocol.plot is not None:
        draw = protocol.plot.draw
        # Protocols stand on a lower floor, and name plots of ours by text.
        if isinstance(draw, str):
            draw = getattr(evaluation, draw)
        pictures[program] = Drawing(draw, protocol.plot.caption)
    if report.get("agreement"):
        pictures["agreement"] = Drawing(evaluation.agreement_plot, AGREEMENT)
    return pictures
