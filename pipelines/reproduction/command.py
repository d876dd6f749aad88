"""`folkmoot reproduce`: its options and the function that carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..base.request import Option
from ..cli.command import Command
from ..cli.options import Confirmed
from .request import ReproduceRequest


@dataclass(kw_only=True)
class ReproduceView(Confirmed):
    """Options of `reproduce` on the command line only."""

    show_list: Annotated[
        bool, Option("--list", help="List papers and tables, or the rows of PAPER or PAPER/TABLE.")
    ] = False


def run(request: ReproduceRequest, view: ReproduceView) -> None:
    from .shown import list_presets, reproduce_and_show

    if view.show_list:
        list_presets(request.spec, view)
    else:
        reproduce_and_show(request, view)


COMMAND = Command(ReproduceRequest, ReproduceView, run)
