"""The command `folkmoot tune`: a search over a protocol's settings, and what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...modules.base.errors import UserError
from .guard import INTERRUPTED, STOPPED, clean_stdout, say, warned
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
    Quiet,
    Sets,
    Temperature,
    Threads,
    Yes,
    lm_options,
)

EXAMPLE = (
    "Example: folkmoot tune deliberation --train train.jsonl --validation validation.jsonl --trials 30 "
    "--objective accuracy,calls --lm openai/gpt-4o-mini --out runs/tuned"
)


def tune(
    space: Annotated[
        str, typer.Argument(help="deliberation, single, …: its declared space; a short spec; a YAML file.")
    ],
    train: Annotated[str, typer.Option(metavar="NAME|FILE", help="Questions that trials are scored on.")],
    validation: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Questions for the winner, which no trial sees.")
    ],
    train_split: Annotated[str | None, typer.Option(help="Split of the training data.")] = None,
    train_limit: Annotated[int | None, typer.Option(min=1, help="Only so many of them.")] = None,
    validation_split: Annotated[str | None, typer.Option(help="Split of the validation data.")] = None,
    validation_limit: Annotated[int | None, typer.Option(min=1, help="Only so many of them.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try.")] = 50,
    objective: Annotated[
        str, typer.Option(metavar="NAMES", help="accuracy or f1, and any of cost, latency, calls, tokens.")
    ] = "accuracy",
    sampler: Annotated[
        str, typer.Option(metavar="tpe|nsga2|gp|random|grid", help="How to draw them.")
    ] = "tpe",
    seed: Annotated[int, typer.Option(help="Of the sampler and the order of questions.")] = 0,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="postgresql://…, mysql://…, sqlite:///FILE, grpc://HOST:PORT."),
    ] = None,
    study: Annotated[str, typer.Option(metavar="NAME", help="Its name in the storage.")] = "folkmoot",
    workers: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the study, which it resumes.")
    ] = None,
    register: Annotated[
        str | None, typer.Option(metavar="NAME", help="Enter the winner into MLflow's model registry.")
    ] = None,
    sets: Sets = None,
    columns: Columns = None,
    kind: Kind = None,
    lm: Names = None,
    api_base: Bases = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    answer_form: AnswerForm = None,
    threads: Threads = None,
    concurrency: Concurrency = 64,
    budget: Budget = None,
    price: Prices = None,
    cache: Cache = True,
    track: Annotated[bool, typer.Option("--track/--no-track", help="Log the study to MLflow.")] = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Search a protocol's settings, and evaluate the winner once on questions that no trial saw.

    What one setting has paid for, every other one has for free. Run the same command again to resume a study
    that was stopped; on other machines, with the same --storage and --study, to join it.
    """
    from ..tuning.tune import tune as run
    from . import show as show
    from .tune_run import LiveStudy, Request, lines, plan, result_lines, shown

    if out is None:
        raise UserError("--out is missing: name the folder that the study is kept in")
    if track is False and register:
        raise UserError("--register needs MLflow: drop --no-track")
    lms = lm_options(
        lm,
        api_base,
        temperature=temperature,
        max_tokens=max_tokens,
        answer_form=answer_form,
        threads=threads,
        concurrency=concurrency,
        price=price,
    )
    errors = show.console(stderr=True)
    with clean_stdout():
        request = Request(
            space=space,
            lms=lms,
            sets=sets or (),
            train=(train, train_split, train_limit),
            validation=(validation, validation_split, validation_limit),
            kind=kind,
            columns=columns or (),
            options={
                "trials": trials,
                "objectives": [name.strip() for name in objective.split(",")],
                "sampler": sampler,
                "seed": seed,
                "out": out,
                "storage": storage,
                "study": study,
                "workers": workers,
                "budget": budget,
                "concurrency": concurrency,
                "cache": cache,
            },
        )
        planned = plan(request)
        if not quiet:
            for line in lines(planned):
                errors.print(line)
        if dry_run:
            found: dict[str, Any] | None = planned.to_dict()
        elif yes or not planned.asks_first or show.agreed():
            live = LiveStudy()
            try:
                with warned(), live.shown(errors, quiet=quiet):
                    done = run(
                        planned.space,
                        planned.train,
                        planned.validation,
                        lm=planned.lm,
                        settings=planned.settings,
                        tracking=track,
                        register=register,
                        progress=live,
                        **request.options,
                    )
            except KeyboardInterrupt:
                say(f"interrupted: what is finished is kept in {out}; the same command takes it up again")
                raise typer.Exit(INTERRUPTED) from None
            found = shown(done)
        else:
            raise typer.Exit(STOPPED)
    if dry_run:
        if as_json:
            show.print_json(found)
        return
    assert found is not None
    if found["stopped"]:
        say(found["stopped"])
    if as_json:
        show.print_json(found)
    else:
        show.show_result(show.console(), space, result_lines(found, quiet=quiet, track=track))
    if found["stopped"]:
        raise typer.Exit(STOPPED)
