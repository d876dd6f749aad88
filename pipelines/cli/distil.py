"""The command `folkmoot distil`: from a team's run to a single agent as good, and a router."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...modules.base.errors import UserError
from ...modules.base.fence import clean
from .guard import INTERRUPTED, STOPPED, clean_stdout, say
from .options import (
    Bases,
    Budget,
    Cache,
    Concurrency,
    Debug,
    DryRun,
    Json,
    MaxTokens,
    Names,
    Prices,
    Quiet,
    Temperature,
    lm_options,
)

if TYPE_CHECKING:
    from rich.table import Table

    from ..distillation.distil import Plan
    from ..evaluation.evaluate import Evaluation
    from ..programs.seats import LMOptions

EXAMPLE = "Example: folkmoot distil runs/talk --margin 2 --out runs/distil"


def distil(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Folder that evaluate wrote for the team.")],
    margin: Annotated[
        float, typer.Option(metavar="POINTS", help="How much less accurate still counts as as good.")
    ] = 2.0,
    data: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="The run's questions. Default: as it notes.")
    ] = None,
    team: Annotated[
        str | None, typer.Option(metavar="PROGRAM", help="The team. Default: as the run notes.")
    ] = None,
    lm: Names = None,
    api_base: Bases = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write. Default: distil in the run's.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of cross-validation.")] = 0,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    concurrency: Concurrency = 64,
    budget: Budget = None,
    price: Prices = None,
    cache: Cache = True,
    track: Annotated[bool, typer.Option("--track/--no-track", help="Log to MLflow.")] = True,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find the cheapest single agent that is as good as a team, and learn when the team is worth asking.

    The team is never asked: its recorded answers count. --lm is the single agents' LM, by default the run's.
    The same command goes on after any stop.
    """
    from ..comparison.match_budget import questions_of
    from ..distillation.distil import carry_out, plan_distil
    from ..evaluation.earlier import earlier
    from ..programs.resolve import program_of
    from ..runs.progress import Progress
    from . import show as show

    errors = show.console(stderr=True)
    with clean_stdout():
        if not 0 < margin < 100:
            raise UserError(f"--margin is {margin:g}: give points of accuracy, such as 2")
        options = lm_options(
            lm,
            api_base,
            temperature=temperature,
            max_tokens=max_tokens,
            concurrency=concurrency,
            price=price,
        )
        matched = earlier(run)
        plan = plan_distil(
            matched,
            questions_of(matched, data),
            margin=margin / 100,
            lm=_lm(matched, options),
            team=None if team is None else program_of(team, make_lm=options.make),
            out=out,
            seed=seed,
            make_lm=options.make,
        )
        if not quiet:
            for line in plan_lines(plan, budget):
                errors.print(line, soft_wrap=True)
        if dry_run:
            found = None
        else:
            bar = show.LiveProgress("distil")

            def progress(label: str, state: Progress) -> None:
                bar.label = label
                bar(state)

            try:
                with bar.shown(errors, quiet=quiet):
                    found = carry_out(
                        plan,
                        budget=budget,
                        concurrency=concurrency,
                        cache=cache,
                        tracking=track,
                        progress=progress,
                    )
            except KeyboardInterrupt:
                say("interrupted: what is finished is kept, and the same command takes it up again")
                raise typer.Exit(INTERRUPTED) from None
    if found is None:
        if as_json:
            show.print_json({"out": str(plan.out), "most_calls": plan.most_calls, **plan.about})
        return
    report = found.report
    if as_json:
        show.print_json({"out": str(found.folder), **report})
    else:
        screen = show.console()
        if not quiet:
            screen.print(candidate_table(report))
            if report["programs"] is not None:
                screen.print()
                screen.print(program_table(report))
            screen.print()
        for sentence in report["sentences"][: 1 if quiet else None]:
            screen.print(clean(sentence), soft_wrap=True)
        if not quiet and not report["stopped"]:
            screen.print(f"programs and figures: {found.folder}", soft_wrap=True)
    if report["stopped"]:
        raise typer.Exit(STOPPED)


def plan_lines(plan: Plan, budget: str | None) -> list[str]:
    """What is going to happen, and what must be known before."""
    from ..base.wording import counted

    parts = plan.parts
    return [
        f"team: {plan.about['name']} ({plan.run.folder}); its recorded answers count, it is not asked",
        f"{counted(len(plan.candidates), 'candidate')} on {counted(len(parts.selection), 'question')}, the "
        "last test on "
        f"{len(parts.held_out):,} others; {len(parts.shown)} shown as demonstrations",
        f"at most {counted(plan.most_calls, 'call')} to {plan.about['lm']['endpoint']}",
        *([f"budget: {budget}"] if budget else []),
        *(f"Note: {note}" for note in plan.about["notes"]),
    ]


def candidate_table(report: Mapping[str, Any]) -> Table:
    """What the candidates did on the questions to choose by."""
    from .show import percent

    table = _table("candidate", "accuracy", "difference", "calls", "tokens", "cost", "to the team")
    for one in report["candidates"]:
        test = one["against_team"]
        verdict = test["verdict"] if one["cheaper"] else "not cheaper"
        chosen = " (chosen)" if one["name"] == report["chosen"] else ""
        table.add_row(one["name"], percent(one["accuracy"]), _points(test), *_prices(one), verdict + chosen)
    return table


def program_table(report: Mapping[str, Any]) -> Table:
    """What the programs did in the last test."""
    from .show import percent

    table = _table("last test", "accuracy", "difference", "calls", "tokens", "cost", "routed", "to the team")
    share = report["router"]["share_routed"]["value"]
    routed = {"team": 1.0, "single": 0.0, "router": share, "cheap": 0.0}
    called = {"single": "distilled single", "cheap": "always cheap"}
    for key, one in report["programs"].items():
        if one is not None:
            test = one["against_team"]
            name = f"{called.get(key, key)}: {one['name']}"
            verdict = "" if test is None else test["verdict"]
            table.add_row(
                clean(name),
                percent(one["accuracy"]),
                "" if test is None else _points(test),
                *_prices(one),
                f"{routed[key]:.0%}",
                verdict,
            )
    return table


def _points(test: Mapping[str, Any]) -> str:
    return f"{100 * test['difference']:+.1f} [{100 * test['low']:+.1f}, {100 * test['high']:+.1f}]"


def _prices(one: Mapping[str, Any]) -> tuple[str, str, str]:
    tokens, cost = one["tokens"], one["cost_usd"]
    return (
        f"{one['calls']:.2f}",
        "" if tokens is None else f"{tokens:,.0f}",
        "" if cost is None else f"{cost:.3g} USD",
    )


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if 0 < place < len(columns) - 1 else "left")
    return table


def _lm(run: Evaluation, options: LMOptions) -> Any:
    """The candidates' LM: the one named, or that of the run, with the settings that it had there.

    The address comes from the options or the environment, never from the run. Raises UserError when the run
    used several LMs and none is named, and when the run's own is not where it was.
    """
    from ...modules.agents.profile import Profile
    from ..lms.named import SAMPLING, engine_of, lm
    from ..programs.seats import EVERY, by_seat

    names, bases = by_seat(options.names, "--lm"), by_seat(options.bases, "--api-base")
    if {*names, *bases} - {EVERY}:
        raise UserError("a single agent has one seat: give --lm and --api-base without a seat's name")
    known = run.summary.run["lms"]
    used = {each["name"]: each for each in [*known.values(), *([known["*"]] if "*" in known else [])]}
    if EVERY not in names and "*" not in known and len(used) > 1:
        raise UserError(f"{run.folder} used several LMs: choose {' or '.join(used)} with --lm")
    name = names.get(EVERY) or (known["*"]["name"] if "*" in known else next(iter(used)))
    if options.replays is not None:
        return lm(name)
    if name not in used:
        return options.make(name)
    changed = {"temperature": options.temperature, "max_tokens": options.max_tokens}
    settings = {key: value for key, value in used[name]["settings"].items() if key in SAMPLING}
    settings |= {key: value for key, value in changed.items() if value is not None}
    profile = Profile(**used[name]["profile"]) if used[name]["profile"] else None
    made = options.make(name, profile=profile, **settings)
    engine = engine_of(made)
    if EVERY not in names and engine is not None and engine.identity != used[name]["endpoint"]:
        raise UserError(
            f"{run.folder} used {used[name]['endpoint']}, not {engine.identity}: give its address with "
            "--api-base, or name another LM with --lm"
        )
    return made
