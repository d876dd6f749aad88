"""The dialogues of a report, with their turning points; long texts are cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...modules.base.fence import clean
from ...modules.reading.answers import gold_text
from ...modules.reading.row import DECIDERS, ResultRow, TurnFields
from ...modules.reports.counting import Reading
from ...modules.reports.forensics import Move, moves
from ..base.wording import shortened

MOST, FEW = 6, 3  # dialogues of a run, where there are few runs and where there are many
LONGEST_TEXT = 900
LONGEST_QUESTION = 1_500
LONGEST_NOTE = 200
MOST_TURNS = 24
MOST_STEPS = 6


def cut_text(value: object, longest: int = LONGEST_TEXT) -> str:
    """Return the beginning of a long text, and the number of characters that are left out."""
    if value is None:
        return ""
    text = clean(str(value)).strip()
    more = len(text) - longest
    if more <= 0:
        return text
    return f"{text[:longest]} [… {more:,} more characters; results.jsonl has all]"


class ShownTurn(NamedTuple):
    """A turn in a report: who, when, the answer with its state (right, wrong, unreadable, none),
    the argument, and the steps (thought, action, observation), with how many there are more.

    `turned` says what became of the agent's own answer, where it left it: `to right`, `to wrong` or
    `to another wrong answer`; `note` says so in a sentence, with who held the new answer.
    """

    agent: str
    round: int
    answer: str
    state: str
    text: str
    turned: str | None = None
    note: str | None = None
    steps: Sequence[tuple[str, str, str]] = ()
    more_steps: int = 0


@dataclass(frozen=True)
class ShownDialogue:
    """A question with its options (label, text, whether gold), its turns, and how it ended."""

    id: str
    question: str
    options: Sequence[tuple[str, str, bool]]
    gold: str
    answer: str
    correct: bool
    decided_by: str
    turns: Sequence[ShownTurn]
    more_turns: int


def question_name(row: ResultRow) -> str:
    """Return a question's id, with its row in the data if the id was made from its content."""
    place = (row.meta or {}).get("row")
    return str(row.id) if place is None else f"{row.id} (row {place})"


def shown(row: ResultRow, longest: int = LONGEST_TEXT) -> ShownDialogue:
    """Return a row as a report shows it; texts of turns are cut after `longest` characters."""
    reading = Reading(row)
    turned = {move.turn: move for move in moves(row, reading)}
    choices = row.choices or {}
    gold = answer_text(gold_text(row.gold) or None, choices)
    transcript = list(row.transcript)
    name = question_name(row)
    if row.repeat:
        name += f", repeat {row.repeat}"
    return ShownDialogue(
        id=name,
        question=cut_text(row.question or "(the question is not in the row)", LONGEST_QUESTION),
        options=[
            (str(label), cut_text(text, 300), label == row.gold)
            for label, text in list(choices.items())[:20]
        ],
        gold=gold,
        answer=answer_text(row.answer, choices),
        correct=bool(row.correct),
        decided_by=str(row.decided_by or ""),  # an imported log does not say
        turns=[
            _turn(turn, turned.get(place), reading, choices, longest)
            for place, turn in enumerate(transcript[:MOST_TURNS])
        ],
        more_turns=max(0, len(transcript) - MOST_TURNS),
    )


_TURNED = {
    (False, True): "to right",
    (True, True): "to right",
    (True, False): "to wrong",
    (False, False): "to another wrong answer",
}


def _turn(
    turn: TurnFields,
    move: Move | None,
    reading: Reading,
    choices: Mapping[str, str],
    longest: int,
) -> ShownTurn:
    step, answer = turn.step, turn.answer
    trace = turn.trace or []
    note = turned = None
    state, said = reading.state(answer), answer_text(answer, choices)
    if step and answer is None:
        state, said = "none", str(step)
    if move is not None:
        turned = _TURNED[move.was, move.now]
        note = _moved(move, choices, handed=turn.examined is not None)
    elif turn.worker and step == "retry":
        note = f"sends {turn.worker} back: {turn.get('suggestion', '')}"
    elif turn.worker:
        note = f"accepts the answer of {turn.worker}"
    return ShownTurn(
        agent=clean(str(turn.agent)),
        round=turn.round,
        answer=clean(said),
        state=state,
        text="" if trace else cut_text(turn.text, longest),
        turned=turned,
        note=None if note is None else shortened(clean(note), LONGEST_NOTE),
        steps=[
            (
                cut_text(step.get("thought"), 300),
                cut_text(step.get("action"), 200),
                cut_text(step.get("observation"), 300),
            )
            for step in trace[:MOST_STEPS]
        ],
        more_steps=max(0, len(trace) - MOST_STEPS),
    )


def _moved(move: Move, choices: Mapping[str, str], *, handed: bool) -> str:
    words = {True: "right", False: "wrong"}
    before, after = answer_text(move.before, choices), answer_text(move.after, choices)
    left, took = ("was handed", "and answers") if handed else ("leaves", "for")
    change = f"{left} {before} ({words[move.was]}) {took} {after} ({words[move.now]})"
    if not move.towards:
        return f"{change}, which nobody held then"
    holders = " and ".join(move.towards)
    if move.towards[0] in DECIDERS:
        return f"{change}, sent back by {holders}"
    return f"{change}, as {holders} said"


def answer_text(answer: object, choices: Mapping[str, str]) -> str:
    """Return an answer with the text of the option that it names."""
    if not isinstance(answer, str):
        return "unreadable"
    text = choices.get(answer)
    return shortened(clean(f"{answer}. {text}" if text else answer), LONGEST_NOTE)
