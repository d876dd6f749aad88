"""One seat: asks one LM in one role, reads the answer, and asks once more if it cannot be read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import dspy
from dspy.streaming import StatusMessage
from dspy.utils.exceptions import AdapterParseError

from ...signatures.frame import EMPTY, NOT_AN_OPTION, WRONG_FORM
from ..base.calls import ASKER, ROLLOUTS, asking, metered, record_turn
from ..base.errors import UserError, did_you_mean
from ..base.fence import disarm, one_line
from ..reading.asked import Kind, with_choices
from ..reading.row import Passage, TurnDetails
from .fields import fields_of
from .profile import SAMPLING
from .transcript import Task, Turn

MAX_SHOWN_CHARS = 80


# What writes requests and reads answers is loaded by the first turn.
@cache
def _directly() -> Any:
    from .direct import predict_directly

    return predict_directly


@cache
def _reader() -> Callable[[str | None, Kind, Mapping[str, str] | None], str | None]:
    from ..reading.answers import read_vote

    return read_vote


class SeatPredict(dspy.Predict):  # type: ignore[misc]
    """A predictor that keeps its LM when an optimizer resets it, since LMs of seats are not
    learned.
    """

    # DSPy's own warns of a direct call of `forward`, which takes longer than the look-up itself.
    __getattribute__ = object.__getattribute__

    adapter: dspy.Adapter | None = None

    def reset(self) -> None:
        lm = getattr(self, "lm", None)
        super().reset()
        self.lm = lm

    def dump_state(self, json_mode: bool = True) -> dict[str, object]:
        """DSPy's state, without the LM: an LM made by `fm.lm` is more than DSPy's state
        could say.
        """
        # A copy, because other threads may be asking this LM now.
        bare = object.__new__(type(self))
        bare.__dict__.update(vars(self), lm=None)
        state: dict[str, Any] = super(SeatPredict, bare).dump_state(json_mode)
        return state

    def load_state(
        self, state: dict[str, Any], *, allow_unsafe_lm_state: bool = False
    ) -> SeatPredict:
        """DSPy's state: words and demos. The seat keeps its LM, unless a trusted file names
        another.
        """
        own: dict[str, Any] = {
            name: state[name] for name in ("traces", "train", "demos", "fields") if name in state
        }
        named, kept = state.get("lm"), self.lm
        if named and not allow_unsafe_lm_state:
            warnings.warn(
                f"the state names the LM {str(named.get('model'))[:80]!r}, "
                "which is not taken over, nor any address: give LMs to the program, with lms={…}",
                stacklevel=2,
            )
            named = None
        own |= {"signature": state["signature"], "lm": named}
        super().load_state(own, allow_unsafe_lm_state=allow_unsafe_lm_state)
        self.lm = self.lm or kept
        return self

    async def acall(self, *args: object, **kwargs: object) -> dspy.Prediction:
        if (stream := dspy.settings.send_stream) is not None:  # of `dspy.streamify`
            await stream.send(StatusMessage(f"asking {ASKER.get().seat or 'the LM'}"))
        if self.adapter is not None:
            try:
                with dspy.context(adapter=self.adapter):
                    return await super().acall(*args, **kwargs)
            except AdapterParseError:  # the seat asks once more
                return dspy.Prediction(dict.fromkeys(self.signature.output_fields, ""))
        prediction = None
        if not args:
            prediction = await _directly()(self, kwargs)
        # None: something observes the call, so DSPy makes it.
        if prediction is None:
            return await super().acall(*args, **kwargs)
        return prediction


class Seat(dspy.Module):  # type: ignore[misc]
    """An agent.

    Args:
        name: what the others call it; also its name in `lms` and on the command line.
        signature: has `question` and any of `choices`, `context`, `kind`, `discussion`, `evidence`,
            `notes` and `correction` as inputs, and `answer` as output.
        lm: an LM of its own; None takes the one of the run.
        sampling: its LM settings, such as `{"temperature": 0.5}`.
        adapter: how it asks the LM; None goes by the LM's profile.

    Raises UserError for an unknown sampling setting.
    """

    __getattribute__ = object.__getattribute__

    query: Seat | None = None
    """The seat that writes what this one looks up."""

    def __init__(
        self,
        name: str,
        signature: type[dspy.Signature],
        *,
        lm: dspy.BaseLM | None = None,
        sampling: Mapping[str, object] | None = None,
        adapter: dspy.Adapter | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.predict = SeatPredict(signature)
        self.sample(sampling)
        self.predict.lm = lm
        self.adapter = adapter

    def sample(self, sampling: Mapping[str, object] | None) -> None:
        """Set LM settings, beside those it has. Raises UserError for an unknown."""
        if not isinstance(sampling, Mapping | None):
            raise UserError(
                f"sampling is {sampling!r}: give settings such as {{'temperature': 0.5}}"
            )
        unknown = [key for key in sampling or () if key not in SAMPLING]
        if unknown:
            raise UserError(
                f"there is no sampling setting {unknown[0]!r}{did_you_mean(unknown[0], SAMPLING)}: "
                f"choose among {', '.join(SAMPLING)}"
            )
        self.predict.config = {**self.predict.config, **(sampling or {})}

    @property
    def adapter(self) -> dspy.Adapter | None:
        # an optimizer may have put another predictor there
        return getattr(self.predict, "adapter", None)

    @adapter.setter
    def adapter(self, adapter: dspy.Adapter | None) -> None:
        if adapter is not None and not isinstance(adapter, dspy.Adapter):
            raise UserError(
                f"the adapter of the agent {self.name!r} is a {type(adapter).__name__}: "
                "give a dspy.Adapter"
            )
        self.predict.adapter = adapter

    async def ask(
        self,
        task: Task,
        *,
        round: int = 1,
        discussion: Sequence[Turn] = (),
        evidence: Sequence[Passage] | None = None,
        notes: Sequence[Mapping[str, object]] | None = None,
        rollout: int | None = None,
        examples: Sequence[dspy.Example] = (),
    ) -> Turn:
        """One turn: the answer in canonical form, or None if it could not be read twice.

        Turns with different `rollout` are independent samples: an LM with a seed gets another one
        for each. `notes` are further texts for this seat: dicts with `title`, `text` and, if there
        is one, `answer`; with `bare` set, a prompt of plain text shows the lines of `text` without
        their title, and `most` characters of the text are shown where that is set. All are quoted
        as evidence, but for one with `advice` set, which the seat may follow: it is a line of its
        own outside of any quotation. `examples` are shown as demonstrations as long as the seat has
        none of its own.
        """
        inputs = self.inputs(task, discussion, evidence, notes)
        predict, name = self.predict, self.name  # DSPy's modules look names up slowly
        read_vote = _reader()
        if examples and not predict.demos:
            inputs["demos"] = list(examples)
        config = self._config(rollout)
        with asking(seat=name), metered() as usage:
            prediction = await predict.acall(**inputs, config=config)
            # Two options with one text are one answer, so that votes for either add up.
            answer = read_vote(prediction.answer, task.kind, task.choices)
            if answer is None:
                problem = problem_of(prediction.answer, task)
                # Before the second attempt, which comes into the trace in its place.
                forget(prediction)
                prediction = await predict.acall(**self._corrected(inputs, problem), config=config)
                answer = read_vote(prediction.answer, task.kind, task.choices)
        details = TurnDetails()
        if answer is not None and usage.probability is not None:
            details["probability"] = usage.probability
        outputs = self._typed(prediction)
        raw = outputs["answer"]
        turn = Turn(
            agent=name,
            round=round,
            answer=answer,
            text=_argument(outputs),
            raw=None if answer == raw else raw,
            evidence=tuple(evidence or ()),
            usage=usage,
            details=details,
            outputs=outputs,
        )
        record_turn(turn)
        return turn

    async def work(
        self,
        task: Task,
        step: str,
        *,
        notes: Sequence[Mapping[str, object]] | None = None,
    ) -> Turn:
        """One turn that prepares an answer: `text` is what was said."""
        with metered() as usage:
            prediction = await self.fill(task, notes=notes)
        outputs = self._typed(prediction)
        text = _argument(outputs)
        turn = Turn(self.name, 1, None, text, usage=usage, step=step, outputs=outputs)
        record_turn(turn)
        return turn

    async def fill(
        self,
        task: Task,
        *,
        discussion: Sequence[Turn] = (),
        notes: Sequence[Mapping[str, object]] | None = None,
        correction: str | None = None,
        rollout: int | None = None,
    ) -> dspy.Prediction:
        """Make one call; returns the output fields as text."""
        inputs = self.inputs(task, discussion, notes=notes)
        if correction is not None:
            inputs = self._corrected(inputs, correction)
        with asking(seat=self.name):
            return await self.predict.acall(**inputs, config=self._config(rollout))

    def _config(self, rollout: int | None) -> dict[str, object]:
        """The settings of one turn, with what tells a sample apart: its number for caches and
        records, and a seed where one is set.
        """
        own, copies = dict[str, object](), ROLLOUTS.get()
        if copies.temperature is not None and "temperature" not in self.predict.config:
            own["temperature"] = copies.temperature
        rollout = copies.number(rollout)
        if rollout is None:
            return own
        settings = getattr(self.predict.lm or dspy.settings.lm, "kwargs", {}) | self.predict.config
        own["rollout_id"] = rollout
        if settings.get("seed") is not None:
            # With one seed for all, every sample would be the same.
            own["seed"] = settings["seed"] + rollout
        return own

    def inputs(
        self,
        task: Task,
        discussion: Sequence[Turn] = (),
        evidence: Sequence[Passage] | None = None,
        notes: Sequence[Mapping[str, object]] | None = None,
    ) -> dict[str, object]:
        """The input fields of a request, as far as this agent's signature has them; choices that it
        has no field for stand below the question.
        """
        fields = fields_of(self.predict.signature).inputs
        below = None if "choices" in fields else task.choices
        values: dict[str, object] = {
            "question": with_choices(task.question, below),
            "choices": dict(task.choices) if task.choices else None,
            "context": task.context,
            "kind": task.kind,
            "discussion": [turn.spoken() for turn in discussion] or None,
            "evidence": None if evidence is None else list(map(dict, evidence)),
            "notes": list(map(dict, notes or ())) or None,
        }
        for name in values.keys() - fields:
            del values[name]
        return values

    def _corrected(self, inputs: Mapping[str, object], problem: str) -> dict[str, object]:
        """The inputs, with a note on what was wrong with the last answer."""
        if "correction" in fields_of(self.predict.signature).inputs:
            return {**inputs, "correction": problem}
        return {**inputs, "question": f"{inputs['question']}\n\n{problem}"}

    def _typed(self, prediction: dspy.Prediction) -> dict[str, Any]:
        """The output fields, in the types of the signature."""
        return {name: prediction[name] for name in fields_of(self.predict.signature).outputs}


def _argument(outputs: Mapping[str, object]) -> str:
    """What an agent said besides its answer."""
    said = [str(value) for name, value in outputs.items() if name != "answer" and value]
    return "\n".join(said)


def forget(prediction: object) -> None:
    """Take an unreadable reply out of DSPy's trace, so that no optimizer makes a demonstration of
    it.
    """
    trace = dspy.settings.trace
    for place in reversed(range(len(trace or ()))):
        _, _, traced = trace[place]
        if traced is prediction:
            del trace[place]
            return


def problem_of(answer: str | None, task: Task) -> str:
    """The note to the agent on why its answer cannot be read."""
    if not answer or not answer.strip():
        return EMPTY
    # It is shown outside of any fence, so nothing of the last reply may be left that acts.
    shown = one_line(disarm(answer[: 10 * MAX_SHOWN_CHARS]))[:MAX_SHOWN_CHARS]
    problem = NOT_AN_OPTION if task.choices else WRONG_FORM
    return problem.format(answer=shown)
