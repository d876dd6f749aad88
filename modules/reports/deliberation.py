"""What a deliberation's rows say about its dialogue: who agreed, who gave way, and whether talking helped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, groupby, pairwise
from typing import Any

from ..agents.transcript import all_agree
from ..reading.answers import Kind, same_answer, score
from ..reading.row import ResultRow

JUDGE = "judge"
REVISIONS = ("wrong_to_right", "right_to_wrong", "wrong_to_wrong")

Path = tuple[str, ...]
Turn = Mapping[str, Any]


def deliberation_report(rows: Iterable[ResultRow]) -> dict[str, Any]:
    """Sum up the dialogues of a Deliberation (Agents of Commonsense, metrics of section 4.1, and more).

    Args:
        rows: rows of `results.jsonl`; read once, only counters are held.

    Returns nested dicts with text keys; rates are floats in 0 … 1, counts are ints, and a rate over nothing
    is left out. Rows with an error count in `errors` and as wrong in `accuracy`; all else is about the
    others, `questions`:

    - `accuracy`, `accuracy_excluding_errors` of the group; `consensus_rate`
    - `agreement`: `all` and `FIRST-SECOND` for each pair, in the last round; an abstention agrees with none
    - `resolved_by_round`: share with consensus after round 1, 2, …
    - `first_consensus_round`: count for each round, and `never`
    - `tie_break`: `count`, `rate`, `accuracy`; `decided_by`: the same for each way of deciding
    - `role`: for each speaker `accuracy_first`, `accuracy_last`, `abstention_rate`, `conformity`, `revisions`
    - `revisions`, of all and by `round`: counts of wrong_to_right, right_to_wrong and wrong_to_wrong (to
      another wrong answer); `rate`, the share of an agent's later answers that are a revision of the one
      before; `share_to_right`, the share of revisions that put a wrong answer right. An abstention is wrong
      but no answer: a step between it and a wrong answer is no revision
    - `conformity`: how often a speaker repeats the answer given just before in the same round, overall
      (`rate`) and by `round`; after an abstention there is nothing to repeat
    - `calls_per_question`, `prompt_tokens_per_question`, `completion_tokens_per_question`
    """
    tally = _Tally()
    for row in rows:
        tally.count(row)
    return tally.report()


class _Tally:
    """Counters by path in the report; a rate is a count of hits over a count of chances."""

    def __init__(self) -> None:
        self.counts: Counter[Path] = Counter({("questions",): 0, ("errors",): 0})
        self.hits: Counter[Path] = Counter()
        self.chances: Counter[Path] = Counter()
        self.usage: Counter[str] = Counter()
        self.consensus: Counter[int] = Counter()
        self.longest = 0

    def rate(self, hit: bool, *paths: Path) -> None:
        for path in paths:
            self.hits[path] += hit
            self.chances[path] += 1

    def count(self, row: ResultRow) -> None:
        self.rate(bool(row["correct"]), ("accuracy",))
        if row["error"]:
            self.counts["errors",] += 1
            return
        self.counts["questions",] += 1
        self.rate(bool(row["correct"]), ("accuracy_excluding_errors",))
        for name in ("calls", "prompt_tokens", "completion_tokens"):
            self.usage[name] += row["usage"][name]
        self._outcome(row)
        kind: Kind = row["kind"]
        right = _Rightness(row)
        spoken = [turn for turn in row["transcript"] if turn["agent"] != JUDGE]
        rounds = [list(turns) for _, turns in groupby(spoken, key=lambda turn: turn["round"])]
        for turns in rounds:
            self._conformity(turns, kind)
        if rounds:
            self._agreement(rounds[-1], kind)
        for role, turns in _by_agent(spoken):
            self.rate(right(turns[0]["answer"]), ("role", role, "accuracy_first"))
            self.rate(right(turns[-1]["answer"]), ("role", role, "accuracy_last"))
            for turn in turns:
                self.rate(turn["answer"] is None, ("role", role, "abstention_rate"))
            for before, after in pairwise(turns):
                self._revision(role, before, after, kind, right)

    def _outcome(self, row: ResultRow) -> None:
        correct, first = bool(row["correct"]), row["consensus_round"]
        self.longest = max(self.longest, row["rounds"])
        self.consensus[first or 0] += 1
        self.rate(first is not None, ("consensus_rate",))
        self.rate(first is None, ("tie_break", "rate"))
        self.counts["tie_break", "count"] += first is None
        if first is None:
            self.rate(correct, ("tie_break", "accuracy"))
        rule = str(row["decided_by"])
        self.counts["decided_by", rule, "count"] += 1
        self.rate(correct, ("decided_by", rule, "accuracy"))

    def _agreement(self, last: Sequence[Turn], kind: Kind) -> None:
        self.rate(all_agree([turn["answer"] for turn in last], kind), ("agreement", "all"))
        for one, other in combinations(last, 2):
            same = same_answer(one["answer"], other["answer"], kind)
            self.rate(same, ("agreement", f"{one['agent']}-{other['agent']}"))

    def _conformity(self, turns: Sequence[Turn], kind: Kind) -> None:
        for before, after in pairwise(turns):
            if before["answer"] is not None:
                repeats = same_answer(before["answer"], after["answer"], kind)
                by_round = ("conformity", "round", str(after["round"]))
                self.rate(repeats, ("conformity", "rate"), by_round, ("role", after["agent"], "conformity"))

    def _revision(self, role: str, before: Turn, after: Turn, kind: Kind, right: _Rightness) -> None:
        change = _revision(before["answer"], after["answer"], kind, right)
        for path in (
            ("revisions",),
            ("revisions", "round", str(after["round"])),
            ("role", role, "revisions"),
        ):
            self.rate(change is not None, (*path, "rate"))
            if change is not None:
                self.rate(change == "wrong_to_right", (*path, "share_to_right"))
            for name in REVISIONS:  # those that never happened are worth a zero
                self.counts[*path, name] += change == name

    def report(self) -> dict[str, Any]:
        leaves: dict[Path, float] = {
            **self.counts,
            **{path: self.hits[path] / chances for path, chances in self.chances.items()},
        }
        questions = self.counts["questions",]
        if questions:
            resolved = 0
            for round in range(1, self.longest + 1):
                resolved += self.consensus[round]
                leaves["resolved_by_round", str(round)] = resolved / questions
                leaves["first_consensus_round", str(round)] = self.consensus[round]
            leaves["first_consensus_round", "never"] = self.consensus[0]
            for path in [path for path in self.counts if path[0] == "decided_by"]:
                leaves[*path[:2], "rate"] = self.counts[path] / questions
            for name, total in self.usage.items():
                leaves[f"{name}_per_question",] = total / questions
        return _nested(leaves)


class _Rightness:
    """Whether an answer to one question is right; each different answer is scored once."""

    def __init__(self, row: ResultRow) -> None:
        self._row = row
        self._known: dict[str | None, bool] = {None: False}

    def __call__(self, answer: str | None) -> bool:
        if answer not in self._known:
            row = self._row
            self._known[answer] = score(answer, row["gold"], row["kind"], row.get("choices")).correct
        return self._known[answer]


def _revision(before: str | None, after: str | None, kind: Kind, right: _Rightness) -> str | None:
    """Which of REVISIONS the step from one answer of an agent to its next is, if any."""
    was, is_now = right(before), right(after)
    if was != is_now:
        return "wrong_to_right" if is_now else "right_to_wrong"
    if was or before is None or after is None or same_answer(before, after, kind):
        return None
    return "wrong_to_wrong"


def _by_agent(turns: Iterable[Turn]) -> Iterator[tuple[str, list[Turn]]]:
    found: dict[str, list[Turn]] = {}
    for turn in turns:
        found.setdefault(turn["agent"], []).append(turn)
    yield from found.items()


def _nested(leaves: Mapping[Path, float]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in leaves.items():
        branch = tree
        for name in path[:-1]:
            branch = branch.setdefault(name, {})
        branch[path[-1]] = value
    return tree
