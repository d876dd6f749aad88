"""Agents that look things up: passages from an environment, found by queries that they write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import dspy

from ...signatures.roles import QUERIES, Querying
from ..base.calls import metered
from ..base.fence import cut, one_line
from ..base.together import together
from ..reading.row import TurnDetails
from ..reading.steps import parts_of
from .retrieval import Retrieval
from .seat import Seat, forget
from .transcript import Task, Turn

if TYPE_CHECKING:
    from ..environment.base import Environment

MAX_QUERY_CHARS = 300


class InformedSeat(Seat):
    """An agent that looks things up each time before it speaks.

    Args:
        name, signature, sampling: as of any agent (`Seat`).
        environment: where it searches; without one its prompt says that nothing was found.
        retrieval: `queries` to search for queries that it writes, as a second agent `NAME.query`;
            `question` to search for the question.
        max_queries: the most queries that it writes.
    """

    def __init__(
        self,
        name: str,
        signature: type[dspy.Signature],
        environment: Environment | None,
        retrieval: str = "queries",
        max_queries: int = 2,
        *,
        sampling: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name, signature, sampling=sampling)
        self.retrieval, self.max_queries = Retrieval(environment), max_queries
        if environment is not None and retrieval == "queries":
            desc = QUERIES.format(most=max_queries)
            querying = Querying.with_updated_fields("queries", desc=desc)
            self.query = Seat(f"{name}.query", querying, sampling=sampling)

    async def ask(self, task: Task, **how: Any) -> Turn:
        """As `Seat.ask`, with passages that were looked up first. The turn's `details` have its
        `queries`, and `fallback="question"` if they found nothing and the question was searched.
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
            # A query may be sent to a server, so it gets no more of an LM's text than it needs.
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
