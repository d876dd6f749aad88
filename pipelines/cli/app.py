"""The command line: `folkmoot COMMAND …`. The module of a command is imported when it runs."""

from __future__ import annotations

import gc
import inspect
from dataclasses import MISSING, Field, fields
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from . import options as of
from .completion import offered
from .config import default_lines, defaults, settle
from .guard import guarded, heed_interrupts, leave_quietly, say, say_warnings
from .stdin import take_piped

COMMANDS = (
    *(of.AskOptions, of.EvaluateOptions, of.CompareOptions, of.CompileOptions, of.ReportOptions),
    *(of.TrainOptions, of.ReproduceOptions, of.DistilOptions, of.TuneOptions),
    *(of.ImportOptions, of.ExportOptions, of.RunsOptions),
    *(of.DatasetsOptions, of.LmsOptions, of.DoctorOptions, of.PushOptions, of.UiOptions),
)


def _name(options: type[of.Options]) -> str:
    return options.__name__.removesuffix("Options").lower()


KINDS = {_name(one): one for one in (*COMMANDS, of.CheckOptions)}


class Defaulted(TyperGroup):
    """Commands that take what is not on the command line from a configuration file."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        if name in KINDS and not ctx.resilient_parsing and not {"-h", "--help"} & {*args}:
            with guarded():
                ctx.obj = defaults(name, KINDS)
            ctx.default_map = {name: {field: value for field, (value, _) in ctx.obj.items()}}
        return name, found, rest


app = typer.Typer(
    name="folkmoot",
    cls=Defaulted,
    help="Finds out whether a team of language-model agents beats one agent, and at what price.",
    epilog="Example: folkmoot evaluate single:cot --data sample-choice --limit 20\n\n"
    "Exit codes: 0 done, 1 no result, 2 wrong input, 130 interrupted.",
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


def command(app: typer.Typer, options: type[of.Options], module: str | None = None) -> None:
    """Add the command whose options are the fields of a dataclass, each `Annotated` with a typer option.

    Its name is the class's without `Options`, its help the class's docstring. The function of that name in
    the module of that name, or in the one given, is imported when the command runs, and gets one `options`.
    A field without a default is required; a default that a factory makes is made anew for each run.
    """
    name = _name(options)
    hints = get_type_hints(options, include_extras=True)
    known = {one.name: one for one in fields(options) if hasattr(hints[one.name], "__metadata__")}
    for hint in hints.values():
        for info in getattr(hint, "__metadata__", ()):
            info.autocompletion = info.autocompletion or offered(info.metavar)
    # Help lists a class's own options first, then those of its groups.
    own = (field for base in options.__mro__ for field in inspect.get_annotations(base))
    ordered = [field for field in dict.fromkeys(own) if field in known]

    def callback(ctx: typer.Context, **given: Any) -> None:
        def on_line(field: str) -> bool:
            source = ctx.get_parameter_source(field)
            return source is not None and source.name == "COMMANDLINE"

        chosen = options(**{field: value for field, value in given.items() if value is not None})
        with guarded(debug=chosen.debug, verbose=chosen.verbose):
            settle(chosen, ctx.obj or {}, on_line)
            take_piped(chosen)
            if chosen.verbose and not isinstance(chosen, of.Spending):  # their plans say it
                for line in default_lines(chosen):
                    say(f"defaults: {line}")
            called = f"{name}_" if iskeyword(name) else name
            getattr(import_module(module or f".{called}", __package__), called)(chosen)

    callback.__doc__ = options.__doc__
    callback.__annotations__ = {"ctx": typer.Context, **{field: hints[field] for field in ordered}}
    callback.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(
                inspect.Parameter(
                    field,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=_default(known[field]),
                    annotation=hints[field],
                )
                for field in ordered
            ),
        ]
    )
    app.command(name, epilog=f"Example: folkmoot {options.example}")(callback)


def _default(field: Field[Any]) -> Any:
    """What typer fills in: nothing (None) where the class calls a factory."""
    if field.default_factory is not MISSING:
        return None
    return inspect.Parameter.empty if field.default is MISSING else field.default


for _options in COMMANDS:
    command(app, _options)
_data = typer.Typer(
    name="data",
    cls=Defaulted,
    help="Looks at questions before anything is spent.",
    epilog=f"Example: folkmoot {of.CheckOptions.example}",
    no_args_is_help=True,
)
command(_data, of.CheckOptions, ".data")
app.add_typer(_data)


def run() -> None:
    heed_interrupts()
    say_warnings()
    try:
        app()
    finally:
        leave_quietly()
        gc.freeze()  # else Python looks through all that was imported again as it ends, for half a second
