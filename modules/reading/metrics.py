"""Metrics: how good an answer is, by a function of the user's own, as DSPy has them, or by a name."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Number
from types import CodeType
from typing import Any, NamedTuple

import dspy
import numpy as np
import regex

from ..base.calls import FatalCallError
from ..base.errors import UserError, did_you_mean, said_by
from ..base.registry import Registry, names_from
from ..base.sync import ends_alone, in_thread, run_sync
from .answers import em_f1, score
from .question import Question
from .row import ResultRow

ACCURACY = "accuracy"
JUDGE = "judge"

FAILURE_SCORE = 0.0
"""What counts for a question without an answer where a metric has no lowest score, as in `dspy.Evaluate`."""

REGEX = "regex:"
MOST_PATTERN = 1_000  # characters
REGEX_SECONDS = 0.25

_PLAIN = (str, int, float, bool, type(None))


class MetricError(UserError):
    """A metric gave no score; where questions have rows, this one's is an error that says so."""


class Graded(NamedTuple):
    """What a metric says of an answer: its score, whether it is right (None: a score only), and feedback."""

    score: float
    correct: bool | None
    feedback: str | None = None


class Metric:
    """A metric with a name: what `metric=` takes where a function alone does not say enough.

    Args:
        function: `(example, prediction)`, also with `trace`, or GEPA's five arguments; sync or async. It
            returns True or False, a number, or a `dspy.Prediction` with `score` and, maybe, `feedback`.
            The example is the question, with what its `meta` holds as fields of their own.
        name: what its scores are called; None takes the function's name.
        low: the least that it can be, which a question without an answer scores; None is 0 or more.
        high: the most that it can be, or None. A score outside is an error.
        rate: True says that every answer is right (1) or wrong (0), False that scores are numbers; None: an
            answer is right or wrong where True, False or a whole 0 or 1 is returned.

    Raises UserError for a function that cannot be called so, and for limits without room between them.
    """

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
                f"{type(function).__name__} is no metric: give a function (example, prediction, trace=None), "
                "or a name"
            )
        if isinstance(function, type):
            raise UserError(f"{function.__name__} is a class: give an instance, {function.__name__}(…)")
        self.function = function
        self.name = name or _name_of(function)
        self.low = 0.0 if rate else low
        self.high = 1.0 if rate else high
        self.rate = rate
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise UserError(f"the metric {self.name} lies between {low} and {high}: the first must be less")
        self._least, self._most = _parameters(function, self.name)
        called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
        self.builtin, self.spec = False, ""

    def __repr__(self) -> str:
        return f"Metric({self.name})"

    def __reduce__(self) -> Any:
        if self.spec:
            return metric_of, (self.spec,)
        return _made, (self.function, self.name, self.low, self.high, self.rate)

    @property
    def least(self) -> float:
        """What a question without an answer scores."""
        return FAILURE_SCORE if self.low is None else self.low

    @property
    def default(self) -> bool:
        """Whether this is what counts where no metric is given."""
        return self.builtin and self.name == ACCURACY

    def identity(self) -> dict[str, Any] | None:
        """What tells it from others in a run's description; None for what counts where none is given."""
        if self.default:
            return None
        code = None if self.builtin else code_of(self.function)
        limits = {"low": self.low, "high": self.high, "rate": self.rate}
        return {"name": self.name, "spec": self.spec or None, "code": code, **limits}

    @property
    def lost(self) -> Graded:
        """What a question without an answer gets."""
        return Graded(self.least, None if self.rate is False else False)

    async def grade(self, question: Question, prediction: Any) -> Graded:
        """The score of a prediction whose answer was read. Raises MetricError where the metric gives none."""
        if prediction.get("answer") is None:
            return self.lost
        if self.builtin:
            return self.graded(lambda: self.function(question, prediction))
        given = self._given(question, prediction)
        if not self._async:
            return await in_thread(self.graded, partial(self.function, *given))
        try:
            with ends_alone():
                returned = await self.function(*given)
        except Exception as problem:
            return self.graded(partial(_raise, problem))
        return self.graded(lambda: returned)

    def grade_now(self, question: Question, prediction: Any, *told: Any) -> Graded:
        """`grade` from a thread that may wait; `told` are the trace and what else GEPA gives."""
        if prediction is None or prediction.get("answer") is None:
            return self.lost
        if self.builtin:
            return self.graded(lambda: self.function(question, prediction))
        if self._async:
            return run_sync(self.grade, question, prediction)
        return self.graded(partial(self.function, *self._given(question, prediction, *told)))

    def regrade(self, answer: str | None, row: ResultRow) -> Graded:
        """The score of another answer to a question that has a row, by a metric that is `builtin`."""
        if answer is None:
            return self.lost
        asked = dspy.Example(answer=row["gold"], kind=row["kind"], choices=row["choices"])
        return self.graded(lambda: self.function(asked, dspy.Prediction(answer=answer)))

    def graded(self, scored: Callable[[], Any]) -> Graded:
        """What a metric returned, checked. Raises MetricError, and what ends a run."""
        try:
            returned = scored()
        except (FatalCallError, MetricError):
            raise
        except (Exception, SystemExit) as problem:
            raise MetricError(
                f"the metric {self.name} raised {type(problem).__name__} ({said_by(problem)}): mend it"
            ) from problem
        feedback = None
        if isinstance(returned, dspy.Prediction | dspy.Example | Mapping) and "score" in returned:
            feedback, returned = returned.get("feedback"), returned["score"]
        right = isinstance(returned, bool | np.bool_)
        if not right and not (isinstance(returned, Number | np.number) and not isinstance(returned, complex)):
            what = "None" if returned is None else f"a {type(returned).__name__}"
            raise MetricError(f"the metric {self.name} returned {what}: return True, False or a number")
        value = float(returned)
        if not math.isfinite(value):
            raise MetricError(f"the metric {self.name} returned {value}: return True, False or a number")
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            ends = [
                "-∞" if self.low is None else f"{self.low:g}",
                "∞" if self.high is None else f"{self.high:g}",
            ]
            raise MetricError(f"the metric {self.name} returned {value:g}, outside {ends[0]} to {ends[1]}")
        if self.low is None and value < FAILURE_SCORE:
            raise MetricError(
                f"the metric {self.name} returned {value:g}, less than a question without an answer scores "
                "(0): say what its least is by fm.Metric(function, low=…)"
            )
        if self.rate and value not in (0, 1):
            raise MetricError(
                f"the metric {self.name} returned {value:g}: it is to be right (1) or wrong (0)"
            )
        whole = right or (isinstance(returned, int | np.integer) and value in (0, 1))
        correct = bool(value) if self.rate or (self.rate is None and whole) else None
        return Graded(value, correct, None if feedback is None else str(feedback))

    def _given(self, question: Question, prediction: Any, *told: Any) -> list[Any]:
        meta = {key: value for key, value in question.meta.items() if key not in question}
        example = Question(question, **meta) if meta else question
        return [example, prediction, *told, None, None, None][
            : max(self._least, min(self._most, 2 + len(told)))
        ]


def _raise(problem: Exception) -> Any:
    raise problem


def _made(
    function: Callable[..., Any], name: str, low: float | None, high: float | None, rate: bool | None
) -> Metric:
    return Metric(function, name, low=low, high=high, rate=rate)


def metric_of(given: Any) -> Metric:
    """The metric that `metric=` names: None is accuracy. Raises UserError, before anything is asked."""
    if isinstance(given, Metric):
        return given
    if given is None:
        return METRICS[ACCURACY]
    if not isinstance(given, str):
        return Metric(given)
    if given.startswith(REGEX):
        return _regex(given.removeprefix(REGEX))
    if given == JUDGE:
        raise UserError(
            "the metric judge needs an LM that grades: give judge_lm (on the command line --judge-lm)"
        )
    found = METRICS.spec(given)
    if found is None or found.rest:
        known = [*METRICS.names(), JUDGE, "regex:PATTERN"]
        raise UserError(
            f"there is no metric {given!r}{did_you_mean(given, known)}: take {', '.join(known)}, or name "
            "your own as module:function"
        )
    metric: Metric = found.thing
    return metric


def check_metric(metric: Metric, questions: Sequence[Question]) -> None:
    """Raises UserError for questions that this metric cannot score."""
    free = next((question.id for question in questions if question.kind == "open"), None)
    if free is not None and metric.default:
        raise UserError(
            f"question {free!r} is open, and nothing says what a right answer is: give a metric, such as "
            "metric='f1', 'contains' or a function of your own"
        )


def metric_name(run: Mapping[str, Any]) -> str:
    """What the scores of a run are called, from its description."""
    return str((run.get("metric") or {}).get("name") or ACCURACY)


def metric_of_run(run: Mapping[str, Any], given: Any = None) -> Metric:
    """The metric that a run was scored by, from its description.

    A function of the user's own has to be `given`, as `metric_of` takes it: what a run names is not imported.
    Raises UserError for a function that is not given, or not what it was when the run was scored.
    """
    known = run.get("metric")
    if given is not None:
        metric = metric_of(given)
    elif not known:
        return METRICS[ACCURACY]
    elif known.get("spec") == JUDGE:
        raise UserError(
            "the run was graded by a judge: evaluate the other program with the same judge yourself"
        )
    elif not known.get("spec"):
        raise UserError(
            f"the run was scored by {known['name']}, a function without a name: give it as metric="
        )
    else:
        with names_from("the run", "with --metric (metric=…)"):
            metric = metric_of(known["spec"])
    if metric.identity() != known:
        raise UserError(
            f"the metric {metric.name} is not what the run was scored by ({metric_name(run)}): give that as "
            "--metric (metric=…), or run it again"
        )
    return metric


# Metrics with a name ---------------------------------------------------------------------------------


def _accuracy(question: Question, prediction: Any) -> bool:
    return bool(score(prediction.answer, str(question.answer), question.kind, question.choices).correct)


def _em(question: Question, prediction: Any) -> float:
    if question.kind in ("span", "open"):
        return em_f1(prediction.answer, str(question.answer))[0]
    return float(_accuracy(question, prediction))


def _f1(question: Question, prediction: Any) -> float:
    if question.kind in ("span", "open"):
        return em_f1(prediction.answer, str(question.answer))[1]
    return float(_accuracy(question, prediction))


def _exact(question: Question, prediction: Any) -> bool:
    return str(prediction.answer).strip() == str(question.answer).strip()


def _contains(question: Question, prediction: Any) -> bool:
    said, gold = (" ".join(str(one).casefold().split()) for one in (prediction.answer, question.answer))
    return gold in said


def _regex(pattern: str) -> Metric:
    """Whether a pattern is found in the answer. Raises UserError for one that is none."""
    if not pattern or len(pattern) > MOST_PATTERN:
        raise UserError(f"the metric regex: needs a pattern of 1 to {MOST_PATTERN:,} characters behind it")
    try:
        compiled = regex.compile(pattern)
    except regex.error as problem:
        raise UserError(f"the metric regex:{pattern} is no regular expression ({problem}): mend it") from None

    def found(question: Question, prediction: Any) -> bool:
        try:
            return compiled.search(str(prediction.answer), timeout=REGEX_SECONDS) is not None
        except TimeoutError:
            raise MetricError(
                f"the metric regex:{pattern} took more than {REGEX_SECONDS:g} s on an answer: make it simpler"
            ) from None

    return _named("regex", found, rate=True, spec=f"{REGEX}{pattern}")


def _named(name: str, function: Callable[..., Any], *, spec: str | None = None, rate: bool) -> Metric:
    metric = Metric(function, name, low=0.0, high=1.0, rate=rate)
    metric.builtin, metric.spec = True, spec or name
    return metric


def _imported(name: str, thing: Any) -> Metric:
    metric = thing if isinstance(thing, Metric) else Metric(thing)
    metric.spec = name
    return metric


def _by_name() -> dict[str, Metric]:
    rates = {ACCURACY: _accuracy, "em": _em, "exact": _exact, "contains": _contains}
    found = {name: _named(name, function, rate=True) for name, function in rates.items()}
    return found | {"f1": _named("f1", _f1, rate=False)}


METRICS: Registry[Metric] = Registry("metrics", _imported, _by_name)


# What a function is ----------------------------------------------------------------------------------


def _parameters(function: Callable[..., Any], name: str) -> tuple[int, int]:
    """How many arguments a metric needs, at least two, and how many it takes, at most five."""
    target = function.forward if isinstance(function, dspy.Module) else function
    try:
        known = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # of some functions written in C
        return 2, 2
    placed = [one for one in known if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in placed)
    room = 5 if any(one.kind == one.VAR_POSITIONAL for one in known) else len(placed)
    named = [one.name for one in known if one.kind == one.KEYWORD_ONLY and one.default is one.empty]
    if room < 2 or needed > 5 or named:
        raise UserError(
            f"the metric {name} cannot be called with an example and a prediction: write it as "
            "(example, prediction, trace=None)"
        )
    return max(2, needed), min(5, room)


def _name_of(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    return "metric" if name == "<lambda>" else str(name)


def code_of(thing: Any) -> str:
    """A short hash of what a function or object does: its source, and the plain values that it holds."""
    said = repr(list(_said(thing, 0)))
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _said(thing: Any, depth: int) -> Sequence[Any]:
    if isinstance(thing, _PLAIN):
        return [thing]
    if depth > 4:
        return [type(thing).__qualname__]
    if isinstance(thing, list | tuple):
        return [each for one in thing for each in _said(one, depth + 1)]
    if isinstance(thing, Mapping):
        return [each for key, one in thing.items() for each in (str(key), *_said(one, depth + 1))]
    if isinstance(thing, partial):
        return [each for one in (thing.func, thing.args, thing.keywords) for each in _said(one, depth + 1)]
    if inspect.ismethod(thing):
        return [*_said(thing.__func__, depth + 1), *_said(thing.__self__, depth + 1)]
    if inspect.isfunction(thing):
        function = inspect.unwrap(thing)
        closed = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
        held = [function.__defaults__, function.__kwdefaults__, closed]
        return [_source(function), *(each for one in held for each in _said(one, depth + 1))]
    if isinstance(thing, dspy.BaseLM):
        return [str(thing.model)]
    if isinstance(thing, type) or inspect.isroutine(thing):
        return [_source(thing)]
    state = getattr(thing, "__dict__", {})
    kept = {key: value for key, value in sorted(state.items()) if key not in ("history", "callbacks")}
    return [_source(type(thing)), *_said(kept, depth + 1)]


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):  # typed into a prompt
        code = getattr(thing, "__code__", None)
        return _bytes(code) if code is not None else f"{thing.__module__}:{thing.__qualname__}"


def _bytes(code: CodeType) -> str:
    inner = [_bytes(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inner}"


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
