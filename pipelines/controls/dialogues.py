"""Recorded dialogues for controls: first answers, last answers, and what peers said."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import dspy

from ...modules.agents.transcript import Turn
from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.reading.answers import answer_key
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow, score_in
from ...modules.statistics.controls import expected_vote
from ..tasks.picked import PICKED, Answered

FIRST, SELF_CONSISTENT = "first", "self_consistency"
ANY = "any_of_several"
"""Whether any of the first answers, or of the samples, is right: no pick among them exceeds it."""

AGAIN = ("isolated", "placebo", "stance")
"""Arms in which agents answer again."""


@dataclass
class Dialogues:
    """The recorded dialogues of a team, and the first answers that arms branch from.

    `members` are the agents with a vote; `apart` means that none of them reads another. `first` has
    their first answers by question, in the order of `members`: the recorded ones, or fresh ones
    once they exist.
    """

    members: Sequence[str]
    apart: bool = False
    rows: list[ResultRow] = field(default_factory=list)
    turns: dict[str, list[Turn]] = field(default_factory=dict)
    first: dict[str, list[Turn]] = field(default_factory=dict)
    left_out: int = 0

    def __deepcopy__(self, memo: dict[int, object]) -> Dialogues:
        return self  # one object that all copies of a program share

    def add(self, row: ResultRow, fewest: int = 2) -> None:
        """Add a row, or count it as left out if not all members have answered."""
        turns = unpaid_turns(row)
        first, last = self.ends(turns)
        labelled = row.gold is not None or row.kind == "task"
        # All members or none: the vote without one of them would be that of another team.
        if row.error or not labelled or len(last) < max(2, fewest):
            self.left_out += 1
            return
        self.rows.append(row)
        # Arms are asked once a question: of its repeats they branch from the first.
        self.turns.setdefault(row.id, turns)
        self.first.setdefault(row.id, first)

    def ends(self, turns: Iterable[Turn]) -> tuple[list[Turn], list[Turn]]:
        """Return the first and the last turn of each member that answered, in the order of
        `members`.
        """
        first: dict[str, Turn] = {}
        last: dict[str, Turn] = {}
        for turn in turns:
            if turn.step is None and turn.agent in self.members:
                first.setdefault(turn.agent, turn)
                last[turn.agent] = turn
        order = [name for name in self.members if name in last]
        return [first[name] for name in order], [last[name] for name in order]

    def elsewhere(self, name: str, seed: int) -> list[Turn]:
        """Return the dialogue about another question, drawn by the seed, of the same length if
        there is one. Its answers are in words, since a label would mean an option of this question.
        """
        # Every agent is to be shown as much as it would be of its own question.
        lengths = {row.id: len(row.transcript) for row in self.rows if row.id != name}
        enough = min(len(self.turns[name]), max(lengths.values(), default=0))
        fitting = [other for other, length in lengths.items() if length >= enough]
        if not fitting:
            return []
        chosen = random.Random(f"{seed}/{name}/placebo").choice(fitting)
        choices = next(row.choices for row in self.rows if row.id == chosen) or {}
        turns = []
        for turn in self.turns[chosen]:
            turns.append(replace(turn, answer=choices.get(turn.answer or "", turn.answer)))
        return turns


def unpaid_turns(row: ResultRow) -> list[Turn]:
    """Return the turns of a row without their usage, which the recorded run has paid for."""
    return [replace(Turn.of(turn), usage=Usage()) for turn in row.transcript]


def dialogues_in(
    rows: Iterable[ResultRow],
    members: Sequence[str] = (),
    *,
    apart: bool = False,
    acts: bool = False,
) -> Dialogues:
    """Read the dialogues of a run. Without `members`, the agents that speak in the first round have
    a vote; a judge speaks later. Of a program that `acts`, agents need not be known: then there are
    no members, and one agent at the same bill is what it is compared with.

    Raises UserError where fewer than two agents answer.
    """
    every, speaking = list(rows), dict[str, None]()
    for row in every:
        for turn in row.transcript:
            if turn.round == row.transcript[0].round:  # logs count from 0 or 1
                speaking[turn.agent] = None
    dialogues = Dialogues(members or list(speaking), apart)
    for row in every:
        dialogues.add(row, len(members))
    if not dialogues.rows and acts:
        return Dialogues((), True, [row for row in every if row.error is None])
    if not dialogues.rows:
        raise UserError(
            "the run has no question that two or more agents have answered: controls split what a "
            "team of agents gains"
        )
    if not members:  # agents that answer only once have not read a peer
        ends = map(dialogues.ends, dialogues.turns.values())
        dialogues.apart = all(first == last for first, last in ends)
    return dialogues


def levels_of(
    dialogues: Dialogues,
    arms: Mapping[str, Mapping[str, ResultRow]],
    metric: Metric,
    checked: Mapping[tuple[str, str], float],
) -> dict[str, dict[str, float]]:
    """Return the score of every question, by id, at each level of the path and in each other arm.
    `arms` has the rows of the arms that were asked, `checked` the scores of answers to tasks.
    Repeats of a question count as their mean. The best agent alone is the member that is right most
    often.
    """
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in dialogues.rows:
        own = _levels_of_row(dialogues, arms, metric, row, checked)
        for level, score in own.items():
            scores[level][row.id].append(score)
    levels, alone = dict[str, dict[str, float]](), list[dict[str, float]]()
    for level, by_question in scores.items():
        means = {name: fmean(values) for name, values in by_question.items()}
        if level in dialogues.members:
            alone.append(means)
        else:
            levels[level] = means
    levels["best_member"] = max(alone, key=lambda scores: fmean(scores.values()), default={})
    # Agents that read nobody have thought again alone already: there is no peer to leave out.
    if dialogues.apart and "last" in levels:
        levels |= {"isolated": levels["last"], "placebo": levels["last"]}
    return levels


def _levels_of_row(
    dialogues: Dialogues,
    arms: Mapping[str, Mapping[str, ResultRow]],
    metric: Metric,
    row: ResultRow,
    checked: Mapping[tuple[str, str], float],
) -> dict[str, float]:
    # Scored as in the run: a metric of the user's may look at all of these.
    names = ("id", "question", "choices", "kind", "meta")
    asked = dspy.Example(answer=row.gold, **{name: row.get(name) for name in names})

    def mark(answer: str | None) -> float:
        if not answer:
            return 0.0
        if row.kind == "task":
            return checked[row.id, answer]
        return metric.grade_now(asked, dspy.Prediction(answer=answer)).score

    def vote(turns: Sequence[Turn]) -> float:
        answers = [turn.answer for turn in turns]
        return expected_vote(answers, mark, lambda answer: answer_key(answer, row.kind))

    first, last = dialogues.ends(unpaid_turns(row))
    if FIRST in arms:
        first = dialogues.first.get(row.id, [])
    picked = arms.get(SELF_CONSISTENT, {}).get(row.id)
    if not dialogues.members and picked is not None and picked.error is None:
        samples = [mark(turn.answer) for turn in picked.transcript if turn.round == 1]
        path = {"first": fmean(samples), "vote": score_in(picked), "team": score_in(row)}
        return {**path, ANY: max(samples)}
    if not first:
        return {}
    alone = {turn.agent: mark(turn.answer) for turn in first}
    path = {"first": fmean(alone.values()), "vote": vote(first), "last": vote(last)}
    levels = {**alone, **path, "team": score_in(row)}
    if row.kind in PICKED:
        levels[ANY] = max(alone.values())
    for arm, rows in arms.items():
        answered = rows.get(row.id)
        if arm != FIRST and answered is not None and answered.error is None:
            turns = unpaid_turns(answered)
            if arm in AGAIN:
                levels[arm] = vote(dialogues.ends(turns)[1])
            elif row.kind in PICKED:
                # Answers that cannot be voted on have the score of the one that was picked.
                levels[arm] = score_in(answered)
            else:
                levels[arm] = vote(turns)
    return levels


def answers_said(rows: Iterable[ResultRow], questions: Sequence[Question]) -> Iterator[Answered]:
    """Yield the answers to tasks in these rows, each with its task, to be checked."""
    tasks = {question.id: question for question in questions if question.kind == "task"}
    for row in rows:
        for turn in row.transcript:
            if turn.answer is not None and row.id in tasks:
                yield tasks[row.id], turn.answer
