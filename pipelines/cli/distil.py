"""`folkmoot distil`: from a team's run to a single agent as good, and a router."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from ...modules.base.errors import UserError
from ..base.display import ProgressLine
from ..base.wording import counted, percent, points
from ..comparison.run_again import lm_of_run, questions_of
from ..distillation.distil import DistillationPlan, carry_out, plan_distil
from ..distillation.team import endpoint_of
from ..evaluation.earlier import earlier
from ..programs.resolve import program_of
from ..programs.seats import LMOptions
from ..runs.progress import Progress, evaluation_line
from .guard import STOPPED, resumable
from .options import DistilOptions
from .show import confirm, console, finish, live, plain_table


def distil(options: DistilOptions) -> None:
    if not 0 < options.margin < 100:
        raise UserError(f"--margin is {options.margin:g}: give points of accuracy, such as 2")
    lms = options.into(LMOptions)
    matched = earlier(options.run)
    plan = plan_distil(
        matched,
        questions_of(matched, options.data),
        margin=options.margin / 100,
        lm=lm_of_run(matched, lms, "a single agent", other=True),
        team=None if options.team is None else program_of(options.team, make_lm=lms.make),
        out=options.out,
        seed=options.seed,
        make_lm=lms.make,
    )
    document = {"out": str(plan.out), "most_calls": plan.most_calls, **plan.report.to_dict()}
    confirm(options, plan_lines(plan, options.budget), lambda: document)

    def under_way(state: tuple[str, Progress]) -> ProgressLine:
        return evaluation_line(*state)

    with resumable(), live(options, "distil", under_way) as progress:
        found = carry_out(
            plan,
            tracking=options.track,
            progress=lambda label, state: progress((label, state)),
            **options.named("budget", "concurrency", "cache"),
        )
    report = found.report

    def show() -> None:
        out = console()
        if not options.quiet:
            out.print(candidate_table(report))
            if report["programs"] is not None:
                out.print()
                out.print(program_table(report))
            out.print()
        for sentence in report["sentences"][: 1 if options.quiet else None]:
            out.print(sentence, soft_wrap=True)
        if not options.quiet and not report["stopped"]:
            out.print(f"programs and figures: {found.folder}", soft_wrap=True)

    failed = report["stopped"] and not report["candidates"]
    finish(options, {"out": str(found.folder), **report}, show, code=STOPPED if failed else 0)


def plan_lines(plan: DistillationPlan, budget: str | None) -> list[str]:
    """The plan in words, with what the user must know before it runs."""
    parts = plan.parts
    return [
        f"team: {plan.report.name} ({plan.run.folder}); its recorded answers count, it is not asked",
        f"{counted(len(plan.candidates), 'candidate')} on {counted(len(parts.selection), 'question')}, the "
        "last test on "
        f"{len(parts.held_out):,} others; {len(parts.shown)} shown as demonstrations",
        f"at most {counted(plan.most_calls, 'call')} to {', '.join(endpoint_of(lm)[1] for lm in plan.lms)}",
        *([f"budget: {budget}"] if budget else []),
        *(f"Note: {note}" for note in plan.report.notes),
    ]


def candidate_table(report: Mapping[str, Any]) -> Table:
    """The candidates' scores on the questions that the choice is made on."""
    table = _table("candidate")
    for one in report["candidates"]:
        test = one["against_team"]
        verdict = test["verdict"] if one["cheaper"] else "not cheaper"
        chosen = " (chosen)" if one["name"] == report["chosen"] else ""
        table.add_row(one["name"], percent(one["accuracy"]), _points(test), *_prices(one), verdict + chosen)
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
