"""Retrieval for agents: the search itself, and how a program describes it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import dspy

from ..base.errors import checked_among
from ..reading.row import Passage

if TYPE_CHECKING:
    from ..environment.base import Environment as Environment
    from .seat import Seat
else:
    # Not imported here, since most programs search nothing and only name the type.
    Environment = object

PASSAGES = 3
RETRIEVALS = ("queries", "question")
checked_retrieval = partial(checked_among, allowed=RETRIEVALS)


class Retrieval:
    """Searches an environment; without one it finds nothing."""

    def __init__(self, environment: Environment | None) -> None:
        self.environment = environment

    async def look_up(self, query: str) -> list[Passage]:
        """Return the passages for a query, possibly none."""
        if self.environment is None:
            return []
        observations = await self.environment.evidence(query, passages=PASSAGES)
        return [
            Passage(title=item.title, text=item.text, source=item.source)
            for item in observations
            if item.found
        ]


def with_queries(seats: Iterable[Seat]) -> list[Seat]:
    """Return all agents that are asked: each seat, and behind it the one that writes its
    queries.
    """
    asked: list[Seat] = []
    for seat in seats:
        asked.append(seat)
        if seat.query is not None:
            asked.append(seat.query)
    return asked


def environment_named(environment: Environment | None) -> dict[str, object]:
    """Return the environment as an entry of a program's description, where it is None without
    one.
    """
    return {"environment": None if environment is None else environment.fingerprint}


def retrieval_settings(seats: Iterable[Seat], environment: Environment | None) -> dict[str, object]:
    """Return the entries of a program's description on retrieval: the environment, and whether
    agents search for the question or for at most so many queries. Empty if no agent searches.
    """
    informed = [seat for seat in seats if isinstance(getattr(seat, "retrieval", None), Retrieval)]
    settings = environment_named(environment) if informed else {}
    if any(seat.query for seat in informed):
        settings |= {"retrieval": "queries", "max_queries": informed[0].max_queries}
    elif any(seat.retrieval.environment is not None for seat in informed):
        settings |= {"retrieval": "question"}
    return settings


def environments_in(program: dspy.Module) -> list[Environment]:
    """Return all environments that the parts of a program search; of a combined one, its parts."""
    environments: list[Environment] = []
    for _, part in program.named_sub_modules(dspy.Module):
        retrieval = getattr(part, "retrieval", None)
        if isinstance(retrieval, Retrieval) and retrieval.environment is not None:
            place = retrieval.environment
            environments += getattr(place, "parts", (place,))
    return environments
