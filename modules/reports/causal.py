"""What causal-consistency rows say: how soon an answer stood, and what evaluators changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..reading.answers import same_answer, score
from ..reading.mentions import same_text
from ..reading.row import ResultRow

CHANGES = ("wrong_to_right", "right_to_wrong", "wrong_to_wrong")
USAGE = ("calls", "prompt_tokens", "completion_tokens")


def causal_report(rows: Iterable[ResultRow]) -> dict[str, Any]:
    """Sum up the rounds of a CausalConsistency (CaCo-CoT, Tables 1 to 3 and Figure 3, and more).

    Args:
        rows: rows of `results.jsonl`; read once, only counters are held. What an odd row lacks counts
            nowhere.

    Returns nested dicts with text keys; rates are floats in 0 … 1, counts are ints, and a rate over nothing
    is left out. Rows with an error count in `errors` and as wrong in `accuracy`; all else is about the
    others, `questions`:

    - `accuracy`; `decided_by`: `count` and `accuracy` for each way of deciding
    - `rounds`: how many questions took 1, 2, … rounds; `rounds_mean`
    - `consensus_round`: how many reached consensus in round 1, 2, …, or `never`, when evaluators were asked
    - `reasoner`: `accuracy` and `abstention_rate` of single solutions, `unanimous_rate` of the first rounds
    - `evaluator`: `evaluations`; `unreadable`; `changed`, how often the answer examined was changed, and as
      `change_rate`; the changes by what they did (`wrong_to_right`, `right_to_wrong`, `wrong_to_wrong`);
      `change_right_rate`, the share of changes that put a wrong answer right; `kept_right_rate`, the share
      of kept answers that are right
    - `calls_per_question`, `prompt_tokens_per_question`, `completion_tokens_per_question`
    """
    tally = _Tally()
    for row in rows:
        tally.count(row)
    return tally.report()


class _Tally:
    def __init__(self) -> None:
        self.rows = self.correct = self.errors = self.unanimous = self.kept = self.kept_right = 0
        self.solutions = self.solved = self.abstained = self.evaluations = self.unreadable = 0
        self.rounds: Counter[int] = Counter()
        self.consensus: Counter[int] = Counter()
        self.decided: Counter[str] = Counter()
        self.decided_right: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        self.usage: Counter[str] = Counter()

    def count(self, row: ResultRow) -> None:
        correct = bool(row.get("correct"))
        self.rows += 1
        self.correct += correct
        if row.get("error"):
            self.errors += 1
            return
        if rounds := _whole(row.get("rounds")):
            self.rounds[rounds] += 1
        self.consensus[_whole(row.get("consensus_round"))] += 1
        decided_by = str(row.get("decided_by"))
        self.decided[decided_by] += 1
        self.decided_right[decided_by] += correct
        usage: Mapping[str, Any] = row.get("usage") or {}
        for name in USAGE:
            self.usage[name] += _whole(usage.get(name))
        turns = [turn for turn in row.get("transcript") or () if not turn.get("step")]
        solutions = [turn for turn in turns if not turn.get("examined")]
        self._solutions(row, solutions)
        for turn in turns:
            if turn.get("examined"):
                self._evaluation(row, turn["examined"].get("answer"), turn.get("answer"))

    def _solutions(self, row: ResultRow, solutions: list[Mapping[str, Any]]) -> None:
        for turn in solutions:
            self.solutions += 1
            self.solved += _right(row, turn.get("answer"))
            self.abstained += turn.get("answer") is None
        first = [turn.get("answer") for turn in solutions if turn.get("round") == 1]
        self.unanimous += bool(first) and all(_same(row, first[0], answer) for answer in first)

    def _evaluation(self, row: ResultRow, before: Any, after: Any) -> None:
        self.evaluations += 1
        if after is None:
            self.unreadable += 1
        elif _same(row, before, after):
            self.kept += 1
            self.kept_right += _right(row, after)
        else:
            was, became = _right(row, before), _right(row, after)
            self.changes[CHANGES[0] if became else CHANGES[1] if was else CHANGES[2]] += 1

    def report(self) -> dict[str, Any]:
        questions = self.rows - self.errors
        found: dict[str, Any] = {"questions": questions, "errors": self.errors}
        found |= _rate("accuracy", self.correct, self.rows)
        found["decided_by"] = {
            way: {"count": count, "accuracy": self.decided_right[way] / count}
            for way, count in sorted(self.decided.items())
        }
        if not questions:
            return found
        longest = max([*self.rounds, *self.consensus])
        found["rounds"] = {str(number): self.rounds[number] for number in range(1, longest + 1)}
        in_all = sum(number * count for number, count in self.rounds.items())
        found |= _rate("rounds_mean", in_all, self.rounds.total())
        if self.evaluations:
            by_round = {str(number): self.consensus[number] for number in range(1, longest + 1)}
            found["consensus_round"] = {**by_round, "never": self.consensus[0]}
        found["reasoner"] = {
            **_rate("accuracy", self.solved, self.solutions),
            **_rate("abstention_rate", self.abstained, self.solutions),
            **_rate("unanimous_rate", self.unanimous, questions),
        }
        changed = self.changes.total()
        found["evaluator"] = {
            "evaluations": self.evaluations,
            "unreadable": self.unreadable,
            "changed": changed,
            **{name: self.changes[name] for name in CHANGES},
            **_rate("change_rate", changed, self.evaluations),
            **_rate("change_right_rate", self.changes["wrong_to_right"], changed),
            **_rate("kept_right_rate", self.kept_right, self.kept),
        }
        return found | {f"{name}_per_question": total / questions for name, total in self.usage.items()}


def _same(row: ResultRow, one: Any, other: Any) -> bool:
    """As the run itself compares answers: two options with the same text are one answer."""
    kind, choices = row.get("kind", "span"), row.get("choices") or {}
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    return same_answer(one, other, kind) or (kind == "choice" and same_text(one, other, choices))


def _right(row: ResultRow, answer: Any) -> bool:
    if not isinstance(answer, str) or not isinstance(row.get("gold"), str):
        return False
    try:
        return score(answer, row["gold"], row.get("kind", "span"), row.get("choices")).correct
    except ValueError:  # the gold is none of the choices
        return False


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _rate(name: str, hits: int, chances: int) -> dict[str, float]:
    return {name: hits / chances} if chances else {}
