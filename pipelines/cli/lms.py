"""`folkmoot lms`: embedded LMs, how large they are, which are here, and getting them."""

from __future__ import annotations

from rich.table import Table

from ...modules.base.errors import UserError
from ..base.settings import settings
from ..lms.weights import get_weights, list_weights
from .guard import say
from .options import LmsRequest, View
from .show import console, finish


def lms(options: LmsRequest, view: View) -> None:
    cache = settings().cache
    verb, *names = options.what or ["list"]
    if options.what and (verb != "get" or not names):
        raise UserError(f"folkmoot lms {verb} is not a command: write folkmoot lms get NAME")
    for name in names:
        say(f"getting the weights of {name}")
        say(f"{get_weights(name, cache)} is whole")
    rows = list_weights(cache)
    table = Table("name", "MB", "licence", "here", box=None, pad_edge=False)
    for row in rows:
        here = row["here"] or f"no: {row['get']}"
        table.add_row(
            row["name"], f"{row['bytes'] / 1e6:,.0f}", row["licence"] or "as its page says", here
        )
    finish(view, rows, lambda: console().print(table))
