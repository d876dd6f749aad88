"""`folkmoot report`: one HTML page about runs, which of them is best and at what price."""

from __future__ import annotations

from ..base.request import listed
from ..reporting.report import report as write
from .options import Quietly, ReportRequest
from .show import console, finish


def report(options: ReportRequest, screen: Quietly) -> None:
    found = write(
        options.runs,
        out=options.out,
        names=listed(options.names),
        tracking=options.tracking,
        cases=listed(options.cases),
        most=options.most,
        **options.tested(),
    )
    notes = [f"Note: {note}" for note in found.figures["warnings"]]
    lines = [str(found.path)] if screen.quiet else [found.headline, *notes, f"Report: {found.path}"]

    def show() -> None:
        for line in lines:
            console().print(line, soft_wrap=True)

    finish(screen, found.figures, show)
