"""One agent (`Seat`): asks an LM in one role, reads the answer, and asks once more if it cannot."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
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


# Imported by the first turn: a program that is only built or described needs neither.
@cache
def _directly() -> Callable[
    [dspy.Predict, Mapping[str, object]], Awaitable[dspy.Prediction | None]
]:
    from .direct import predict_directly

    return predict_directly


@cache
def _reader() -> Callable[[str | None, Kind, Mapping[str, str] | None], str | None]:
    from ..reading.answers import read_vote

    return read_vote


class SeatPredict(dspy.Predict):  # type: ignore[misc]
    """A `dspy.Predict` that keeps its LM when an optimizer resets it: an agent's LM is configured,
    not learned.
    """

    # DSPy's own warns of direct calls of `forward`, which makes each look-up several times slower.
    __getattribute__ = object.__getattribute__

    adapter: dspy.Adapter | None = None

    def reset(self) -> None:
        lm = getattr(self, "lm", None)
        super().reset()
        self.lm = lm

    def dump_state(self, json_mode: bool = True) -> dict[str, object]:
        """Return DSPy's state without the LM, since it could not describe an LM that `fm.lm`
        made.
        """
        # The LM is taken out of a copy, because other threads may be using the original.
        bare = object.__new__(type(self))
        bare.__dict__.update(vars(self), lm=None)
        state: dict[str, object] = super(SeatPredict, bare).dump_state(json_mode)
        return state

    def load_state(
        self, state: dict[str, Any], *, allow_unsafe_lm_state: bool = False
    ) -> SeatPredict:
        """Load DSPy's state: instructions and demos. The LM stays, unless a trusted file names
        another.
        """
        own: dict[str, object] = {
            name: state[name] for name in ("traces", "train", "demos", "fields") if name in state
        }
        named, kept = state.get("lm"), self.lm
        if named and not allow_unsafe_lm_state:
            warnings.warn(
                f"the state names the LM {str(named.get('model'))[:80]!r}, "
                "which is ignored, as any address: give the program its LMs, with lms={…}",
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
            except AdapterParseError:  # empty fields, so that the agent is asked once more
                return dspy.Prediction(dict.fromkeys(self.signature.output_fields, ""))
        prediction = None
        if not args:
            prediction = await _directly()(self, kwargs)
        # Something observes the call, so DSPy has to make it.
        if prediction is None:
            return await super().acall(*args, **kwargs)
        return prediction


class Seat(dspy.Module):  # type: ignore[misc]
    """An agent.

    Args:
        name: what other agents call it; also its name in `lms` and on the command line.
        signature: has `question` and any of `choices`, `context`, `kind`, `discussion`, `evidence`,
            `notes` and `correction` as inputs, and `answer` as output.
        lm: an LM of its own; None takes the one of the run.
        sampling: its LM settings, such as `{"temperature": 0.5}`.
        adapter: the DSPy adapter that writes its requests; None: as the LM's profile says.

    Raises UserError for an unknown sampling setting.
    """

    __getattribute__ = object.__getattribute__

    query: Seat | None = None
    """The agent that writes search queries for this one, if any."""

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
        """Set further LM settings. Raises UserError for an unknown one."""
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
        # Not `self.predict.adapter`: an optimizer may have put in another kind of predictor.
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
        """Ask the LM, and once more if the answer cannot be read; returns the turn, whose `answer`
        is in canonical form, or None if it could not be read either time.

        Turns with different `rollout` are independent samples: an LM with a seed gets another one
        for each. `examples` are shown as demonstrations if the agent has none of its own.

        `notes` are further texts for this agent: dicts with `title`, `text` and perhaps `answer`,
        quoted as evidence. With `advice` set, a note is not quoted, so that the agent may follow
        it; `bare` leaves out its title in the plain layout; `most` limits the characters shown.
        """
        inputs = self.inputs(task, discussion, evidence, notes)
        predict, name = self.predict, self.name  # once: attributes of DSPy's modules are slow
        read_vote = _reader()
        if examples and not predict.demos:
            inputs["demos"] = list(examples)
        config = self._config(rollout)
        with asking(seat=name), metered() as usage:
            prediction = await predict.acall(**inputs, config=config)
            # `read_vote`, so that votes for two options with the same text add up.
            answer = read_vote(prediction.answer, task.kind, task.choices)
            if answer is None:
                problem = problem_of(prediction.answer, task)
                # Before the second attempt, which DSPy's trace then has in its place.
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
        """Return one turn without an answer, which prepares one; its `text` is all that the LM
        said.
        """
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
        """Make one call; returns its prediction, whose fields are text.

        `correction` says what was wrong with the last reply.
        """
        inputs = self.inputs(task, discussion, notes=notes)
        if correction is not None:
            inputs = self._corrected(inputs, correction)
        with asking(seat=self.name):
            return await self.predict.acall(**inputs, config=self._config(rollout))

    def _config(self, rollout: int | None) -> dict[str, object]:
        """Return the LM settings that make one turn a sample of its own: its number, by which
        caches tell samples apart, and another seed if the LM has one.
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
        """Return the values of this agent's input fields. If its signature has no field for
        choices, they are added below the question.
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
        """Return the inputs with a note on what was wrong with the last reply."""
        if "correction" in fields_of(self.predict.signature).inputs:
            return {**inputs, "correction": problem}
        return {**inputs, "question": f"{inputs['question']}\n\n{problem}"}

    def _typed(self, prediction: dspy.Prediction) -> dict[str, Any]:
        """Return the output fields, in the types of the signature."""
        return {name: prediction[name] for name in fields_of(self.predict.signature).outputs}


def _argument(outputs: Mapping[str, object]) -> str:
    """Return all output fields but the answer, as one text."""
    said = [str(value) for name, value in outputs.items() if name != "answer" and value]
    return "\n".join(said)


def forget(prediction: object) -> None:
    """Remove an unreadable reply from DSPy's trace, so that no optimizer turns it into a
    demonstration.
    """
    trace = dspy.settings.trace
    for place in reversed(range(len(trace or ()))):
        _, _, traced = trace[place]
        if traced is prediction:
            del trace[place]
            return


def problem_of(answer: str | None, task: Task) -> str:
    """Return the note to the agent on why its answer cannot be read."""
    if not answer or not answer.strip():
        return EMPTY
    # It is shown outside of any fence, so nothing in it may look like a delimiter or control token.
    shown = one_line(disarm(answer[: 10 * MAX_SHOWN_CHARS]))[:MAX_SHOWN_CHARS]
    problem = NOT_AN_OPTION if task.choices else WRONG_FORM
    return problem.format(answer=shown)
