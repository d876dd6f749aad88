"""The help of a command: its options and commands in boxes. Rich, which typer would draw them with,
takes longer to import than all else that `folkmoot --help` needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer
from typer.core import TyperArgument, TyperOption

if TYPE_CHECKING:  # which has its own copy of Click
    from typer._click import Command, Context, HelpFormatter

LONGEST = 24
"""The widest that the column of names may be; the text of a longer name begins below it."""

_NAME = re.compile(r"^(-\w, )?[\w-]+")  # of a command or option, at the beginning of its line

Rows = list[tuple[str, str]]


def write_help(command: Command, ctx: Context, formatter: HelpFormatter) -> None:
    """Write the whole help of a command or group, as typer's own `format_help` does."""
    command.format_usage(ctx, formatter)
    command.format_help_text(ctx, formatter)
    formatter.write("\n")
    for title, rows in _panels(command, ctx).items():
        if rows:
            _draw(title, rows, formatter)
    command.format_epilog(ctx, formatter)


def _panels(command: Command, ctx: Context) -> dict[str, Rows]:
    """Return what the boxes hold, by their titles: names, each with its help."""
    panels: dict[str, Rows] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        name, text = parameter.get_help_record(ctx) or ("", "")
        if isinstance(parameter, TyperArgument):
            panels["Arguments"].append((name.partition(" <")[0], text))  # without its type
        elif isinstance(parameter, TyperOption) and not parameter.hidden:
            panels.setdefault(parameter.rich_help_panel or "Options", []).append((name, text))
    for name, other in getattr(command, "commands", {}).items():
        text = other.help.partition("\n\n")[0]
        panels.setdefault(other.rich_help_panel or "Commands", []).append((name, text))
    return panels


def _draw(title: str, rows: Rows, formatter: HelpFormatter) -> None:
    width = formatter.width - 4
    inside = type(formatter)(width=width)
    inside.write_dl(rows, col_max=LONGEST)
    side = typer.style("│", dim=True)
    lines = [typer.style(f"╭─ {title} {'─' * (width - len(title) - 1)}╮", dim=True)]
    for line in inside.getvalue().splitlines():
        bright = _NAME.sub(lambda name: typer.style(name[0], fg="cyan", bold=True), line)
        lines.append(f"{side} {bright}{' ' * (width - len(line))} {side}")
    lines.append(typer.style(f"╰{'─' * (width + 2)}╯", dim=True))
    formatter.write("\n".join(lines) + "\n")
