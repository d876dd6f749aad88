"""Requests: the arguments of a command, declared in one dataclass for command line and Python."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, wraps
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import Doc

from ...modules.base.errors import UserError
from ...modules.base.keyed import without_none

if TYPE_CHECKING:
    import dspy
    from typer.models import ParameterInfo

    from ...modules.protocols.program import Program
    from ...modules.reading.metrics import Metric
    from ...modules.reading.question import Question
    from .budget import Budget
    from .life import Plan

    AnyProgram: TypeAlias = Program | dspy.Module | Callable[..., object] | str | Path
    AnyQuestions: TypeAlias = Iterable[Question] | str | Path | Any
    AnyLM: TypeAlias = dspy.BaseLM | str | Sequence[str] | Mapping[str, object]
    AnyMetric: TypeAlias = Metric | Callable[..., object] | str
    AnyCheck: TypeAlias = Metric | Callable[..., object] | str
    AnyBudget: TypeAlias = Budget | str
else:  # slow imports that --help does not need
    AnyProgram = AnyQuestions = AnyLM = AnyMetric = AnyCheck = AnyBudget = Any

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
PlanType = TypeVar("PlanType", bound="Plan")

Pairs = Mapping[str, object] | Sequence[str] | None
"""`{key: value}` in Python, `KEY=VALUE` on the command line."""


def entry(request: Callable[P, R]) -> Callable[[Callable[[R], T]], Callable[P, T]]:
    """Return a decorator that turns a function of a request into one of the request's fields.

    So the arguments are only declared in the dataclass: type checkers read the function's keywords
    from it, and `help` lists them with the help texts of the command line.
    """

    def decorate(work: Callable[[R], T]) -> Callable[P, T]:
        signature = inspect.signature(request)

        @wraps(work)
        def function(*args: P.args, **keywords: P.kwargs) -> T:
            try:
                # Checked here, since Python's own error would name the dataclass, which the caller
                # does not know.
                signature.bind(*args, **keywords)
            except TypeError as problem:
                names = list(signature.parameters)
                unknown = next((name for name in keywords if name not in names), "")
                close = get_close_matches(unknown, names, 1, 0.5)
                meant = f"; did you mean {close[0]!r}?" if close else ""
                raise TypeError(f"{work.__name__}() {problem}{meant}") from None
            return work(request(*args, **keywords))

        hints = get_type_hints(request, include_extras=True)
        parameters = [
            value.replace(annotation=_plain(hints[value.name]))
            for value in signature.parameters.values()
        ]
        returns = inspect.signature(work).return_annotation
        function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            parameters, return_annotation=returns
        )
        function.__doc__ = (
            f"{inspect.cleandoc(work.__doc__ or '')}\n\nArgs:\n{_arguments(signature, hints)}"
        )
        return function

    return decorate


def warned(plan: PlanType) -> PlanType:
    """Return the plan, after its warnings were given to the caller of a Python function."""
    for warning in plan.warnings:
        # Level 4 is the user's line: above this function, its caller, and `entry`'s wrapper.
        warnings.warn(warning, stacklevel=4)
    return plan


def _plain(hint: object) -> object:
    """Return a type without its `Annotated`."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


@cache
def _several(request: type[object]) -> list[str]:
    """Return the fields of a request that are lists of texts, and never a single text."""
    names = []
    for name, hint in get_type_hints(request, include_extras=True).items():
        if list[str] in get_args(hint):
            plain = _plain(hint)
            kinds = get_args(plain) if get_origin(plain) in (Union, UnionType) else (plain,)
            if not {str, Any}.intersection(kinds):
                names.append(name)
    return names


class Option:
    """An option of the command line, with the arguments of `typer.Option`. It stands in for that
    because importing Typer takes 20 ms, and only the command line needs it.
    """

    def __init__(self, *names: str, **described: Any) -> None:
        self.names, self.help = names, described.get("help", "")
        self.described = described

    def of_typer(self) -> ParameterInfo:
        import typer

        info: ParameterInfo = getattr(typer, type(self).__name__)(*self.names, **self.described)
        return info


class Argument(Option):
    """An argument of the command line, with those of `typer.Argument`."""


def _arguments(signature: inspect.Signature, hints: Mapping[str, object]) -> str:
    """Return a paragraph for each argument, from the help of its option or from its `Doc`."""
    words = {}
    for name, hint in hints.items():
        for part in get_args(hint):
            if isinstance(part, Doc):
                words[name] = part.documentation
            elif hasattr(part, "help"):
                words[name] = part.help
    paragraphs = (f"{name}: {words[name]}" for name in signature.parameters if name in words)
    indented = textwrap.TextWrapper(100, initial_indent=" " * 4, subsequent_indent=" " * 8)
    return "\n".join(map(indented.fill, paragraphs))


class Default(NamedTuple):
    """A value that was set elsewhere than on the command line, and where."""

    value: Any
    place: str


# Types of options that several requests share


def source(of: str) -> Option:
    """Return an option that names questions."""
    return Option(metavar="NAME|FILE", help=of)


def folder(of: str, *names: str) -> Option:
    """Return an option that names a folder."""
    return Option(*names, metavar="DIR", help=of)


def sampled(what: str) -> Option:
    """Return an option that limits the questions of a part of the data."""
    return Option(min=1, help=f"Use at most this many {what} questions, drawn by the seed.")


def tracked(what: str = "the run", does: str = "Log {} to MLflow.") -> Option:
    """Return the option that turns logging to MLflow on or off."""
    return Option("--track/--no-track", help=does.format(what))


ProgramSpec = Annotated[
    AnyProgram,
    str,
    Argument(
        metavar="PROGRAM",
        help="A spec, such as single:cot or deliberation:intuitive,reasoner:judge; a YAML file; "
        "the folder of a run, or of a saved, compiled, tuned or trained program. In "
        "Python also a program, any dspy.Module, or a function of a question.",
    ),
]
Roles = Annotated[
    Mapping[str, object] | str | Path | None,
    str | None,
    Option(
        metavar="FILE",
        help="Roles of your own, in a YAML file. In Python also a mapping of signatures by name.",
    ),
]
Kind = Annotated[
    str | None, Option(metavar="choice|boolean|number|span|open|task", help="Kind of answer.")
]
Scored = Annotated[
    AnyMetric | None,
    str | None,
    Option(
        metavar="NAME",
        help="accuracy (the default), em, f1, exact, contains, regex:PATTERN, judge, or your own "
        "module:function. In Python also a function of (example, prediction, trace=None).",
    ),
]
JudgeLM = Annotated[
    AnyLM | None,
    str | None,
    Option(metavar="NAME", help="LM that grades answers, for the metric judge."),
]
RetryErrors = Annotated[bool, Option("--retry-errors", help="Ask failed questions again.")]
TrainSplit = Annotated[str | None, Option(help="Split of the training questions. Default: train.")]
Record = Annotated[
    str | Path | None,
    Path | None,
    folder("Record every LM call in this folder, for the LM replay/DIR."),
]
Concurrency = Annotated[int, Option(min=1, help="Most questions and LM calls at a time.")]
Temperature = Annotated[float | None, Option(min=0.0, help="Sampling temperature. Default: 0.")]
Threads = Annotated[int | None, Option(min=1, help="CPU threads of an embedded LM.")]

MaxTokens = Annotated[
    int | None, Option(min=1, help="Longest reply, in tokens. Default: the server's own limit.")
]
Priced = Annotated[
    Pairs,
    list[str],
    Option(
        "--price",
        metavar="MODEL=IN,OUT",
        help="USD per million prompt and completion tokens. A third number: cached prompt tokens.",
    ),
]
Cache = Annotated[
    bool,
    Option(
        "--cache/--no-cache",
        help="Take answers of hosted LMs from the call cache, and keep them there.",
    ),
]
ProgressOption = Annotated[
    bool | Callable[..., None] | None,
    Doc(
        "one line of live progress: None shows it on a terminal and in a notebook, True elsewhere, "
        "too, False never; a function is called with the state instead."
    ),
]


def folder_at(out: str | Path | None) -> Path | None:
    """Return the folder that a user named, if any."""
    return None if out is None else Path(out).expanduser()


# Groups of options


@dataclass(kw_only=True)
class Request:
    """The arguments of a command; its docstring is the command's help.

    `defaults` holds options from a configuration file or the environment, by field. They are
    ignored where they do not apply, since the user did not give them for this run.
    """

    example: ClassVar[str] = ""
    own_defaults: ClassVar[tuple[str, ...]] = ()
    """Options that a configuration file sets only for this command."""

    defaults: dict[str, Default] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        # A single text for a list would otherwise be read letter by letter.
        kind: object = type(self)
        for name in _several(kind):
            value = getattr(self, name)
            if isinstance(value, str):
                setattr(self, name, [value])

    def asked(self, name: str) -> bool:
        """Return whether the user gave an option in this run."""
        return bool(getattr(self, name)) and name not in self.defaults

    def named(self, *names: str) -> dict[str, Any]:
        """These options by name."""
        return {name: getattr(self, name) for name in names}

    def handed_to(self, other: Callable[..., Any], **given: object) -> Any:
        """Return a request of another command: with these arguments, and as to the rest with the
        options that this one has, too.
        """
        request = other(
            **{**self.named(*inspect.signature(other).parameters.keys() & vars(self)), **given}
        )
        request.defaults = self.defaults
        return request


@dataclass(kw_only=True)
class Seats(Request):
    """The LMs of a program's agents."""

    lm: Annotated[
        AnyLM | None,
        list[str],
        Option(
            "--lm",
            metavar="[AGENT=]NAME",
            help="LM of every agent, or of one, such as openai/gpt-4o-mini. Default: FOLKMOOT_LM, "
            "else local/gemma-3-270m. In Python also an LM, or a mapping from agents to LMs; by "
            "default the LM that DSPy is set to.",
        ),
    ] = None
    api_base: Annotated[
        str | Sequence[str] | None,
        list[str],
        Option(
            "--api-base",
            metavar="[AGENT=]URL",
            help="Address of an OpenAI-compatible endpoint, up to /v1.",
        ),
    ] = None


@dataclass(kw_only=True)
class Asking(Request):
    """How a command asks LMs, whichever they are."""

    threads: Threads = None
    concurrency: Concurrency = 64
    price: Priced = None
    cache: Cache = True


@dataclass(kw_only=True)
class SharedByLMs(Asking):
    """Settings that all LMs of a command share."""

    max_tokens: MaxTokens = None
    answer_form: Annotated[
        str | None,
        Option(metavar="label|text", help="Whether choices are answered by label or by text."),
    ] = None
    timeout: Annotated[
        float | None,
        Option(
            min=0.1,
            help="Seconds that one attempt of an LM call may take. Default: 120, embedded 1800.",
        ),
    ] = None
    lm_set: Annotated[
        Pairs,
        list[str],
        Option(
            "--lm-set",
            metavar="[AGENT.]KEY=VALUE",
            help="Setting of every LM, or of one agent's LM, such as reasoning_effort=low.",
        ),
    ] = None


@dataclass(kw_only=True)
class Commands(Request):
    """The environment of programs that are commands (`cmd:…`)."""

    pass_env: Annotated[
        Sequence[str],
        list[str],
        Option(
            "--pass-env",
            metavar="NAME",
            help="Environment variable with a key that a program cmd:… may read.",
        ),
    ] = ()


@dataclass(kw_only=True)
class LMs(SharedByLMs, Seats, Commands):
    """A program's own settings, and its LMs."""

    sets: Annotated[
        Pairs,
        list[str],
        Option(
            "--set", metavar="KEY=VALUE", help="Parameter of the program, such as max_rounds=2."
        ),
    ] = None
    demonstration: Annotated[
        Mapping[str, object] | str | Path | None,
        str | None,
        Option(
            metavar="NAME|FILE",
            help="Show a worked question before every call: one of folkmoot's by name, or a file "
            "that fm.worked wrote.",
        ),
    ] = None
    roles: Roles = None
    inputs: Annotated[
        Pairs,
        list[str],
        Option(
            "--inputs",
            metavar="FIELD=QUESTION_FIELD",
            help="For a field of your own program: the question's field that it gets.",
        ),
    ] = None
    temperature: Temperature = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = without_none({"demonstration": self.demonstration, "own_roles": self.roles})
        sets: Any = self.sets or {}
        if isinstance(self.sets or self.roles, Mapping):
            self.sets = {**sets, **given}
        elif given:
            self.sets = [*sets, *pairs_text(given)]
        # They are in `sets` now, where everything else reads them.
        self.demonstration = self.roles = None

    def parameters(self) -> Pairs:
        """Return `sets`, with `pass_env` as one of them."""
        if not self.pass_env:
            return self.sets
        passed = f"pass_env=[{', '.join(self.pass_env)}]"
        return [*pairs_text(self.sets), passed]

    def input_fields(self) -> dict[str, str]:
        """Return `inputs` by the program's field. Raises UserError for what is not a pair."""
        return pairs_of(self.inputs, "--inputs", "FIELD=QUESTION_FIELD", "query=question")


@dataclass(kw_only=True)
class Columned(Request):
    """How questions are read from a file."""

    columns: Annotated[
        Pairs,
        list[str],
        Option(
            "--columns",
            metavar="FIELD=COLUMN",
            help="Column that holds a field, such as question=text; choices=first,second,third "
            "for one column per option; answer=gold:from0 for positions of options counted from 0.",
        ),
    ] = None
    kind: Kind = None
    show: Annotated[
        Sequence[str],
        list[str],
        Option(
            metavar="COLUMN,…",
            help="Further columns of the data that programs are shown; never the gold answer.",
        ),
    ] = ()

    def reading(self) -> dict[str, Any]:
        """Return how the questions are read, as arguments of `listed` and `load_part`."""
        return {"columns": self.column_names(), **self.named("kind", "show")}

    def column_names(self) -> dict[str, str] | None:
        """Return `columns` by field. Raises UserError for what is not a pair."""
        columns = self.columns
        if isinstance(columns, Sequence):
            # Split only at a comma before another FIELD=: others separate the columns of options.
            columns = [pair for column in columns for pair in re.split(r",(?=\s*\w+=)", column)]
        return pairs_of(columns, "--columns", "FIELD=COLUMN", "question=text") or None


def naming(field: str) -> str:
    """Return how a user names the column of a field, on the command line and in Python, for
    errors.
    """
    return naming_all({field: "NAME"})


def naming_all(columns: Mapping[str, str]) -> str:
    """As `naming`, for several fields with the names of their columns."""
    options = (f"--columns {shlex.quote(f'{field}={column}')}" for field, column in columns.items())
    return f"with {' '.join(options)} (in Python columns={json.dumps(columns, ensure_ascii=False)})"


@dataclass(kw_only=True)
class Checked(Request):
    """How tasks are checked."""

    check: Annotated[
        AnyCheck | None,
        str | None,
        Option(
            metavar="COMMAND",
            help="Check of tasks, such as 'python -m pytest -q': an answer is right if it ends "
            "with code 0. In Python also a function of (task, folder).",
        ),
    ] = None
    check_timeout: Annotated[
        float | None, Option(min=1, help="Seconds that one check may take. Default: 120.")
    ] = None
    answer_file: Annotated[
        str | None,
        Option(
            metavar="PATH",
            help="File of a task into which a program's text goes, such as solution.py. Without "
            "it the text must be a unified diff.",
        ),
    ] = None
    sandbox: Annotated[
        str | None,
        Option(
            metavar="bwrap|docker:IMAGE|podman:IMAGE|none",
            help="What runs the code of tasks. Default: bwrap.",
        ),
    ] = None

    max_usd_per_task: Annotated[
        float | None, Option(min=0, help="Hard limit of what one task may cost, in USD.")
    ] = None
    max_calls_per_task: Annotated[
        int | None, Option(min=1, help="Hard limit of the LM calls of one task.")
    ] = None

    @property
    def checks_tasks(self) -> bool:
        """Whether the user gave any option on how tasks are checked."""
        return any(getattr(self, name) is not None for name in CHECKED)


CHECKED = ("check", "check_timeout", "answer_file", "sandbox")
LIMITS = ("max_usd_per_task", "max_calls_per_task")


@dataclass(kw_only=True)
class Judged(Checked):
    """How answers are scored."""

    metric: Scored = None
    judge_lm: JudgeLM = None


@dataclass(kw_only=True)
class OnCluster(Request):
    """Where programs and checks of tasks run."""

    engine: Annotated[
        str | None,
        Option(
            metavar="ray",
            help="Run commands (cmd:…), your own functions, and the checks of tasks on a Ray "
            "cluster: the one that runs, else one of this machine.",
        ),
    ] = None
    meter_host: Annotated[
        str | None,
        Option(
            metavar="ADDRESS",
            help="This machine's address, at which Ray's workers ask their LM. Default: 127.0.0.1.",
        ),
    ] = None

    @property
    def workers_host(self) -> str | None:
        """The address at which workers reach the meter; None without workers."""
        return (self.meter_host or "127.0.0.1") if self.engine else None


@dataclass(kw_only=True)
class Repeated(Request):
    """How often every question is asked."""

    repeats: Annotated[
        int, Option(min=1, help="Ask every question this many times, without the call cache.")
    ] = 1
    permute: Annotated[
        bool,
        Option("--permute", help="Ask each repeat, at least 2, with the options in another order."),
    ] = False

    @property
    def times(self) -> int:
        """How often every question is asked; at least twice if options are permuted."""
        return max(self.repeats, 2 if self.permute else 1)


@dataclass(kw_only=True)
class Spending(Request):
    """A command that asks LMs."""

    budget: Annotated[
        AnyBudget | None,
        str | None,
        Option(
            metavar="LIMITS",
            help='Hard limits, such as "2 USD, 500 calls, 1M tokens, 20 min", for all attempts '
            "at a folder together (time: for this attempt). Finished work is kept.",
        ),
    ] = None


@dataclass(kw_only=True)
class Running(Spending):
    """A command that asks LMs many questions, and shows how far it is."""

    progress: ProgressOption = None


def pairs_of(pairs: Pairs, option: str, form: str, example: str) -> dict[str, str]:
    """Return the pairs of an option as key → value. Raises UserError for what is not a pair, and
    for a key that is given twice.
    """
    if isinstance(pairs, Mapping):
        return {str(key): str(value) for key, value in pairs.items()}
    values: dict[str, str] = {}
    for pair in pairs or ():
        key, _, value = map(str.strip, pair.partition("="))
        if not key or not value or key in values:
            raise UserError(
                f"{option} {pair!r} is not a {form} pair, or its {form.partition('=')[0]} is "
                f"given twice: write for example {example}"
            )
        values[key] = value
    return values


def pairs_text(pairs: Pairs) -> list[str]:
    """Return the pairs of an option as texts `KEY=VALUE`."""
    if isinstance(pairs, Mapping):
        return [f"{key}={json.dumps(value, default=str)}" for key, value in pairs.items()]
    return list(pairs or ())


def as_noted(
    sources: Mapping[str, object], more: Mapping[str, object], own: Mapping[str, object] | None
) -> dict[str, object]:
    """Return the settings that a result keeps: the `sources` that are names or paths (not those
    that are objects), what is set in `more`, and `own`, which overrides these.
    """
    noted = {name: str(held) for name, held in sources.items() if isinstance(held, str | Path)}
    known = {name: value for name, value in {**noted, **more}.items() if value}
    return {**known, **(own or {})}
