"""The command line: `folkmoot COMMAND …`. The module of a command is imported when it runs."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import MISSING
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException
from typer.models import OptionInfo

from ...modules.base.errors import UserError
from ..comparison.request import CompareRequest
from ..compilation.request import CompileRequest
from ..contest.request import ContestRequest
from ..evaluation.request import EvaluateRequest
from ..tuning.request import TuneRequest
from . import options as of
from .command import ATTACHED, Command, CommandOption, command_options
from .config import apply_defaults, default_lines, defaults
from .guard import BAD_INPUT, guarded, handle_interrupts, leave_quietly, say, say_warnings
from .help import write_help
from .stdin import take_piped

if TYPE_CHECKING:
    from typer._click import Command as ClickCommand
    from typer._click import Context, HelpFormatter


def _in(module: str, function: str) -> Callable[[object, object], None]:
    """Return a function that imports a module of this room and calls a function of it."""

    def run(request: object, view: object) -> None:
        getattr(import_module(f".{module}", __package__), function)(request, view)

    return run


COMMANDS = {
    "try": Command(ContestRequest, of.TryView, _in("spend", "try_")),
    "ask": Command(of.AskRequest, of.Quietly, _in("ask", "ask")),
    "evaluate": Command(EvaluateRequest, of.EvaluateView, _in("spend", "evaluate")),
    "compare": Command(CompareRequest, of.CompareView, _in("compare", "compare")),
    "compile": Command(CompileRequest, of.Confirmed, _in("spend", "compile")),
    "tune": Command(TuneRequest, of.Confirmed, _in("spend", "tune")),
    "report": Command(of.ReportRequest, of.Quietly, _in("results", "report")),
    "show": Command(of.ShowRequest, of.Quietly, _in("results", "show")),
    "runs": Command(of.RunsRequest, of.View, _in("results", "runs")),
    "datasets": Command(of.DatasetsRequest, of.View, _in("setup", "datasets")),
    "lms": Command(of.LmsRequest, of.View, _in("setup", "lms")),
    "check": Command(of.CheckRequest, of.View, _in("setup", "check")),  # of `data`
    "doctor": Command(of.DoctorRequest, of.View, _in("doctor", "doctor")),
    "push": Command(of.PushRequest, of.View, _in("results", "push")),
    "ui": Command(of.UiRequest, of.View, _in("setup", "ui")),
}
for _attached in ATTACHED.names():
    try:
        _found = ATTACHED.find(_attached)
        if _attached in COMMANDS:
            raise UserError(f"the command {_attached} is folkmoot's own: give yours another name")
    except UserError as problem:  # the other commands can still be used
        say(f"warning: {problem}")
    else:
        assert _found is not None
        COMMANDS[_attached] = _found
FIRST = (
    *("try", "ask", "evaluate", "compare", "compile", "tune", "report", "show", "serve", "ui"),
    "check",  # the only one of `data`
)
"""The commands that most people need, which the help lists first."""
MORE = "More commands"
COMMON = (
    *("questions", "train", "validation", "lm", "api_base", "added", "baseline", "optimizer"),
    *("trials", "names", "match_budget", "margin", "sets", "metric", "limit", "budget", "out"),
    *("choice", "arms", "outcomes", "test", "settings", "port", "dry_run"),
)
"""The options that most people need; the help of a command with many options shows only these."""
MANY_OPTIONS = 20
"""The help of a command with at least this many options shows those of COMMON; --help-all shows all
of them, in the groups of PANELS. Options in no group are in the group "Asking".
"""
VALUES: dict[object, str] = {
    int: "N",
    float: "NUMBER",
    str: "TEXT",
    int | None: "N",
    float | None: "NUMBER",
    str | None: "TEXT",
}
"""The placeholder for a value in the help of an option that names none itself."""
PANELS = {
    "Data": (
        *("questions", "split", "limit", "seed", "columns", "kind", "train", "train_split"),
        *("train_limit", "validation", "validation_split", "validation_limit", "demos"),
        *("demo_seed", "outcomes"),
    ),
    "Budget": ("budget", "price", "cache", "yes", "dry_run", "max_failures"),
    "Output": (
        *("metric", "judge_lm", "judge_sample", "out", "record", "tracking", "traces"),
        *("as_json", "quiet", "verbose", "debug"),
    ),
}


class Defaulted(TyperGroup):
    """Commands that take defaults from a configuration file."""

    def main(self, *args: Any, standalone_mode: bool = True, **how: Any) -> object:
        """Run a command; shows errors of typer's in one line, like all other errors."""
        try:
            code = super().main(*args, **{**how, "standalone_mode": False})
        except TyperException as problem:
            if "\n" in problem.message:  # the help, since no command was named
                problem.show()  # type: ignore[attr-defined]
            else:
                say(_refusal(problem))
            code = BAD_INPUT
        if standalone_mode:
            sys.exit(code)
        return code

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, ClickCommand | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        # Help and completion must work with a broken configuration file, too.
        if name in COMMANDS and not ctx.resilient_parsing and not {"-h", "--help"} & {*args}:
            with guarded():
                ctx.obj = defaults(name, COMMANDS)
            ctx.default_map = {name: {field: value for field, (value, _) in ctx.obj.items()}}
        return name, command, rest

    format_help = write_help


app = typer.Typer(
    name="folkmoot",
    cls=Defaulted,
    help="Find out whether a team of language-model agents beats one agent, and at what price.",
    epilog="Example: folkmoot evaluate single:cot --data sample-choice --limit 20\n\n"
    "Exit codes: 0 done, 1 ended early or no result, 2 wrong input, 3 a verdict that --fail-if "
    "names, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,  # an error, too, is shown without rich
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "color": False if os.environ.get("NO_COLOR") else None,
    },
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"folkmoot {version('folkmoot')}")
        raise typer.Exit


@app.callback()
def _folkmoot(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


ALL = "folkmoot.all"
"""The key in a context's `meta` that says whether help shows all options."""


class RequestCommand(TyperCommand):
    """A command that describes its options only when they are needed, so that `folkmoot --help`,
    which lists commands without options, is fast.

    The help of a command with many options shows those of COMMON, or all of them in groups.
    """

    allow_extra_args = True  # refused below, in a sentence of our own

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        del self.params, self.callback  # those of the placeholder; see `__getattr__`

    def __getattr__(self, name: str) -> object:
        """Describe the options when they are first asked for."""
        if name not in ("params", "callback"):
            raise AttributeError(name)
        assert self.name is not None
        # Typer describes options only of a whole application, so one is made of this command.
        alone = typer.Typer(add_completion=False)
        alone.command()(_callback(COMMANDS[self.name]))
        described = typer.main.get_command(alone)
        self.params, self.callback = described.params, described.callback
        return getattr(self, name)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        everything = ctx.meta.get(ALL, False)
        if len(self.params) >= MANY_OPTIONS:
            for option in self.params:
                if isinstance(option, TyperOption) and option.name not in ("all_help", "help"):
                    option.hidden = not everything and option.name not in COMMON
                    groups = (name for name, fields in PANELS.items() if option.name in fields)
                    option.rich_help_panel = next(groups, "Asking") if everything else None
        write_help(self, ctx, formatter)


QUESTIONS = ("questions", "train", "validation")
"""The options that name questions: users often try `--data` for each of them."""


def _refusal(problem: Any) -> str:
    """Return an error of typer's as a sentence that says what to give."""
    ctx, wanted = getattr(problem, "ctx", None), getattr(problem, "param", None)
    if ctx is None or problem.message.endswith("?"):
        return str(problem.message)
    command = COMMANDS.get(ctx.info_name)
    if command is None:
        there = ", ".join(ctx.command.list_commands(ctx))
        return f"{problem.message.rstrip('.')}: {ctx.command_path} has {there}"
    if wanted is None:
        name = problem.option_name
        places = [_shown(option) for option in ctx.command.params if option.name in QUESTIONS]
        meant = command.for_example
        if name == "--data" and places:
            meant = f"its questions are {' and '.join(places)}; {command.for_example}"
        elif problem.possibilities:
            meant = f"did you mean {problem.possibilities[0]}?"
        return f"{ctx.info_name} has no option {name}: {meant}"
    if problem.message:
        value = problem.__cause__.errors()[0]["input"]
        return f"{_shown(wanted)} is {value!r}: give {command.options[wanted.name].wanted}"
    # Typer's error without a message: the parameter is missing.
    means = f"{wanted.help[:1].lower()}{wanted.help[1:]}".rstrip(".")
    return f"{_shown(wanted)} is missing: {means}; {command.for_example}"


def _shown(parameter: Any) -> str:
    """Return an option or argument as its help shows it."""
    if isinstance(parameter, TyperOption):
        return str(parameter.opts[0])
    return str(parameter.metavar or parameter.name.upper())


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show all options.")
]


def add(app: typer.Typer, name: str, command: Command) -> None:
    """Add a command, whose help is the request's docstring."""
    paragraphs = inspect.cleandoc(command.request.__doc__ or "").split("\n\n")
    app.command(
        name,
        cls=RequestCommand,
        # Typer keeps the line breaks of a docstring, which are those of the source.
        help="\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs),
        epilog=command.request.example and f"Example: folkmoot {command.request.example}",
        rich_help_panel="Commands" if name in FIRST else MORE,
    )(lambda: None)


def _callback(command: Command) -> Callable[..., None]:
    """Return the function that typer makes a command of: its parameters are the fields of the
    request and of the view. An option's help is the part of its field's help before "In Python". A
    field without a default is required.
    """
    options = command.options

    def callback(ctx: typer.Context, **values: object) -> None:
        # Typer gives None or an empty list for options that are not set; then the dataclass's
        # default holds.
        chosen = {field: value for field, value in values.items() if value not in (None, [])}
        request = command.request(**_of(command.request, chosen))
        view = command.view(**_of(command.view, chosen))
        with guarded(debug=view.debug, verbose=view.verbose):
            if ctx.args:
                raise UserError(
                    f"{ctx.args[0]!r} is one word too many: write an option before its value, and "
                    f"put quotes around spaces; {command.for_example}"
                )
            for field, value in chosen.items():
                if type(value) in (int, float):
                    options[field].check(options[field].long_name, value)
            apply_defaults(request, ctx.obj or {}, partial(_on_line, ctx))
            take_piped(request)
            if view.verbose and not isinstance(view, of.Planned):  # a plan shows the defaults
                for line in default_lines(request):
                    say(f"defaults: {line}")
            if isinstance(view, of.Quietly) and hasattr(request, "progress"):
                request.progress = view.progress
            command.run(request, view)

    parameters = _parameters(options)
    callback.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return callback


def _on_line(ctx: typer.Context, field: str) -> bool:
    """Return whether the user gave an option on the command line, not by an environment
    variable.
    """
    source = ctx.get_parameter_source(field)
    return source is not None and source.name == "COMMANDLINE"


def _parameters(options: Mapping[str, CommandOption]) -> list[inspect.Parameter]:
    """Return the parameters by which typer knows a command's options."""
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    ]
    if len(options) >= MANY_OPTIONS:
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter("all_help", keyword, default=False, annotation=HelpAll))
    for field, option in options.items():
        declared, kind, info = option.field, option.type, copy(option.info)
        info.help = (info.help or "").partition(" In Python")[0]
        if (info.min or 0) > 1:
            info.help += f" At least {info.min:g}."
        info.min = info.max = None  # checked above, with an error of our own
        if isinstance(info, OptionInfo):
            info.metavar = info.metavar or VALUES.get(kind)
        default = declared.default
        if default is MISSING:
            made = declared.default_factory is not MISSING  # then the request makes the default
            default = None if made else inspect.Parameter.empty
        parameters.append(
            inspect.Parameter(
                field,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind, info],
            )
        )
    return parameters


def _of(kind: type, values: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of the fields of a request or a view."""
    return {field: values[field] for field in command_options(kind) if field in values}


_data = typer.Typer(
    name="data",
    cls=Defaulted,
    help="Check questions before anything is spent.",
    epilog=f"Example: folkmoot {of.CheckRequest.example}",
    no_args_is_help=True,
)
for _name, _command in COMMANDS.items():
    add(_data if _name == "check" else app, _name, _command)
app.add_typer(_data, rich_help_panel=MORE)


def run() -> None:
    handle_interrupts()
    say_warnings()
    try:
        app()
    finally:
        leave_quietly()
        # Otherwise the garbage collector scans all modules at exit, which takes half a second.
        gc.freeze()
