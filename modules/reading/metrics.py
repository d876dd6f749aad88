"""Metrics, which score answers: by a name, or by a user's own function, as in DSPy."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Number
from threading import RLock
from types import CodeType, FunctionType, MethodType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import dspy

from ..base.calls import FatalCallError
from ..base.errors import UserError, did_you_mean, said_by
from ..base.keyed import without
from ..base.registry import Registry
from ..base.sync import in_thread, on_own_loop, run_ending, run_sync
from .answers import comparable, golds_of
from .grading import (
    ACCURACY,
    GRADERS,
    MOST_SCORE,
    REGEX,
    Graded,
    Grader,
    MetricError,
    MetricFields,
    Scale,
    regex_grader,
)
from .question import Question
from .row import CHECK, ResultRow

JUDGE = "judge"

PLAIN = (str, int, float, bool, type(None))
_SOURCES: WeakKeyDictionary[type, str] = WeakKeyDictionary()
_READING_SOURCE = RLock()


class Metric:
    """A metric with a name, for `metric=`.

    Args:
        function: `(example, prediction)`, also with `trace`, or GEPA's five arguments; sync or
            async. It returns True or False, a number, or a `dspy.Prediction` with `score` and
            perhaps `feedback`.
        name: what its scores are called; None takes the function's name.
        low: the lowest score, which a question without an answer gets; None is 0 or more.
        high: the highest score, or None. A score outside is an error.
        rate: whether answers are right (1) or wrong (0); None goes by what the function returns.

    Raises UserError for a function with other parameters, and if `low` is not below `high`.
    """

    such = "(example, prediction, trace=None)"
    """The parameters that its function needs, as an error shows them."""

    lms: Sequence[dspy.BaseLM] = ()
    """The LMs that grade; each is asked once per answer."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
        rate: bool | None = None,
    ) -> None:
        if not callable(function):
            raise UserError(
                f"a {type(function).__name__} is not a metric: give a function (example, "
                "prediction, trace=None), or a name"
            )
        if isinstance(function, type):
            raise UserError(
                f"{function.__name__} is a class: give an instance, {function.__name__}(…)"
            )
        self.function = self._called = function
        self.name = name or _name_of(function)
        if rate:
            low, high = 0.0, 1.0
        self.low, self.high, self.rate = low, high, rate
        least, most = self.scale.ends
        if not -MOST_SCORE <= least < most <= MOST_SCORE:
            raise UserError(
                f"the metric {self.name} lies between {low} and {high}: the first must be less, "
                f"and neither beyond {MOST_SCORE:g}"
            )
        self._least, self._most = _parameters(function, self.name, self.such)
        if isinstance(function, dspy.Module) and not hasattr(type(function), "forward"):
            self._called = function.acall
        # An object is not a coroutine function, but its `__call__` may be one.
        function = self._called
        called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
        self.builtin, self.spec = False, ""

    def __repr__(self) -> str:
        return f"Metric({self.name})"

    def __reduce__(self) -> tuple[object, ...]:
        if self.spec:
            return metric_of, (self.spec,)
        made = partial(Metric, low=self.low, high=self.high, rate=self.rate)
        return made, (self.function, self.name)

    @property
    def scale(self) -> Scale:
        """The scale of its scores."""
        return Scale(self.low, self.high, self.rate)

    @property
    def default(self) -> bool:
        """True for the metric that is used where none is named."""
        return self.builtin and self.name == ACCURACY

    def identity(self) -> MetricFields | None:
        """Return its description in `run.json`, by which runs tell metrics apart; None for
        accuracy.
        """
        if self.default:
            return None
        code = None if self.builtin else code_of(self.function)
        return MetricFields(
            name=self.name,
            spec=self.spec or None,
            code=code,
            low=self.low,
            high=self.high,
            rate=self.rate,
        )

    @property
    def lost(self) -> Graded:
        """The grade of a question without an answer."""
        # A metric that only gives numbers calls no answer wrong, not even a missing one.
        correct = None if self.rate is False else False
        return Graded(self.scale.least, correct)

    async def grade(self, question: Question, prediction: dspy.Prediction) -> Graded:
        """Return the score of a prediction. Raises MetricError if the metric gives none."""
        # Only a user's own function may block, and needs a thread.
        if self.builtin or prediction.get("answer") is None:
            return self.grade_now(question, prediction)
        if not self._async:
            return await in_thread(self.grade_now, question, prediction)
        try:
            returned = await on_own_loop(self._called, *self._arguments(question, prediction))
        except Exception as problem:
            return self.graded(_raise, problem)
        return self.graded(lambda: returned)

    def grade_now(self, question: Question, prediction: dspy.Prediction, *more: object) -> Graded:
        """As `grade`, but blocking; `more` are the trace and the further arguments of GEPA."""
        if prediction is None or prediction.get("answer") is None:
            return self.lost
        if self.builtin:
            return self.graded(self.function, question, prediction)
        if self._async:
            return run_sync(self.grade, question, prediction)
        return self.graded(self._called, *self._arguments(question, prediction, *more))

    def regrade(self, answer: str | None, row: ResultRow) -> Graded:
        """Return the score of another answer to a row's question; only for a `builtin` metric."""
        if answer is None:
            return self.lost
        gold = golds_of(row.gold)
        asked = dspy.Example(
            answer=next(iter(gold), None),
            accepted=list(gold),
            kind=row.kind,
            choices=row.choices,
        )
        return self.graded(self.function, asked, dspy.Prediction(answer=answer))

    def ended(self, rows: int) -> None:
        """Called at the end of a run of so many rows. A metric raises UserError if it could score
        none.
        """

    def graded(self, scored: Callable[..., Any], *arguments: object) -> Graded:
        """Return the grade in what `scored(*arguments)` returns. Raises MetricError for anything
        else, and what ends a run.
        """
        try:
            returned, feedback = scored(*arguments), None
            if (
                isinstance(returned, dspy.Prediction | dspy.Example | Mapping)
                and "score" in returned
            ):
                feedback, returned = returned.get("feedback"), returned["score"]
            if feedback is not None:
                feedback = str(feedback)
            if getattr(returned, "shape", None) == ():  # one number, of NumPy or PyTorch
                returned = returned.item()
            number = isinstance(returned, Number) and not isinstance(returned, complex)
            value = float(returned) if number else None
        except (FatalCallError, MetricError):
            raise
        except BaseException as problem:  # also from objects of the user's, which may do anything
            if run_ending(problem) is not None:
                raise
            raise MetricError(
                f"the metric {self.name} raised {type(problem).__name__} ({said_by(problem)})"
            ) from problem
        if value is None:
            what = "None" if returned is None else f"a {type(returned).__name__}"
            raise MetricError(
                f"the metric {self.name} returned {what} instead of True, False or a number"
            )
        if wrong := self.scale.fault(value):
            raise MetricError(f"the metric {self.name} returned {value:g}{wrong}")
        # If `rate` is not stated, True, False and the whole numbers 0 and 1 are verdicts.
        verdict = self.rate is None and isinstance(returned, int) and value in (0, 1)
        correct = bool(value) if self.rate or verdict else None
        return Graded(value, correct, feedback)

    def _arguments(
        self, question: Question, prediction: dspy.Prediction, *more: object
    ) -> list[object]:
        """Return the arguments for a user's function: example and prediction, whose fields also
        have the names that DSPy's own metrics use, and as many `more` as it accepts.
        """
        more_fields = {"response": question.answer, **without(question.meta, question)}
        example = Question(question, **more_fields)
        fields = dict(prediction.items())
        # As typed by the program's signature (a list or an object), if it is not text.
        answer = fields.pop("answer_typed", fields["answer"])
        example["answer"], fields["answer"] = comparable(question.gold, answer, question.kind)
        context = question.context
        found = {"context": [context] if isinstance(context, str) else context or []}
        prediction = dspy.Prediction({**found, "response": fields["answer"], **fields})
        # GEPA passes five arguments, and a metric may accept fewer.
        count = max(self._least, min(self._most, 2 + len(more)))
        return [example, prediction, *more, None, None, None][:count]


def _raise(problem: Exception) -> NoReturn:
    raise problem


def metric_of(metric: Metric | Callable[..., Any] | str | None) -> Metric:
    """Return the metric that `metric=` names; None is accuracy. Raises UserError for an unknown
    one.
    """
    if isinstance(metric, Metric):
        return metric
    if metric is None:
        return METRICS[ACCURACY]
    if not isinstance(metric, str):
        return Metric(metric)
    if metric.startswith(REGEX):
        return _named("regex", regex_grader(metric.removeprefix(REGEX)), rate=True, spec=metric)
    if metric == JUDGE:
        raise UserError(
            "the metric judge needs an LM that grades: give judge_lm (on the command line "
            "--judge-lm)"
        )
    spec = METRICS.spec(metric)
    if spec is None or spec.rest:
        names = [*METRICS.names(), JUDGE, "regex:PATTERN"]
        name, colon, _ = metric.partition(":")
        source = " or module" if colon else ""
        raise UserError(
            f"there is no metric{source} {name!r}{did_you_mean(name, names)}: take "
            f"{', '.join(names)}, or name your own as module:function"
        )
    return spec.thing


def check_metric(metric: Metric, questions: Sequence[Question]) -> None:
    """Raise UserError for questions that this metric cannot score."""
    first = {question.kind: question.id for question in reversed(questions)}
    if "task" in first and metric.builtin:
        raise UserError(
            f"question {first['task']!r} is a task, which a check decides: give --check "
            "'python -m pytest -q' (check=…)"
        )
    other = next((question.id for question in questions if question.kind != "task"), None)
    if other is not None and metric.name == CHECK:
        raise UserError(
            f"question {other!r} is no task, and only tasks have a check: leave out its answer and "
            "give it tests, an object of paths and texts, or drop --check (check=…)"
        )
    if "open" in first and metric.default:
        raise UserError(
            f"question {first['open']!r} is open, and a right answer is not defined: give a "
            "metric, such as metric='f1', 'contains' or a function of your own"
        )


# Metrics with a name
# ---------------------------------------------------------------------------------


def _named(name: str, grader: Grader, *, spec: str | None = None, rate: bool) -> Metric:
    """Return a built-in metric that scores by a grader."""

    def graded(question: Question, prediction: dspy.Prediction) -> bool | float:
        gold = question.get("accepted") or str(question.answer)
        return grader(str(prediction.answer), gold, question.kind, question.choices)

    metric = Metric(graded, name, low=0.0, high=1.0, rate=rate)
    metric.builtin, metric.spec = True, spec or name
    return metric


def _imported(name: str, thing: Any) -> Metric:
    metric = thing if isinstance(thing, Metric) else Metric(thing)
    metric.spec = name
    return metric


def _by_name() -> dict[str, Metric]:
    return {name: _named(name, grader, rate=name != "f1") for name, grader in GRADERS.items()}


METRICS: Registry[Metric] = Registry("metrics", _imported, _by_name)


# Identity of a function
# ----------------------------------------------------------------------------------


def _parameters(function: Callable[..., object], name: str, such: str) -> tuple[int, int]:
    """Return the fewest arguments that a metric needs (two or more) and the most that it accepts
    (up to five). Raises UserError if it cannot be called with two.
    """
    target = function
    if isinstance(function, dspy.Module):
        kind = type(function)
        target = MethodType(getattr(kind, "forward", None) or kind.aforward, function)
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # of some functions written in C
        return 2, 2
    accepted: list[int] = []
    for count in range(2, 6):
        with suppress(TypeError):
            signature.bind(*range(count))
            accepted.append(count)
    if not accepted:
        raise UserError(
            f"the metric {name} cannot be called with two arguments: write it as {such}"
        )
    return accepted[0], accepted[-1]


def _name_of(function: object) -> str:
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    return "metric" if name == "<lambda>" else str(name)


def code_of(thing: object) -> str:
    """Return a short hash of what a function or object does: of its source and of the plain values
    that it uses.
    """
    content = repr(list(_parts_of(thing, 0)))
    return hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _parts_of(thing: object, depth: int) -> Sequence[object]:
    """Return the sources and plain values that a function or object is made of, in a fixed
    order.
    """
    if isinstance(thing, PLAIN):
        return [thing]
    if depth > 4:
        return [type(thing).__qualname__]
    if isinstance(thing, dspy.BaseLM):
        return [str(thing.model)]
    own: list[object] = []
    members: Sequence[object] = ()
    if isinstance(thing, list | tuple):
        members = thing
    elif isinstance(thing, Mapping):
        members = [part for key, value in thing.items() for part in (str(key), value)]
    elif isinstance(thing, partial):
        members = (thing.func, thing.args, thing.keywords)
    elif inspect.ismethod(thing):
        members = (thing.__func__, thing.__self__)
    elif inspect.isfunction(thing):
        function = inspect.unwrap(thing)
        own, members = [source_of(function)], values_held_by(function)
    elif isinstance(thing, type) or inspect.isroutine(thing):
        own = [source_of(thing)]
    else:
        state = sorted(getattr(thing, "__dict__", {}).items())
        # What a DSPy module has recorded of its calls does not change what it does.
        kept = without(dict(state), ("history", "callbacks"))
        own, members = [source_of(type(thing))], (kept,)
    for member in members:
        own += _parts_of(member, depth + 1)
    return own


def values_held_by(function: FunctionType) -> list[object]:
    """Return the values in a function's closure, and its defaults."""
    closed = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # the variable has no value yet
            closed.append(cell.cell_contents)
    return [closed, function.__defaults__, function.__kwdefaults__]


def source_of(thing: object) -> str:
    """Return the source of a class or function; the bytecode of a lambda and of what has no
    source.
    """
    if not isinstance(thing, type):
        return _read_source(thing)
    # Python parses a file to find a class in it. That takes long, and before Python 3.11.8 it fails
    # when two threads do it at once.
    with _READING_SOURCE:
        if thing not in _SOURCES:
            _SOURCES[thing] = _read_source(thing)
        return _SOURCES[thing]


def _read_source(thing: Any) -> str:
    with suppress(OSError, TypeError):  # what was typed into a Python prompt has no source
        # Not for a lambda: its source is its whole line, on which there may be others.
        if getattr(thing, "__name__", "") != "<lambda>":
            return inspect.getsource(thing)
    if isinstance(thing, type):
        own = {}
        for name, value in vars(thing).items():
            if inspect.isfunction(value):
                own[name] = source_of(value)
        return str([thing.__qualname__, own])
    code = getattr(thing, "__code__", None)
    return _bytecode(code) if code is not None else f"{thing.__module__}:{thing.__qualname__}"


def _bytecode(constant: object) -> str:
    """Return the bytecode of a function and of those inside it, as text; of another constant its
    repr.
    """
    if not isinstance(constant, CodeType):
        return repr(constant)
    inner = list(map(_bytecode, constant.co_consts))
    return f"{constant.co_code.hex()} {constant.co_names} {inner}"
