"""The command `folkmoot train`: a strategy network learns, from recorded outcomes or from live answers."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from ...modules.base.errors import UserError
from .guard import INTERRUPTED, clean_stdout, say
from .options import (
    AnswerForm,
    Bases,
    Budget,
    Cache,
    Concurrency,
    Debug,
    DryRun,
    Json,
    Kind,
    MaxTokens,
    Names,
    Prices,
    Quiet,
    Record,
    Sets,
    Temperature,
    Threads,
    Yes,
)

EXAMPLE = "Example: folkmoot train --outcomes train.jsonl --test test.jsonl --out runs/network"


def train(
    program: Annotated[
        str, typer.Argument(metavar="[PROGRAM]", help="What to train: network, the strategy network.")
    ] = "network",
    outcomes: Annotated[
        list[str] | None,
        typer.Option(
            "--outcomes",
            metavar="FILE",
            help="Recorded answers to learn from, without any LM call: outcome tables, results.jsonl files "
            "or run folders (repeat it).",
        ),
    ] = None,
    train: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Questions to learn from by asking LMs.")
    ] = None,
    train_split: Annotated[
        str | None, typer.Option(help="Split of the training questions. Default: train.")
    ] = None,
    train_limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many training questions, drawn by the seed.")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|NAME", help="What to score the trained network on: outcomes, or questions."
        ),
    ] = None,
    test_split: Annotated[str | None, typer.Option(help="Split of the test questions.")] = None,
    test_limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many test questions, drawn by the seed.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the network; the same command resumes it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of graph, weights, draws and samples of questions.")] = 0,
    preset: Annotated[
        str,
        typer.Option(help="paper, supervised, consensus_aware, gamma_0, gamma_0.7 (its ablations), beyond."),
    ] = "paper",
    embedding: Annotated[
        str | None,
        typer.Option(metavar="MODEL|DIR", help="Sentence embeddings. Default: all-mpnet-base-v2."),
    ] = None,
    sets: Sets = None,
    kind: Kind = None,
    lm: Names = None,
    api_base: Bases = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    answer_form: AnswerForm = None,
    threads: Threads = None,
    concurrency: Concurrency = 64,
    record: Record = None,
    budget: Budget = None,
    price: Prices = None,
    cache: Cache = True,
    track: Annotated[bool, typer.Option("--track/--no-track", help="Log the run to MLflow.")] = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a strategy network: who asks in which way for which question, and whose vote counts how much.

    With --outcomes it learns from recorded answers; with --train it asks LMs. Run the same command again to
    resume a training that was stopped: nothing that was answered is asked again. folkmoot evaluate
    network:DIR uses the result.
    """
    from ..programs.networks import default_embedding
    from ..programs.resolve import parse_sets

    if program != "network":
        raise UserError(f"{program!r} cannot be trained: write folkmoot train network, or leave it out")
    if bool(outcomes) == bool(train):
        raise UserError("give what to learn from: either --outcomes FILE or --train QUESTIONS")
    if out is None:
        raise UserError("--out is missing: name the folder that the network is kept in")
    settings = parse_sets(sets or ())
    for name, value in (("seed", seed), ("embedding", embedding)):
        if name in settings and value:
            raise UserError(f"--{name} and --set {name}=… are both given: keep one of them")
        if value is not None:
            settings.setdefault(name, value)
    shown: dict[str, Any] | None
    if "embedding" not in settings:
        settings["embedding"], warning = default_embedding()
        if warning:
            say(f"warning: {warning}")
    with clean_stdout():
        try:
            if outcomes:
                lms = {
                    "--lm": lm,
                    "--api-base": api_base,
                    "--budget": budget,
                    "--record": record,
                    "--price": price,
                    "--train-split": train_split,
                    "--train-limit": train_limit,
                    "--test-split": test_split,
                    "--test-limit": test_limit,
                    "--kind": kind,
                    "--dry-run": dry_run,
                }
                for option, given in lms.items():
                    if given:
                        raise UserError(f"{option} is for training with LMs: drop it, or --outcomes")
                shown = _replay(outcomes, test or [], out, settings, preset, track=track, quiet=quiet)
                code = 0
            else:
                from ..programs.seats import LMOptions
                from .train_live import Request, run

                sampling = (temperature, max_tokens, answer_form)
                request = Request(
                    lms=LMOptions(lm or (), api_base or (), *sampling, threads, concurrency, price or ()),
                    train=train or "",
                    train_split=train_split,
                    train_limit=train_limit,
                    test=_one(test),
                    test_split=test_split,
                    test_limit=test_limit,
                    kind=kind,
                    out=out,
                    settings=settings,
                    preset=preset,
                    concurrency=concurrency,
                    record=record,
                    budget=budget,
                    cache=cache,
                    tracking=track,
                )
                shown, code = run(request, dry_run=dry_run, yes=yes, quiet=quiet)
        except KeyboardInterrupt:
            say(f"interrupted: what is finished is kept in {out}; the same command takes it up again")
            raise typer.Exit(INTERRUPTED) from None
    if shown is not None and (as_json or not dry_run):  # the plan is told already
        show(shown, str(out), as_json=as_json, quiet=quiet, track=track)
    if code:
        raise typer.Exit(code)


def evaluate_outcomes(
    program: str, outcomes: list[str], data: str | None, *, as_json: bool, quiet: bool
) -> None:
    """`folkmoot evaluate network:DIR --outcomes TEST.jsonl`: the test part of a replay, without LM calls."""
    if not outcomes:
        raise UserError("--data is missing: name the questions to evaluate on")
    name, _, folder = program.partition(":")
    if name != "network" or not folder:
        raise UserError(f"--outcomes is for trained networks, not for {program}: write network:DIR")
    if data is not None:
        raise UserError("--data and --outcomes are both given: keep one of them")
    from ..runs.outcomes import read_outcomes
    from ..training.train import rescore

    with clean_stdout():
        if not Path(folder).expanduser().is_dir():
            raise UserError(f"there is no folder {folder}: name one that folkmoot train wrote")
        test = read_outcomes(outcomes)
        scores = rescore(Path(folder).expanduser(), test)
        _warn(scores, test.errors)
    show({"out": folder, **scores}, folder, as_json=as_json, quiet=quiet, track=False)


def show(found: dict[str, Any], out: str, *, as_json: bool, quiet: bool, track: bool) -> None:
    """The scores as JSON or as a table; of a training, how it ended, where the network is, and what next."""
    from . import show as cli_show

    if as_json:
        cli_show.print_json(found)
        return
    if "consensus" in found:
        _table(found, quiet=quiet)
    elif "scores" in found:
        lines = {"accuracy": cli_show.percent(found["scores"]["accuracy"])}
        if not quiet:
            lines = cli_show.result_lines(found, found["took"])
        cli_show.show_result(cli_show.console(), "network", lines)
    if "training" in found and not quiet:
        from .train_show import training_lines

        cli_show.show_result(cli_show.console(), "training", training_lines(found, out, track=track))


def _replay(
    outcomes: list[str],
    test: list[str],
    out: Path,
    settings: dict[str, Any],
    preset: str,
    *,
    track: bool,
    quiet: bool,
) -> dict[str, Any]:
    from ..runs.outcomes import read_outcomes
    from ..training.train import idle, recent, replay
    from .train_show import TrainingProgress

    table = read_outcomes(outcomes)
    tested = read_outcomes(test) if test else None
    if table.missing:
        say(
            f"warning: {table.missing:,} of {table.given.size:,} training answers are missing: taken as wrong"
        )
    if warning := idle(table, settings):
        say(f"warning: {warning}")
    bar = TrainingProgress()
    with bar.shown(quiet=quiet), warnings.catch_warnings():
        if warning:  # is told already
            warnings.filterwarnings("ignore", message=re.escape(warning))
        trained = replay(
            table,
            out,
            settings,
            test=tested,
            preset=preset,
            data=Path(outcomes[0]).stem,
            tracking=track,
            progress=bar,
        )
    scores = trained.scores or {}
    _warn(scores, table.errors + (tested.errors if tested else 0))
    training = {
        "questions": len(table),
        "agents": len(table.agents),
        "strategies": list(table.strategies),
        "missing": table.missing,
        "epochs": trained.log.epochs,
        **recent(trained.log),
    }
    return {"out": str(out), "training": training, **scores}


def _warn(scores: dict[str, Any], errors: int) -> None:
    from ..base.wording import counted

    if errors:
        are = "is" if errors == 1 else "are"
        say(f"warning: {counted(errors, 'row')} of failed questions {are} left out")
    if scores.get("missing"):
        say(f"warning: {scores['missing']:,.1f} answers that were chosen are not in the test outcomes: wrong")


def _one(test: list[str] | None) -> str | None:
    if test and len(test) > 1:
        raise UserError("--test is given twice: name one set of test questions")
    return test[0] if test else None


def _table(scores: dict[str, Any], *, quiet: bool) -> None:
    from . import show as cli_show
    from .train_show import score_table

    if quiet:
        typer.echo(f"consensus {cli_show.percent(scores['consensus'])}")
    else:
        score_table(cli_show.console(), scores)
