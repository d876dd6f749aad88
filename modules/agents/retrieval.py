"""The retriever's evidence: passages from an environment, for queries that it writes itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...signatures.roles import QUERIES, Querying
from ..base.calls import metered
from ..base.errors import UserError, checked_whole
from ..base.fence import cut, one_line
from ..base.together import together
from ..environment import Environment
from ..reading.row import Passage, TurnDetails
from ..reading.steps import parts_of
from .seat import Seat, forget
from .transcript import Task, Turn

PASSAGES = 3
MAX_QUERY_CHARS = 300
RETRIEVALS = ("queries", "question")


class Retrieval:
    """Looks things up in an environment; without one the retriever answers from memory and is told
    so.
    """

    def __init__(self, environment: Environment | None) -> None:
        self.environment = environment

    def __deepcopy__(self, memo: dict[int, Any]) -> Retrieval:
        return self  # an index is shared by all copies of a program

    async def look_up(self, query: str) -> list[Passage]:
        """The passages for a query; empty when there are none."""
        if self.environment is None:
            return []
        observations = await self.environment.evidence(query, passages=PASSAGES)
        return [
            {"title": item.title, "text": item.text, "source": item.source}
            for item in observations
            if item.found
        ]


def query_seat(
    retrieval: str, max_queries: int, environment: Any, sampling: Mapping[str, object] | None
) -> Seat | None:
    """The seat that writes the queries of a retriever; None without an environment, or where the
    question itself is the query. Raises UserError for an unknown `retrieval`, and fewer than one
    query.
    """
    if retrieval not in RETRIEVALS:
        raise UserError(f"there is no retrieval {retrieval!r}: choose {' or '.join(RETRIEVALS)}")
    checked_whole("max_queries", max_queries)
    if retrieval == "question" or environment is None:
        return None
    signature = Querying.with_updated_fields("queries", desc=QUERIES.format(most=max_queries))
    return Seat("retriever.query", signature, sampling=sampling)


async def informed(
    agent: Seat,
    query: Seat,
    most: int,
    retrieval: Retrieval,
    task: Task,
    *,
    round: int = 1,
    discussion: Sequence[Turn] = (),
) -> Turn:
    """A retriever's turn: it writes queries, all are looked up, and it speaks in view of what was
    found.

    `details` has its `queries`. Where these find nothing, the question is looked up, with
    `fallback` set to `question`.
    """
    with metered() as usage:
        asked = await query.fill(task, discussion=discussion)
        queries = [cut(one_line(part), MAX_QUERY_CHARS) for part in parts_of(asked.queries, most)]
        if not queries:
            forget(asked)
        results = await together(retrieval.look_up(text) for text in queries)
        details: TurnDetails = {"queries": queries}
        if not any(results):
            results, details["fallback"] = [await retrieval.look_up(task.question)], "question"
        passages = {(item["title"], item["text"]): item for items in results for item in items}
        turn = await agent.ask(
            task, round=round, discussion=discussion, evidence=list(passages.values())
        )
    return replace(turn, usage=usage, details={**turn.details, **details})


def retrieval_settings(retrieval: Retrieval | None, queries: int | None = None) -> dict[str, Any]:
    """The source of pages, None for a retriever without one, and what is looked up there: so
    many queries at most, the question where these are 0, and nothing is named for None.
    """
    if retrieval is None:
        return {}
    if retrieval.environment is None:
        return {"environment": None}
    settings = {"environment": retrieval.environment.fingerprint}
    if queries is None:
        return settings
    return settings | (
        {"retrieval": "queries", "max_queries": queries} if queries else {"retrieval": "question"}
    )
