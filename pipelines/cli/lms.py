"""`folkmoot lms`: the LMs that run inside this process, how large they are, and which of them are here."""

from __future__ import annotations

from rich.table import Table

from ..base.settings import settings
from ..lms.weights import list_weights
from .options import LmsRequest, View
from .show import console, finish


def lms(options: LmsRequest, view: View) -> None:
    found = list_weights(settings().cache)
    table = Table("name", "MB", "licence", "here", box=None, pad_edge=False)
    for one in found:
        here = one["here"] or f"no: {one['get']}"
        table.add_row(one["name"], f"{one['bytes'] / 1e6:,.0f}", one["licence"] or "as its page says", here)
    finish(view, found, lambda: console().print(table))
