"""The command `folkmoot compile`: a DSPy optimizer improves a program's prompts, within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...modules.base.errors import UserError
from .guard import STOPPED, clean_stdout, say
from .options import (
    AnswerForm,
    Bases,
    Budget,
    Cache,
    Columns,
    Concurrency,
    Debug,
    DryRun,
    Json,
    Kind,
    MaxTokens,
    Names,
    Prices,
    Program,
    Quiet,
    Sets,
    Temperature,
    Threads,
    Yes,
    lm_options,
)

EXAMPLE = (
    "Example: folkmoot compile single:cot --train train.jsonl --validation held-out.jsonl "
    '--optimizer mipro --preset light --budget "500 calls" --out runs/compiled --lm openai/gpt-4o-mini'
)


def compile(
    program: Program,
    train: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Questions that the optimizer learns from.")
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Held-out questions, to compare before and after on."),
    ] = None,
    optimizer: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="labeled_few_shot, bootstrap, bootstrap_rs, knn, copro, mipro, simba, gepa, infer_rules or "
            "better_together.",
        ),
    ] = "mipro",
    preset: Annotated[str, typer.Option(metavar="light|medium|heavy", help="How much is tried.")] = "light",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the result; the same command resumes it.")
    ] = None,
    train_split: Annotated[
        str | None, typer.Option(help="Split of the training questions. Default: train.")
    ] = None,
    train_limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many training questions, drawn by the seed.")
    ] = None,
    validation_split: Annotated[
        str | None, typer.Option(help="Split of the held-out questions. Default: validation.")
    ] = None,
    validation_limit: Annotated[
        int | None, typer.Option(min=1, help="Only so many held-out questions, drawn by the seed.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the samples, the split and the optimizer's draws.")
    ] = 0,
    columns: Columns = None,
    kind: Kind = None,
    lm: Names = None,
    api_base: Bases = None,
    prompt_lm: Annotated[
        str | None, typer.Option(metavar="NAME", help="LM that proposes instructions. Default: that of --lm.")
    ] = None,
    prompt_api_base: Annotated[
        str | None, typer.Option(metavar="URL", help="Its address, where that is not --api-base.")
    ] = None,
    sets: Sets = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    answer_form: AnswerForm = None,
    threads: Threads = None,
    concurrency: Concurrency = 64,
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
    """Improve a program's prompts, and say on held-out questions what that gained.

    Run the same command again to resume one that was stopped: nothing that was answered is asked again.
    folkmoot evaluate OUT/program uses the result.
    """
    from . import show as show
    from .compile_run import Request, plan, run
    from .compile_show import result_lines

    for option, given in (("--train", train), ("--validation", validation), ("--out", out)):
        if given is None:
            raise UserError(f"{option} is missing: {_MISSING[option]}")
    options: dict[str, Any] = {
        "temperature": temperature,
        "max_tokens": max_tokens,
        "answer_form": answer_form,
        "price": price,
    }
    request = Request(
        program=program,
        sources={"train": str(train), "validation": str(validation)},
        splits={"train": train_split, "validation": validation_split},
        limits={"train": train_limit, "validation": validation_limit},
        optimizer=optimizer,
        preset=preset,
        out=Path(str(out)),
        seed=seed,
        columns=columns or [],
        kind=kind,
        sets=sets or [],
        prompt_lm=prompt_lm,
        prompt_api_base=prompt_api_base,
        concurrency=concurrency,
        budget=budget,
        cache=cache,
        tracking=track,
    )
    errors = show.console(stderr=True)
    with clean_stdout():
        lms = lm_options(lm, api_base, **options, threads=threads, concurrency=concurrency)
        planned = plan(request, lms)
        for warning in planned.warnings:
            say(f"warning: {warning}")
        if not quiet:
            for line in planned.lines():
                errors.print(line)
        if dry_run:
            found: dict[str, Any] | None = planned.to_dict()
            code = 0
        elif not (yes or not planned.asks_first or show.agreed()):
            raise typer.Exit(STOPPED)
        else:
            found, code = run(planned, quiet=quiet)
    if found is None:
        raise typer.Exit(code)
    if as_json:
        show.print_json(found)
    elif not dry_run:
        show.show_result(show.console(), program, result_lines(found, quiet=quiet, track=track))
    if code:
        raise typer.Exit(code)


_MISSING = {
    "--train": "name the questions that the optimizer is to learn from",
    "--validation": "name held-out questions, on which before and after are compared",
    "--out": "name the folder that the result is kept in",
}
