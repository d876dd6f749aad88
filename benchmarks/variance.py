"""Measures the error bars of repeats and of subjects on resampled recorded answers, and the gain
that a search reports against that of the naive winner.

`python benchmarks/variance.py FOLDER [--draws 4000] [--seed 0]` reads `zeroeval.wide.jsonl` (43 LMs
on GSM8K: the share of LMs that are right is a question's chance), `mmlu_pro.wide.jsonl` (subjects)
and `bbh.wide.jsonl` (tasks) from the folder. Prints how often a 95% interval holds the truth, which
is the mean of what is drawn from. No LM is called.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from recorded_answers import read  # type: ignore[import-not-found]

from folkmoot.modules.statistics.clusters import clustered_mean

Numbers = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator], tuple[list[float], list[int]]]
EACH = 30
"""Questions drawn of every subject."""


def coverage(draw: Draw, truth: float, draws: int, seed: int) -> float:
    """How often the interval of the mean of a sample holds the truth."""
    inside = 0
    for number in range(draws):
        values, clusters = draw(np.random.default_rng([seed, number]))
        found = clustered_mean(values, clusters)
        inside += found.low <= truth <= found.high
    return inside / draws


def repeated(chances: Numbers, n: int, repeats: int) -> Draw:
    """Questions drawn with replacement, each answered so often; means count once a question."""

    def draw(random: np.random.Generator) -> tuple[list[float], list[int]]:
        drawn = random.choice(chances, n)
        return (random.binomial(repeats, drawn) / repeats).tolist(), list(range(n))

    return draw


def subjects(groups: Sequence[Numbers], count: int) -> Draw:
    """Subjects drawn with replacement, and questions of each."""

    def draw(random: np.random.Generator) -> tuple[list[float], list[int]]:
        places = random.integers(len(groups), size=count)
        values = np.concatenate([random.choice(groups[place], EACH) for place in places])
        return values.tolist(), np.repeat(np.arange(count), EACH).tolist()

    return draw


def searched(
    candidates: int, spread: float, n: int, unseen: int, draws: int, seed: int
) -> tuple[float, float, float]:
    """Points of gain over a program that is right on half of the questions: the true gain of the
    best of some candidates, what its own questions say, and what unseen questions say.
    """
    random = np.random.default_rng([seed, candidates, n])
    true = np.clip(0.5 + spread * random.standard_normal((draws, candidates)), 0, 1)
    seen = random.binomial(n, true) / n
    base_seen = random.binomial(n, 0.5, draws) / n
    base_unseen = random.binomial(unseen, 0.5, draws) / unseen
    best = seen.argmax(axis=1)
    chosen = true[np.arange(draws), best]
    naive = seen.max(axis=1) - base_seen
    honest = random.binomial(unseen, chosen) / unseen - base_unseen
    true_gain, naive_gain, honest_gain = (
        100 * float(gain.mean()) for gain in (chosen - 0.5, naive, honest)
    )
    return true_gain, naive_gain, honest_gain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.perf_counter()

    (gsm8k,) = read(options.folder / "zeroeval.wide.jsonl").values()
    chances = gsm8k.right.mean(axis=1)
    print("95% intervals that hold the truth; 93 to 97% is the mark\n")
    print("GSM8K, means over repeats")
    for n, repeats in ((50, 2), (50, 5), (100, 3), (200, 3), (400, 5)):
        held = coverage(repeated(chances, n, repeats), chances.mean(), options.draws, options.seed)
        print(f"  {n:3} questions, {repeats} times each  {held:6.1%}")

    (pro,) = read(options.folder / "mmlu_pro.wide.jsonl").values()
    named = np.array([name.partition("/")[0] for name in pro.ids])
    gaps = pro.right[:, 3].astype(float) - pro.right[:, 4]
    tables = {
        "BBH, step by step less direct, by task": by_task(options.folder),
        "MMLU-Pro, one LM less another, by subject": [
            gaps[named == one] for one in sorted(set(named))
        ],
    }
    for title, groups in tables.items():
        print(f"\n{title} ({len(groups)} in all, {EACH} questions of each)")
        truth = float(np.mean([group.mean() for group in groups]))
        for count in (10, 14, 20, 40):
            held = coverage(subjects(groups, count), truth, options.draws, options.seed)
            print(f"  {count:3} drawn  {held:6.1%}")

    print("\nGain of the best of some candidates over a program that is right on half, in points")
    print("  candidates  questions  true  by the questions of the search  by 200 unseen ones")
    for candidates, n in ((4, 50), (8, 50), (16, 100), (16, 300)):
        true, naive, honest = searched(candidates, 0.03, n, 200, 20_000, options.seed)
        print(f"  {candidates:10}  {n:9}  {true:4.1f}  {naive:31.1f}  {honest:19.1f}")
    print(f"\n{time.perf_counter() - began:.0f} s")


def by_task(folder: Path) -> list[Numbers]:
    """The difference of step by step and direct prompting, by task."""
    groups = []
    for one in read(folder / "bbh.wide.jsonl").values():
        direct, steps = (one.right[:, one.agents.index(name)] for name in ("direct", "cot"))
        groups.append(steps.astype(float) - direct)
    return groups


if __name__ == "__main__":
    main()
