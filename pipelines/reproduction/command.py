"""`folkmoot reproduce`: its options, how tables are listed, and how a reproduced one is shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...modules.base.keyed import without_none
from ..base.request import Option, pairs_text
from ..cli.command import Command
from ..cli.options import Confirmed
from .request import ReproduceRequest

if TYPE_CHECKING:
    from .card import Reproduction


@dataclass(kw_only=True)
class ReproduceView(Confirmed):
    """Options of `reproduce` on the command line only."""

    show_list: Annotated[
        bool, Option("--list", help="List papers and tables, or the rows of PAPER or PAPER/TABLE.")
    ] = False


def run(request: ReproduceRequest, view: ReproduceView) -> None:
    from ..cli.life import live
    from .plan import plan_reproduction
    from .reproduce import reproduce_as_planned, reproduced_so_far

    def left(_: Path) -> Reproduction | None:
        done = reproduced_so_far(plan, "not finished")
        return None if done.empty else done

    if view.show_list:
        _list((request.spec or "").strip("/"), view)
    else:
        plan = plan_reproduction(request, keyless=view.dry_run)
        show = partial(_show, view)
        live(request, view, plan, lambda plan, _: reproduce_as_planned(plan), left, show)


def _show(view: Confirmed, result: Reproduction) -> None:
    """Show the figures side by side, those of rows and then their differences."""
    from ..cli.show import console, plain_table, show_lines
    from .card import HEADS, KIND, TABLE

    table = plain_table(*HEADS)
    for line in (*result.lines, *result.differences):
        table.add_row(*line.cells())
    console().print(table)
    if not view.quiet:
        card = KIND.card(result.folder)
        more = [f"next: {card.next}"] if card.next else []
        show_lines([*card.sentences, *more, f"table: {result.folder / TABLE}"])


def _list(spec: str, view: Confirmed) -> None:
    """List all tables, those of a paper, or the rows that PAPER/TABLE[/ROW] names."""
    from rich.table import Table

    from ..cli.show import console, finish, plain_table
    from .presets import models, select, tables

    notes = list[str]()
    found = [table for table in tables().values() if not spec or table.name.startswith(f"{spec}/")]
    # One line per table, so that the list of all papers fits on a screen.
    shown = plain_table("paper/table", "rows", "what", last_left=True, no_wrap=True)
    for table in found:
        shown.add_row(table.name, str(len(table.rows)), table.title)
    if not found:
        found, shown = [select(spec)], Table("row", "published", "program", "LMs", "data")
        for row in found[0].rows:
            # One model may be that of several agents.
            used = dict.fromkeys(row.models.values())
            lms = [f"{model} ({models()[model]['name']})" for model in used]
            program = pairs_text(row.program) or [row.reason or ""]
            cells = (pairs_text(row.published), program, lms, pairs_text(without_none(row.data)))
            shown.add_row(row.id, *map(", ".join, cells))
            notes += [f"{row.id}: {row.note}"] if row.note else []
        notes = [*found[0].notes, *notes]
    show = partial(console().print, shown, *notes, sep="\n", markup=False)
    finish(view, {"tables": list(map(asdict, found))}, show)


COMMAND = Command(ReproduceRequest, ReproduceView, run)
