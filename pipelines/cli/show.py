"""What the command line shows: a plan to agree to, live progress, a result, a dialogue, figures as text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ...modules.base.fence import clean
from ...optimizers.statistics.statistics import wilson
from ..base.wording import counted, shows
from .config import default_lines
from .guard import STOPPED, results, say
from .options import Confirmed, Options, Quietly, Spending

if TYPE_CHECKING:
    from ..evaluation.plan import Forecast
    from ..runs.progress import Progress

EXPENSIVE_USD = 1.0
PILOT, WIDE = 5, 9  # questions, and how many times its low end an estimate may be
PLAIN_WIDTH = 160  # columns where there is no terminal to ask
SHOWN_ALWAYS = ("questions", "errors", "accuracy", "accuracy_excluding_errors")  # lines of every result

State = TypeVar("State")


def console(*, stderr: bool = False) -> Console:
    """A screen on standard output or error; without a terminal it writes plain, wide lines."""
    stream = sys.stderr if stderr else results()
    return Screen(stream, width=None if stream.isatty() else PLAIN_WIDTH)


class Screen(Console, RenderHook):
    """A console that no text, wherever it is from, sends a control, invisible or direction character to."""

    def __init__(self, file: IO[str], **settings: Any) -> None:
        super().__init__(file=file, highlight=False, markup=False, emoji=False, **settings)
        self.push_render_hook(self)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Cleaned(one) for one in renderables]


@dataclass(frozen=True)
class _Cleaned:
    shown: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self.shown, options):
            yield Segment(text, style, control) if control else Segment(clean(text), style)


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    # Invisible and control characters stand inside of strings only, where an escape may replace them.
    shown = (char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)
    results().write("".join(shown) + "\n")


def percent(score: Mapping[str, float]) -> str:
    return f"{score['value']:.1%} [{score['low']:.1%}, {score['high']:.1%}]"


def points(difference: float, low: float, high: float) -> str:
    """A difference of accuracies with its interval, in points."""
    return f"{100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def money(cost: float | None) -> str:
    if cost is None:
        return "price unknown"
    return f"{cost:.4f} USD" if cost else "0 USD"


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def used(usage: Mapping[str, Any]) -> str:
    cached = f" ({usage['cached_calls']:,} of them recorded or cached)" if usage["cached_calls"] else ""
    return f"{counted(usage['calls'], 'call')}{cached}, {tokens_used(usage)}, {money(usage['cost_usd'])}"


def tokens_used(usage: Mapping[str, Any]) -> str:
    """`2,000 (1,920 cached) + 700 tokens`; what is not known, or 0, of the parts in brackets is left out."""
    if usage["prompt_tokens"] is None or usage["completion_tokens"] is None:
        return "tokens unknown"

    def part(total: str, **kinds: str) -> str:
        known = [f"{usage[name]:,} {said}" for name, said in kinds.items() if usage.get(name)]
        return f"{usage[total]:,}" + (f" ({', '.join(known)})" if known else "")

    asked = part("prompt_tokens", cached_prompt_tokens="cached", cache_write_tokens="written to cache")
    return f"{asked} + {part('completion_tokens', reasoning_tokens='reasoning')} tokens"


def answered(answer: str | None, choices: Mapping[str, str] | None) -> str:
    if answer is None:
        return "no readable answer"
    return f"{answer} ({choices[answer]})" if choices and answer in choices else answer


def show_dialogue(out: Console, prediction: Mapping[str, Any], choices: Mapping[str, str] | None) -> None:
    """Every turn, then the decision and the bill."""
    for turn in prediction["transcript"]:
        head = Text(f"{turn['agent']}, round {turn['round']}: ", style="bold")
        said = f"({turn['step']})" if turn.get("step") else answered(turn["answer"], choices)
        out.print(head + Text(said, style="not bold"))
        for item in turn.get("evidence") or ():
            out.print(Text(f"  found: {item['title']}", style="dim"))
        if turn["text"]:
            out.print(Text(turn["text"]))
        out.print()
    rounds = prediction["rounds"]
    how = f"decided by {prediction['decided_by']} after {rounds} round{'s' if rounds != 1 else ''}"
    out.print(Text(f"Answer: {answered(prediction['answer'], choices)}", style="bold"))
    out.print(f"{how}; {used(prediction['usage'])}")


def show_result(out: Console, title: str, lines: Mapping[str, str]) -> None:
    """A result as a panel on a terminal, else as plain lines."""
    table = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        table.add_row(Text(name, style="dim"), Text(value))
    if out.is_terminal:
        out.print(Panel(table, title=Text(title), expand=False))
    else:
        for name, value in lines.items():
            out.print(f"{name}: {value}", soft_wrap=True)


def plain_table(*columns: str, last_left: bool = False, no_wrap: bool = False) -> Table:
    """A table without lines: the first column stands left, figures right, and a last one of words left."""
    found = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        left = place == 0 or (last_left and place == len(columns) - 1)
        found.add_column(column, justify="left" if left else "right", no_wrap=no_wrap and place > 0)
    return found


def result_lines(summary: Mapping[str, Any], seconds: float) -> dict[str, str]:
    """The figures of `summary.json` that are worth a line each."""
    counts, usage = summary["counts"], summary["usage"]
    if counts["errors"] < counts["rows"]:
        lines = {name.replace("_", " "): percent(score) for name, score in summary["scores"].items()}
    else:
        what = "every question failed" if counts["rows"] else "no question is finished"
        lines = {"accuracy": f"not measured: {what}"}
    lines["questions"] = f"{counts['correct']:,} right of {counts['rows']:,}"
    if counts["rows"] < counts["questions"]:
        lines["questions"] += f" finished ({counts['questions']:,} asked for)"
    cut_off = f"; {counts['truncated']:,} cut off: raise --max-tokens" if counts.get("truncated") else ""
    lines["unreadable"] = f"{counts['unreadable']:,}{cut_off}"
    lines["errors"] = f"{counts['errors']:,}"
    lines["used"] = used(usage)
    paid = summary.get("paid")
    if paid and paid["calls"] != usage["calls"] - usage["cached_calls"]:
        lines["paid in all"] = used(paid)
    latency = summary.get("seconds") or {}
    median = f"; a question takes {duration(latency['p50'])} (median)" if latency else ""
    lines["time"] = f"{duration(seconds)}{median}"
    return lines | (highlights(summary.get("report") or {}) if counts["errors"] < counts["rows"] else {})


def forecast_lines(plan: Forecast, budget: str | None) -> list[str]:
    """What a run would take, and what its sample can show."""
    prompt, completion = (
        f"{low:,} to {high:,}" for low, high in (plan.prompt_tokens, plan.completion_tokens)
    )
    if plan.cost_usd is None:
        cost = f"the price of {', '.join(plan.unpriced)} is unknown"
    elif plan.cost_usd[1]:
        cost = f"{plan.cost_usd[0]:.4f} to {plan.cost_usd[1]:.4f} USD"
    else:
        cost = "0 USD"
    most = plan.prompt_tokens[1] + plan.completion_tokens[1]
    wide = plan.pilot is None and most > WIDE * (plan.prompt_tokens[0] + plan.completion_tokens[0])
    time = "time unknown before the first answers"
    if plan.seconds is not None:
        time = f"{duration(plan.seconds[0])} to {duration(plan.seconds[1])}"
    return [
        f"at most {counted(plan.calls[1], 'call')}, {plan.most_calls:,} if every answer has to be asked for "
        "twice",
        f"estimated{f' from {plan.pilot}' if plan.pilot else ''}: {prompt} prompt tokens, {completion} "
        f"completion tokens; {cost}; {time}",
        *([f"a run of {PILOT} questions (--limit {PILOT}) beside it narrows that"] if wide else []),
        *([f"budget: {budget}"] if budget else []),
        shows(plan.questions, plan.apart),
    ]


def highlights(report: Mapping[str, Any]) -> dict[str, str]:
    """A line for each entry of a protocol's own report, by its names: a figure, or the figures in it."""
    lines = {}
    for key, value in report.items():
        if isinstance(value, Mapping) and "value" not in value:
            figures = ((str(name), _figure(inner)) for name, inner in value.items())
            shown: str | None = ", ".join(
                f"{name} {figure}" for name, figure in figures if figure is not None
            )
        else:
            shown = _figure(value)
        if shown and key not in SHOWN_ALWAYS and not key.endswith("_per_question"):
            lines[key.replace("_", " ")] = shown
    return lines


def _figure(value: Any) -> str | None:
    if isinstance(value, Mapping):
        known = isinstance(value.get("value"), int | float) and value.get("low") is not None
        return percent(value) if known else None
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


# The way of a command that spends: a plan, a yes, progress, a result ---------------------------------


def confirm(
    options: Spending,
    lines: Iterable[str | Table],
    document: Callable[[], Any],
    cost: tuple[float, float] | None = None,
) -> None:
    """Show a plan, and go on unless it was a dry run, or costs much and the person says no.

    `document` is what `--dry-run --json` prints, `cost` from and to how many USD is expected. Raises
    typer.Exit where the command ends here.
    """
    if not options.quiet:
        out = console(stderr=True)
        for line in (*lines, *(f"defaults: {line}" for line in default_lines(options))):
            out.print(line, soft_wrap=isinstance(line, str) and not out.is_terminal)
    if options.dry_run:
        if options.as_json:
            print_json(document())
        raise typer.Exit
    asks_first = isinstance(options, Confirmed) and not options.yes
    if asks_first and cost is not None and cost[1] > EXPENSIVE_USD and not agreed():
        raise typer.Exit(STOPPED)


def agreed() -> bool:
    """Whether the person at the terminal wants an expensive run; True where there is nobody to ask."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    sys.stderr.write("This may cost more than 1 USD. Go on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def finish(
    options: Options,
    found: Any,
    show: Callable[[], None],
    stopped: str | None = None,
    code: int | None = None,
) -> None:
    """Print what was found as JSON or let it be shown, and say why it `stopped` early, if it did."""
    if stopped:
        say(stopped)
    if options.as_json:
        print_json(found)
    else:
        show()
    code = (STOPPED if stopped else 0) if code is None else code
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True)
class ProgressLine:
    """A line of live progress: what is under way, figures of it, and how much of it is done, if known."""

    label: str
    parts: Iterable[str]
    done: int = 0
    total: int = 0


@contextmanager
def live(
    options: Quietly, label: str, draw: Callable[[State], ProgressLine]
) -> Iterator[Callable[[State], None]]:
    """A `progress` callback whose latest state is drawn on a terminal while the block runs, if not quiet."""
    latest: list[State] = []

    def progress(state: State) -> None:
        latest[:] = [state]

    def render() -> RenderableType:
        row = Table.grid(padding=(0, 1))
        if not latest:
            row.add_row(Text(f"{label}: starting"))
            return row
        line = draw(latest[0])
        bar = [ProgressBar(total=line.total, completed=line.done, width=24)] if line.total else []
        row.add_row(Text(line.label), *bar, Text("  ".join(line.parts)))
        return row

    out = console(stderr=True)
    if options.quiet or not out.is_terminal:
        yield progress
        return
    with Live(get_renderable=render, console=out, refresh_per_second=4, redirect_stdout=False):
        yield progress


@contextmanager
def evaluating(options: Quietly, label: str) -> Iterator[Callable[[Progress], None]]:
    """Live progress of an evaluation."""

    with live(options, label, partial(evaluation_line, label)) as progress:
        yield progress


def evaluation_line(label: str, state: Progress) -> ProgressLine:
    return ProgressLine(label, progress_parts(state), state.done, max(state.total, 1))


def progress_parts(state: Progress) -> Iterable[str]:
    """Done, accuracy so far with the half-width of its 95% interval, errors, calls, cost, time left."""
    yield f"{state.done:,}/{state.total:,}"
    if state.done:
        low, high = wilson(state.correct, state.done)
        yield f"accuracy {state.correct / state.done:.1%} ± {(high - low) / 2:.1%}"
    if state.errors:
        yield counted(state.errors, "error")
    yield counted(state.usage.calls, "call")
    yield money(state.usage.cost_usd)
    if state.seconds_left is not None:
        yield f"{duration(state.seconds_left)} left"
