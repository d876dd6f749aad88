"""Measures the tests that contests use while answers come in, on recorded answers of real LMs.

`python benchmarks/watching.py FOLDER [--orders 12] [--seed 0]` reads `zeroeval.wide.jsonl` (43 LMs
on GSM8K), `mmlu_pro.wide.jsonl` and `bbh.wide.jsonl` from the folder, asks the questions of every
pair of LMs in random orders, and prints one line for each promise of `modules/statistics/
anytime.py`. No LM is called.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
from recorded_answers import read  # type: ignore[import-not-found]

from folkmoot.modules.statistics.anytime import PairWatch
from folkmoot.modules.statistics.field import FieldWatch
from folkmoot.modules.statistics.statistics import mcnemar_midp

Differences = npt.NDArray[np.int8]


def watched(
    differences: Differences, *, margin: float | None = None, clusters: Sequence[str] | None = None
) -> tuple[str, str, int]:
    """The state before and after the last look, and the number of questions asked."""
    watch = PairWatch(planned=len(differences), margin=margin)
    asked = 0
    for place, difference in enumerate(differences):
        watch.update(float(difference), clusters[place] if clusters else None)
        asked = place + 1
        if watch.state != "open":
            break
    before = watch.state
    return before, watch.last_look(), asked


def went_on(differences: Differences) -> str:
    """The state after all questions where nobody stops for want of hope."""
    watch = PairWatch()
    for difference in differences:
        watch.update(float(difference))
    watch.planned = len(differences)
    return watch.last_look()


def orders(
    pairs: Sequence[Differences], count: int, seed: int
) -> Iterator[tuple[int, Differences, np.random.Generator]]:
    """Every pair in so many random orders, each with its own seed."""
    for number, differences in enumerate(pairs):
        for order in range(count):
            random = np.random.default_rng([seed, number, order])
            yield number, random.permutation(differences), random


def differences_found(pairs: Sequence[Differences], count: int, seed: int) -> None:
    """Differences that all questions show: how many are found, how fast, with what sign."""
    sign = [np.sign(pair.sum()) if _significant(pair) else 0 for pair in pairs]
    found = {"without": 0, "with": 0}
    asked: dict[str, list[int]] = {"without": [], "with": []}
    real = wrong = futile = undecidable = stopped = lost = 0
    for number, differences, _ in orders(pairs, count, seed):
        before, after, used = watched(differences)
        truth = sign[number]
        for when, state in (("without", before), ("with", after)):
            if state in "ab":
                asked[when].append(used)
                if truth and (state == "a") == (truth > 0):
                    found[when] += 1
        real += bool(truth)
        wrong += after in "ab" and bool(truth) and (after == "a") != (truth > 0)
        early = before == "futile"
        undecidable += not truth
        stopped += early and not truth
        futile += early
        lost += early and went_on(differences) in ("a", "b")
    print(
        f"differences found: {found['without'] / real:.1%} without and {found['with'] / real:.1%} "
        f"with the last look, of {real:,} that all questions show"
    )
    print(
        f"questions over decided pairs: {np.mean(asked['without']):.0f} without, "
        f"{np.mean(asked['with']):.0f} with the last look"
    )
    print(f"wrong signs: {wrong / real:.2%}")
    print(
        f"undecidable pairs stopped early: {stopped / undecidable:.1%} of {undecidable:,}; "
        f"stopped pairs that more questions decide: {lost / max(futile, 1):.1%} of {futile:,}"
    )


def short_budget(pairs: Sequence[Differences], budget: int, count: int, seed: int) -> None:
    """How many of those differences a budget of so many questions finds."""
    real = found = 0
    for number, differences, _ in orders(pairs, count, seed):
        if _significant(pairs[number]):
            real += 1
            found += watched(differences[:budget])[1] in "ab"
    print(f"found with {budget} questions: {found / real:.1%}")


def false_alarms(
    pairs: Sequence[Differences],
    count: int,
    seed: int,
    name: str,
    clusters: Sequence[str] | None = None,
) -> None:
    """Verdicts on equal programs: for each question, or each cluster, a coin swaps the two."""
    alarms = {"without": 0, "with": 0}
    trials = 0
    groups = np.unique(clusters, return_inverse=True)[1] if clusters else None
    for number, _, random in orders(pairs, count, seed):
        pair = pairs[number]
        coins = random.choice([-1, 1], pair.size if groups is None else groups.max() + 1)
        swapped = pair * (coins if groups is None else coins[groups])
        order = random.permutation(pair.size)
        names = [str(clusters[place]) for place in order] if clusters else None
        before, after, _ = watched(swapped[order], clusters=names)
        trials += 1
        alarms["without"] += before in "ab"
        alarms["with"] += after in "ab"
    print(
        f"false alarms, {name}: {alarms['without'] / trials:.1%} without, "
        f"{alarms['with'] / trials:.1%} with the last look, of {trials:,}"
    )


def questions_needed(pairs: Sequence[Differences], count: int, seed: int) -> None:
    """How many questions decide half, and nine of ten, of the pairs that are so far apart."""
    gaps = (0.02, 0.04, 0.06, 0.10, 0.15, 1.0)
    used: dict[float, list[float]] = {gap: [] for gap in gaps}
    for number, differences, _ in orders(pairs, count, seed):
        apart = abs(float(pairs[number].mean()))
        top = next(gap for gap in gaps if apart <= gap)
        state, _, asked = watched(differences)
        used[top].append(asked if state in "ab" else math.inf)
    print("questions until a difference is shown, while somebody watches:")
    for low, high in zip((0.0, *gaps), gaps, strict=False):
        numbers = used[high]
        half, most = (np.quantile(numbers, share, method="higher") for share in (0.5, 0.9))
        shown = sum(map(math.isfinite, numbers)) / len(numbers)
        print(
            f"  {100 * low:.0f} to {100 * high:.0f} points apart: half by {half:.0f}, nine of ten "
            f"by {most:.0f} ({shown:.0%} in all, {len(numbers):,} pairs)"
        )


def fields(right: npt.NDArray[np.int8], name: str, count: int, seed: int, share: float = 1) -> None:
    """Fields of 7 LMs, each 1.5 times as dear as the one before: money, pick, and wrong ends."""
    questions, agents = right.shape
    planned = int(share * questions)
    money, near, settled, wrong = [], 0, 0, 0
    for trial in range(count):
        random = np.random.default_rng([seed, trial])
        chosen = random.choice(agents, 7, replace=False)
        prices = 1.5 ** np.arange(7)
        field = FieldWatch(prices.tolist(), planned=planned, margin=0.02)
        spent = 0.0
        for question in random.permutation(questions)[:planned]:
            asked = sorted(field.racing)
            spent += float(prices[asked].sum())
            field.update({one: float(right[question, chosen[one]]) for one in asked})
            if field.seen % 10 == 0:
                field.decide()
            if len(field.racing) == 1:
                break
        field.last_look()
        money.append(spent / (prices.sum() * planned))
        accuracy = right[:, chosen].mean(axis=0)
        picks = [one for one in field.racing if accuracy[one] >= accuracy.max() - 0.02]
        best = max(field.racing, key=lambda one: accuracy[one])
        near += accuracy[best] >= accuracy.max() - 0.02
        if len(field.racing) == 1:
            settled += 1
            wrong += not picks
    print(
        f"fields of 7 on {name}, {planned:,} questions: {np.mean(money):.0%} of the full money, "
        f"one within 2 points of the best is still in {near / count:.0%}, settled "
        f"{settled / count:.0%}, of these wrong {wrong / max(settled, 1):.0%}"
    )


def _significant(pair: Differences) -> bool:
    return mcnemar_midp(int((pair > 0).sum()), int((pair < 0).sum())) < 0.05


def _pairs(right: npt.NDArray[np.int8]) -> list[Differences]:
    return [right[:, a] - right[:, b] for a, b in combinations(range(right.shape[1]), 2)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--orders", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    gsm8k = read(options.folder / "zeroeval.wide.jsonl")["GSM8K"]
    pairs = _pairs(gsm8k.right)
    print(f"GSM8K, {len(gsm8k.ids):,} questions, {len(pairs)} pairs, {options.orders} orders each")
    differences_found(pairs, options.orders, options.seed)
    questions_needed(pairs, max(1, options.orders // 4), options.seed)
    short_budget(pairs, 200, options.orders, options.seed)
    false_alarms(pairs, options.orders, options.seed, "labels swapped by question")
    mmlu = read(options.folder / "mmlu_pro.wide.jsonl")["MMLU-Pro"]
    for share in (1.0, 0.25):
        fields(gsm8k.right, "GSM8K", 5 * options.orders, options.seed, share)
        fields(mmlu.right, "MMLU-Pro", 5 * options.orders, options.seed, share)
    subjects = [one.partition("/")[0] for one in mmlu.ids]
    few = max(1, options.orders // 4)
    false_alarms(_pairs(mmlu.right), few, options.seed, "MMLU-Pro by subject", subjects)
    tasks = read(options.folder / "bbh.wide.jsonl")
    right = np.concatenate([one.right for one in tasks.values()])
    names = [name for name, one in tasks.items() for _ in one.ids]
    pick = np.random.default_rng(options.seed).choice(len(names), 1_300, replace=False)
    pair = _pairs(right[pick])
    false_alarms(pair, 50 * few, options.seed, "BBH by task", [names[place] for place in pick])
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
