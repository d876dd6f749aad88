"""`folkmoot compile` behind its options: everything checked, a plan, and the compilation."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...optimizers.prompts.optimizers import optimizer_of
from ..base.budget import open_account
from ..base.wording import counted
from ..compilation.attempt import COMPILE
from ..compilation.compile import advice, checked, split
from ..compilation.compile import compile as compile_program
from ..data import catalogue
from ..data import load as data
from ..evaluation.plan import plan as forecast
from ..lms.ledger import totals
from ..lms.named import engine_of
from ..programs.resolve import parse_sets, program_of
from ..runs.manifest import lms_of
from .compile_show import shown
from .evaluate import parse_columns
from .guard import INTERRUPTED, STOPPED, say, warned
from .show import plan_lines


@dataclass
class Request:
    """A compilation as the command line asks for it; `sources`, `splits`, `limits` go by part of the data."""

    program: str
    sources: dict[str, str]
    splits: dict[str, str | None]
    limits: dict[str, int | None]
    optimizer: str
    preset: str
    out: Path
    seed: int
    columns: list[str]
    kind: str | None
    sets: list[str]
    prompt_lm: str | None
    prompt_api_base: str | None
    concurrency: int
    budget: str | None
    cache: bool
    tracking: bool


@dataclass
class Plan:
    """What is going to run: everything is checked, and no LM has been called."""

    request: Request
    program: Any
    lm: Any
    prompt_lm: Any
    train: list[Any]
    validation: list[Any]
    settings: dict[str, Any]
    work: dict[str, Any]
    forecast: Any
    warnings: list[str] = field(default_factory=list)

    @property
    def asks_first(self) -> bool:
        cost = self.forecast.cost_usd
        return cost is not None and cost[1] * self.work["scale"] > 1.0

    def lines(self) -> list[str]:
        work, request = self.work, self.request
        shows = plan_lines(self.forecast, None)[-1]
        return [
            f"{counted(len(self.train), 'training question')} ({work['learn']:,} to learn from, "
            f"{work['select']:,} to select by), {len(self.validation):,} held out",
            f"program {request.program}; {request.optimizer} ({request.preset}): {work['summary']}",
            f"at most {work['calls'][1]:,} calls: {work['comparison_calls']:,} to compare before and after, "
            f"{work['optimizer_calls']:,} by the optimizer, {work['proposals']:,} of them proposals; equal "
            "requests are paid for once",
            *([f"budget: {request.budget}"] if request.budget else []),
            shows,
        ]

    def to_dict(self) -> dict[str, Any]:
        request = self.request
        return {
            "out": str(request.out),
            "program": request.program,
            "optimizer": request.optimizer,
            "preset": request.preset,
            "budget": request.budget,
            "settings": self.settings,
            "plan": {key: value for key, value in self.work.items() if key != "scale"},
        }


def plan(request: Request, lms: Any) -> Plan:
    """Read and check all input. Raises UserError before any LM is called."""
    chosen = optimizer_of(request.optimizer, request.preset)
    program = program_of(request.program, parse_sets(request.sets), make_lm=lms.make)
    columns = parse_columns(request.columns)
    train, train_split = _load(request, "train", columns)
    validation, validation_split = _load(request, "validation", columns)
    found = checked(program, train, validation, chosen, request.concurrency)
    learn, select = split(train, chosen, request.preset, request.seed)
    language_model = lms.seat(program)
    lms_of(program, language_model)
    prompt_lm = _prompt_lm(request, lms)
    found += advice(program, chosen, language_model)
    if request.budget is not None:
        engines = [engine_of(seat.predict.lm or language_model) for seat in program.seats().values()]
        engines += [engine_of(prompt_lm)] if prompt_lm is not None else []
        open_account(request.budget, engines, totals(request.out))
    expected = forecast(program, validation, language_model, concurrency=request.concurrency)
    runs, proposals = chosen.most_work(
        request.preset, learn=len(learn), select=len(select), predictors=len(program.predictors())
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
        "calls": [2 * expected.calls[0], compared + runs * each + proposals],
        "smallest_difference": expected.smallest_difference,
        "scale": (runs + 2 * len(validation)) / max(1, len(validation)),
    }
    settings = {
        "program_spec": request.program,
        "sets": request.sets,
        "data": request.sources["validation"],
        "split": validation_split,
        "limit": request.limits["validation"],
        "train": request.sources["train"],
        "train_split": train_split,
        "train_limit": request.limits["train"],
        "budget": request.budget,
        **({"columns": request.columns} if request.columns else {}),
    }
    return Plan(
        request, program, language_model, prompt_lm, train, validation, settings, work, expected, found
    )


def run(planned: Plan, *, quiet: bool) -> tuple[dict[str, Any], int]:
    """Carry the plan out: what `--json` prints, and the exit code."""
    request = planned.request
    code = 0
    try:
        with warned(planned.warnings), shown(quiet) as told:
            compiled = compile_program(
                planned.program,
                planned.train,
                planned.validation,
                optimizer=request.optimizer,
                preset=request.preset,
                lm=planned.lm,
                prompt_lm=planned.prompt_lm,
                budget=request.budget,
                out=request.out,
                seed=request.seed,
                concurrency=request.concurrency,
                cache=request.cache,
                tracking=request.tracking,
                settings=planned.settings,
                progress=told,
            )
        result = compiled.compilation.to_dict()
    except KeyboardInterrupt:
        say(f"interrupted: what was found is kept in {request.out}; the same command takes it up again")
        code = INTERRUPTED
        try:
            document = json.loads((request.out / COMPILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            document = {}
        result = document.get("result") or {"folder": str(request.out), "stopped": "interrupted"}
    if result["stopped"] and not code:
        say(result["stopped"])
        code = STOPPED
    found = {"out": str(request.out), **{key: value for key, value in result.items() if key != "folder"}}
    return found, code


def _load(request: Request, part: str, columns: Any) -> tuple[list[Any], str | None]:
    source, limit = request.sources[part], request.limits[part]
    is_file = catalogue.find(source) is None and Path(source).expanduser().exists()
    split = request.splits[part] or (None if is_file else part)
    seed = request.seed if limit is not None else None
    own = columns if is_file else None
    return data.load(source, split, limit, seed, columns=own, kind=request.kind), split


def _prompt_lm(request: Request, lms: Any) -> Any:
    """The LM that proposes instructions; None for that of the seats."""
    if request.prompt_lm is None:
        if request.prompt_api_base is not None:
            raise UserError("--prompt-api-base is given without --prompt-lm: name the LM behind it")
        return None
    where = {} if request.prompt_api_base is None else {"api_base": request.prompt_api_base}
    return lms.make(request.prompt_lm, **where)
