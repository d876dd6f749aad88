"""False alarms and power of McNemar's mid-p beside the exact test, on resamples of recorded pairs.

`python benchmarks/mcnemar.py ANSWERS.jsonl...` reads files whose first line is a header and whose
others hold one question each: `dataset`, `gold`, and `answers` (or `correct`, a digit each) in the
header's order of `agents`. Every resample draws a pair of agents and `--n` of their questions with
replacement. Under the null each question that tells the two apart is given to either by a fair
coin; for power only pairs that are 2 to 6 points apart are drawn, as they are.
"""

from __future__ import annotations

import argparse
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
from recorded_answers import read  # type: ignore[import-not-found]

from folkmoot.modules.statistics.statistics import mcnemar_exact, mcnemar_midp

TESTS = {"exact": cache(mcnemar_exact), "mid-p": cache(mcnemar_midp)}
LEVEL, NEAR, FAR = 0.05, 0.02, 0.06


def pairs_of(file: Path) -> list[tuple[float, float]]:
    """For each two agents of a data set the shares of questions that only one of them has right."""
    shares = []
    for one in read(file).values():
        table = one.right.astype(bool)
        for a, b in combinations(range(table.shape[1]), 2):
            first, second = table[:, a], table[:, b]
            shares.append((float((first & ~second).mean()), float((second & ~first).mean())))
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    for file in given.files:
        pairs = [pair for pair in pairs_of(file) if sum(pair) > 0]
        apart = [pair for pair in pairs if NEAR <= abs(pair[0] - pair[1]) <= FAR]
        print(
            f"{file.name}: {len(pairs)} pairs, {len(apart)} of them 2 to 6 points apart, n = "
            f"{given.n}"
        )
        rejected = {(what, name): 0 for what in ("false alarms", "power") for name in TESTS}
        for _ in range(given.resamples):
            share = sum(pairs[rng.integers(len(pairs))])
            discordant = rng.binomial(given.n, share)
            null = rng.binomial(discordant, 0.5)
            one, other = apart[rng.integers(len(apart))] if apart else (0.0, 0.0)
            true = rng.multinomial(given.n, [one, other, 1 - one - other])
            for name, test in TESTS.items():
                rejected["false alarms", name] += test(int(null), int(discordant - null)) < LEVEL
                rejected["power", name] += test(int(true[0]), int(true[1])) < LEVEL
        for what in ("false alarms", "power"):
            rates = (f"{name} {rejected[what, name] / given.resamples:.1%}" for name in TESTS)
            print(f"  {what}: {', '.join(rates)}")


if __name__ == "__main__":
    main()
