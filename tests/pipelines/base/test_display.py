"""Live progress: shown where somebody looks, line by line, and never the end of a run."""

import io
import re
import sys

import pytest

from folkmoot.pipelines.base.display import displayed
from folkmoot.pipelines.base.wording import ProgressLine, as_sentence


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(Terminal):
    def write(self, text: str) -> int:
        raise OSError("the terminal is gone")


def line(state: int) -> ProgressLine:
    return ProgressLine("count", [f"{state} of 10", "\x1b]0;owned\x07[bold]"], state, 10)


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error is a terminal, and this process no test."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", found := Terminal())
    monkeypatch.delitem(sys.modules, "pytest")
    return found


def shown(show: bool | None) -> str:
    with displayed(show, "count", line) as progress:
        for state in range(8):
            progress(state)
    return sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_a_terminal_shows_the_last_state_without_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_terminal(monkeypatch)
    said = shown(None)
    assert "7 of 10" in said
    assert "[bold]" in said
    assert "\x1b]0" not in said


def test_nothing_is_shown_in_a_pipe_or_test_or_when_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert shown(None) == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert shown(None) == ""  # pytest is here
    monkeypatch.delitem(sys.modules, "pytest")
    assert shown(False) == ""


def test_a_pipe_may_get_a_line_every_25_things_or_30_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with displayed(True, "count", line) as progress:
        for state in range(60):
            progress(state)
        now[0] = 31.0
        progress(60)
    assert re.findall(r"(\d+) of 10", pipe.getvalue()) == ["25", "50", "60"]


def test_the_time_left_comes_from_what_this_run_has_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    now = [0.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with displayed(True, "count", lambda done: ProgressLine("count", [], done, 200)) as progress:
        progress(49)  # done by an earlier run
        now[0] = 10.0
        progress(100)
    assert pipe.getvalue().splitlines() == ["count", "count  20 s left"]


def test_a_terminal_that_breaks_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delitem(sys.modules, "pytest")
    for stream in (Broken(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        with displayed(None, "count", line) as progress:
            progress(1)


def test_a_name_that_begins_a_sentence_keeps_its_spelling() -> None:
    assert as_sentence("budget 5 calls spent") == "Budget 5 calls spent."
    for clause in ("http://127.0.0.1/v1 does not answer", "paper/table-2/a: budget 5 calls spent"):
        assert as_sentence(clause) == f"{clause}."
