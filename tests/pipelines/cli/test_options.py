"""A command's options are the fields of its request, which the Python function has as its
arguments.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
import typer
from typer import Argument, Option
from typer.testing import CliRunner

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.base.request import Request, command_options
from folkmoot.pipelines.cli import app as cli
from folkmoot.pipelines.cli import options as of


@dataclass(kw_only=True)
class Painted(Request):
    colour: Annotated[str, Option(help="Which one.")] = "red"


@dataclass(kw_only=True)
class StampRequest(Painted):
    """Stamp letters.

    Twice, if need be.
    """

    example: ClassVar[str] = "stamp a.txt --times 2"

    letter: Annotated[Path, Argument(help="What is stamped.")]
    ink: Annotated[str, Option(help="From where.")]
    times: Annotated[int, Option(min=1, help="How often.")] = 1
    places: Annotated[list[str], Option("--place", help="Where.")] = field(
        default_factory=lambda: ["top"]
    )


got: list[tuple[StampRequest, of.Quietly]] = []


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    def stamp(request: StampRequest, view: of.Quietly) -> None:
        got.append((request, view))
        print("chatter")
        if request.colour == "none":
            raise UserError("no colour: choose one")

    module = types.ModuleType("folkmoot.pipelines.cli.stamping")
    module.stamp = stamp  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    got.clear()
    made = typer.Typer(pretty_exceptions_enable=False)
    made.callback()(lambda: None)
    cli.add(made, "stamp", cli.Command(StampRequest, of.Quietly, "stamping"))
    return made


def run(app: typer.Typer, *words: str) -> Any:
    return CliRunner().invoke(app, ["stamp", *words])


def test_a_command_gets_what_was_asked_and_how_to_show_it(app: typer.Typer) -> None:
    result = run(
        app, "a.txt", "--ink", "pad", "--times", "3", "--place", "left", "--colour", "blue", "-q"
    )
    assert result.exit_code == 0
    asked = StampRequest(letter=Path("a.txt"), ink="pad", times=3, places=["left"], colour="blue")
    assert got == [(asked, of.Quietly(quiet=True))]


def test_help_has_the_docstring_the_example_and_a_commands_own_options_first(
    app: typer.Typer,
) -> None:
    shown = run(app, "--help").stdout
    assert "Twice, if need be." in shown
    assert "Example: folkmoot stamp a.txt --times 2" in shown
    places = [
        shown.index(name)
        for name in ("--ink", "--times", "--place", "--colour", "--quiet", "--json")
    ]
    assert places == sorted(places)


def test_an_error_is_one_line_and_libraries_stay_off_standard_output(app: typer.Typer) -> None:
    result = run(app, "a.txt", "--ink", "pad", "--colour", "none")
    assert result.exit_code == 2
    assert result.stderr == "chatter\nfolkmoot: no colour: choose one\n"
    assert result.stdout == ""


FUNCTIONS = {
    "evaluate": fm.evaluate,
    "compile": fm.compile,
    "tune": fm.tune,
    "distil": fm.distil,
    "reproduce": fm.reproduce,
    "train": fm.train,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_option_is_written_once_and_has_both_doors(name: str) -> None:
    """Every field of a request is an argument of the Python function, with its default, and every
    option of the command is a field of the request or of the view.
    """
    request, view, _ = cli.COMMANDS[name]
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    assert list(parameters) == list(inspect.signature(request).parameters)
    told = {one.name: one for one in fields(request)}
    for one in parameters.values():
        if one.default is not inspect.Parameter.empty:
            assert one.default == told[one.name].default
    command = typer.main.get_command(cli.app).commands[name]  # type: ignore[attr-defined]
    offered = {one.name for one in command.params} - {"help"}
    assert offered == {*command_options(request), *command_options(view)}
    assert not {*command_options(request)} & {*command_options(view)}
    for option in command_options(request):
        assert f"    {option}: " in (FUNCTIONS[name].__doc__ or ""), option


def test_help_of_the_program_is_quick() -> None:
    """0.6 s of a processor at most, and none of the heavy packages."""
    look = (
        "import sys, time; began = time.process_time(); from typer.testing import CliRunner;"
        "from folkmoot.pipelines.cli.app import app; CliRunner().invoke(app, ['--help']);"
        "heavy = {'dspy', 'litellm', 'mlflow', 'torch', 'pandas', 'numpy', 'scipy', 'yaml', "
        "'optuna'};"
        "print(time.process_time() - began, *heavy & set(sys.modules))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", look], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(3)
    ]
    assert [rest for _, *rest in found] == [[], [], []]
    assert min(float(seconds) for seconds, *_ in found) < 0.6
