"""No text from a server, a file or its name sends the terminal a control character."""

import io
import re

import pytest
from cli_helpers import folkmoot, lm
from rich.table import Table
from rich.text import Text

from folkmoot.pipelines.base.screen import Screen
from folkmoot.pipelines.cli import show
from folkmoot.pipelines.cli.show import show_result
from folkmoot.pipelines.testing.server import ScriptedServer

HOSTILE = "a\x1b]0;owned\x07b\x1b[2J\x9b31m\u202etxt\u2066\x00c"
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize("terminal", [False, True])
def test_a_screen_shows_every_text_without_control_characters(terminal: bool) -> None:
    sink = io.StringIO()
    screen = Screen(sink, force_terminal=terminal, width=200)
    screen.print(HOSTILE, soft_wrap=True)
    screen.print(Text(HOSTILE, style="bold"))
    screen.print(HOSTILE, style="green", end="  ")
    table = Table(HOSTILE)
    table.add_row(HOSTILE)
    screen.print(table)
    show_result(screen, HOSTILE, {HOSTILE: HOSTILE})
    shown = re.sub(r"\x1b\[[0-9;]*m", "", sink.getvalue())  # rich's own styles
    assert not UNSEEN.search(shown)
    assert shown.count("a]0;ownedb[2J31mtxtc") == 7 + terminal


def test_a_terminal_breaks_sentences_but_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = io.StringIO()
    screen = Screen(sink, force_terminal=True, width=20)
    monkeypatch.setattr(show, "console", lambda: screen)
    show.show_lines(["next: folkmoot compare runs/one runs/two", "a sentence of many words"])
    first = ["next: folkmoot compare runs/one runs/two", "a sentence of many "]
    assert sink.getvalue().splitlines()[:2] == first


def test_doctor_shows_what_a_server_said_in_one_harmless_line(scripted: ScriptedServer) -> None:
    scripted.reply = lambda body: (400, {}, {"error": {"message": f"{HOSTILE}\nok    all is well"}})
    result = folkmoot("doctor", *lm(scripted))
    assert not UNSEEN.search(result.stdout + result.stderr)
    assert "a]0;ownedb" in result.output
    assert not re.search(r"^ok +all is well", result.output, re.MULTILINE)
