"""What `folkmoot compile` shows: live progress, and the result line by line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from ..compilation.attempt import Compiling
from .show import console, duration, money, percent, progress_parts, used


def result_lines(found: dict[str, Any], *, quiet: bool, track: bool) -> dict[str, str]:
    """The figures that are worth a line each."""
    lines = {"verdict": str(found.get("verdict") or "stopped before anything was found")}
    if quiet or "selection" not in found:
        return lines
    kept = found["winner"] == "given"
    for phase in ("before",) if kept else ("before", "after"):
        if found[phase] is not None:
            score = found[phase]["scores"].get("f1") or found[phase]["scores"]["accuracy"]
            lines[f"held out, {phase}"] = f"{percent(score)}, {_answered(found, phase)}"
    for name in ("given",) if kept else ("given", "winner"):
        if found["selection"][name] is not None:
            lines[f"selection, {name}"] = percent(found["selection"][name])
    lines["candidates"] = f"{found['candidates']:,}, the given program among them"
    lines["paid in all"] = used(found["paid"])
    lines["saved"] = f"{found['calls_saved']:,} calls by records and cache, this time"
    lines["time"] = duration(found["seconds"])
    lines["program"] = f"{found['out']}/program"
    lines["prompts"] = f"{found['out']}/prompts.md"
    return lines | ({"look at it": "folkmoot ui"} if track else {})


def _answered(found: dict[str, Any], phase: str) -> str:
    """On how many of the held-out questions a score rests: `n = 9`, or `n = 1 of 4`."""
    rows, given = found[phase]["counts"]["rows"], found["settings"]["validation"]
    return f"n = {rows:,}" + (f" of {given:,}" if rows < given else "")


@contextmanager
def shown(quiet: bool) -> Iterator[Any]:
    """Live progress on a terminal, nothing elsewhere."""
    out = console(stderr=True)
    if quiet or not out.is_terminal:
        yield None
        return
    state: list[Compiling] = []

    def told(now: Compiling) -> None:
        state[:] = [now]

    def render() -> Text:
        return Text("  ".join(_parts(state[0])) if state else "starting")

    with Live(get_renderable=render, console=out, refresh_per_second=4, redirect_stdout=False):
        yield told


def _parts(state: Compiling) -> Iterator[str]:
    """Phase, what is done, scores so far, calls and cost."""
    yield {"before": "held out, before", "after": "held out, after"}.get(state.phase, "optimizer")
    if state.evaluation is not None:
        yield from progress_parts(state.evaluation)
        return
    yield f"{state.candidates:,} candidates, {state.scorings:,} answers scored"
    if state.best is not None and state.given is not None:
        yield f"best {state.best:.1%} (given {state.given:.1%})"
    yield f"{state.usage.calls:,} calls"
    yield money(state.usage.cost_usd)
