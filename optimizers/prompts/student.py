"""Adapts a program for DSPy's optimizers: thread-safe, stoppable, and independent of order."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import dspy
from dspy.utils.exceptions import LMError

from ...modules.agents.adapter import Written
from ...modules.base.calls import FatalCallError
from ...modules.base.errors import UserError
from ...modules.base.sync import run_sync
from ...modules.protocols.program import Program

T = TypeVar("T")

MOST_FAILURES = 20
"""This many consecutive calls that fail for good end a compilation."""


class Halted(BaseException):
    """Ends an optimizer at once; DSPy would count an Exception as a wrong answer and go on."""


class CallControl:
    """The state that all copies of a student share: the run's books, and whether to stop. Args:
    within: binds records, budgets and ledgers, which DSPy's threads do not inherit. `problem` is
    the error that ended everything, or None. Thread-safe.
    """

    def __init__(self, within: Callable[[], AbstractContextManager[object]]) -> None:
        self._within = within
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[object]] = set()
        self._failures = 0
        self.problem: BaseException | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> CallControl:
        return self

    @contextmanager
    def working(self) -> Iterator[None]:
        """Wrap one call: a failure that would affect all calls ends them all. Raises Halted."""
        if self.problem is not None:
            raise Halted
        try:
            with self._within():
                yield
        except LMError as problem:
            if isinstance(problem, FatalCallError):
                self.halt(problem)
                raise Halted from None
            raise
        except Exception as problem:
            # A call that `halt` cancelled is no problem of its own.
            if not (isinstance(problem, CancelledError) and self.problem is not None):
                self.halt(problem)
            raise Halted from None
        except BaseException as problem:
            self.halt(problem)
            raise

    async def attended(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Await a call, which `halt` can cancel."""
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            self._tasks.add(task)
        try:
            if self.problem is not None:
                raise asyncio.CancelledError
            return await function(*arguments)
        finally:
            with self._lock:
                self._tasks.discard(task)

    def halt(self, problem: BaseException) -> None:
        """Start no further call, and cancel the calls in flight."""
        with self._lock:
            if self.problem is None:
                self.problem = problem
            # A copy: calls that end now take themselves out of the set.
            tasks = list(self._tasks)
        for task in tasks:
            task.get_loop().call_soon_threadsafe(task.cancel)

    def failed(self, problem: Exception) -> None:
        """Count a call that failed for good. Raises Halted after too many in a row."""
        with self._lock:
            self._failures += 1
            hopeless = self._failures >= MOST_FAILURES
        if hopeless:
            why = " ".join(str(problem).split())
            self.halt(
                UserError(
                    f"stopped after {MOST_FAILURES} failed calls in a row, the last because "
                    f"{why}; fix the cause and run the same command again: answered calls are kept"
                )
            )
            raise Halted

    def succeeded(self) -> None:
        self._failures = 0


class Student(dspy.Module):  # type: ignore[misc]
    """A question-answering program whose prompts are to be improved. Its predictors are those of
    `program`.

    A failed question gets a prediction without an answer, which counts as wrong. With
    `own_signatures`, copies have their own signature classes, for an optimizer that changes them in
    place.
    """

    def __init__(self, program: Program, control: CallControl) -> None:
        super().__init__()
        self.program = program
        self.control = control
        # Whether its answers are samples or a teacher's, which are no score of a candidate.
        self.sampled = False
        self.own_signatures = False

    def forward(self, **inputs: object) -> dspy.Prediction:
        trace = dspy.settings.trace
        # What other questions of this thread have left in the trace stays.
        start = len(trace or ())
        try:
            with self.control.working():
                prediction = run_sync(self.control.attended, partial(self._answer, **inputs))
        except LMError as problem:
            self.control.failed(problem)
            # No optimizer may make a demonstration of a question that failed halfway.
            del (trace or [])[start:]
            error = " ".join(str(problem).split()) or type(problem).__name__
            prediction = dspy.Prediction(
                answer=None, decided_by="error", transcript=[], error=error
            )
        else:
            self.control.succeeded()
            if trace is not None:
                # Demonstrations are taken from the trace in order: chance must not choose among
                # them.
                trace[start:] = in_order(trace[start:], self.predictors())
        prediction._program = None if self.sampled else self.program
        return prediction

    def _answer(self, **inputs: object) -> Awaitable[dspy.Prediction]:
        answer: Awaitable[dspy.Prediction] = self.program.acall(**inputs)
        return answer

    def deepcopy(self) -> Student:
        copied: Student = super().deepcopy()
        if self.own_signatures:
            for predictor in copied.predictors():
                predictor.signature = predictor.signature.with_instructions(
                    predictor.signature.instructions
                )
        return copied

    def reset_copy(self) -> Student:
        """Return a copy without demonstrations; unlike in DSPy's own, each seat keeps its LM."""
        copied = self.deepcopy()
        for predictor in copied.predictors():
            predictor.demos, predictor.traces, predictor.train = [], [], []
        return copied

    def get_lm(self) -> object:
        return dspy.settings.lm

    def set_lm(self, lm: dspy.BaseLM) -> None:
        """Make every seat draw an independent sample from its own LM for each rollout. DSPy passes
        one LM for all seats, which is ignored.
        """
        self.sampled = True
        for seat in self.program.seats().values():
            own = seat.predict.lm or dspy.settings.lm
            warm = {"temperature": lm.kwargs["temperature"]} if "temperature" in lm.kwargs else {}
            drawn = own.copy(**warm)
            if getattr(own, "direct", None) is not None:
                drawn.direct = Sampled(own.direct, lm.kwargs.get("rollout_id") or 0)
            else:
                drawn.kwargs["rollout_id"] = lm.kwargs.get("rollout_id")
            seat.predict.lm = drawn
            # The agent's own temperature would win over the one of the LM.
            if "temperature" in seat.predict.config:
                asked = {"temperature": lm.kwargs.get("temperature", 1.0)}
                seat.predict.config = {**seat.predict.config, **asked}


class TeamTeacher(Student):
    """A team that answers in the place of a student with one prompt.

    A trace shows the team's answer as if that prompt had given it. The argument before the answer
    is what the first agent said who gave the same answer.
    """

    def __init__(self, student: Program, team: Program, control: CallControl) -> None:
        super().__init__(student, control)
        self.sampled = True
        self._compiled = True  # DSPy would add labelled questions, which the team is not shown

        # A function, since copies share the team, and its prompts are not the student's.
        def ask(**inputs: object) -> Awaitable[dspy.Prediction]:
            answer: Awaitable[dspy.Prediction] = team.acall(**inputs)
            return answer

        self._team = ask

    def _answer(self, **inputs: object) -> Awaitable[dspy.Prediction]:
        return self._team(**inputs)

    def forward(self, **inputs: object) -> dspy.Prediction:
        # The team's own calls are of other prompts than the one that learns.
        with dspy.context(trace=None):
            prediction = super().forward(**inputs)
        if dspy.settings.trace is not None and prediction.answer is not None:
            predictor = self.predictors()[0]
            *arguments, answer = predictor.signature.output_fields
            said = dspy.Prediction(**{answer: prediction.answer})
            text = _argument(prediction)
            if text and len(arguments) == 1:
                said[arguments[0]] = text
            dspy.settings.trace.append((predictor, inputs, said))
        return prediction


def _argument(prediction: dspy.Prediction) -> str | None:
    """Return what was said for the answer, by the first agent who gave it."""
    for turn in prediction.transcript:
        text = str(turn["text"]).strip()
        if text and turn["answer"] == prediction.answer and not turn.get("step"):
            return text
    return None


class Sampled:
    """An engine whose calls all belong to one rollout; other rollouts are independent samples."""

    def __init__(self, engine: Any, rollout: int) -> None:
        self._engine, self._rollout = engine, rollout

    def __deepcopy__(self, memo: dict[int, object]) -> Sampled:
        return self

    async def ask(self, written: Written) -> Any:
        rollout = f"{self._rollout}/{written.extra.get('rollout') or 0}"
        return await self._engine.ask(replace(written, extra={**written.extra, "rollout": rollout}))


def in_order(steps: list[T], predictors: list[dspy.Predict]) -> list[T]:
    """Return the steps of a trace in an order that does not depend on which concurrent call ended
    first. Calls with longer inputs come later, since each turn reads the earlier ones; ties are
    broken by the predictors' order, then by the reply.
    """
    places = {id(predictor): place for place, predictor in enumerate(predictors)}

    def key(step: Any) -> tuple[int, int, str]:
        predictor, inputs, outputs = step
        written = json.dumps(inputs, sort_keys=True, default=str)
        reply = json.dumps(dict(outputs), default=str)
        return len(written), places.get(id(predictor), -1), written + reply

    return sorted(steps, key=key)
