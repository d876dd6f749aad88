"""Seats that look things up: passages from an environment, for queries that they write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import dspy

from ...signatures.roles import QUERIES, Querying
from ..base.calls import metered
from ..base.errors import checked_among
from ..base.fence import cut, one_line
from ..base.together import together
from ..environment.base import Environment
from ..reading.row import Passage, TurnDetails
from ..reading.steps import parts_of
from .seat import Seat, forget
from .transcript import Task, Turn

PASSAGES = 3
MAX_QUERY_CHARS = 300
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


class InformedSeat(Seat):
    """A seat that looks things up each time before it speaks.

    Args: name, signature: as of any seat. environment: where it looks; without one it
        speaks from memory, and is told that nothing was found.
        retrieval: `queries`, which it writes itself in the seat `NAME.query`, or `question`, which
            is looked up as it is.
        max_queries: how many queries at most.
    """

    def __init__(
        self,
        name: str,
        signature: type[dspy.Signature],
        environment: Environment | None,
        retrieval: str = RETRIEVALS[0],
        max_queries: int = 2,
    ) -> None:
        super().__init__(name, signature)
        self.retrieval, self.max_queries = Retrieval(environment), max_queries
        if environment is not None and retrieval == RETRIEVALS[0]:
            desc = QUERIES.format(most=max_queries)
            querying = Querying.with_updated_fields("queries", desc=desc)
            self.query = Seat(f"{name}.query", querying)

    async def ask(self, task: Task, **how: Any) -> Turn:
        """A turn in view of what was looked up. `details` has its `queries`; where these find
        nothing, the question is looked up, with `fallback` set to `question`.
        """
        if self.query is None:
            return await super().ask(
                task, evidence=await self.retrieval.look_up(task.question), **how
            )
        with metered() as usage:
            asked = await self.query.fill(
                task, discussion=how.get("discussion", ()), rollout=how.get("rollout")
            )
            parts = parts_of(asked.queries, self.max_queries)
            # A query may go out to a server: one line, and no more of the LM's text than a search
            # needs.
            queries = [cut(one_line(part), MAX_QUERY_CHARS) for part in parts]
            if not queries:
                forget(asked)
            results = await together(self.retrieval.look_up(text) for text in queries)
            details = TurnDetails(queries=queries)
            if not any(results):
                results = [await self.retrieval.look_up(task.question)]
                details["fallback"] = "question"
            # Two queries may find the same passage, which is shown once.
            passages = {
                (passage.title, passage.text): passage for passage in chain.from_iterable(results)
            }
            turn = await super().ask(task, evidence=list(passages.values()), **how)
        return replace(turn, usage=usage, details=turn.details.but(**details))


def with_queries(seats: Iterable[Seat]) -> list[Seat]:
    """The seats, each with the one that writes its queries."""
    asked: list[Seat] = []
    for seat in seats:
        asked.append(seat)
        if seat.query is not None:
            asked.append(seat.query)
    return asked


def environment_named(environment: Environment | None) -> dict[str, Any]:
    """A program's source of pages, None without one."""
    return {"environment": None if environment is None else environment.fingerprint}


def retrieval_settings(seats: Iterable[Seat], environment: Environment | None) -> dict[str, Any]:
    """The program's source of pages, and what seats look up: so many queries at most, or the
    question; empty where no seat looks anything up.
    """
    informed = [seat for seat in seats if isinstance(seat, InformedSeat)]
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
