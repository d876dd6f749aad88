"""What all protocols share: how a program is called, which LM sits where, and what a prediction holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy

from .adapter import ProfileAdapter
from .answers import Kind
from .calls import ASKER, asking, metered
from .errors import UserError
from .seat import Seat
from .sync import run_sync
from .transcript import Task, Turn

_ADAPTER = ProfileAdapter()


class Program(dspy.Module):  # type: ignore[misc]
    """A question-answering program. A protocol subclasses it and writes `solve`, its whole control flow.

    Call it with `question` and, as the question needs, `choices` (label → text), `context` and `kind`
    (choice, boolean, number, span); the prediction has

    - `answer`: the label, `yes`/`no`, decimal number or phrase; None when no answer could be read,
    - `decided_by`: what settled it, in the protocol's own words; `none` when nothing did,
    - `rounds` used and `consensus_round`, the round of first full consensus or None,
    - `transcript`: one dict a turn with agent, round, answer, text, evidence and usage,
    - `usage`: calls, prompt_tokens, completion_tokens, cached_calls, cost_usd of this question.

    Raises CallError when an LM call fails for good, UserError when the input cannot be used.
    """

    def forward(
        self,
        question: str,
        choices: Mapping[str, str] | None = None,
        context: str | Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> dspy.Prediction:
        return run_sync(self.aforward, question, choices, context, kind)

    async def aforward(
        self,
        question: str,
        choices: Mapping[str, str] | None = None,
        context: str | Sequence[str] | None = None,
        kind: Kind | None = None,
    ) -> dspy.Prediction:
        if not isinstance(question, str) or not question.strip():
            raise UserError("the question is empty: pass question='…'")
        task = Task.of(question, choices, context, kind)
        asked = ASKER.get().question or task.key
        with (
            dspy.context(adapter=_ADAPTER, warn_on_type_mismatch=False),
            asking(question=asked),
            metered() as usage,
        ):
            prediction = await self.solve(task)
        prediction.usage = usage.to_dict()
        return prediction

    async def solve(self, task: Task) -> dspy.Prediction:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """The constructor's settings as JSON; with prompts and demos, all that makes this program."""
        raise NotImplementedError

    def report(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """What the protocol has to say about its evaluated rows beside scores; numbers in nested dicts."""
        return {}

    def seats(self) -> dict[str, Seat]:
        """Every seat by the name that `lms` and `--lm` use; equal names become `NAME.0`, `NAME.1`, …."""
        seats = [module for _, module in self.named_sub_modules(Seat)]
        return dict(zip(distinct([seat.name for seat in seats]), seats, strict=True))

    def assign(self, lms: Mapping[str, Any] | None) -> None:
        """Give seats LMs of their own, by seat name; `NAME` alone means all of `NAME.0`, `NAME.1`, ….

        Raises UserError naming the seats when a name is not one of them.
        """
        seats = self.seats()
        for name, lm in (lms or {}).items():
            meant = [seat for key, seat in seats.items() if name in (key, key.rpartition(".")[0])]
            if not meant:
                raise UserError(
                    f"there is no seat {name!r} in this program: the seats are {', '.join(seats)}"
                )
            for seat in meant:
                seat.predict.lm = lm


def distinct(names: Sequence[str]) -> list[str]:
    """The names in order, repeated ones with their number: `a, b, a` gives `a.0, b, a.1`."""
    return [
        name if names.count(name) == 1 else f"{name}.{names[:index].count(name)}"
        for index, name in enumerate(names)
    ]


def prediction_of(
    task: Task,
    answer: str | None,
    decided_by: str,
    transcript: Sequence[Turn],
    *,
    rounds: int = 1,
    consensus_round: int | None = None,
    **extra: Any,
) -> dspy.Prediction:
    """The prediction that every protocol returns; `answers` holds each agent's answer per round."""
    return dspy.Prediction(
        answer=answer,
        decided_by=decided_by,
        rounds=rounds,
        consensus_round=consensus_round,
        kind=task.kind,
        answers=answers_by_agent(transcript),
        transcript=[turn.to_dict() for turn in transcript],
        **extra,
    )


def answers_by_agent(transcript: Iterable[Turn]) -> dict[str, list[str | None]]:
    answers: dict[str, list[str | None]] = {}
    for turn in transcript:
        answers.setdefault(turn.agent, []).append(turn.answer)
    return answers
