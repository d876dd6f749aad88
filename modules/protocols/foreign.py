"""Foreign programs: any `dspy.Module` or callable as a `Program`, with one rule for which inputs it
gets and one for where its answer is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from functools import partial
from numbers import Number
from pathlib import Path
from types import FunctionType, MethodType, UnionType
from typing import Any, Union, get_args, get_origin

import dspy
from dspy.experimental import Choice, Noul
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.saving import get_dependency_versions as versions
from pydantic import BaseModel, TypeAdapter

from ..agents.dspy_lm import can_be_awaited
from ..agents.seat import Seat
from ..agents.transcript import Turn
from ..base.calls import ASKER, CARRIED, bound, metered
from ..base.errors import UserError, did_you_mean, system_errors
from ..base.files import write_whole
from ..base.keyed import only
from ..base.saved_file import MAX_BYTES, MODULE, Described
from ..base.sync import ends_alone, in_thread, on_own_loop, run_sync
from ..reading.answers import read_boolean, read_vote
from ..reading.asked import choice_lines, with_choices
from ..reading.metrics import PLAIN, source_of, values_held_by
from ..reading.question import INPUTS, Question
from ..reading.row import TurnDetails, TurnFields
from .declaration import Protocol
from .program import Program, SeatTurns, by_name
from .saved import check_kept, check_no_pickle, predictors_of

STATE = "state.json"
"""The file of a saved module that DSPy's `load` reads; MODULE says which module it is."""

THOUGHTS = frozenset(("reasoning", "rationale", "trajectory", "completions"))
"""Fields that DSPy's modules add to a prediction, which are never the answer."""

ENDPOINT, FOLDER = "endpoint", "folder"
"""The parameters by which a function asks for the address of its LM, and for a task's folder; not
fields of a question.
"""

COMMAND = "cmd:"
"""The prefix of a program's spec that is a command."""

MOST_CLASHES = 5
CLASH = (
    "the progress bars of dspy.Parallel clashed, since several questions used it at once, and a "
    "question was asked again: give concurrency=1, or ask with asyncio.gather"
)
_LIBRARIES = ("dspy", "folkmoot")
_UNSAID = frozenset(
    ("history", "callbacks", "stage", "lm", "traces", "train", "demos", "signature", "fields")
)
_JSON = (Mapping, Sequence, Set, BaseModel)


@dataclass(frozen=True)
class PredictorSeat:
    """A predictor of a user's program as a `Seat`, so that it can be given an LM by name."""

    name: str
    predict: dspy.Predict


@dataclass(frozen=True)
class Field:
    """A field that a user's program takes: whether it must be given, and its annotated type."""

    needed: bool
    annotation: object

    def fitted(self, value: object) -> object:
        """Return the value in the field's type: passages are joined for a text, and a text becomes
        a list of one for a list.
        """
        wanted = [kind for kind in get_args(self.annotation) if kind is not type(None)]
        if get_origin(self.annotation) in (Union, UnionType) and len(wanted) == 1:
            return Field(self.needed, wanted[0]).fitted(value)
        # An annotation that could not be resolved is its source, "str".
        is_text = self.annotation in (str, "str")
        if is_text and isinstance(value, Mapping):
            return choice_lines(value)
        if is_text and isinstance(value, list):
            return "\n\n".join(map(str, value))
        if list in (self.annotation, get_origin(self.annotation)):
            if isinstance(value, str):
                return [value]
            if isinstance(value, Mapping):
                return list(value.values())
        return value


class Foreign(Program):
    """A user's own program, a `dspy.Module` or a callable, as one of folkmoot's.

    A module gets the fields that its `forward` names, or, if that takes any, those of its
    signature: the question's fields of the same names (question, choices, context, kind, id, and
    the columns that the user names by `show`), or those that `inputs` names instead. Without a
    field for choices, they are written below the question, a line each; a list of passages is
    joined for a field of text. A callable gets the `Question`, without its gold answer; one with
    several parameters, or whose one parameter is annotated `str`, gets fields as a module does.

    The answer is what it returns: text, number, truth value or enum; of a `dspy.Prediction`, dict,
    dataclass or pydantic model the field `answer`, or the only field besides DSPy's reasoning; of
    an object its attribute `answer`; of an LM's reply its text. It is then read by the kind of the
    question; None if that is not possible. Anything else makes an error row.

    Args:
        module: the user's module or callable.
        inputs: its field → the question's field, such as `{"query": "question"}`.
        spec: how it was named, as `module:attr`.

    It runs with the adapter that DSPy was set to when this was made. Raises UserError for fields
    that no question has.
    """

    protocol = Protocol("foreign")
    foreign = True

    def __init__(
        self, module: object, inputs: Mapping[str, str] | None = None, spec: str | None = None
    ) -> None:
        super().__init__()
        self.module = module = _without_asyncify(module)
        self.inputs = dict(inputs or {})
        self.spec = spec
        self.adapter = dspy.settings.adapter
        self.fields = _fields(module, self.inputs)
        self._async = _runs_async(module)

    @property
    def as_given(self) -> object:
        return self.module

    def describe(self) -> Described:
        described: Described = {
            "program": self.protocol.name,
            "class": self.own_name,
            "code": _code(self.module),
        }
        if self.inputs:
            described["inputs"] = self.inputs
        if self.adapter is not None:
            described["adapter"] = type(self.adapter).__name__
        if self.spec:
            described["spec"] = self.spec
        return described

    def seats(self) -> dict[str, Any]:
        """Return folkmoot's agents inside, and the other predictors by their DSPy names."""
        seats: list[Any] = [seat for _, seat in self.parts(Seat)]
        seated = {id(seat.predict) for seat in seats}
        for name, predictor in predictors_of(self).items():
            if id(predictor) not in seated:
                name = name.removeprefix("module").lstrip(".") or "predict"
                seats.append(PredictorSeat(name, predictor))
        return by_name(seats)

    def turns(self) -> list[SeatTurns]:
        """Return none: the number of turns is not known before it has run."""
        return []

    def check_saved(self) -> None:
        """Raise UserError for a callable, which is code and cannot be saved."""
        if not isinstance(self.module, dspy.Module):
            raise UserError(f"{self._name} is code, which is not saved: name it as module:function")

    def save(
        self, path: str | Path, save_program: bool = False, modules_to_serialize: object = None
    ) -> None:
        """Write the module into a folder, for `fm.load_program`: the name of its class, and DSPy's
        state without LMs, in `state.json`. A path that ends in `.json` gets that state alone.

        Raises UserError for a callable, for pickle, for a part that DSPy's state would leave out,
        and for a folder that cannot be written.
        """
        place = Path(path)
        self.check_saved()
        check_no_pickle(place, save_program, modules_to_serialize)
        check_kept(self.module)
        state = {
            **without_lms(_state_of(self.module)),
            "metadata": {"dependency_versions": versions()},
        }
        text = json.dumps(state, indent=1, ensure_ascii=False, default=str) + "\n"
        with system_errors(place, "check the folder and its space"):
            if place.suffix == ".json":
                write_whole(place, text, sync=True)
                return
            if len(text) > MAX_BYTES:
                raise UserError(
                    f"the state of {self._name} takes {len(text):,} bytes, and a saved program has "
                    f"{MAX_BYTES:,} at most: save its network alone, with network.save('folder/')"
                )
            place.mkdir(parents=True, exist_ok=True)
            write_whole(place / STATE, text, sync=True)
            about = {"format": 1, "signature": _simple_signature(self.module), **self.describe()}
            write_whole(
                place / MODULE, json.dumps(about, indent=1, ensure_ascii=False) + "\n", sync=True
            )

    def check(self, questions: Sequence[Question]) -> list[str]:
        """Return sentences about what the questions have and this program is not shown. Raises
        UserError if it needs a field that a question lacks.
        """
        if self.fields is None:
            return []
        notes: list[str] = []
        values = list(map(self._values, questions))
        asked = list(zip(questions, values, strict=True))
        for name, field in self.fields.items():
            source = self.inputs.get(name, name)
            lacking = [question.id for question, given in asked if source not in given]
            if lacking and any(source in question.meta for question in questions):
                unasked = (
                    f"{self._name} takes {source!r}, a column of the data that no program is shown "
                    f"unasked: name it with --show {source} (show=[{source!r}])"
                )
                if field.needed:
                    raise UserError(unasked)
                notes.append(unasked)
                continue
            empty = all(given.get(source) is None for given in values)
            # Every question has the usual fields, so one is missing if it is None in all of them.
            if (field.needed or name in self.inputs) and (lacking or (empty and source in INPUTS)):
                which = "no question has" if empty else f"the question {lacking[0]!r} does not have"
                instead = f"name its column with --columns {source}=NAME"
                if source not in INPUTS:
                    instead = (
                        "say which of question, choices and context it is, such as "
                        f"inputs={{{name!r}: 'question'}}"
                    )
                raise UserError(
                    f"{self._name} needs {name!r}, which {which}: add it to the data, or {instead}"
                )
        taken = {self.inputs.get(name, name) for name in self.fields}
        if "context" not in taken and any(question.context for question in questions):
            notes.append(
                f"{self._name} has no field for the context of the questions, and is not shown it: "
                "give it one, or say which takes it with inputs={'FIELD': 'context'}"
            )
        return notes

    def example(self, question: Question) -> Question:
        """Return the question as a training example for an optimizer: with this program's fields,
        and the gold answer in its output field. Raises UserError for a callable, which has no
        prompts.
        """
        if self.fields is None:
            raise UserError(f"{self._name} has no prompts to improve: give a dspy.Module")
        values = self._values(question)
        fields = self._arguments(values)
        shown = dict(fields)
        for name in {*INPUTS} - {"question"}:
            shown.pop(name, None)
        last = list(predictors_of(self).values())[-1].signature.output_fields
        # The gold answer goes into the program's own output field, which may have any name.
        names = last.keys() - THOUGHTS
        if "answer" in names:
            names = {"answer"}
        gold = {name: _of_type(last[name].annotation, question) for name in names}
        if "answer" not in names and len(names) == 1:
            shown |= gold
        taken = {self.inputs.get(name, name) for name in fields}
        # Inputs besides the usual ones, such as columns that the user named.
        others = {name: values[name] for name in taken - {*INPUTS}}
        made: Question = Question(question, **shown, **others).with_inputs(*INPUTS, *others)
        made["answer"] = gold.get("answer", made.answer)
        return made

    async def answer(self, question: Question) -> dspy.Prediction:
        """Return the prediction on a question: what it returned, with its read `answer` and
        `usage`.
        """
        # A callable without fields gets the question itself, without the gold answer.
        if self.fields is None:
            return await self._predict(question, [question.shown()], {})
        return await self._predict(question, [], self._arguments(self._values(question)))

    async def aforward(self, **fields: object) -> dspy.Prediction:  # type: ignore[override]
        asked = {name: fields.get(name) for name in INPUTS}
        asked["choices"] = asked["choices"] or None
        self._miss_options(asked["choices"])
        # The files of a task are no fields of a call: the run sets them for the asker.
        if asked["kind"] == "task":
            asked["files"] = ASKER.get().files
        question = Question(asked, id=ASKER.get().question or "asked", meta={})
        if self.fields is None:
            return await self.answer(question)
        return await self._predict(question, [], self._arguments(fields | self._values(question)))

    def forward(self, **fields: object) -> dspy.Prediction:  # type: ignore[override]
        return run_sync(partial(self.aforward, **fields))

    async def _predict(
        self, question: Question, arguments: Sequence[object], fields: Mapping[str, object]
    ) -> dspy.Prediction:
        # Modules such as Refine need a trace, which is off while questions are answered.
        if (trace := dspy.settings.trace) is None:
            trace = []
        meter, asker = metered(), ASKER.get()
        if asker.requests is None:  # outside of a run, as when it is compiled
            asker = asker._replace(requests=set())
        with (
            dspy.context(adapter=self.adapter, trace=trace),
            bound(ASKER, asker),
            meter as usage,
        ):
            try:
                returned, turns = await self._asked(*arguments, **fields)
                decided = _answer_in(returned, self._name)
                # `dspy.Parallel` returns None for what failed, which is not an answer.
                if decided is None and meter.failure is not None:
                    raise meter.failure
                text, answer, typed = _read(decided, question, self._name)
                sure = _probability(decided)
                if not turns and answer is not None and sure is not None:
                    turn = Turn(self._name, 1, answer, "", details=TurnDetails(probability=sure))
                    turns = [turn.to_dict()]
            except AdapterParseError as problem:
                # The LM replied, but not in the fields' types: an unreadable answer.
                returned, turns = None, list[TurnFields]()
                text, answer, typed = problem.lm_response, None, None
        held: dict[str, object] = {}
        if isinstance(returned, dspy.Example | dspy.Prediction | Mapping):
            held = {str(name): value for name, value in returned.items()}
        held |= {
            "answer": answer,
            "decided_by": None,
            "rounds": 0,
            "consensus_round": None,
            "kind": question.kind,
            "transcript": turns,
            "usage": usage.to_dict(),
        }
        if answer is None and text is not None:
            held["raw"] = text
        if answer is not None and typed is not None:
            held["answer_typed"] = typed
        return dspy.Prediction(held)

    async def _asked(self, *args: object, **fields: object) -> tuple[object, list[TurnFields]]:
        """Return the result of the program, and its turns: none, since a module does not tell
        them.
        """
        return await self._call(*args, **fields), []

    async def _call(self, *args: object, **fields: object) -> object:
        # Threads that DSPy starts inherit its settings, and so the context variables in them.
        with ends_alone(), dspy.context(**{CARRIED: copy_context()}):
            if self._async and not isinstance(self.module, dspy.Module):
                return await on_own_loop(self.module, *args, **fields)
            if self._async and self._lms_can_be_awaited():
                return await on_own_loop(self.module.acall, *args, **fields)
            # In a thread; but a function that is no coroutine function may still return a
            # coroutine.
            returned = await self._in_thread(*args, **fields)
            if inspect.isawaitable(returned):
                return await on_own_loop(lambda: returned)
            return returned

    async def _in_thread(self, *args: object, **fields: object) -> object:
        """Return the result of the module in a thread, tried again where DSPy's progress bars
        clash.

        `dspy.Parallel` (DSPy 3.4) empties tqdm's list of bars, from which the bar of another
        `Parallel` that begins at that moment then cannot be taken: a KeyError about that bar.
        """
        for _ in range(MOST_CLASHES):
            try:
                return await in_thread(self.module, *args, **fields)
            except KeyError as problem:
                if "weakref" not in str(problem) or "tqdm" not in str(problem):
                    raise
                warnings.warn(CLASH, stacklevel=2)
        raise RuntimeError(CLASH)

    def _lms_can_be_awaited(self) -> bool:
        """Return whether to await the module: not if one of its LMs only works synchronously, and
        the module can run in a thread.
        """
        lms = [dspy.settings.lm, *(value.lm for value in predictors_of(self).values())]
        awaitable = all(can_be_awaited(lm) for lm in lms if lm is not None)
        return awaitable or not hasattr(type(self.module), "forward")

    def _values(self, question: Question) -> dict[str, object]:
        """Name → value of what a program may be shown of a question."""
        shown = question.shown()
        return shown.meta | only(shown, ("id", *INPUTS, "meta"))

    def _arguments(self, values: Mapping[str, Any]) -> dict[str, object]:
        """Return the arguments of a call, from the values of a question."""
        assert self.fields is not None
        sources = {name: self.inputs.get(name, name) for name in self.fields}
        arguments = {}
        for name, field in self.fields.items():
            value = values.get(sources[name])
            if sources[name] == "question" and "choices" not in sources.values():
                value = with_choices(str(value), values.get("choices"))
            if field.needed or value is not None:
                arguments[name] = field.fitted(value)
        return arguments

    def about(self) -> str:
        """Return what an LM is told of the program that it is to improve: its code, or its class's
        name if that is DSPy's.
        """
        kind = type(self.module)
        return kind.__qualname__ if _of_library(kind) else source_of(kind)

    @property
    def own_name(self) -> str:
        """The user's class or function, as `module:Name`."""
        kind = self.module if inspect.isroutine(self.module) else type(self.module)
        return f"{kind.__module__}:{kind.__qualname__}"

    @property
    def _name(self) -> str:
        return self.own_name.rpartition(":")[2]


def _state_of(module: dspy.Module) -> Any:
    """Return the state of a module in DSPy's form.

    DSPy 3.4 fails on a module with a `dspy.Retrieve`, to which it passes one argument too many. So
    the state is made of those of the parts, unless the class has a `dump_state` of its own.
    """
    if type(module).dump_state is not dspy.Module.dump_state:
        return module.dump_state()
    return {name: part.dump_state() for name, part in module.named_parameters()}


def without_lms(state: object) -> Any:
    """Return a state in DSPy's form without the LMs of predictors, which may contain addresses and
    headers.
    """
    if not isinstance(state, Mapping):
        return state
    # The state of a predictor; all else is a mapping of names to such states.
    if "signature" in state and "demos" in state:
        return dict(state) | {"lm": None, "traces": [], "train": []}
    return {name: without_lms(part) for name, part in state.items()}


def _of_type(annotation: object, question: Question) -> str | None:
    """Return the gold answer as a value of this type, for a demonstration: the text of an option if
    the type lists texts (`Literal["red", "blue"]`) and not labels; True or False for a bool.
    """
    if annotation is bool and question.kind == "boolean" and question.answer is not None:
        return str(read_boolean(question.answer))
    label, choices = question.answer, question.choices or {}
    options: Sequence[object] = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        options = [member.value for member in annotation]
    text = choices.get(label or "")
    return text if text in options and label not in options else label


def _simple_signature(module: dspy.Module) -> str | None:
    """Return the signature from which DSPy makes a plain module again; None for any other
    module.
    """
    if type(module) not in (dspy.Predict, dspy.ChainOfThought):
        return None
    signature = _signature(module)
    sides: list[str] = []
    for fields in (signature.input_fields, signature.output_fields):
        if any(field.annotation not in (str, int, float, bool) for field in fields.values()):
            return None
        described = [f"{name}: {field.annotation.__name__}" for name, field in fields.items()]
        if sides and type(module) is dspy.ChainOfThought:
            del described[0]  # `reasoning`, which it puts before the outputs itself
        sides.append(", ".join(described))
    return " -> ".join(sides)


def _fields(module: Any, inputs: Mapping[str, str]) -> dict[str, Field] | None:
    """Return the fields that a module or callable takes; None for a callable that takes the whole
    question.
    """
    own = isinstance(module, dspy.Module)
    if isinstance(module, dspy.BestOfN | dspy.Refine):  # they pass everything on to their module
        return _fields(module.module, inputs)
    call = module
    if own:
        way = "aforward" if _runs_async(module) else "forward"
        call = vars(module).get(way)
        if call is None and not hasattr(type(module), way):
            raise UserError(f"{_called(module)} has no forward: write what it does with a question")
        # Not `module.forward`, of which DSPy warns.
        call = call or MethodType(getattr(type(module), way), module)
    try:
        parameters = list(_parameters(call))
    except (ValueError, TypeError):  # of something built in
        return None
    fields: dict[str, Field] = {}
    for taken in parameters:
        by_keyword = taken.kind in (taken.POSITIONAL_OR_KEYWORD, taken.KEYWORD_ONLY)
        if by_keyword and taken.name not in (ENDPOINT, FOLDER):
            fields[taken.name] = Field(taken.default is taken.empty, taken.annotation)
    needed = [field for field in fields.values() if field.needed]
    # A function of one parameter gets the whole question, unless that is annotated `str`.
    if not own and not inputs and len(needed) < 2:
        if not parameters:
            raise UserError(
                f"{_called(module)} takes no question: give it a parameter for the fm.Question"
            )
        if not needed or needed[0].annotation is not str:
            return None
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        # If `forward` names fields that it needs, the signature does not describe its other ones.
        signature = None if needed else _signature(module)
        if signature is None:
            for name in inputs:
                fields.setdefault(name, Field(True, object))
        else:
            # Fields are required if the signature is the module's own; what a predictor inside
            # needs, a user's module may get from elsewhere.
            plain = hasattr(module, "signature")
            for name, field in signature.input_fields.items():
                optional = type(None) in get_args(field.annotation)
                required = plain and field.is_required() and not optional
                fields[name] = Field(required, field.annotation)
        if not fields:
            raise UserError(
                f"{_called(module)} takes fields of any name: say which it wants with "
                "inputs={'question': 'question'}, its field and the question's"
            )
    for name in inputs:
        if name not in fields:
            raise UserError(
                f"inputs names {name!r}, which {_called(module)} does not take"
                f"{did_you_mean(name, fields)}: its fields are {', '.join(fields)}"
            )
    return fields


def _without_asyncify(module: object) -> Any:
    """Return the module inside a function of `dspy.asyncify`'s; anything else as it is."""
    if getattr(module, "__module__", "") != "dspy.utils.asyncify":
        return module
    held = (cell.cell_contents for cell in getattr(module, "__closure__", None) or ())
    return next((inner for inner in held if isinstance(inner, dspy.Module)), module)


def _parameters(call: Callable[..., object]) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(call, eval_str=True).parameters.values()
    except NameError:  # an annotation that is only imported for type checkers
        return inspect.signature(call).parameters.values()


def _signature(module: object) -> Any:
    """Return the signature with a module's inputs: its own, or that of its only predictor; else
    None.
    """
    own = getattr(module, "signature", None)
    if isinstance(own, type) and issubclass(own, dspy.Signature):
        return own
    if isinstance(module, dspy.Module):
        predictors = list(predictors_of(module).values())
        if len(predictors) == 1:
            return predictors[0].signature
    return None


def _called(module: object) -> str:
    return str(getattr(module, "__qualname__", type(module).__qualname__))


def _runs_async(module: object) -> bool:
    """Return whether to call a program asynchronously. If a module has both `forward` and
    `aforward`, the one in the most derived class counts, since a subclass that writes one means
    that to run.
    """
    if not isinstance(module, dspy.Module):
        called = inspect.getattr_static(module, "__call__", None)
        return inspect.iscoroutinefunction(module) or inspect.iscoroutinefunction(called)
    for attributes in (vars(module), *map(vars, type(module).__mro__)):
        if "aforward" in attributes or "forward" in attributes:
            return "aforward" in attributes
    return False


def _read(decided: object, question: Question, name: str) -> tuple[str | None, str | None, object]:
    """Return the text, the answer that is scored, and the value if it is JSON, of what a program
    decided. Raises UserError if that is no answer at all.
    """
    text, typed = _text(decided), None
    answer = read_vote(text, question.kind, question.choices)
    if question.kind in ("span", "open") and (listed := _as_json(decided)) is not None:
        typed = decided
        # A list of one text is that text, unless a metric of open questions reads lists.
        if answer is None or question.kind == "open":
            answer = listed
    nothing = decided is None or (isinstance(decided, _JSON) and not decided)
    if text is None and answer is None and not nothing:
        more = ", which was not awaited" if inspect.isawaitable(decided) else ""
        raise UserError(
            f"{name} returned a value of the type {type(decided).__name__}{more}: return the "
            "answer as a text, a number or a truth value, or in a field `answer`"
        )
    return text, answer, typed


def _answer_in(returned: object, name: str) -> object:
    """Return the answer in what a program returned. Raises UserError if several fields may be
    it.
    """
    if not isinstance(returned, dspy.Example | dspy.Prediction | Mapping):
        own = _field_names(returned)
        if len(own) == 1:
            return getattr(returned, own[0])
        return getattr(returned, "answer", _passed_on(returned))
    values = dict(returned.items())
    fields = ["answer"]
    if "answer" not in values:
        if (reply := _passed_on(returned)) is not returned:
            return reply
        fields = [field for field in values if field not in THOUGHTS]
    if len(fields) != 1:
        raise UserError(
            f"{name} returned {', '.join(map(str, fields)) or 'no field'} and no 'answer': "
            "call the field with the answer `answer`"
        )
    held = values[fields[0]]
    if isinstance(held, Mapping):  # the field has a type of its own
        return held.get("answer", held)
    return getattr(held, "answer", _passed_on(held))


def _field_names(thing: object) -> list[str]:
    """Return the fields of a pydantic model or dataclass; empty for anything else."""
    kind = type(thing)
    if isinstance(thing, BaseModel):
        return list(type(thing).model_fields)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return []


def _passed_on(returned: object) -> object:
    """Return the text in an object of an LM or a framework that a program returned as it got it: a
    completion, a response, a message, the result of a crew, or code. Anything else is returned
    unchanged.
    """
    if isinstance(returned, dspy.Code):
        return returned.code

    def held(thing: object, name: str) -> Any:
        return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)

    message, choices = returned, held(returned, "choices")
    if choices and isinstance(choices, list):
        message = held(choices[0], "message")
    content = message if isinstance(message, list) else held(message, "content")
    if isinstance(content, list):  # Anthropic's or LangChain's blocks: texts, and perhaps thoughts
        texts = [held(block, "text") for block in content if held(block, "type") == "text"]
        content = "".join(filter(None, texts)) or None
    # The last two: of the OpenAI Agents SDK and pydantic-ai.
    others = [held(returned, name) for name in ("output_text", "final_output", "output")]
    if hasattr(returned, "json_dict"):  # of CrewAI; a user's own `raw` may be anything
        others.append(held(returned, "raw"))
    for found in (content, *others):
        if isinstance(found, str):
            return found
        if _field_names(found):  # an output with a type of its own
            return getattr(found, "answer", found)
    return returned


def _text(value: object) -> str | None:
    """Return an answer as text, to be read by the question's kind; None for what is no single
    value.
    """
    if isinstance(value, Enum | Choice | Noul):
        value = value.value
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, list | tuple | Set) and len(value) == 1:
        (value,) = value
    if callable(item := getattr(value, "item", None)):  # of an array or tensor of one number
        with suppress(ValueError, RuntimeError):
            value = item()
    if isinstance(value, float):
        value = float(f"{value:.15g}")  # 0.1 + 0.2 becomes 0.3: a float has 15 exact digits
    if isinstance(value, str) or value is None:
        return value
    # An object without an own text has its address as text, whose digits could be read as a number.
    written: object = type(value).__str__
    own_text = written is not object.__str__ or isinstance(value, Number)
    if isinstance(value, Iterable | BaseException | BaseModel) or not own_text:
        return None
    return str(value)


def _as_json(value: object) -> str | None:
    """Return a list or an object as JSON text; None for anything else, and if it is empty or cannot
    be written as JSON.
    """
    holds = isinstance(value, _JSON) or dataclasses.is_dataclass(type(value))
    if isinstance(value, str | bytes) or not holds or not value:
        return None
    try:
        return TypeAdapter(object).dump_json(value).decode()
    except ValueError:
        return None


def _probability(value: object) -> float | None:
    """Return the probability that an LM gave its answer, in a decision output of DSPy's; else
    None.
    """
    probability: float | None = None
    if isinstance(value, Choice) and value.probabilities is not None:
        probability = value.probabilities.get(str(value.value))
    if isinstance(value, Noul) and value.probability is not None:
        probability = value.probability if value.value else 1 - value.probability
    return probability


def _code(module: object) -> str:
    """Return a hash of a program's classes, functions and settings that are plain values. It does
    not cover code that they call elsewhere, objects such as an index, and prompts and
    demonstrations, which have their own hashes.
    """
    if not isinstance(module, dspy.Module):
        parts: object = _parts_to_hash(module)
    else:
        parts = [
            [name, _parts_to_hash(part)] for name, part in module.named_sub_modules(dspy.Module)
        ]
    text = json.dumps(parts, sort_keys=True, default=str).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()


def _parts_to_hash(thing: object) -> object:
    """Return the parts of a function or an object that are hashed."""
    if isinstance(thing, partial):
        return [
            _parts_to_hash(thing.func),
            _parts_to_hash(thing.args),
            _parts_to_hash(thing.keywords),
        ]
    if isinstance(thing, MethodType):
        return [_parts_to_hash(thing.__func__), _parts_to_hash(thing.__self__)]
    if isinstance(thing, FunctionType):
        return [source_of(thing), *map(_setting, values_held_by(thing))]
    kind = type(thing)
    # A user's own class may have another `describe`.
    if isinstance(thing, Program) or (_of_library(kind) and hasattr(thing, "describe")):
        return thing.describe()
    settings = {}
    for name, value in getattr(thing, "__dict__", {}).items():
        if not name.startswith("_") and name not in _UNSAID:
            settings[name] = _setting(value)
    source = None if _of_library(kind) else source_of(kind)
    return [kind.__qualname__, source, settings]


def _of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _LIBRARIES


def _setting(value: object) -> object:
    """Return a setting as JSON: a plain value, or else its code or the name of its class."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Mapping):
        return {str(name): _setting(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_setting(item) for item in value]
    if isinstance(value, FunctionType):
        return source_of(value)
    if isinstance(value, dspy.Tool):
        return [value.name, _setting(value.func)]
    return type(value).__qualname__


def asks_for(function: Any, name: str) -> bool:
    """Return whether a function has a parameter of this name, by which it asks for what folkmoot
    has.
    """
    if isinstance(function, dspy.Module):
        return False
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
