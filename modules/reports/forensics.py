"""Effects of dialogues on answers: which agent adopted whose answer, and which was right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..reading.row import DECIDERS, ResultRow, TurnFields, answering
from ..reading.voting import majority
from .counting import STATES, Figures, Reading

CHANGES = tuple(f"{before}_to_{after}" for before in STATES for after in STATES)
_MOVES = {(False, True): "to_right", (True, False): "to_wrong", (False, False): "wrong_to_wrong"}


class Move(NamedTuple):
    """A change of an agent's answer: at which turn of the transcript, and from which answer to
    which.

    `before` and `after` are the two answers, `was` and `now` whether they are right; `towards` are
    those who held the new answer at that moment: other agents, or the supervisor who had sent the
    agent back.
    """

    turn: int
    agent: str
    before: str
    after: str
    was: bool
    now: bool
    towards: tuple[str, ...]


def moves(row: ResultRow, reading: Reading | None = None) -> list[Move]:
    """Return every change of mind in a row's dialogue, in order: an answer that follows another one
    of the same agent, or that was handed to it. Repeating an answer in other words is none.
    """
    changes, reading = [], reading or Reading(row)
    turns = ResultRow.of(row).transcript or ()
    # Reasoners who are asked again read nobody: their second answer follows from no other.
    afresh = any(turn.examined for turn in turns)
    held: dict[str, str | None] = {}
    spoke: dict[str, int] = {}
    sent_back: dict[str, str] = {}
    for place, turn in enumerate(turns):
        agent, round, after = str(turn.agent), _round(turn), _answer(turn)
        before, prompted_by = None, None
        if turn.step:
            if turn.worker:
                sent_back[str(turn.worker)] = agent
            continue
        examined = turn.examined
        if examined:
            before = examined.answer
        # Deciders have no answer of their own to leave, and samples of one round are no change.
        elif agent in DECIDERS or round <= spoke.get(agent, -1):
            continue
        elif not afresh:
            before, prompted_by = held.get(agent), sent_back.get(agent)
        if before is not None and after is not None and not reading.same(before, after):
            holders = [name for name, answer in held.items() if reading.same(answer, after)]
            if prompted_by:
                holders = [prompted_by]
            was, now = reading.right(before), reading.right(after)
            changes.append(Move(place, agent, before, after, was, now, tuple(holders)))
        if not examined:
            held[agent], spoke[agent] = after, round
    return changes


def forensics(rows: Iterable[ResultRow]) -> dict[str, object]:
    """Report, from the rows of a protocol with several agents, who was right and who gave way.

    Args: rows: rows of `results.jsonl`; read once, only counters are held. Rows with an error do
        not count.

    Returns nested dicts with text keys, empty when no question had two agents; rates are floats in
    0 … 1, counts are ints, and a rate over nothing is left out. Agents are all who answer, without
    judge and supervisor.

    - `questions`: those with at least one agent's answer; `blind`: how many of them were opened
      blind, if any
    - `oracle`: `accuracy` of the final answers; `any_agent`, the share of questions on which
      somebody answered right at some point; `gap`, their difference; `lost`, the questions in it
    - `talk`: what came of the majority vote of first answers: its
      `accuracy`, that of the vote of last answers (`accuracy_last`), and counts from there to the
      final answer, such as `wrong_to_right`; the same of its two steps, `revisions` (from the first
      vote to the last) and `decider` (from the last vote to the final answer)
    - `agent`: for each `flips`, counts from first to last answer on a question (right, wrong or
      unreadable, such as `right_to_wrong`)
    - `sway`: speaker → listener → counts of the listener's moves to an answer that the speaker
      held, as `to_right`, `to_wrong` (from right) and `wrong_to_wrong`; a move to an answer that
      several held counts for each

    In a dialogue an agent sees what others said before it; not so in a first round that was
    answered blind, whose vote, where `talk` starts, is then of what each knew alone. A worker sent
    back sees only the supervisor's suggestion: its moves are the supervisor's. Reasoners are asked
    afresh in every round and so give way to nobody; an evaluator's own answer is the one that it
    was handed.
    """
    tally = ForensicTally()
    for row in map(ResultRow.of, rows):
        tally.count(row)
    return tally.report()


class ForensicTally:
    """`forensics` of rows that come one at a time."""

    def __init__(self) -> None:
        self._figures = Figures()
        self._several = self._talked = False

    def count(self, row: ResultRow) -> None:
        spoken = answering(row.transcript)
        answers_by_agent = answers_of(spoken)
        if row.error or not answers_by_agent:
            return
        figures, reading, final = self._figures, Reading(row), bool(row.correct)
        # Whether anybody answered more than once, or what somebody had answered.
        talked = len(spoken) > len(answers_by_agent)
        self._talked = self._talked or talked
        self._several = self._several or len({str(turn.agent) for turn in spoken}) > 1
        anybody_right = final or any(reading.right(turn.answer) for turn in spoken)
        figures.finished(row)
        if any(turn.blind for turn in spoken):
            figures.count(1, "blind")
        figures.mean(final, "oracle", "accuracy")
        figures.mean(anybody_right, "oracle", "any_agent")
        figures.mean(anybody_right - final, "oracle", "gap")
        figures.count(anybody_right - final, "oracle", "lost")
        if talked:
            self._flips(spoken, answers_by_agent, reading)
        self._vote(row, answers_by_agent, reading)
        if talked:
            self._sway(moves(row, reading))

    def _sway(self, changes: Iterable[Move]) -> None:
        for move in changes:
            # From one right answer to another, nobody was persuaded of anything.
            if way := _MOVES.get((move.was, move.now)):
                for speaker in move.towards:
                    self._figures.one_of(_MOVES.values(), way, "sway", speaker, move.agent)

    def _change(self, before: str, after: str, *path: str) -> None:
        self._figures.one_of(CHANGES, f"{before}_to_{after}", *path)

    def _flips(
        self,
        spoken: Iterable[TurnFields],
        answers_by_agent: Mapping[str, list[str | None]],
        reading: Reading,
    ) -> None:
        examined = False
        for turn in spoken:
            if turn.examined is not None:
                examined = True
                before, after = reading.state(turn.examined.answer), reading.state(turn.answer)
                self._change(before, after, "agent", str(turn.agent), "flips")
        if examined:
            return
        for agent, answers in answers_by_agent.items():
            if len(answers) > 1:
                first, last = reading.state(answers[0]), reading.state(answers[-1])
                self._change(first, last, "agent", agent, "flips")

    def _vote(
        self, row: ResultRow, answers_by_agent: Mapping[str, list[str | None]], reading: Reading
    ) -> None:
        firsts = [own[0] for own in answers_by_agent.values()]
        lasts = [own[-1] for own in answers_by_agent.values()]
        first = last = _voted(firsts, reading)
        if lasts != firsts:
            last = _voted(lasts, reading)
        final = "wrong"
        if row.correct:
            final = "right"
        elif row.answer is None:
            final = "unreadable"
        self._figures.mean(first == "right", "talk", "accuracy")
        self._figures.mean(last == "right", "talk", "accuracy_last")
        self._change(first, final, "talk")
        self._change(first, last, "talk", "revisions")
        self._change(last, final, "talk", "decider")

    def report(self) -> dict[str, object]:
        """Return the report of `forensics` on the rows so far."""
        if not self._several:
            return {}
        report = self._figures.report()
        if not self._talked:
            report.pop("talk", None)
        report.setdefault("agent", {})
        del report["errors"]
        return report


def _voted(answers: Iterable[str | None], reading: Reading) -> str:
    """Return the state of the majority's answer."""
    # An answer that cannot be read has no key to be counted by, and abstains.
    readable = [answer for answer in answers if reading.key(answer)]
    if len(set(readable)) == 1:  # as in most dialogues
        return reading.state(readable[0])
    return reading.state(majority(readable, key=reading.key).answer)


def _round(turn: TurnFields) -> int:
    round: object = turn.round
    return round if isinstance(round, int) else 0


def _answer(turn: TurnFields) -> str | None:
    answer: object = turn.answer
    return answer if isinstance(answer, str) else None


def answers_of(spoken: Iterable[TurnFields]) -> dict[str, list[str | None]]:
    """Return each agent's answer in each of its rounds; of several answers in a round (samples) the
    first.
    """
    answers: dict[str, list[str | None]] = {}
    last: dict[str, int] = {}
    for turn in spoken:
        agent, round = str(turn.agent), _round(turn)
        # Only votes: evaluators judge what they were handed, and further samples are one agent's.
        if agent in DECIDERS or turn.examined or (agent in last and round <= last[agent]):
            continue
        last[agent] = round
        answers.setdefault(agent, []).append(_answer(turn))
    return answers
