"""Looking things up: what seats ask for, where, and how a program describes it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import dspy

from ..base.errors import checked_among
from ..reading.row import Passage

if TYPE_CHECKING:
    from ..environment.base import Environment as Environment
    from .seat import Seat
else:
    # Most programs look nothing up, and their constructors only name the type.
    Environment = Any

PASSAGES = 3
RETRIEVALS = ("queries", "question")
checked_retrieval = partial(checked_among, allowed=RETRIEVALS)


class Retrieval:
    """Looks things up in an environment; without one the retriever answers from memory and is told
    so.
    """

    def __init__(self, environment: Environment | None) -> None:
        self.environment = environment

    async def look_up(self, query: str) -> list[Passage]:
        """The passages for a query; empty when there are none."""
        if self.environment is None:
            return []
        observations = await self.environment.evidence(query, passages=PASSAGES)
        return [
            Passage(title=item.title, text=item.text, source=item.source)
            for item in observations
            if item.found
        ]


def with_queries(seats: Iterable[Seat]) -> list[Seat]:
    """The seats, each with the one that writes its queries."""
    asked: list[Seat] = []
    for seat in seats:
        asked.append(seat)
        if seat.query is not None:
            asked.append(seat.query)
    return asked


def environment_named(environment: Environment | None) -> dict[str, object]:
    """A program's source of pages, None without one."""
    return {"environment": None if environment is None else environment.fingerprint}


def retrieval_settings(seats: Iterable[Seat], environment: Environment | None) -> dict[str, object]:
    """The program's source of pages, and what seats look up: so many queries at most, or the
    question; empty where no seat looks anything up.
    """
    informed = [seat for seat in seats if isinstance(getattr(seat, "retrieval", None), Retrieval)]
    settings = environment_named(environment) if informed else {}
    if any(seat.query for seat in informed):
        settings |= {"retrieval": "queries", "max_queries": informed[0].max_queries}
    elif any(seat.retrieval.environment is not None for seat in informed):
        settings |= {"retrieval": "question"}
    return settings


def environments_in(program: dspy.Module) -> list[Environment]:
    """Where the parts of a program look things up, each place of several by itself."""
    environments: list[Environment] = []
    for _, part in program.named_sub_modules(dspy.Module):
        retrieval = getattr(part, "retrieval", None)
        if isinstance(retrieval, Retrieval) and retrieval.environment is not None:
            place = retrieval.environment
            environments += getattr(place, "parts", (place,))
    return environments
