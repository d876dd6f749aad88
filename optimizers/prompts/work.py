"""The most work that a prompt optimizer does: questions it has answered, and proposals it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log2

FINALISTS = 3
"""How many of SIMBA's programs are scored on the selection questions beside its best."""

Settings = Mapping[str, int]


@dataclass(frozen=True)
class Sizes:
    """What an optimizer's work depends on: counts of learning and selection questions and of predictors."""

    learn: int
    select: int
    predictors: int
    settings: Settings

    def __getitem__(self, name: str) -> int:
        return self.settings[name]


Work = Callable[[Sizes], tuple[int, int]]


def summed(*parts: tuple[int, int]) -> tuple[int, int]:
    return sum(runs for runs, _ in parts), sum(asked for _, asked in parts)


def search_work(n: Sizes) -> tuple[int, int]:
    return (n["candidates"] + 3) * n.select + (n["candidates"] + 1) * n.learn, 0


def copro_work(n: Sizes) -> tuple[int, int]:
    """With several predictors every round tries the candidates of all rounds before, too."""
    rounds = range(1, n["depth"] + 1) if n.predictors > 1 else [1] * n["depth"]
    tried = sum(n["breadth"] * count for count in rounds) * n.predictors
    return tried * n.select, n["breadth"] * n["depth"] * n.predictors


def mipro_work(n: Sizes, kinds: int) -> tuple[int, int]:
    """`kinds` of things are searched a predictor: instructions, and demonstrations too or not."""
    tried = (6, 12, 18)[n["auto"]]
    trials = int(max(2 * kinds * n.predictors * log2(tried), 1.5 * tried))
    runs = (trials + 1) * n.select if n.select <= 50 else trials * 35 + (trials // 5 + 3) * n.select
    return tried * n.learn + runs, 12 + 3 * tried * n.predictors


def simba_work(n: Sizes) -> tuple[int, int]:
    tried = n["steps"] * (n["candidates"] + 1)
    batch = min(n["batch"], n.learn)
    return (2 * tried * batch + (n["candidates"] + 1) * n.learn + FINALISTS * n.select), tried


def gepa_work(n: Sizes) -> tuple[int, int]:
    runs = (n["evaluations"] + 1) * max(n.select, 6)
    return runs, runs // 3
