"""The command line: `folkmoot COMMAND …`. A command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .compare import EXAMPLE as COMPARE_EXAMPLE
from .compare import compare
from .compile import EXAMPLE as COMPILE_EXAMPLE
from .compile import compile
from .distil import EXAMPLE as DISTIL_EXAMPLE
from .distil import distil
from .guard import STOPPED, clean_stdout, guarded, heed_interrupts, say
from .machine import DATASETS_EXAMPLE, DOCTOR_EXAMPLE, UI_EXAMPLE, datasets, doctor, ui
from .options import (
    AnswerForm,
    Bases,
    Budget,
    Cache,
    Columns,
    Concurrency,
    Debug,
    DryRun,
    Engine,
    Json,
    Kind,
    MaxTokens,
    Names,
    Prices,
    Program,
    Quiet,
    Record,
    Sets,
    Temperature,
    Threads,
    Workers,
    Yes,
    lm_options,
)
from .push import EXAMPLE as PUSH_EXAMPLE
from .push import push
from .report import EXAMPLE as REPORT_EXAMPLE
from .report import report
from .reproduce import EXAMPLE as REPRODUCE_EXAMPLE
from .reproduce import reproduce
from .train import EXAMPLE as TRAIN_EXAMPLE
from .train import evaluate_outcomes, train
from .tune import EXAMPLE as TUNE_EXAMPLE
from .tune import tune

app = typer.Typer(
    name="folkmoot",
    help="Finds out whether a team of language-model agents beats one agent, and at what price.",
    epilog="Example: folkmoot evaluate single:cot --data sample-choice --limit 20",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"folkmoot {version('folkmoot')}")
        raise typer.Exit


@app.callback()
def _folkmoot(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(
    epilog='Example: folkmoot ask deliberation:intuitive,reasoner:judge "What keeps soup warm?" '
    '--choice "a flask" --choice "a sieve" --lm openai/gpt-4o-mini'
)
@guarded
def ask(
    program: Program,
    question: Annotated[str, typer.Argument(help="The question.")],
    choice: Annotated[
        list[str] | None,
        typer.Option(
            "--choice", metavar="[A=]TEXT", help="An option (repeat it); without a label it gets A, B, …."
        ),
    ] = None,
    context: Annotated[str | None, typer.Option(help="A passage to answer from.")] = None,
    kind: Kind = None,
    lm: Names = None,
    api_base: Bases = None,
    sets: Sets = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    answer_form: AnswerForm = None,
    threads: Threads = None,
    concurrency: Concurrency = 64,
    record: Record = None,
    price: Prices = None,
    cache: Cache = True,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Ask a program one question and show the dialogue."""
    from ...modules.base.fence import clean
    from . import show as show
    from .ask import ask as ask_program

    options = {
        "temperature": temperature,
        "max_tokens": max_tokens,
        "answer_form": answer_form,
        "price": price,
    }
    with clean_stdout():
        lms = lm_options(lm, api_base, **options, threads=threads, concurrency=concurrency)  # type: ignore[arg-type]
        answered = ask_program(
            program,
            question,
            choices=choice or (),
            context=context,
            kind=kind,
            sets=sets or (),
            lms=lms,
            record=record,
            cache=cache,
        )
    if as_json:
        show.print_json(answered)
    elif quiet:
        typer.echo(clean(answered["answer"] or ""))
    else:
        show.show_dialogue(show.console(), answered, answered["choices"])


@app.command(
    epilog="Example: folkmoot evaluate deliberation:intuitive,reasoner:judge --data commonsenseqa "
    "--limit 200 --seed 1 --lm openai/gpt-4o-mini --lm judge=openai/gpt-4o"
)
@guarded
def evaluate(
    program: Program,
    data: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Questions: a data set's name or a file.")
    ] = None,
    outcomes: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="For network:DIR instead: recorded answers.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of the data set.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only so many questions.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Draw the limit at random (without it the first are taken); a program's own draws, too."
        ),
    ] = None,
    columns: Columns = None,
    kind: Kind = None,
    lm: Names = None,
    api_base: Bases = None,
    sets: Sets = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the run. Default: one under runs/ that it resumes."),
    ] = None,
    train: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Training questions, for --demos or weights.")
    ] = None,
    train_split: Annotated[
        str | None, typer.Option(help="Split of the training questions. Default: train.")
    ] = None,
    demos: Annotated[int, typer.Option(min=0, help="Show every agent so many training questions.")] = 0,
    demo_seed: Annotated[int | None, typer.Option(help="Draw the demos at random.")] = None,
    step_limits: Annotated[
        str | None, typer.Option(metavar="5,8,10,15", help="Once for each step limit of a team.")
    ] = None,
    max_failures: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many failed questions.")
    ] = None,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Ask failed questions again.")] = False,
    track: Annotated[bool, typer.Option("--track/--no-track", help="Log the run to MLflow.")] = True,
    traces: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of the questions that MLflow gets as traces. Default: 20 questions."
        ),
    ] = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    answer_form: AnswerForm = None,
    threads: Threads = None,
    concurrency: Concurrency = 64,
    engine: Engine = "asyncio",
    workers: Workers = None,
    record: Record = None,
    budget: Budget = None,
    price: Prices = None,
    cache: Cache = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Answer labelled questions, score the answers, and keep a row for each.

    Run the same command again to resume a run that was stopped: nothing that is finished is asked twice.
    """
    from . import show as show
    from .evaluate import Request, plan, run

    if outcomes or data is None:
        evaluate_outcomes(program, outcomes or [], data, as_json=as_json, quiet=quiet)
        return
    errors = show.console(stderr=True)
    options = {
        "temperature": temperature,
        "max_tokens": max_tokens,
        "answer_form": answer_form,
        "price": price,
    }

    @contextmanager
    def live(label: str) -> Iterator[Callable[[Any], None]]:
        bar = show.LiveProgress(label)
        with bar.shown(errors, quiet=quiet):
            yield bar

    with clean_stdout():
        request = Request(
            program=program,
            source=data,
            lms=lm_options(lm, api_base, **options, threads=threads, concurrency=concurrency),  # type: ignore[arg-type]
            split=split,
            limit=limit,
            seed=seed,
            kind=kind,
            columns=columns or (),
            sets=sets or (),
            train=train,
            train_split=train_split,
            demos=demos,
            demo_seed=demo_seed,
            out=out,
            record=record,
            concurrency=concurrency,
            engine=engine,
            workers=workers,
            max_failures=max_failures,
            retry_errors=retry_errors,
            tracking=track,
            traces=traces,
            budget=budget,
            cache=cache,
        )
    if step_limits is not None:
        from .step_limits import evaluate_limits

        ended = {"dry_run": dry_run, "yes": yes, "as_json": as_json, "quiet": quiet}
        raise typer.Exit(evaluate_limits(request, step_limits, live, **ended))
    with clean_stdout():
        planned = plan(request)
        for warning in planned.warnings:
            say(f"warning: {warning}")
        if not quiet:
            for line in planned.lines():
                errors.print(line)
        go_on = not dry_run and (yes or not planned.asks_first or show.agreed())
        outcome = run(planned, live) if go_on else None
    if outcome is None:
        if dry_run and as_json:
            show.print_json(planned.to_dict())
        raise typer.Exit(0 if dry_run else STOPPED)
    if outcome.stopped:
        say(outcome.stopped)
    if as_json:
        stopped = {"stopped": outcome.stopped}
        training = {"training": outcome.training} if outcome.training else {}
        show.print_json({"out": str(outcome.out), **training, **(outcome.summary or {}), **stopped})
    elif outcome.summary is not None:
        lines = show.result_lines(outcome.summary, outcome.seconds)
        if quiet:
            lines = {"accuracy": lines["accuracy"]}
        else:
            lines |= show.training_lines(outcome.training)
            lines["rows"] = str(outcome.out / "results.jsonl")
            lines |= {"look at it": "folkmoot ui"} if track else {}
        show.show_result(show.console(), program, lines)
    if outcome.code:
        raise typer.Exit(outcome.code)


app.command(epilog=COMPARE_EXAMPLE)(guarded(compare))
app.command(epilog=COMPILE_EXAMPLE)(guarded(compile))
app.command(epilog=REPORT_EXAMPLE)(guarded(report))
app.command(epilog=TRAIN_EXAMPLE)(guarded(train))
app.command(epilog=REPRODUCE_EXAMPLE)(guarded(reproduce))
app.command(epilog=DISTIL_EXAMPLE)(guarded(distil))
app.command(epilog=TUNE_EXAMPLE)(guarded(tune))
app.command(epilog=DATASETS_EXAMPLE)(guarded(datasets))
app.command(epilog=DOCTOR_EXAMPLE)(guarded(doctor))
app.command(epilog=PUSH_EXAMPLE)(guarded(push))
app.command(epilog=UI_EXAMPLE)(guarded(ui))


def main() -> None:
    heed_interrupts()
    app()
