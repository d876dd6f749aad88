"""Textual feedback on one answered question, from its transcript, for GEPA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...modules.base.fence import cut, disarm, one_line
from ...modules.base.keyed import without, without_none
from ...modules.reading.answers import golds_of, score
from ...modules.reading.grading import Graded
from ...modules.reading.question import Question
from ...modules.reading.row import DECIDERS, Examined, TurnFields
from ...signatures import feedback as words

MAX_QUOTE_CHARS = 300


def feedback(
    question: Question,
    prediction: Mapping[str, object],
    seat: str | None = None,
    graded: Graded | None = None,
) -> str:
    """Feedback on this question for the LM that rewrites the instructions of `seat` (None: of the
    program).

    The lines have the right answer, each agent's answers by round, which agents turned from right
    to wrong or back and whose answers they had read, what a judge, supervisor or evaluator missed,
    and which replies could not be read. LM text is quoted on one line, cut, and without the markers
    that prompts use. With the score of a metric (`graded`), the lines have that score instead of
    right and wrong answers.
    """
    account = _Account(question, prediction, seat)
    lines = account.lines() if graded is None else account.graded(graded)
    return "\n".join(lines)


def quoted(text: object, most: int = MAX_QUOTE_CHARS) -> str:
    """Foreign text as one line in quotation marks, cut to this many characters, without prompt
    markers.
    """
    # Cut before it is cleaned, since a reply may be very long, and again after that.
    raw = str(text)[: 10 * most]
    return '"' + cut(one_line(disarm(raw)), most).replace('"', "'") + '"'


class _Account:
    def __init__(self, question: Question, prediction: Mapping[str, Any], seat: str | None) -> None:
        self.question, self.prediction, self.seat = question, prediction, seat
        self.turns = list(map(TurnFields.of, prediction.get("transcript") or ()))
        self.spoken = [turn for turn in self.turns if turn.step is None]
        self.gold = " or ".join(map(self.shown, golds_of(question.gold)))

    def lines(self) -> Iterator[str]:
        yield words.GOLD.format(gold=self.gold)
        yield self._outcome()
        if self.prediction.get("error"):
            return
        yield from self._agent_lines()
        yield from self._find_swayed()
        yield from self._unreadable()
        yield from self._find_decisions()
        yield from self._own()

    def graded(self, graded: Graded) -> Iterator[str]:
        answer, error = self.prediction.get("answer"), self.prediction.get("error")
        yield words.GOLD.format(gold=self.gold)
        if error:
            yield words.FAILED.format(error=quoted(error, 120))
            return
        yield words.GRADED.format(answer=self.shown(answer), score=graded.score)
        yield from self._unreadable()
        yield from self._own()

    def right(self, answer: str | None) -> bool:
        question = self.question
        return bool(score(answer, question.gold or "", question.kind, question.choices).correct)

    def shown(self, answer: str | None) -> str:
        """Return an answer as shown in feedback: a label with its option, or the quoted phrase."""
        if answer is None:
            return words.ABSTAINED
        option = (self.question.choices or {}).get(answer)
        if option is not None:
            return f"{one_line(disarm(str(answer)))} ({quoted(option, 80)})"
        return quoted(answer, 80)

    def _judged(self, answer: str | None) -> str:
        if answer is None:
            return words.ABSTAINED
        text = words.RIGHT if self.right(answer) else words.WRONG
        return text.format(answer=self.shown(answer))

    def _outcome(self) -> str:
        answer, question = self.prediction.get("answer"), self.question
        if error := self.prediction.get("error"):
            return words.FAILED.format(error=quoted(error, 120))
        decided_by = one_line(str(self.prediction.get("decided_by")))
        if answer is None:
            return words.UNREAD.format(decided_by=decided_by)
        judged = score(answer, question.gold or "", question.kind, question.choices)
        shown = self.shown(answer)
        if judged.f1 and not judged.correct:
            return words.PARTLY.format(answer=shown, f1=judged.f1, decided_by=decided_by)
        outcome = words.WON if judged.correct else words.LOST
        return outcome.format(answer=shown, decided_by=decided_by)

    def _agent_lines(self) -> Iterator[str]:
        """Yield each agent's answers in order; nothing for a single agent, whose answer is in the
        outcome.
        """
        if len(self.spoken) < 2:
            return
        answers: dict[str, list[str]] = {}
        for turn in self.spoken:
            answers.setdefault(turn.agent, []).append(self._judged(turn.answer))
        for agent, own in answers.items():
            yield words.SAID.format(agent=agent, answers=", then ".join(own))
        if not any(self.right(turn.answer) for turn in self.spoken):
            yield words.NOBODY

    def _find_swayed(self) -> Iterator[str]:
        """Yield the agents that turned from wrong to right or back, and whose answers they had read
        by then.
        """
        latest: dict[str, str | None] = {}
        for turn in self.spoken:
            agent, answer = turn.agent, turn.answer
            before = latest.get(agent)
            if agent not in DECIDERS and not turn.examined and None not in (before, answer):
                was, now = self.right(before), self.right(answer)
                if was != now:
                    # An agent is not swayed by what it said itself.
                    heard = without(latest, [agent])
                    others = [name for name, held in heard.items() if self._same(held, answer)]
                    by = words.AFTER.format(others=_names(others)) if others else ""
                    turned = words.WON_OVER if now else words.MISLED
                    yield turned.format(
                        agent=agent,
                        before=self.shown(before),
                        after=self.shown(answer),
                        round=turn.round,
                        by=by,
                    )
            latest[agent] = answer

    def _same(self, one: str | None, other: str | None) -> bool:
        if one is None or other is None:
            return False
        return bool(score(one, str(other), self.question.kind, self.question.choices).correct)

    def _unreadable(self) -> Iterator[str]:
        for turn in self.spoken:
            if turn.answer is None:
                raw = words.IT_WAS.format(raw=quoted(turn.raw, 120)) if turn.raw else ""
                yield words.UNREADABLE.format(agent=turn.agent, round=turn.round, raw=raw)

    def _find_decisions(self) -> Iterator[str]:
        """Yield the decisions of judge, supervisor, evaluators or a vote on their answers."""
        heard: dict[str, str | None] = {}
        decider = False
        for turn in self.turns:
            agent = turn.agent
            if turn.examined:
                yield from self._examined(turn, turn.examined)
            elif agent in DECIDERS:
                decider = True
                yield from self._verdict(turn, heard)
            elif turn.step is None:
                heard[agent] = turn.answer
        answer, knew = self.prediction.get("answer"), self._knew(heard)
        # Where somebody decides, what that one made of the answers was said above.
        voted = not decider and len(heard) > 1 and answer is not None
        if voted and knew and not self.right(answer):
            yield words.OUTVOTED.format(
                others=_names(knew), gold=self.gold, answer=self.shown(answer)
            )

    def _knew(self, heard: Mapping[str, str | None]) -> list[str]:
        """Return the agents who were heard with a right answer."""
        return [name for name, theirs in heard.items() if self.right(theirs)]

    def _verdict(self, turn: TurnFields, heard: Mapping[str, str | None]) -> Iterator[str]:
        agent, answer, shown = turn.agent, turn.answer, self.shown(turn.answer)
        knew = self._knew(heard)
        # A retry is no decision about the answer: it sends a worker back.
        if turn.step == "retry":
            other = str(turn.worker)
            before, hint = heard.get(other), quoted(turn.suggestion or "", 160)
            text = words.SENT_BACK_RIGHT if self.right(before) else words.SENT_BACK_WRONG
            yield text.format(agent=agent, other=other, before=self.shown(before), hint=hint)
        elif answer is None:
            if knew:
                yield words.SILENT.format(agent=agent, others=_names(knew), gold=self.gold)
        elif self.right(answer):
            against = list(without(without_none(heard), knew))
            if against:
                yield words.FOUND.format(agent=agent, answer=shown, others=_names(against))
        elif knew:
            yield words.IGNORED.format(
                agent=agent, answer=shown, others=_names(knew), gold=self.gold
            )

    def _examined(self, turn: TurnFields, examined: Examined) -> Iterator[str]:
        after = turn.answer
        if after is None:
            return  # reported with the unreadable replies
        before = examined.answer
        names = {"agent": turn.agent, "other": examined.agent}
        shown = {"before": self.shown(before), "after": self.shown(after)}
        if self.right(before) and not self.right(after):
            yield words.OVERTURNED.format(**names, **shown)
        elif not self.right(before):
            text = words.REPAIRED if self.right(after) else words.UPHELD
            if self.right(after) or self._same(before, after):
                yield text.format(**names, **shown)

    def _own(self) -> Iterator[str]:
        """Yield the replies of the seat that is to be improved; they come last."""
        if self.seat is None:
            return
        own = [turn for turn in self.turns if turn.agent == self.seat]
        # Such as the agent that writes queries, which has no turns of its own.
        if not own:
            yield words.PREPARES.format(seat=self.seat, gold=self.gold)
            return
        yield words.YOURS.format(seat=self.seat)
        if own[-1].text:
            yield words.ARGUED.format(agent=self.seat, text=quoted(own[-1].text))


def _names(names: Sequence[str]) -> str:
    return " and ".join(names)
