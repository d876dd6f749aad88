"""The report of a team: its workers alone, whom it accepted, and what retries and steps changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..reading.row import ResultRow, TurnFields
from .counting import CHANGES, Figures, Reading, by_number, change

Numbers = npt.NDArray[np.float64]


def team_report(rows: Iterable[ResultRow]) -> dict[str, object]:
    """Sum up the traces of a SupervisedTeam (Reasoning as a Team, sections 4.3 and 5, and more).

    Args:
        rows: rows of `results.jsonl`; read once, only counters are held.

    Returns nested dicts with text keys; rates, EM and F1 are floats in 0 … 1, counts are ints, and
    a rate over nothing is left out. Rows with an error count in `errors` and as wrong in `em` and
    `f1`; all else is about the others, `questions`. For kinds other than spans EM and F1 are
    whether the answer is right.

    - `em`, `f1` of the team; `best_worker`: EM and F1 of the best worker in hindsight, after all
      retries
    - `decided_by`: `count` and `em` for each way of deciding; `accepted`: how often each worker was
    - `retries`: how many questions took 0, 1, … of them; `retries_mean`; `retry`: what they
      changed, as counts of `wrong_to_right`, `right_to_wrong`, `wrong_to_wrong` and
      `right_to_right`
    - `worker`: for each its `em` and `f1` alone, at its first attempt, `em_last` after retries,
      `steps_mean`, and as shares of its attempts or steps `forced_rate`, `unreadable_rate`,
      `repeated_rate`
    - `first_attempts`: EM, F1 and share of first attempts that ended by themselves within 1, 2, …
      steps: what a smaller step limit would at least have kept
    - `calls_per_question`, `prompt_tokens_per_question`, `completion_tokens_per_question`
    """
    figures, retries = Figures(), Counter[int]()
    ends: dict[int, Numbers] = defaultdict(lambda: np.zeros(3))
    for row in map(ResultRow.of, rows):
        reading = Reading(row)
        em = f1 = 0.0
        if not row.error:
            em, f1 = reading.em_f1(row.answer)
        figures.mean(em, "em")
        figures.mean(f1, "f1")
        if not figures.finished(row):
            continue
        figures.mean(em, "em_excluding_errors")
        figures.mean(f1, "f1_excluding_errors")
        figures.decided(row, em, "em")
        attempts: dict[str, list[TurnFields]] = {}
        for turn in row.transcript:
            if "trace" in turn:
                attempts.setdefault(turn.agent, []).append(turn)
        if attempts:
            retried = sum(len(turns) - 1 for turns in attempts.values())
            retries[retried] += 1
            figures.mean(retried, "retries_mean")
            # A change that never happens is reported as 0.
            for name in (*CHANGES, "right_to_right"):
                figures.count(0, "retry", name)
            last = [reading.em_f1(turns[-1].answer) for turns in attempts.values()]
            ems, f1s = zip(*last, strict=True)
            figures.mean(max(ems), "best_worker", "em")
            figures.mean(max(f1s), "best_worker", "f1")
        for worker, turns in attempts.items():
            _worker(figures, worker, turns, reading)
            em, f1 = reading.em_f1(turns[0].answer)
            # Forced to answer at the limit, it would not have ended by itself.
            steps = 0 if turns[0].forced else len(turns[0].trace or ())
            ends[steps] += (em, f1, 1)
        figures.usage(row)
    report = figures.report()
    if report["questions"]:
        mark, accepted = "supervisor:", dict[str, int]()
        for way, counted in report["decided_by"].items():
            if way.startswith(mark):
                accepted[way.removeprefix(mark)] = counted["count"]
        report["accepted"] = accepted
    if retries:
        report["retries"] = by_number(retries, 0, max(retries))
        report["first_attempts"] = _by_limit(ends)
    return report


def _worker(figures: Figures, name: str, turns: list[TurnFields], reading: Reading) -> None:
    scores = [reading.em_f1(turn.answer) for turn in turns]
    figures.mean(scores[0][0], "worker", name, "em")
    figures.mean(scores[0][1], "worker", name, "f1")
    figures.mean(scores[-1][0], "worker", name, "em_last")
    for (before, _), (after, _) in pairwise(scores):
        figures.count(1, "retry", change(before == 1, after == 1))
    for turn in turns:
        figures.mean(len(turn.trace or ()), "worker", name, "steps_mean")
        figures.mean(bool(turn.forced), "worker", name, "forced_rate")
        for step in turn.trace or ():
            for problem in ("unreadable", "repeated"):
                figures.mean(step.get("problem") == problem, "worker", name, f"{problem}_rate")


def _by_limit(ends: Mapping[int, Numbers]) -> dict[str, dict[str, float]]:
    """Return shares by step limit, from sums of EM, F1 and first attempts by the steps taken (0:
    forced to end).
    """
    attempts = sum(number for _, _, number in ends.values())
    # What ends within some steps also ends within more: sums run over the limits.
    sums = np.cumsum([ends.get(limit, np.zeros(3)) for limit in range(1, max(ends) + 1)], axis=0)
    names = ("em", "f1", "ended")
    shares = enumerate((sums / attempts).tolist(), 1)
    return {str(limit): dict(zip(names, row, strict=True)) for limit, row in shares}
