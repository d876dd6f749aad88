"""How the retriever role gets its evidence: passages from an environment, looked up once a question."""

from __future__ import annotations

from typing import Any

from ..environment import Environment
from .transcript import Task

PASSAGES = 3


class Retrieval:
    """Looks a question up in an environment; without one the retriever answers from memory and is told so."""

    def __init__(self, environment: Environment | None) -> None:
        self.environment = environment

    def __deepcopy__(self, memo: dict[int, Any]) -> Retrieval:
        return self  # an index is shared by all copies of a program

    async def look_up(self, task: Task) -> list[dict[str, Any]]:
        """Passages as dicts with `title`, `text`, `source`; empty when nothing was found."""
        if self.environment is None:
            return []
        found = await self.environment.evidence(task.question, passages=PASSAGES)
        return [
            {"title": item.title, "text": item.text, "source": item.source} for item in found if item.found
        ]


def retrieval_settings(retrieval: Retrieval | None) -> dict[str, Any]:
    """The environment as a setting: where its pages come from, or None for a retriever that has none."""
    if retrieval is None:
        return {}
    return {"environment": None if retrieval.environment is None else retrieval.environment.fingerprint}
