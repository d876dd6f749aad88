"""`folkmoot report`: one HTML page about runs, which of them is best and at what price."""

from __future__ import annotations

from ..reporting.report import report as write
from .options import ReportOptions, listed
from .show import console, finish


def report(options: ReportOptions) -> None:
    found = write(
        options.runs,
        out=options.out,
        names=listed(options.names),
        tracking=options.track,
        cases=listed(options.cases),
        most=options.most,
        **options.tested(),
    )
    notes = [f"Note: {note}" for note in found.figures["warnings"]]
    lines = [str(found.path)] if options.quiet else [found.headline, *notes, f"Report: {found.path}"]

    def show() -> None:
        for line in lines:
            console().print(line, soft_wrap=True)

    finish(options, found.figures, show)
