"""Measures forecasts of a vote's gain on LMs and questions that the forecast has not seen.

`python benchmarks/forecast.py FOLDER [--trials 60] [--seed 0]` reads `zeroeval.wide.jsonl` (43 LMs
on GSM8K) and `mmlu_pro.wide.jsonl` (26 LMs) from the folder. Each trial draws 5 LMs and some
questions, forecasts the gain of 15 voters, and compares it with that of 15 of the other LMs on the
other questions. No LM is called.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from recorded_answers import RecordedAnswers, read  # type: ignore[import-not-found]

from folkmoot.modules.statistics.vote_forecast import ABSTAINED, RIGHT, Codes, forecast_vote

VOTERS, AGENTS, BEST = 15, 5, 20


def coded(recorded: RecordedAnswers) -> Codes:
    """Answers as the forecast takes them: 0 is right, -1 none, others by their first appearance."""
    table = np.empty((len(recorded.answers), len(recorded.agents)), dtype=np.int64)
    for place, (answers, flags) in enumerate(zip(recorded.answers, recorded.flags, strict=True)):
        kinds: dict[str, int] = {}
        for agent, (answer, right) in enumerate(zip(answers, flags, strict=True)):
            if answer is None:
                table[place, agent] = ABSTAINED
            else:
                kind = kinds.setdefault(str(answer), len(kinds) + 1) if not right else RIGHT
                table[place, agent] = kind
    return table


def gain(answers: Codes, random: np.random.Generator, draws: int = 40) -> float:
    """The mean gain of 15 of these agents' vote over their mean accuracy; ties are split."""
    gains = []
    for _ in range(draws):
        panel = answers[:, random.choice(answers.shape[1], VOTERS, replace=False)]
        votes = np.stack([(panel == code).sum(axis=1) for code in range(panel.max() + 1)], axis=1)
        best = votes.max(axis=1)
        wins = (votes[:, 0] == best) & (best > 0)
        vote = (wins / (votes == best[:, None]).sum(axis=1)).mean()
        gains.append(vote - (panel == RIGHT).mean())
    return float(np.mean(gains))


def measure(
    answers: Codes, options: int | None, questions: int, trials: int, seed: int
) -> tuple[float, float, float]:
    """The mean error of the forecast, its bias, and how often its 90% interval covers."""
    errors, covered = [], 0
    for trial in range(trials):
        random = np.random.default_rng([seed, questions, trial])
        agents = random.permutation(answers.shape[1])
        rows = random.permutation(len(answers))
        seen = answers[np.ix_(rows[:questions], agents[:AGENTS])]
        truth = gain(answers[np.ix_(rows[questions:], agents[AGENTS:])], random)
        forecast = forecast_vote(seen, options, [VOTERS], seed=trial)
        errors.append(float(forecast.gain[0]) - truth)
        covered += forecast.low[0] <= truth <= forecast.high[0]
    return float(np.mean(np.abs(errors))), float(np.mean(errors)), covered / trials


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    started = time.monotonic()
    sets: list[tuple[str, npt.NDArray[np.int64], int | None]] = [
        ("GSM8K", coded(read(options.folder / "zeroeval.wide.jsonl")["GSM8K"]), None),
        ("MMLU-Pro", coded(read(options.folder / "mmlu_pro.wide.jsonl")["MMLU-Pro"]), 9),
    ]
    for name, every, wrong in sets:
        # Capable LMs, as users would choose them: the 20 that are most often right.
        answers = every[:, np.argsort(-(every == RIGHT).mean(axis=0), kind="stable")[:BEST]]
        for questions in (100, 400):
            error, bias, covers = measure(answers, wrong, questions, options.trials, options.seed)
            print(
                f"{name}, {AGENTS} LMs x {questions} questions, vote of {VOTERS}: mean error "
                f"{100 * error:.2f} points, bias {100 * bias:+.2f}, 90% intervals cover "
                f"{covers:.0%}"
            )
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
