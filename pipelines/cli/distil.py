"""`folkmoot distil`: from a team's run to a single agent as good, and a router."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table

from ..base.wording import percent, points
from ..distillation.distil import Distilled, distil_as_planned
from ..distillation.plan import DistillationPlan, plan_distil
from ..distillation.request import DistilRequest
from .life import live
from .options import Planned
from .show import console, plain_table


def distil(request: DistilRequest, view: Planned) -> None:
    request.progress = view.progress

    def show(found: Distilled) -> None:
        report, out = found.report, console()
        if not view.quiet:
            out.print(candidate_table(report))
            if report["programs"] is not None:
                out.print()
                out.print(program_table(report))
            out.print()
        for sentence in report["sentences"][: 1 if view.quiet else None]:
            out.print(sentence, soft_wrap=True)
        if not view.quiet and not report["stopped"]:
            out.print(f"programs and figures: {found.folder}", soft_wrap=True)

    live(request, view, plan_distil(request), _distilled, _nothing_left, show)


def _distilled(plan: DistillationPlan, show: Callable[[Distilled], None]) -> Distilled:
    return distil_as_planned(plan, show)


def _nothing_left(plan: DistillationPlan) -> None:
    """A search that was interrupted has no result yet."""


def candidate_table(report: Mapping[str, Any]) -> Table:
    """The candidates' scores on the questions that the choice is made on."""
    table = _table("candidate")
    for one in report["candidates"]:
        test = one["against_team"]
        verdict = test["verdict"] if one["cheaper"] else "not cheaper"
        chosen = " (chosen)" if one["name"] == report["chosen"] else ""
        table.add_row(
            one["name"], percent(one["accuracy"]), _points(test), *_prices(one), verdict + chosen
        )
    return table


def program_table(report: Mapping[str, Any]) -> Table:
    """What the programs did in the last test."""
    table = _table("last test", "routed")
    share = report["router"]["share_routed"]["value"]
    routed = {"team": 1.0, "single": 0.0, "router": share, "cheap": 0.0}
    called = {"single": "distilled single", "cheap": "always cheap"}
    for key, one in report["programs"].items():
        if one is not None:
            test = one["against_team"]
            name = f"{called.get(key, key)}: {one['name']}"
            verdict = "" if test is None else test["verdict"]
            table.add_row(
                name,
                percent(one["accuracy"]),
                "" if test is None else _points(test),
                *_prices(one),
                f"{routed[key]:.0%}",
                verdict,
            )
    return table


def _points(test: Mapping[str, Any]) -> str:
    return points(test["difference"], test["low"], test["high"])


def _prices(one: Mapping[str, Any]) -> tuple[str, str, str]:
    tokens, cost = one["tokens"], one["cost_usd"]
    return (
        f"{one['calls']:.2f}",
        "" if tokens is None else f"{tokens:,.0f}",
        "" if cost is None else f"{cost:.3g} USD",
    )


def _table(first: str, *more: str) -> Table:
    columns = (first, "accuracy", "difference", "calls", "tokens", "cost", *more, "to the team")
    return plain_table(*columns, last_left=True)
