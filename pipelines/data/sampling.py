"""Samples of questions."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from ...modules.base.errors import UserError
from ...modules.reading.question import Question


def sample(
    questions: Sequence[Question],
    limit: int,
    seed: int,
    balance: str | None = None,
) -> list[Question]:
    """At most `limit` questions drawn at random, in their old order.

    `balance` names a `meta` field of whose values there are equally many. The sample of one seed
    and a smaller limit is part of that of a larger one. When `limit` does not divide evenly, the
    values first in the alphabet get one more. Raises UserError if there are too few of a value.
    """
    # The whole order is drawn, whatever the limit, so that samples of one seed are nested.
    order = list(range(len(questions)))
    random.Random(seed).shuffle(order)
    if balance is None:
        return [questions[index] for index in sorted(order[:limit])]
    groups: dict[str, list[int]] = defaultdict(list)
    for index in order:
        groups[str(questions[index].meta.get(balance))].append(index)
    chosen: list[int] = []
    for number, value in enumerate(sorted(groups)):
        share = limit // len(groups) + (number < limit % len(groups))
        if share > len(groups[value]):
            raise UserError(
                f"a balanced sample of {limit} needs {share} questions with {balance} {value}, "
                f"but there are {len(groups[value])}; ask for at most "
                f"{len(groups) * min(map(len, groups.values()))}"
            )
        chosen += groups[value][:share]
    return [questions[index] for index in sorted(chosen)]
