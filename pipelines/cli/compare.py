"""`folkmoot compare`: which run is better, how sure that is, and at what price."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from ..comparison.compare import carry_out_comparison, plan_comparison
from ..comparison.comparison import Comparison
from ..comparison.request import CompareRequest
from ..comparison.verdict import check_fail_if
from .guard import VERDICT_FAILED, say
from .options import CompareView
from .show import console, leave, present


def compare(request: CompareRequest, view: CompareView) -> None:
    check_fail_if(view.fail_if)
    plan = plan_comparison(request, keyless=view.dry_run)

    def show(comparison: Comparison) -> None:
        if view.quiet:
            console().print(comparison.headline, soft_wrap=True)
        else:
            show_comparison(console(), comparison, view)

    def code(comparison: Comparison) -> int:
        return VERDICT_FAILED if comparison.fails(view.fail_if) else 0

    def carried_out(_: object, present_it: Callable[[Comparison], None]) -> Comparison:
        comparison = carry_out_comparison(plan, present_it)
        if view.track:
            _log(comparison, request)
        return comparison

    if plan.match is None:

        def presented(comparison: Comparison) -> None:
            present(view, comparison.to_dict(), lambda: show(comparison))

        leave(None, code(carried_out(None, presented)))
    else:
        from .life import live  # imports DSPy, which a comparison does not need

        live(request, view, plan.match, carried_out, show=show, code_of=code)


def _log(comparison: Comparison, request: CompareRequest) -> None:
    """Leave a comparison in MLflow."""
    from ..reporting.tracked import log_comparison  # brings DSPy and MLflow

    if problem := log_comparison(comparison, request.tested(), say):
        say(f"MLflow did not take the comparison ({problem}): give the same command again")


def show_comparison(out: Console, comparison: Comparison, view: CompareView) -> None:
    """Show the table and the sentences; with `--pairs` also every pair with its test."""
    for line in comparison.table():
        out.print(Text(line), soft_wrap=True)
    out.print()
    tests = comparison.tests if view.pairs else []
    notes = [f"Note: {note}" for note in comparison.notes]
    for line in dict.fromkeys([*comparison.lines(), *tests, *notes]):
        out.print(Text(line), soft_wrap=not out.is_terminal)
    for line in comparison.legend:
        out.print(Text(line, style="dim"), soft_wrap=not out.is_terminal)
