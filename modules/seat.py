"""One seat: asks one LM in one role, reads the answer, and asks once more if it cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from ..signatures.frame import EMPTY, NOT_AN_OPTION, WRONG_FORM
from .adapter import SAMPLING
from .answers import read_answer
from .calls import asking, metered
from .errors import UserError
from .transcript import Task, Turn


class SeatPredict(dspy.Predict):  # type: ignore[misc]
    """A predictor that keeps its LM when an optimizer resets it: who sits where is not learned."""

    def reset(self) -> None:
        lm = getattr(self, "lm", None)
        super().reset()
        self.lm = lm


class Seat(dspy.Module):  # type: ignore[misc]
    """An agent: a name, a signature and, if set, an LM of its own.

    Args:
        name: what the others call it; also its name in `lms` and on the command line.
        signature: has `question`, `choices`, `context`, `kind`, `correction` as inputs and ends with
            `answer`; the other outputs are the agent's argument.
        lm: the LM of this seat; None takes the one of the run.
        sampling: LM settings of this seat, such as `{"temperature": 0.5}`.

    Raises UserError for an unknown sampling setting.
    """

    def __init__(
        self, name: str, signature: type[Any], *, lm: Any = None, sampling: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        unknown = [key for key in sampling or () if key not in SAMPLING]
        if unknown:
            raise UserError(
                f"there is no sampling setting {unknown[0]!r}: choose among {', '.join(SAMPLING)}"
            )
        self.name = name
        self.predict = SeatPredict(signature, **dict(sampling or {}))
        self.predict.lm = lm

    async def ask(
        self,
        task: Task,
        *,
        round: int = 1,
        discussion: Sequence[Turn] = (),
        evidence: Sequence[Mapping[str, Any]] | None = None,
        rollout: int | None = None,
    ) -> Turn:
        """One turn: the answer in canonical form, or None if it could not be read twice.

        Turns of different `rollout` are samples of their own: an LM that has a seed gets another for each.
        """
        inputs = self.inputs(task, discussion, evidence)
        config = {} if rollout is None else self._rolled(rollout)
        with asking(seat=self.name), metered() as usage:
            prediction = await self.predict.acall(**inputs, config=config)
            answer = read_answer(prediction.answer, task.kind, task.choices)
            if answer is None:
                problem = _problem(prediction.answer, task)
                _forget(prediction)
                prediction = await self.predict.acall(**inputs, correction=problem, config=config)
                answer = read_answer(prediction.answer, task.kind, task.choices)
        return Turn(
            agent=self.name,
            round=round,
            answer=answer,
            text=self._argument(prediction),
            raw=None if answer == prediction.answer else prediction.answer,
            evidence=tuple(evidence or ()),
            usage=usage,
        )

    def _rolled(self, rollout: int) -> dict[str, int]:
        """What tells a sample apart: its number for caches and records, and a seed where one is set."""
        settings = getattr(self.predict.lm or dspy.settings.lm, "kwargs", {}) | self.predict.config
        seed = settings.get("seed")
        return {"rollout_id": rollout} | ({} if seed is None else {"seed": seed + rollout})

    def inputs(
        self,
        task: Task,
        discussion: Sequence[Turn] = (),
        evidence: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """The input fields of a request, as far as this seat's signature has them."""
        inputs: dict[str, Any] = {
            "question": task.question,
            "choices": dict(task.choices) if task.choices else None,
            "context": task.context,
            "kind": task.kind,
        }
        fields = self.predict.signature.input_fields
        if "discussion" in fields:
            inputs["discussion"] = [turn.spoken() for turn in discussion] or None
        if "evidence" in fields:
            inputs["evidence"] = None if evidence is None else [dict(item) for item in evidence]
        return inputs

    def _argument(self, prediction: Any) -> str:
        names = [name for name in self.predict.signature.output_fields if name != "answer"]
        return "\n".join(str(prediction[name]) for name in names if prediction[name])


def _forget(prediction: Any) -> None:
    """Take an unreadable reply out of DSPy's trace, so that no optimizer makes a demonstration of it."""
    trace = dspy.settings.trace
    for place in reversed(range(len(trace or ()))):
        if trace[place][2] is prediction:
            del trace[place]
            return


def _problem(answer: str | None, task: Task) -> str:
    if not answer or not answer.strip():
        return EMPTY
    shown = " ".join(answer.split())[:80]
    return (NOT_AN_OPTION if task.choices else WRONG_FORM).format(answer=shown)
