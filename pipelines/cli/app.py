"""The command line: `folkmoot COMMAND …`. The module of a command is imported when it runs."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Mapping
from copy import copy
from dataclasses import MISSING
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.models import OptionInfo

from ..base.request import CommandOption, Request, command_options
from ..comparison.request import CompareRequest
from ..compilation.request import CompileRequest
from ..contest.request import ContestRequest
from ..controls.request import ControlsRequest
from ..evaluation.request import EvaluateRequest
from ..forecasting.request import ForecastRequest
from ..reproduction.request import ReproduceRequest
from ..serving.request import ServeRequest
from ..training.request import TrainRequest
from ..tuning.request import TuneRequest
from . import options as of
from .config import apply_defaults, default_lines, defaults
from .guard import guarded, heed_interrupts, leave_quietly, say, say_warnings
from .stdin import take_piped


class Command(NamedTuple):
    """A command: its request, its view, and the module with its function."""

    request: type[Request]
    view: type[of.View]
    module: str

    @property
    def options(self) -> dict[str, CommandOption]:
        """The options of a command by field, those of the request first."""
        return {**command_options(self.request), **command_options(self.view)}


COMMANDS = {
    "try": Command(ContestRequest, of.TryView, "spend"),
    "ask": Command(of.AskRequest, of.Quietly, "ask"),
    "serve": Command(ServeRequest, of.View, "setup"),
    "evaluate": Command(EvaluateRequest, of.EvaluateView, "spend"),
    "compare": Command(CompareRequest, of.CompareView, "compare"),
    "forecast": Command(ForecastRequest, of.View, "results"),
    "controls": Command(ControlsRequest, of.Confirmed, "spend"),
    "compile": Command(CompileRequest, of.Confirmed, "spend"),
    "report": Command(of.ReportRequest, of.Quietly, "results"),
    "train": Command(TrainRequest, of.Confirmed, "learn"),
    "reproduce": Command(ReproduceRequest, of.ReproduceView, "reproduce"),
    "tune": Command(TuneRequest, of.Confirmed, "spend"),
    "import": Command(of.ImportRequest, of.View, "results"),
    "show": Command(of.ShowRequest, of.Quietly, "results"),
    "runs": Command(of.RunsRequest, of.View, "results"),
    "datasets": Command(of.DatasetsRequest, of.View, "setup"),
    "lms": Command(of.LmsRequest, of.View, "setup"),
    "check": Command(of.CheckRequest, of.View, "setup"),  # of `data`
    "doctor": Command(of.DoctorRequest, of.View, "doctor"),
    "push": Command(of.PushRequest, of.View, "results"),
    "ui": Command(of.UiRequest, of.View, "setup"),
}
MANY_OPTIONS = 20
"""A command with at least this many options shows them in the groups of PANELS; options in no group
are about asking.
"""
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
OPTIONS = {name: command.options for name, command in COMMANDS.items()}


class Defaulted(TyperGroup):
    """Commands that take defaults from a configuration file."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name in OPTIONS and not ctx.resilient_parsing and not {"-h", "--help"} & {*args}:
            with guarded():
                ctx.obj = defaults(name, OPTIONS, COMMANDS[name].request.own_defaults)
            ctx.default_map = {name: {field: value for field, (value, _) in ctx.obj.items()}}
        return name, command, rest


app = typer.Typer(
    name="folkmoot",
    cls=Defaulted,
    help="Find out whether a team of language-model agents beats one agent, and at what price.",
    epilog="Example: folkmoot evaluate single:cot --data sample-choice --limit 20\n\n"
    "Exit codes: 0 done, 1 no result, 2 wrong input, 3 a verdict that --fail-if names, "
    "130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


def add(app: typer.Typer, name: str, command: Command) -> None:
    """Add a command whose options are the fields of its request, and those of its view.

    Its help is the request's docstring; of an option, the words before "In Python". The module with
    the function of that name is imported when the command runs; the function gets a request and a
    view. A field without a default is required.
    """
    options = command.options  # computed once, since each access builds typer's descriptions again
    for field, option in options.items():
        if len(options) >= MANY_OPTIONS and isinstance(option.info, OptionInfo):
            panel = next((name for name, fields in PANELS.items() if field in fields), "Asking")
            option.info.rich_help_panel = panel

    def callback(ctx: typer.Context, **values: Any) -> None:
        def on_line(field: str) -> bool:
            source = ctx.get_parameter_source(field)
            return source is not None and source.name == "COMMANDLINE"

        # Typer gives None or an empty list for options that are not set; then the dataclass's
        # default holds.
        chosen = {field: value for field, value in values.items() if value not in (None, [])}
        request = command.request(**_of(command.request, chosen))
        view = command.view(**_of(command.view, chosen))
        with guarded(debug=view.debug, verbose=view.verbose):
            apply_defaults(request, ctx.obj or {}, on_line)
            take_piped(request)
            if view.verbose and not isinstance(view, of.Planned):  # their plans show the defaults
                for line in default_lines(request):
                    say(f"defaults: {line}")
            if isinstance(view, of.Quietly) and hasattr(request, "progress"):
                request.progress = view.progress
            function = f"{name}_" if iskeyword(name) else name
            getattr(import_module(f".{command.module}", __package__), function)(request, view)

    paragraphs = inspect.cleandoc(command.request.__doc__ or "").split("\n\n")
    # Typer keeps the line breaks of a docstring, which are those of the source.
    callback.__doc__ = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    ]
    for field, (declared, kind, info) in options.items():
        info = copy(info)
        info.help = (info.help or "").partition(" In Python")[0]
        required = declared.default is MISSING and declared.default_factory is MISSING
        default = inspect.Parameter.empty if required else declared.default
        parameters.append(
            inspect.Parameter(
                field,
                inspect.Parameter.KEYWORD_ONLY,
                default=None if default is MISSING else default,
                annotation=Annotated[kind, info],
            )
        )
    callback.__annotations__ = {one.name: one.annotation for one in parameters}
    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app.command(name, epilog=f"Example: folkmoot {command.request.example}")(callback)


def _of(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
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
app.add_typer(_data)


def run() -> None:
    heed_interrupts()
    say_warnings()
    try:
        app()
    finally:
        leave_quietly()
        # otherwise the garbage collector scans all modules at exit, which takes half a second
        gc.freeze()
