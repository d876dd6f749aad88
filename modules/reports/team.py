"""What a team's rows say: how its workers did alone, who was accepted, and what retries and steps bought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from ..reading.answers import Kind, score
from ..reading.row import ResultRow

SUPERVISOR = "supervisor"
CHANGES = ("wrong_to_right", "right_to_wrong", "wrong_to_wrong", "right_to_right")


def team_report(rows: Iterable[ResultRow]) -> dict[str, Any]:
    """Sum up the traces of a SupervisedTeam (Reasoning as a Team, sections 4.3 and 5, and more).

    Args:
        rows: rows of `results.jsonl`; read once, only counters are held.

    Returns nested dicts with text keys; rates, EM and F1 are floats in 0 … 1, counts are ints, and a rate
    over nothing is left out. Rows with an error count in `errors` and as wrong in `em` and `f1`; all else is
    about the others, `questions`. For kinds other than spans EM and F1 are whether the answer is right.

    - `em`, `f1` of the team; `best_worker`: EM and F1 of the best worker in hindsight, after all retries
    - `decided_by`: `count` and `em` for each way of deciding; `accepted`: how often each worker was
    - `retries`: how many questions took 0, 1, … of them; `retries_mean`; `retry`: what they changed, as
      counts of `wrong_to_right`, `right_to_wrong`, `wrong_to_wrong` and `right_to_right`
    - `worker`: for each its `em` and `f1` alone, at its first attempt, `em_last` after retries, `steps_mean`,
      and as shares of its attempts or steps `forced_rate`, `unreadable_rate`, `repeated_rate`
    - `first_attempts`: EM, F1 and share of first attempts that ended by themselves within 1, 2, … steps: what
      a smaller step limit would at least have kept
    - `calls_per_question`, `prompt_tokens_per_question`, `completion_tokens_per_question`
    """
    tally = _Tally()
    for row in rows:
        tally.count(row)
    return tally.report()


class _Mean:
    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def add(self, value: float) -> None:
        self.total, self.n = self.total + value, self.n + 1

    def __float__(self) -> float:
        return self.total / self.n if self.n else 0.0


class _Tally:
    def __init__(self) -> None:
        self.questions = self.errors = 0
        self.means: dict[tuple[str, ...], _Mean] = {}
        self.retries: Counter[int] = Counter()
        self.changes: Counter[str] = Counter()
        self.ends: Counter[int] = Counter()
        self.end_scores: dict[int, list[float]] = {}
        self.attempts = 0
        self.usage: Counter[str] = Counter()

    def mean(self, value: float, *path: str) -> None:
        self.means.setdefault(path, _Mean()).add(float(value))

    def count(self, row: ResultRow) -> None:
        kind: Kind = row["kind"]

        def judged(answer: str | None) -> tuple[float, float]:
            found = score(answer, row["gold"], kind, row.get("choices"))
            right = float(found.correct)
            return (right, right) if found.f1 is None else (float(found.em or 0), float(found.f1))

        em, f1 = (0.0, 0.0) if row["error"] else judged(row["answer"])
        self.mean(em, "em")
        self.mean(f1, "f1")
        if row["error"]:
            self.errors += 1
            return
        self.questions += 1
        self.mean(em, "em_excluding_errors")
        self.mean(f1, "f1_excluding_errors")
        self.mean(em, "decided_by", str(row["decided_by"]))
        for name in ("calls", "prompt_tokens", "completion_tokens"):
            self.usage[name] += row["usage"][name]
        attempts: dict[str, list[Mapping[str, Any]]] = {}
        for turn in row["transcript"]:
            if "trace" in turn:
                attempts.setdefault(turn["agent"], []).append(turn)
        if not attempts:
            return
        self.retries[sum(len(turns) - 1 for turns in attempts.values())] += 1
        for worker, turns in attempts.items():
            self._worker(worker, [(turn, *judged(turn["answer"])) for turn in turns])
        last = [judged(turns[-1]["answer"]) for turns in attempts.values()]
        self.mean(max(em for em, _ in last), "best_worker", "em")
        self.mean(max(f1 for _, f1 in last), "best_worker", "f1")

    def _worker(self, name: str, turns: list[tuple[Mapping[str, Any], float, float]]) -> None:
        first, em, f1 = turns[0]
        self.mean(em, "worker", name, "em")
        self.mean(f1, "worker", name, "f1")
        self.mean(turns[-1][1], "worker", name, "em_last")
        for (_, before, _), (_, after, _) in pairwise(turns):
            words = ("wrong", "right")
            self.changes[f"{words[before == 1]}_to_{words[after == 1]}"] += 1
        for turn, _, _ in turns:
            trace = turn["trace"]
            self.mean(len(trace), "worker", name, "steps_mean")
            self.mean(bool(turn.get("forced")), "worker", name, "forced_rate")
            for step in trace:
                for problem in ("unreadable", "repeated"):
                    self.mean(step.get("problem") == problem, "worker", name, f"{problem}_rate")
        self.attempts += 1
        if not first.get("forced"):
            steps = len(first["trace"])
            self.ends[steps] += 1
            scores = self.end_scores.setdefault(steps, [0.0, 0.0])
            scores[0], scores[1] = scores[0] + em, scores[1] + f1

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = {"questions": self.questions, "errors": self.errors}
        for path, mean in self.means.items():
            place = found
            if path[0] == "decided_by":
                found.setdefault("decided_by", {})[path[1]] = {"count": mean.n, "em": float(mean)}
                continue
            for part in path[:-1]:
                place = place.setdefault(part, {})
            place[path[-1]] = float(mean)
        if not self.questions:
            return found
        ways = {way: figures["count"] for way, figures in found["decided_by"].items()}
        found["accepted"] = {
            way.partition(":")[2]: count for way, count in ways.items() if way.startswith(f"{SUPERVISOR}:")
        }
        if self.retries:
            most, asked = max(self.retries), self.retries.total()
            found["retries"] = {str(number): self.retries[number] for number in range(most + 1)}
            found["retries_mean"] = sum(n * count for n, count in self.retries.items()) / asked
            found["retry"] = {change: self.changes[change] for change in CHANGES}
            found["first_attempts"] = self._by_limit()
        return found | {f"{name}_per_question": total / self.questions for name, total in self.usage.items()}

    def _by_limit(self) -> dict[str, dict[str, float]]:
        curve, ended, em, f1 = {}, 0, 0.0, 0.0
        for limit in range(1, max(self.ends, default=0) + 1):
            ended += self.ends[limit]
            more = self.end_scores.get(limit, [0.0, 0.0])
            em, f1 = em + more[0], f1 + more[1]
            curve[str(limit)] = {
                "em": em / self.attempts,
                "f1": f1 / self.attempts,
                "ended": ended / self.attempts,
            }
        return curve
