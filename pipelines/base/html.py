"""HTML of results for notebooks: tables of escaped text, without scripts and colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ...modules.base.fence import clean, cut

MOST_CHARS = 300  # of a text in a cell
SHOWN_ROWS = 5

_CELL = "text-align:left;vertical-align:top;white-space:pre-wrap"


def html_text(value: object) -> str:
    """Return a value as text that is safe in HTML: no mark-up, no invisible characters; None is a
    dash.
    """
    if value is None:
        return "–"
    text = str(value)
    if isinstance(value, float):
        text = f"{value:.4g}"
    return escape(cut(clean(text), MOST_CHARS))


def shown_text(value: object) -> object:
    """Return what a template shows of a value, which it then escapes: texts without control, bidi
    and invisible characters.
    """
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return clean(value)
    return value


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a line per row."""
    head = "".join(f'<th style="{_CELL}">{html_text(name)}</th>' for name in columns)
    body = ""
    for row in rows:
        cells = "".join(f'<td style="{_CELL}">{html_text(value)}</td>' for value in row)
        body += f"<tr>{cells}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_result(title: str, lines: Mapping[str, str], *more: str) -> str:
    """Return a result: its title, named facts, and tables."""
    body = "".join(
        f'<tr><th style="{_CELL}">{html_text(name)}</th>'
        f'<td style="{_CELL}">{html_text(value)}</td></tr>'
        for name, value in lines.items()
    )
    return f"<div><strong>{html_text(title)}</strong><table>{body}</table>{''.join(more)}</div>"
