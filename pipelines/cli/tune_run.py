"""What `folkmoot tune` checks and says before it spends, while it runs, and at the end."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...modules.base.errors import UserError
from ...modules.base.space import key_of, options
from ...modules.reading.question import Question
from ..data import load as data
from ..evaluation.plan import Plan as Forecast
from ..evaluation.plan import plan as forecast
from ..programs.resolve import parse_sets
from ..programs.seats import EVERY, LMOptions, by_seat, parse_prices
from ..tuning.check import checked
from ..tuning.network import OF_TURNS, halves, training_turns
from ..tuning.space import TuneSpace
from ..tuning.storage import is_local
from ..tuning.storage import shown as place
from ..tuning.tune import Study, StudyProgress
from ..tuning.yaml_space import space_of
from . import show as cli_show
from .evaluate import parse_columns
from .guard import warned

EXPENSIVE_USD = 1.0
TRIED = 100  # points of the space that the longest program is looked for among
Source = tuple[str, str | None, int | None]


@dataclass
class Request:
    """A study as the command line asks for it; `options` are those of `fm.tune`."""

    space: str
    lms: LMOptions
    sets: Sequence[str]
    train: Source
    validation: Source
    kind: str | None
    columns: Sequence[str]
    options: dict[str, Any]


@dataclass
class Planned:
    """A study that is checked; no LM has been called."""

    request: Request
    space: TuneSpace
    lm: Any
    train: list[Question]
    validation: list[Question]
    settings: dict[str, Any]
    forecast: Forecast
    most_calls: int
    learnt: list[Question] = field(default_factory=list)
    most_training: int = 0

    @property
    def asks_first(self) -> bool:
        cost = self.forecast.cost_usd
        if cost is None:
            return False
        turns = self.forecast.calls[1]  # a training asks as the trial does, for as much a call
        more = self.most_training * len(self.learnt) / turns if turns else 0.0
        return bool(cost[1] * (1 + more) * self.request.options["trials"] > EXPENSIVE_USD)

    def to_dict(self) -> dict[str, Any]:
        known = {name: str(value) for name, value in self.request.options.items() if name != "storage"}
        known["storage"] = place(self.request.options["storage"])
        trial = self.forecast.to_dict()
        learnt = {"most_training_calls": self.most_training * len(self.learnt)} if self.learnt else {}
        return {
            **known,
            "most_calls": self.most_calls,
            **learnt,
            "default_trial": trial,
            "space": self.space.to_dict(),
        }


def plan(request: Request) -> Planned:
    """Read and check all input, and say what it warns of. Raises UserError before any LM is called."""
    with warned():
        return _planned(request)


def _planned(request: Request) -> Planned:
    if request.lms.replays is not None:
        raise UserError("a recorded run cannot answer what a study asks: name an LM instead of replay/DIR")
    names, bases = by_seat(request.lms.names, "--lm"), by_seat(request.lms.bases, "--api-base")
    seats: dict[str, Any] = {}
    for seat in (name for name in {**names, **bases} if name != EVERY):
        name = names.get(seat, names.get(EVERY))
        seats[seat] = {"name": name, "api_base": bases[seat]} if seat in bases else name
    space = space_of(request.space, parse_sets(request.sets), lms=seats, make_lm=request.lms.make)
    language_model = request.lms.make(names.get(EVERY))
    used = [language_model.model, *(str(one) for branch in space.branches for one in branch.lms.values())]
    for name in parse_prices(request.lms.prices):
        if not any(name in one for one in used):
            raise UserError(f"--price names {name!r}, which is no LM of this study: correct it")
    train, validation = (_load(source, request) for source in (request.train, request.validation))
    given = request.options
    given["objectives"] = checked(
        space,
        train,
        validation,
        language_model,
        given["objectives"],
        given["sampler"],
        given["trials"],
        given["workers"],
        given["concurrency"],
        given["seed"],
    )
    _, default = space.default()
    learnt, scored = halves(train) if space.trains else ([], train)
    one = forecast(default, scored, language_model, concurrency=given["concurrency"])
    most, most_training = _most_turns(space)
    calls = most * (len(scored) * given["trials"] + 2 * len(validation))
    calls += most_training * len(learnt) * (given["trials"] + 1)  # the default may be no trial
    settings = {
        "command": "tune",
        "data": request.train[0],
        "split": request.train[1],
        "limit": request.train[2],
        "kind": request.kind,
        "columns": list(request.columns),
        "validation": request.validation[0],
        "validation_split": request.validation[1],
        "validation_limit": request.validation[2],
        "space": request.space,
        "sets": list(request.sets),
        "budget": given["budget"],
    }
    return Planned(
        request, space, language_model, train, validation, settings, one, calls, learnt, most_training
    )


def lines(planned: Planned) -> list[str]:
    """The plan in words."""
    given = planned.request.options
    goals = ", ".join(given["objectives"])
    scored = len(planned.train) - len(planned.learnt)
    found = [
        f"{given['trials']} trials by {given['sampler']} for {goals}; {scored:,} questions each, "
        f"{len(planned.validation):,} others for the winner and the default",
        *(
            [
                f"{len(planned.learnt):,} more to train networks on: at most "
                f"{planned.most_training * len(planned.learnt):,} calls a setting"
            ]
            if planned.learnt
            else []
        ),
        f"at most {planned.most_calls:,} calls, if no two trials shared one and none was stopped early",
        "a trial of the default: " + cli_show.plan_lines(planned.forecast, None)[1],
        cli_show.plan_lines(planned.forecast, None)[-1],
    ]
    if given["budget"]:
        held = "" if is_local(given["storage"]) else "; machines that join have budgets of their own"
        found.append(f"budget: {given['budget']}, a fifth of it kept for the validation{held}")
    return found


def shown(study: Study) -> dict[str, Any]:
    """The report without the table of trials and the space, which `study.json` has; `calls_made` counts all
    that were paid, also for the validation."""
    kept = {name: value for name, value in study.report.items() if name not in ("table", "space", "versions")}
    calls = {"calls_made": kept["paid"]["calls"], "calls_saved": kept["calls"]["saved"]}
    return {"out": str(study.folder), **kept, **calls}


def result_lines(found: Mapping[str, Any], *, quiet: bool, track: bool) -> dict[str, str]:
    """What a study found, a line each."""
    best = found["best"]
    if best is None:
        return {"result": found["verdict"]}
    lines = {"winner": _setting(best["setting"])}
    if found["validation"]:
        lines["on validation"] = cli_show.percent(found["validation"]["winner"])
        if not found["validation"]["same"]:
            lines["the default there"] = cli_show.percent(found["validation"]["default"])
    lines["result"] = found["verdict"]
    if quiet:
        return lines
    goal = found["objectives"][0]
    lines["in training"] = f"{cli_show.percent(best['scores'][goal])} (optimistic: the best of many)"
    if len(found["objectives"]) > 1:
        for number, entry in enumerate(found["front"], 1):
            scores = ", ".join(f"{name} {entry['scores'][name]['value']:.4g}" for name in found["objectives"])
            lines[f"front {number}"] = f"{scores}: {_setting(entry['setting'])}"
    lines["trials"] = ", ".join(f"{count} {state}" for state, count in found["trials"].items() if count)
    calls = found["calls"]
    lines["calls"] = f"{calls['made']:,} made by trials, {calls['saved']:,} saved"
    lines["paid in all"] = cli_show.used(found["paid"])
    lines["saved in"] = f"{found['out']}/winner"
    return lines | ({"look at it": "folkmoot ui"} if track else {})


def _setting(setting: Mapping[str, Any]) -> str:
    parts = []
    for name, value in setting.items():
        if value is not None:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            parts.append(f"{name}={text}")
    return " ".join(parts) or "the only one"


class LiveStudy:
    """The `progress` callback of a study: keeps the latest state, for a terminal to show."""

    def __init__(self) -> None:
        self.state: StudyProgress | None = None

    def __call__(self, state: StudyProgress) -> None:
        self.state = state

    @contextmanager
    def shown(self, out: Console, *, quiet: bool) -> Iterator[None]:
        """Draws while the block runs; shows nothing when quiet or without a terminal."""
        if quiet or not out.is_terminal:
            yield
            return
        with Live(get_renderable=self._render, console=out, refresh_per_second=4, redirect_stdout=False):
            yield

    def _render(self) -> Table:
        row = Table.grid(padding=(0, 1))
        state = self.state
        if state is None:
            row.add_row(Text("tune: starting"))
            return row
        best = "" if state.best is None else f"best {state.best:.1%}  "
        told = f"{state.told:,} told  " if state.told else ""
        text = f"{state.done:,}/{state.total:,}  {best}{state.pruned:,} stopped early  {told}"
        text += f"{state.calls:,} calls"
        row.add_row(Text("tune"), ProgressBar(total=state.total, completed=state.done, width=24), Text(text))
        return row


def _load(source: Source, request: Request) -> list[Question]:
    name, split, limit = source
    columns = parse_columns(request.columns)
    questions = data.load(name, split, limit, columns=columns, kind=request.kind)
    data.check_labelled(questions)
    return questions


def _most_turns(space: TuneSpace) -> tuple[int, int]:
    """The most calls that a question can take, and that training a network can ask of one, among points of
    the space drawn at random."""
    dice = random.Random(0)

    def draw(_: str, values: Any) -> Any:
        known = options(values)
        return dice.choice(known) if known else dice.uniform(values.low, values.high)

    found: dict[str, tuple[int, int]] = {}
    for _ in range(TRIED):
        setting = space.point(draw)
        branch, own, _ = space.own(setting)
        if branch.trains:  # building one takes long, and most settings do not change what it asks
            own = {name: value for name, value in own.items() if name in OF_TURNS}
        key = key_of({"": branch.label, **own})
        if key not in found:
            program = branch.build(branch.parameters(own), {}, space.make_lm)
            found[key] = program.most_turns(), training_turns(program)
    return max(turns for turns, _ in found.values()), max(training for _, training in found.values())
