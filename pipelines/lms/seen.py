"""What a trace of a question is made of: its LM calls (request, reply, times, usage, error), and in
a DSPy module the steps that led to them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field

from dspy.utils.callback import ACTIVE_CALL_ID, BaseCallback

from ...modules.base.calls import ASKER, Asker, Usage, meters
from ...modules.base.errors import said_by
from .endpoint import Reply

KINDS = {"ReAct": "AGENT", "Retrieve": "RETRIEVER", "Predict": "LLM"}
"""Class of a DSPy module → MLflow's type of span, by which its pages show it."""


@dataclass
class SeenCall:
    """One call; times in nanoseconds since 1970. `usage` is None until there is a reply.

    Calls with the same `asker` object were made by an agent within one turn. `meters` count the
    call, the innermost first; `written` are the turns of the transcript whose usage is that of one
    of these meters, by which the call's turn is found.
    """

    asker: Asker
    model: str
    request: Mapping[str, object]
    meters: Sequence[Usage] = field(default_factory=meters)
    written: Sequence[Mapping[str, object]] = ()
    began: int = field(default_factory=time.time_ns)
    ended: int = 0
    text: str | None = None
    usage: Usage | None = None
    error: str | None = None
    step: str | None = field(default_factory=ACTIVE_CALL_ID.get)
    """The id of the `SeenStep` that made the call, if any."""


@dataclass
class SeenStep:
    """One run of a DSPy module, tool or retriever, as DSPy's callbacks report it. `above` is the id
    of the step around it.
    """

    id: str
    above: str | None
    name: str
    kind: str
    inputs: object
    outputs: object = None
    error: str | None = None
    began: int = field(default_factory=time.time_ns)
    ended: int = 0


class Seen(list[SeenCall]):
    """The calls of a question, and the steps that led to them. `written` are the usages in its
    transcript, each with the meter that it was read from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[Mapping[str, object], Usage]] = []
        self.steps: dict[str, SeenStep] = {}


class Watcher(BaseCallback):  # type: ignore[misc]  # dspy ships no types
    """The callback of DSPy's that records the steps of a module."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def _begin(self, call_id: str, instance: object, inputs: object, kind: str) -> None:
        name = str(getattr(instance, "name", None) or type(instance).__name__)
        above = ACTIVE_CALL_ID.get()
        self._seen.steps[call_id] = SeenStep(call_id, above, name, kind, inputs)

    def _end(self, call_id: str, outputs: object, exception: Exception | None) -> None:
        step = self._seen.steps.get(call_id)
        if step is not None:
            step.outputs, step.ended = outputs, time.time_ns()
            step.error = None if exception is None else said_by(exception)

    def on_module_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        names = (base.__name__ for base in type(instance).__mro__)
        kind = next((KINDS[name] for name in names if name in KINDS), "CHAIN")
        self._begin(call_id, instance, inputs.get("kwargs", inputs), kind)

    def on_tool_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        self._begin(call_id, instance, inputs.get("kwargs", inputs), "TOOL")

    def on_lm_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        self._begin(call_id, instance, None, LM_STEP)

    def on_module_end(
        self, call_id: str, outputs: object, exception: Exception | None = None
    ) -> None:
        self._end(call_id, outputs, exception)

    on_tool_end = on_lm_end = on_module_end


LM_STEP = "LM"
"""A step that only leads from a call to the module that made it."""


async def watch(
    seen: list[SeenCall],
    model: str,
    request: Mapping[str, object],
    answering: Awaitable[tuple[Reply, Usage]],
) -> Reply:
    """Return the reply that `answering` gives; the call is recorded in `seen`, even if it fails."""
    call = SeenCall(ASKER.get(), model, request)
    seen.append(call)
    try:
        reply, call.usage = await answering
        call.text = reply.text
        return reply
    except Exception as problem:
        call.error = said_by(problem)
        raise
    finally:
        call.ended = time.time_ns()
