"""Recorded dialogues as controls read them: first answers, last answers, and what peers said."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import dspy

from ...modules.agents.transcript import Turn, all_agree
from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.reading.answers import answer_key
from ...modules.reading.metrics import Metric
from ...modules.reading.row import ResultRow, score_in
from ...optimizers.statistics.controls import expected_vote

Scores = dict[str, float]
"""By question id."""


@dataclass
class Dialogues:
    """The recorded dialogues of a team, and the first answers that arms branch from.

    `members` have a vote. `first` has their first answers by question, in the order of `members`:
    those of the record, or fresh ones, once they are given.
    """

    members: list[str]
    rows: list[ResultRow]
    turns: dict[str, list[Turn]] = field(default_factory=dict)
    first: dict[str, list[Turn]] = field(default_factory=dict)
    left_out: int = 0
    apart: bool = False  # no member reads anything of another

    def __deepcopy__(self, memo: dict[int, Any]) -> Dialogues:
        return self  # shared by all copies of a program

    @classmethod
    def of(cls, rows: Iterable[ResultRow], members: Sequence[str] | None) -> Dialogues:
        """Read the rows of a run. Without `members`, those who speak in the first round are.

        Raises UserError where fewer than two agents answer.
        """
        every = list(rows)
        dialogues = cls(list(members or _opening_agents(every)), [])
        fewest = len(members) if members else 2
        for row in every:
            turns = [Turn.of(turn) for turn in row["transcript"]]
            first, last = dialogues.ends(turns)
            if row["error"] or row["gold"] is None or len(last) < max(2, fewest):
                dialogues.left_out += 1
                continue
            dialogues.rows.append(row)
            if not row.get("repeat"):
                dialogues.turns[row["id"]] = turns
                dialogues.first[row["id"]] = [replace(turn, usage=Usage()) for turn in first]
        if not dialogues.rows:
            raise UserError(
                "the run has no question that two or more agents have answered: controls split "
                "what a team of agents gains"
            )
        return dialogues

    def ends(self, turns: Iterable[Turn]) -> tuple[list[Turn], list[Turn]]:
        """The first and the last turn of each member who answered, in the order of `members`."""
        first: dict[str, Turn] = {}
        last: dict[str, Turn] = {}
        for turn in turns:
            if turn.step is None and turn.agent in self.members:
                first.setdefault(turn.agent, turn)
                last[turn.agent] = turn
        order = [name for name in self.members if name in last]
        return [first[name] for name in order], [last[name] for name in order]

    @property
    def talked(self) -> bool:
        """Whether any member spoke twice."""
        for turns in self.turns.values():
            first, last = self.ends(turns)
            if any(one is not other for one, other in zip(first, last, strict=True)):
                return True
        return False

    def contested(self) -> float:
        """The share of questions whose first answers differ: agents who agree do not go on."""
        kinds = {row["id"]: row["kind"] for row in self.rows}
        split = [
            not all_agree([turn.answer for turn in turns], kinds[name])
            for name, turns in self.first.items()
        ]
        return fmean(split) if split else 0.0

    def elsewhere(self, name: str, seed: int) -> list[Turn]:
        """What was said about another question, which the seed draws: one that was discussed for as
        long, as far as there is one. Its answers are in words: a label would mean an option here.
        """
        lengths = {other: len(turns) for other, turns in self.turns.items() if other != name}
        if not lengths:
            return []
        enough = min(len(self.turns[name]), max(lengths.values()))
        fitting = [other for other, length in lengths.items() if length >= enough]
        chosen = random.Random(f"{seed}/{name}/placebo").choice(fitting)
        choices = next(row["choices"] for row in self.rows if row["id"] == chosen) or {}
        return [
            replace(turn, answer=turn.answer and choices.get(turn.answer, turn.answer))
            for turn in self.turns[chosen]
        ]


def _opening_agents(rows: Iterable[ResultRow]) -> list[str]:
    """Who speaks in the first round of imported dialogues: a judge comes later."""
    names: dict[str, None] = {}
    for row in rows:
        begin = min((turn["round"] for turn in row["transcript"]), default=0)
        names |= {turn["agent"]: None for turn in row["transcript"] if turn["round"] == begin}
    return list(names)


class Marker:
    """Scores answers as the metric of the run does, each once."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._scores: dict[tuple[str, str], float] = {}

    def one(self, row: ResultRow, answer: str | None) -> float:
        """The score of an answer to the question of a row; 0 for none."""
        if answer is None:
            return 0.0
        key = row["id"], answer
        if key not in self._scores:
            names = ("id", "question", "choices", "kind", "meta")
            asked = dspy.Example(answer=row["gold"], **{name: row.get(name) for name in names})
            graded = self.metric.grade_now(asked, dspy.Prediction(answer=answer))
            self._scores[key] = graded.score
        return self._scores[key]

    def mean(self, row: ResultRow, turns: Sequence[Turn]) -> float:
        return fmean(self.one(row, turn.answer) for turn in turns)

    def vote(self, row: ResultRow, turns: Sequence[Turn]) -> float:
        """What a vote of these turns scores on average where it is tied."""
        return expected_vote(
            [turn.answer for turn in turns],
            lambda answer: self.one(row, answer),
            lambda answer: answer_key(answer, row["kind"]),
        )


def levels_of(
    dialogues: Dialogues, arms: Mapping[str, Mapping[str, ResultRow]], marker: Marker
) -> dict[str, Scores]:
    """The score of every question at each level of the path, and in each arm beside it.

    `arms` has the rows of what was asked anew. Repeats of a question count as their mean. A member
    alone is the one that is right most often.
    """
    sums: dict[str, dict[str, list[float]]] = {}

    def add(level: str, row: ResultRow, score: float) -> None:
        sums.setdefault(level, {}).setdefault(row["id"], []).append(score)

    for row in dialogues.rows:
        name = row["id"]
        first, last = dialogues.ends(Turn.of(turn) for turn in row["transcript"])
        if FIRST in arms:
            fresh = arms[FIRST].get(name)
            if fresh is None or fresh["error"] is not None:
                continue
            first = [Turn.of(turn) for turn in fresh["transcript"]]
        add("first", row, marker.mean(row, first))
        add("vote", row, marker.vote(row, first))
        add("last", row, marker.vote(row, last))
        add("team", row, score_in(row))
        for turn in first:
            add(f"member {turn.agent}", row, marker.one(row, turn.answer))
    for arm, rows in arms.items():
        for row in dialogues.rows:
            answered = rows.get(row["id"])
            if answered is None or answered["error"] is not None or arm == FIRST:
                continue
            turns = [Turn.of(turn) for turn in answered["transcript"]]
            voted = dialogues.ends(turns)[1] if arm in ANSWERED_AGAIN else turns
            by_vote = bool(voted) and arm in (*ANSWERED_AGAIN, "self_consistency")
            add(arm, row, marker.vote(row, voted) if by_vote else score_in(answered))
    levels = {
        level: {name: fmean(scores) for name, scores in found.items()}
        for level, found in sums.items()
    }
    alone = {level: scores for level, scores in levels.items() if level.startswith("member ")}
    for level in alone:
        del levels[level]
    if alone:
        levels["best_member"] = max(alone.values(), key=lambda scores: fmean(scores.values()))
    if dialogues.apart or not dialogues.talked:  # whoever answered again had read nobody
        levels |= {"isolated": levels["last"], "placebo": levels["last"]}
    return levels


FIRST = "first"
ANSWERED_AGAIN = ("isolated", "placebo", "stance")
