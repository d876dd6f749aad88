"""`folkmoot report`: one HTML page about runs, which of them is best and at what price."""

from __future__ import annotations

from ..base.request import split_items
from ..reporting.report import report as write
from .options import Quietly, ReportRequest
from .show import console, finish


def report(options: ReportRequest, view: Quietly) -> None:
    found = write(
        options.runs,
        out=options.out,
        names=split_items(options.names),
        tracking=options.tracking,
        **options.tested(),
    )
    notes = [f"Note: {note}" for note in found.figures["warnings"]]
    lines = [str(found.path)] if view.quiet else [found.headline, *notes, f"Report: {found.path}"]

    def show() -> None:
        for line in lines:
            console().print(line, soft_wrap=True)

    finish(view, found.figures, show)
