"""A command's options are the fields of one dataclass."""

from __future__ import annotations

import subprocess
import sys
import types
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer import Argument, Option
from typer.testing import CliRunner

from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.cli import options as of
from folkmoot.pipelines.cli.app import COMMANDS, command
from folkmoot.pipelines.programs.seats import LMOptions


@dataclass(kw_only=True)
class Painted(of.Options):
    colour: Annotated[str, Option(help="Which one.")] = "red"


@dataclass(kw_only=True)
class StampOptions(Painted, of.Quietly):
    """Stamp letters.

    Twice, if need be.
    """

    example = "stamp a.txt --times 2"

    letter: Annotated[Path, Argument(help="What is stamped.")]
    ink: Annotated[str, Option(help="From where.")]
    times: Annotated[int, Option(min=1, help="How often.")] = 1
    places: Annotated[list[str], Option("--place", help="Where.")] = field(default_factory=lambda: ["top"])


got: list[StampOptions] = []


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    def stamp(options: StampOptions) -> None:
        got.append(options)
        print("chatter")
        if options.colour == "none":
            raise UserError("no colour: choose one")

    module = types.ModuleType("stamping")
    module.stamp = stamp  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "stamping", module)
    got.clear()
    made = typer.Typer(pretty_exceptions_enable=False)
    made.callback()(lambda: None)
    command(made, StampOptions, "stamping")
    return made


def run(app: typer.Typer, *words: str) -> Any:
    return CliRunner().invoke(app, ["stamp", *words])


def test_a_command_gets_one_object_of_what_was_given(app: typer.Typer) -> None:
    result = run(app, "a.txt", "--ink", "pad", "--times", "3", "--place", "left", "--colour", "blue", "-q")
    assert result.exit_code == 0
    expected = StampOptions(
        letter=Path("a.txt"), ink="pad", times=3, places=["left"], colour="blue", quiet=True
    )
    assert got == [expected]


def test_what_is_not_given_has_its_default_and_factories_are_called_each_time(app: typer.Typer) -> None:
    assert run(app, "a.txt", "--ink", "pad").exit_code == 0
    got[0].places.append("bottom")
    assert run(app, "a.txt", "--ink", "pad").exit_code == 0
    assert got[1] == StampOptions(letter=Path("a.txt"), ink="pad")
    assert got[1].places == ["top"]
    assert (got[1].times, got[1].colour, got[1].as_json) == (1, "red", False)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["a.txt"], "--ink"), (["--ink", "pad"], "letter"), (["a", "--ink", "b", "--times", "0"], "--times")],
)
def test_a_field_without_a_default_is_required_and_limits_hold(
    app: typer.Typer, words: list[str], said: str
) -> None:
    result = run(app, *words)
    assert result.exit_code == 2
    assert said in result.stderr.casefold()
    assert not got


def test_help_has_the_docstring_the_example_and_a_commands_own_options_first(app: typer.Typer) -> None:
    shown = run(app, "--help").stdout
    assert "Twice, if need be." in shown
    assert "Example: folkmoot stamp a.txt --times 2" in shown
    places = [shown.index(name) for name in ("--ink", "--times", "--place", "--colour", "--quiet", "--json")]
    assert places == sorted(places)


def test_an_error_is_one_line_and_libraries_stay_off_standard_output(app: typer.Typer) -> None:
    result = run(app, "a.txt", "--ink", "pad", "--colour", "none")
    assert result.exit_code == 2
    assert result.stderr == "chatter\nfolkmoot: no colour: choose one\n"
    assert result.stdout == ""


def test_options_are_given_by_name_only() -> None:
    with pytest.raises(TypeError):
        of.AskOptions("single:cot", "What?")  # type: ignore[misc]


@pytest.mark.parametrize("options", COMMANDS)
def test_what_options_say_of_lms_is_what_lm_options_take(options: type[of.Options]) -> None:
    named = {one.name for one in fields(options)}
    required = {one.name: "x" for one in fields(options) if one.default is one.default_factory is MISSING}
    chosen = {"lm": ["openai/x"], "temperature": 0.5, "price": ["openai/x=1,2"], "concurrency": 3}
    given = options(**required, **{name: value for name, value in chosen.items() if name in named})
    lms = given.into(LMOptions)
    assert lms.lm == (["openai/x"] if "lm" in named else ())
    assert lms.price == (["openai/x=1,2"] if "price" in named else ())
    assert lms.temperature == (0.5 if "temperature" in named else None)
    assert lms.concurrency == (3 if "concurrency" in named else 64)


def test_help_of_the_program_is_quick() -> None:
    """0.6 s of a processor at most, and none of the heavy packages."""
    look = (
        "import sys, time; began = time.process_time(); from typer.testing import CliRunner;"
        "from folkmoot.pipelines.cli.app import app; CliRunner().invoke(app, ['--help']);"
        "heavy = {'dspy', 'litellm', 'mlflow', 'torch', 'pandas', 'numpy', 'scipy', 'yaml', 'optuna'};"
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
