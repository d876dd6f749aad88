"""The plot that a protocol declares, ready to be drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...modules.protocols.registry import PROTOCOLS
from . import evaluation, network


class Drawing(NamedTuple):
    """What draws a protocol's report, (report, path, tall=False) → whether there was anything to
    show.

    `caption` says what that shows.
    """

    draw: Callable[..., bool]
    caption: str


def plot_of(program: Any) -> Drawing | None:
    """The plot of the protocol of that name; None for one without, and for a protocol that nobody
    knows.
    """
    protocol = PROTOCOLS.find(program)
    if protocol is None or protocol.plot is None:
        return None
    draw = protocol.plot.draw
    if not isinstance(draw, str):
        return Drawing(draw, protocol.plot.caption)
    room = next(room for room in (evaluation, network) if hasattr(room, draw))
    return Drawing(getattr(room, draw), protocol.plot.caption)
