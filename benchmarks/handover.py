"""Measures how much a calibrated panel answers, and how often it breaks its promise.

`python benchmarks/handover.py FOLDER [--trials 300]` reads `mmlu_pro.wide.jsonl` (26 LMs) from the
folder. Each trial draws 7 of the 12 best LMs and 400 of the questions, on which their accuracy is
measured, for ties. The other questions are the truth: calibration questions are drawn from them
with replacement. No LM is called.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from forecast import coded  # type: ignore[import-not-found]
from recorded_answers import read  # type: ignore[import-not-found]

from folkmoot.modules.protocols.router.calibration import TIE
from folkmoot.modules.statistics.handover import threshold_for
from folkmoot.modules.statistics.vote_forecast import RIGHT, Codes

BEST, MEMBERS, FOR_WEIGHTS = 12, 7, 400
ERRORS, SIZES, CONFIDENCE = (0.2, 0.3), (200, 400, 600), 0.95

Numbers = npt.NDArray[np.float64]


def voted(answers: Codes, accuracy: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The score of each question's winner, as the router scores it, and whether it is right."""
    kinds = range(int(answers.max()) + 1)
    votes = np.stack([(answers == kind).sum(axis=1) for kind in kinds], axis=1)
    ties = np.stack([((answers == kind) * accuracy).sum(axis=1) for kind in kinds], axis=1)
    scores = (votes + TIE * ties) / answers.shape[1]
    return scores.max(axis=1), scores.argmax(axis=1) == RIGHT


def trial(answers: Codes, size: int, max_error: float, seed: int) -> tuple[float, bool]:
    """The share answered of all questions, and whether more of these than promised are wrong."""
    random = np.random.default_rng([seed, size])
    panel = answers[:, random.choice(answers.shape[1], MEMBERS, replace=False)]
    order = random.permutation(len(panel))
    accuracy = (panel[order[:FOR_WEIGHTS]] == RIGHT).mean(axis=0)
    scores, right = voted(panel[order[FOR_WEIGHTS:]], accuracy)
    drawn = random.integers(len(scores), size=size)
    found = threshold_for(scores[drawn], right[drawn], max_error, CONFIDENCE)
    if found is None:
        return 0.0, False
    stands = scores >= found.score
    return float(stands.mean()), bool((~right[stands]).mean() > max_error)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=300)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    every = coded(read(options.folder / "mmlu_pro.wide.jsonl")["MMLU-Pro"])
    best = np.argsort(-(every == RIGHT).mean(axis=0), kind="stable")[:BEST]
    print("error at most  calibrated on  answers (mean)  (median)  never answers  promise broken")
    for max_error in ERRORS:
        for size in SIZES:
            found = [trial(every[:, best], size, max_error, seed) for seed in range(options.trials)]
            shares = np.array([share for share, _ in found])
            print(
                f"{max_error:13.0%}  {size:13}  {shares.mean():14.1%}  {np.median(shares):8.1%}  "
                f"{(shares == 0).mean():13.1%}  {np.mean([over for _, over in found]):14.1%}"
            )
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
