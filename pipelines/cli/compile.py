"""`folkmoot compile`: a DSPy optimizer improves a program's prompts, within a budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.reading.metrics import Metric, check_metric
from ...modules.reading.question import Question
from ...optimizers.prompts.optimizers import optimizer_of
from ..base.journal import read_object
from ..base.wording import counted
from ..compilation.attempt import COMPILE
from ..compilation.compile import advice, check_input, split
from ..compilation.compile import compile as compile_program
from ..compilation.outcome import compiled_lines
from ..compilation.request import CompileRequest
from ..data import load as data
from ..evaluation.answering import seat_engines
from ..evaluation.forecast import UNKNOWN, Forecast, account_of, forecast, forecast_lines
from ..evaluation.judging import metric_given
from ..lms.foreign import billed_as
from ..programs.resolve import parse_sets, program_given, program_of
from ..programs.seats import Seating
from ..runs.manifest import lms_of
from .guard import INTERRUPTED, STOPPED, say, warned
from .options import Confirmed
from .show import confirm, console, finish, show_result

_MISSING = {
    "train": "name the questions that the optimizer is to learn from",
    "validation": "name held-out questions, on which before and after are compared",
    "out": "name the folder that the result is kept in",
}


def compile(options: CompileRequest, view: Confirmed) -> None:
    planned = plan(options)
    for warning in planned.warnings:
        say(f"warning: {warning}")
    cost = planned.forecast.cost_usd
    scale = planned.work["scale"]
    cost = None if cost is None else (cost[0] * scale, cost[1] * scale)
    confirm(options, view, planned.lines(), planned.to_dict, cost)
    found, code = run(planned, view)

    def show() -> None:
        lines = shown_lines(found, quiet=view.quiet, track=options.tracking)
        show_result(console(), str(options.program), lines)

    finish(view, found, show, code=code)


@dataclass
class CompilationPlan:
    """A compilation that is checked; no LM has been called."""

    options: CompileRequest
    out: Path
    program: Program
    lm: Any
    prompt_lm: Any
    metric: Metric
    train: list[Question]
    validation: list[Question]
    settings: dict[str, Any]
    work: dict[str, Any]
    forecast: Forecast
    warnings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        work, options = self.work, self.options
        shows = forecast_lines(self.forecast, None, is_rate=self.metric.rate is True)[-1]
        return [
            f"{counted(len(self.train), 'training question')} ({work['learn']:,} to learn from, "
            f"{work['select']:,} to select by), {len(self.validation):,} held out",
            f"program {options.program}; {options.optimizer} ({options.preset}): {work['summary']}",
            UNKNOWN
            if work["calls"] is None
            else f"at most {work['calls'][1]:,} calls: {work['comparison_calls']:,} to compare before and "
            f"after, "
            f"{work['optimizer_calls']:,} by the optimizer, {work['proposals']:,} of them proposals; equal "
            "requests are paid for once",
            *([f"budget: {options.budget}"] if options.budget else []),
            shows,
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            **self.options.named("program", "optimizer", "preset", "budget"),
            "settings": self.settings,
            "plan": {key: value for key, value in self.work.items() if key != "scale"},
        }


def plan(options: CompileRequest) -> CompilationPlan:
    """Read and check all input. Raises UserError before any LM is called."""
    for option, missing in _MISSING.items():
        if getattr(options, option) is None:
            raise UserError(f"--{option} is missing: {missing}")
    out = Path(str(options.out))
    chosen = optimizer_of(options.optimizer, options.preset)
    lms = Seating(options)
    program = program_given(
        program_of(str(options.program), parse_sets(options.sets), make_lm=lms.make), options.input_fields()
    )
    read: Any = {"columns": options.column_names(), "kind": options.kind}
    train, train_split = data.load_part(
        str(options.train), "train", options.train_split, options.train_limit, options.seed, **read
    )
    held_out = (options.validation_split, options.validation_limit, options.seed)
    validation, validation_split = data.load_part(str(options.validation), "validation", *held_out, **read)
    found = check_input(program, train, validation, chosen, options.concurrency)
    metric = metric_given(options.metric, lms.make(options.judge_lm) if options.judge_lm else None)
    for questions in (train, validation):
        check_metric(metric, questions)
    learn, select = split(train, chosen, options.preset, options.seed)
    program, language_model = lms.seat(program)
    lms_of(program, language_model)
    prompt_lm = _prompt_lm(options, lms)
    found += advice(program, chosen, language_model)
    engines = seat_engines(program, language_model)
    engines += [billed_as(prompt_lm)] if prompt_lm is not None else []
    account_of(options.budget, engines, out)  # refused now, if at all
    expected = forecast(program, validation, language_model, concurrency=options.concurrency)
    runs, proposals = chosen.most_work(
        options.preset, learn=len(learn), select=len(select), predictors=len(program.predictors())
    )
    runs += 2 * len(select)  # the given program and the result
    each = program.most_turns()
    compared = 2 * each * len(validation)
    work = {
        "summary": chosen.summary,
        "learn": len(learn),
        "select": len(select),
        "proposals": proposals,
        "optimizer_calls": runs * each + proposals,
        "comparison_calls": compared,
        "calls": expected.calls and [2 * expected.calls[0], compared + runs * each + proposals],
        "smallest_difference": expected.smallest_difference,
        "scale": (runs + 2 * len(validation)) / max(1, len(validation)),
    }
    settings = {
        "program_spec": options.program,
        "data": options.validation,
        "split": validation_split,
        "limit": options.validation_limit,
        "train_split": train_split,
        **options.named("sets", "train", "train_limit", "budget"),
        **({"columns": options.columns} if options.columns else {}),
    }
    return CompilationPlan(
        *(options, out, program, language_model, prompt_lm, metric, train, validation),
        *(settings, work, expected, found),
    )


def run(planned: CompilationPlan, view: Confirmed) -> tuple[dict[str, Any], int]:
    """Carry the plan out: what `--json` prints, and the exit code."""
    options, out = planned.options, planned.out
    code = 0
    try:
        with warned(planned.warnings):
            compiled = compile_program(
                planned.program,
                planned.train,
                planned.validation,
                lm=planned.lm,
                prompt_lm=planned.prompt_lm,
                metric=planned.metric,
                out=out,
                tracking=options.tracking,
                settings=planned.settings,
                progress=view.progress,
                **options.named("optimizer", "preset", "budget", "seed", "concurrency", "cache"),
            )
        result = compiled.compilation.to_dict()
    except KeyboardInterrupt:
        say(f"interrupted: what was found is kept in {out}; the same command takes it up again")
        code = INTERRUPTED
        document = read_object(out / COMPILE) or {}
        result = document.get("result") or {"folder": str(out), "stopped": "interrupted"}
    if result["stopped"] and not code:  # by a budget
        say(result["stopped"])
        code = STOPPED if result["selection"]["winner"] is None else 0
    found = {"out": str(out), **{key: value for key, value in result.items() if key != "folder"}}
    return found, code


def _prompt_lm(options: CompileRequest, lms: Seating) -> Any:
    """The LM that proposes instructions; None for that of the seats."""
    if options.prompt_lm is None:
        if options.prompt_api_base is not None:
            raise UserError("--prompt-api-base is given without --prompt-lm: name the LM behind it")
        return None
    where: Any = {} if options.prompt_api_base is None else {"api_base": options.prompt_api_base}
    return lms.make(options.prompt_lm, **where)


def shown_lines(found: dict[str, Any], *, quiet: bool, track: bool) -> dict[str, str]:
    """The figures that are worth a line each, and where the result is."""
    lines = compiled_lines(found)
    if quiet or "selection" not in found:
        return {"verdict": lines["verdict"]}
    lines["program"] = f"{found['out']}/program"
    lines["prompts"] = f"{found['out']}/prompts.md"
    return lines | ({"look at it": "folkmoot ui"} if track else {})
