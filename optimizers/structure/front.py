"""The Pareto front: the trials that no other trial beats in one objective without losing in another."""

from __future__ import annotations

from collections.abc import Sequence

MAXIMISED = ("accuracy", "f1")
MINIMISED = ("cost", "latency", "calls", "tokens")
OBJECTIVES = (*MAXIMISED, *MINIMISED)


def dominates(a: Sequence[float], b: Sequence[float], objectives: Sequence[str]) -> bool:
    """Whether `a` is at least as good as `b` in every objective, and better in one."""
    signed = [(x, y) if name in MAXIMISED else (-x, -y) for x, y, name in zip(a, b, objectives, strict=True)]
    return all(x >= y for x, y in signed) and any(x > y for x, y in signed)


def front(values: Sequence[Sequence[float]], objectives: Sequence[str]) -> list[int]:
    """Which of the values no other dominates, by position, the best in the first objective first.

    Equal values stand side by side: neither dominates the other.
    """
    kept = [
        place
        for place, own in enumerate(values)
        if not any(dominates(other, own, objectives) for other in values)
    ]
    sign = -1 if objectives[0] in MAXIMISED else 1
    return sorted(kept, key=lambda place: (sign * values[place][0], place))
