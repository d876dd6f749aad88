"""A command's options are its request's fields, which the Python function has as arguments."""

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

import folkmoot as fm
from folkmoot.pipelines.cli import app as cli
from folkmoot.pipelines.cli.command import command_options

NAMES = ("evaluate", "compile", "tune", "reproduce", "train")
FUNCTIONS = {name: getattr(fm, name) for name in NAMES}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_option_is_written_once_and_has_both_doors(name: str) -> None:
    """A request's fields are the function's arguments, with defaults; each option is a field."""
    request, view, _ = cli.COMMANDS[name]
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    assert list(parameters) == list(inspect.signature(request).parameters)
    told = {one.name: one for one in fields(request)}
    for one in parameters.values():
        if one.default is not inspect.Parameter.empty:
            assert one.default == told[one.name].default
    command = typer.main.get_command(cli.app).commands[name]  # type: ignore[attr-defined]
    offered = {one.name for one in command.params} - {"help", "all_help"}
    assert offered == {*command_options(request), *command_options(view)}
    assert not {*command_options(request)} & {*command_options(view)}
    for option in command_options(request):
        assert f"    {option}: " in (FUNCTIONS[name].__doc__ or ""), option


def test_help_of_the_program_is_quick() -> None:
    """0.6 s of a processor at most, and none of the heavy packages."""
    look = (
        "import sys, time; began = time.process_time(); from typer.testing import CliRunner;"
        "from folkmoot.pipelines.cli.app import app; CliRunner().invoke(app, ['--help']);"
        "CliRunner().invoke(app, ['evaluate', '--help']);"
        "CliRunner().invoke(app, ['evaluate', '--nonsense']);"
        "heavy = {'dspy', 'litellm', 'mlflow', 'torch', 'pandas', 'numpy', 'scipy', 'yaml', "
        "'optuna', 'rich', 'jinja2', 'sqlite3', 'ssl'};"
        "print(time.process_time() - began, *heavy & set(sys.modules))"
    )
    words = [sys.executable, "-c", look]
    for _ in range(3):  # a machine that does much else takes longer
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        seconds, *heavy = done.stdout.split()
        assert heavy == []
        if float(seconds) < 0.6:
            break
    assert float(seconds) < 0.6


def test_the_help_lists_first_what_most_people_need() -> None:
    shown = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "80"}).output
    first, _, more = shown.partition("More commands")
    assert "│ try " in first
    assert "│ serve " in first
    assert "│ controls " in more
    assert "│ data " in more
