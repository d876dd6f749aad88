"""What a reproduction is going to run: rows as programs over questions, checked before any LM is
called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from ...modules.agents.own_prompts import meant_for, prompts_given
from ...modules.base.errors import UserError
from ...modules.network.config import NetworkConfig
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...optimizers.policy.settings import TrainingSettings, configured
from ..base.budget import Account, open_account
from ..base.wording import duration
from ..data import load as data
from ..data.catalogue import find
from ..evaluation.answering import seat_engines
from ..evaluation.check import check_train
from ..evaluation.estimate import estimate, left_of
from ..lms.ledger import totals
from ..programs.networks import default_embedding
from ..programs.resolve import program_of
from ..runs.describe import lms_of, open_run
from ..runs.manifest import MANIFEST, RunFolder
from ..runs.rows import RESULTS
from ..training.live import fresh_network
from .lms import PaperLMs
from .presets import Paper, Preset, PublishedRow, Sample, Selection, identity, select
from .request import ReproduceRequest

RUNS = Path("runs")
_LAYOUT = "prompt_layout"
TRAINING_CALLS = "training"
_TRAINED = RunFolder(
    "run", "training.json", {"lms": "its LM differs", "data_fingerprint": "its data differs"}
)


@dataclass
class NetworkTraining:
    """What a strategy network learns from, and how."""

    config: NetworkConfig
    settings: TrainingSettings
    preset: str
    given: dict[str, Any]
    source: str
    questions: list[Question]


@dataclass
class PlannedRun:
    """One run of a reproduction, in a folder of its own; `row` is the first one asked for that it
    is of.
    """

    row: PublishedRow
    preset: Preset
    program: Program
    lm: Any
    questions: list[Question]
    folder: Path
    settings: dict[str, Any]
    training: NetworkTraining | None
    estimate: dict[str, Any] = field(default_factory=dict)

    @property
    def engines(self) -> list[Any]:
        return seat_engines(self.program, self.lm)


@dataclass
class ReproductionPlan:
    """A reproduction that is checked. `folders` has the folder of the run of every row of the
    paper.
    """

    request: ReproduceRequest
    lms: PaperLMs
    selection: Selection
    runs: list[PlannedRun]
    folders: dict[str, Path]
    out: Path
    notes: list[str]

    @property
    def total(self) -> dict[str, Any]:
        """The forecasts of all runs added up."""
        return added([run.estimate for run in self.runs])

    def account(self) -> Account | None:
        """What earlier attempts left of the budget. Raises UserError for a budget that could not be
        held.
        """
        if self.request.budget is None:
            return None
        spent = totals(self.out)
        for run in self.runs:
            for folder in (run.folder, run.folder / TRAINING_CALLS):
                spent.add(totals(folder))
        return open_account(
            self.request.budget, [one for run in self.runs for one in run.engines], spent
        )

    @property
    def folder(self) -> Path:
        """The folder of the table."""
        return self.out / self.selection.paper.id / self.selection.table.id

    @property
    def begun(self) -> bool:
        """Whether any run of the paper has a row in the folder."""
        return any(map(has_rows, self.folders.values()))

    @property
    def title(self) -> str:
        return self.selection.table.name

    @property
    def warnings(self) -> list[str]:
        return []

    @property
    def cost(self) -> tuple[float, float] | None:
        cost = self.total["cost_usd"]
        return None if cost is None else (cost[0], cost[1])

    def lines(self) -> list[Any]:
        """A line per run: questions, calls, tokens, cost, time, and the difference that its sample
        shows.
        """
        table = plan_table(self) if self.runs else None
        budget = [f"budget: {self.request.budget}"] if self.request.budget else []
        return [*([table] if table else []), *self.notes, *budget]

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {
                "row": run.row.name,
                "folder": str(run.folder),
                "lms": lms_of(run.program, run.lm),
                **run.estimate,
            }
            for run in self.runs
        ]
        return {
            "reproduce": self.request.spec,
            "out": str(self.out),
            "runs": rows,
            "total": self.total,
            "budget": self.request.budget,
            "notes": self.notes,
        }


def plan_reproduction(request: ReproduceRequest, *, keyless: bool = False) -> ReproductionPlan:
    """Read and check everything. Raises UserError before any LM is called.

    `keyless` is for plans that are not carried out: an LM without a key is no error then.
    """
    if request.spec is None:
        raise UserError(
            "name what to reproduce, such as agents-of-commonsense/table-2; --list shows what "
            "there is"
        )
    lms = PaperLMs(request, keyless)
    selection = select(request.spec)
    paper = selection.paper
    wanted = _wanted(selection)
    if request.limit is not None and request.limit < 1:
        raise UserError(f"--limit is {request.limit}: give a number of questions from 1 up")
    presets = [row.preset for row in wanted if row.preset is not None]
    lms.check(presets)
    if request.environment and not any("environment" in preset.program for preset in presets):
        raise UserError(
            "--environment is for rows whose agents look things up, and none of these does: drop it"
        )
    out = Path(request.out) if request.out else _default_out(paper, request)
    owners = _owners(paper, lms)
    folders = {name: out / owner.paper / owner.table / owner.id for name, owner in owners.items()}
    made = _Maker(request, lms, prompts_given(request.prompts))
    runs: dict[Path, PlannedRun] = {}
    for row in wanted:
        folder = folders[row.name]
        if folder not in runs:
            runs[folder] = made.run(row, folder)
    for seat in made.prompts.keys() - made.used:
        raise UserError(
            f"prompts: no run of {request.spec} has a seat {seat!r}: correct it, or drop it"
        )
    notes = _notes(selection, request, presets, made)
    planned = ReproductionPlan(request, lms, selection, list(runs.values()), folders, out, notes)
    planned.account()  # refused now rather than after a question
    return planned


class _Maker:
    """Makes runs; equal samples of questions are read once."""

    def __init__(
        self, request: ReproduceRequest, lms: PaperLMs, prompts: Mapping[str, str]
    ) -> None:
        self.request, self.lms, self.prompts = request, lms, prompts
        self.used: set[str] = set()
        self.samples: dict[tuple[Any, ...], list[Question]] = {}
        self.warnings: dict[str, None] = {}
        self.short: dict[str, None] = {}

    def run(self, row: PublishedRow, folder: Path) -> PlannedRun:
        preset = row.preset
        assert preset is not None
        questions = self.questions(preset.data)
        training = self.training(preset, questions)
        program = self.program(preset, training)
        program, lm = self.lms.options(preset).seat(program)
        settings = self.settings(row, preset, questions, training)
        run = PlannedRun(row, preset, program, lm, questions, folder, settings, training)
        if training is None:
            open_run(folder, program, questions, lm, {})  # refused where it holds another run
        else:
            known = {
                "lms": lms_of(program, lm),
                "data_fingerprint": data.fingerprint(training.questions),
            }
            _TRAINED.earlier(folder, known)
        run.estimate = self.estimate(run)
        return run

    def questions(self, sample: Sample) -> list[Question]:
        limit = sample.most(self.request.limit)
        key = (sample.name, sample.split, limit, sample.seed)
        if key not in self.samples:
            found = self.loaded(sample, limit)
            data.check_asked(found)
            if limit is not None and len(found) < limit:
                self.short[
                    f"{sample.name} ({sample.split}) has {len(found):,} questions here, not "
                    f"{limit:,}."
                ] = None
            self.samples[key] = found
        return self.samples[key]

    def loaded(self, sample: Sample, limit: int | None) -> list[Question]:
        """The questions of a sample; for a plan alone, questions like them where they are not here.

        Such a plan knows their number from the catalogue, and their length from questions of the
        same kind that are shipped.
        """
        try:
            return data.load(
                sample.name, sample.split, limit, sample.seed if limit is not None else None
            )
        except UserError:
            spec = find(sample.name)
            known = spec.splits.get(spec.split(sample.split)) if spec else None
            if not self.lms.keyless or spec is None or known is None:
                raise
        count = min(known, limit or known)
        self.short[
            f"{sample.name} ({sample.split}) is not here: the plan counts {count:,} questions as "
            "long as the shipped ones of their kind."
        ] = None
        shipped = data.load(f"sample-{spec.kind}", "test")
        return [
            Question(shipped[place % len(shipped)], id=f"planned-{place}") for place in range(count)
        ]

    def program(self, preset: Preset, training: NetworkTraining | None) -> Program:
        """The preset's program with the user's prompts."""
        told = dict(preset.program)
        if training is not None:
            program: Program = fresh_network(training.config)
        else:
            if self.request.environment and "environment" in told:
                told["environment"] = self.request.environment
            program = program_of(told)
        meant = {meant_for(seat, self.prompts) for seat in program.seats()}
        if mine := {name: text for name, text in self.prompts.items() if name in meant}:
            program.word(mine)
        self.used |= mine.keys()
        return program

    def training(self, preset: Preset, test: Sequence[Question]) -> NetworkTraining | None:
        if preset.train is None or preset.training is None:
            return None
        embedding, warning = (
            (self.request.embedding, None) if self.request.embedding else default_embedding()
        )
        questions = self.questions(preset.train)
        for said in (warning, *check_train(questions, test)):
            if said:
                self.warnings[said] = None
        told = {
            key: value for key, value in preset.program.items() if key not in ("program", _LAYOUT)
        }
        given = {**told, "seed": preset.train.seed, "embedding": embedding}
        config, settings = configured(given, preset.training)
        return NetworkTraining(
            config, settings, preset.training, given, preset.train.name, questions
        )

    def settings(
        self,
        row: PublishedRow,
        preset: Preset,
        questions: Sequence[Question],
        training: NetworkTraining | None,
    ) -> dict[str, Any]:
        limit = preset.data.most(self.request.limit)
        seed = preset.data.seed if limit is not None else None
        settings = {
            "command": "reproduce",
            "label": row.name,
            "paper": row.paper,
            "models": dict(preset.models),
            **data.recorded(questions, preset.data.name, preset.data.split, limit, seed),
            "concurrency": self.request.concurrency,
        }
        if training is not None:
            settings |= {
                "train": training.source,
                "train_fingerprint": data.fingerprint(training.questions),
                "training_preset": training.preset,
            }
        return settings

    def estimate(self, run: PlannedRun) -> dict[str, Any]:
        """Calls, tokens, cost and time of what is left to do, and what the whole sample can
        show.
        """
        asked, each = left_of(run.folder, run.questions, self.request.retry_errors)
        shared: dict[str, Any] = {"concurrency": self.request.concurrency, "seconds_per_call": each}
        parts = [(estimate(run.program, run.questions, run.lm, asked=asked, **shared), 1)]
        if run.training is not None and not (run.folder / MANIFEST).exists():
            # Of one agent and question every strategy is asked at most once, whatever the epochs.
            times = min(int(run.training.settings.epochs), len(run.training.config.strategies))
            parts.append((estimate(run.program, run.training.questions, run.lm, **shared), times))
        total = added([{**part.to_dict(), "times": times} for part, times in parts])
        return {
            **total,
            "questions": len(run.questions),
            "left": len(asked),
            "smallest_difference": parts[0][0].smallest_difference,
        }


def added(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Forecasts as one; a cost or time that is unknown in one is unknown in the sum."""
    found: dict[str, Any] = {}
    for key in ("calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds"):
        known = [(part[key], part.get("times", 1)) for part in parts]
        if any(value is None for value, _ in known):
            found[key] = None
            continue
        found[key] = [
            sum(value[0] for value, _ in known),
            sum(value[1] * times for value, times in known),
        ]
    found["unpriced"] = list(dict.fromkeys(name for part in parts for name in part["unpriced"]))
    return found


def _wanted(selection: Selection) -> list[PublishedRow]:
    """The rows that are run: those selected, and those that selected ones are computed from."""
    found: dict[str, PublishedRow] = {}
    for row in selection.rows:
        for one in selection.paper.sources(row) if row.derive else [row]:
            if one.preset is not None:
                found.setdefault(one.name, one)
    return list(found.values())


def _owners(paper: Paper, lms: PaperLMs) -> dict[str, PublishedRow]:
    """Of each row of a paper, the first one that runs the same: the two share a folder."""
    first: dict[str, PublishedRow] = {}
    found: dict[str, PublishedRow] = {}
    for row in paper.rows():
        if row.preset is None:
            continue
        try:
            seats = lms.seats(row.preset)
        except (
            UserError
        ):  # a model without a stand-in; where the row is wanted, it has been named by now
            continue
        found[row.name] = first.setdefault(identity(row.preset, seats), row)
    return found


def _default_out(paper: Paper, request: ReproduceRequest) -> Path:
    """One folder for each choice of LMs and limit: a later table of the paper finds the runs it
    shares.
    """
    known = [request.lm, request.api_base, request.limit, request.environment, request.embedding]
    known += [request.max_tokens, request.answer_form]
    known += (
        [json.dumps(prompts, sort_keys=True)] if (prompts := prompts_given(request.prompts)) else []
    )
    digest = hashlib.sha256(json.dumps(known, default=str).encode()).hexdigest()
    return RUNS / f"reproduce-{paper.id}-{digest[:8]}"


def _notes(
    selection: Selection, request: ReproduceRequest, presets: Sequence[Preset], made: _Maker
) -> list[str]:
    found = [note for note in (selection.paper.note, selection.table.note) if note]
    found += made.lms.notes(presets)
    if request.environment:
        found.append(
            f"Looked up in {request.environment} instead of Wikipedia: what is not there cannot "
            f"be found."
        )
    if request.prompts is not None:
        found.append(
            f"The instructions of {', '.join(sorted(made.used))} are those that --prompts gives."
        )
    if request.limit is not None:
        found.append(f"At most {request.limit:,} questions a row, drawn with the row's seed.")
    return [" ".join(note.split()) for note in (*found, *made.short, *made.warnings)]


def plan_table(planned: ReproductionPlan) -> Table:
    """A line per run, and one for all."""
    table = Table("run", "questions", "calls", "tokens", "cost", "time", "shows from")
    for one in planned.runs:
        expected = one.estimate
        left = (
            f"{expected['left']:,} of {expected['questions']:,}"
            if expected["left"] < expected["questions"]
            else expected["questions"]
        )
        low, high = (100 * end for end in expected["smallest_difference"])
        shows = (
            f"{low:.1f}{f' to {high:.1f}' if high > low else ''} points" if low < 100 else "nothing"
        )
        table.add_row(f"{one.row.table}/{one.row.id}", str(left), *_amounts(expected), shows)
    if len(planned.runs) > 1:
        table.add_section()
        table.add_row(f"{len(planned.runs)} runs", "", *_amounts(planned.total), "")
    return table


def _amounts(expected: dict[str, Any]) -> list[str]:
    tokens = [
        prompt + said
        for prompt, said in zip(
            expected["prompt_tokens"], expected["completion_tokens"], strict=True
        )
    ]
    cost = (
        "unknown"
        if expected["cost_usd"] is None
        else f"{expected['cost_usd'][0]:.2f} to {expected['cost_usd'][1]:.2f} USD"
    )
    time = (
        "unknown"
        if expected["seconds"] is None
        else " to ".join(map(duration, expected["seconds"]))
    )
    return [range_words(expected["calls"]), range_words(tokens), cost, time]


def range_words(ends: Any) -> str:
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def has_rows(folder: Path) -> bool:
    results = folder / RESULTS
    return (folder / MANIFEST).exists() and results.exists() and results.stat().st_size > 0
