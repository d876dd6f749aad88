"""What a reproduction is going to run: rows as programs over questions, checked before any LM is
called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
from ..base.budget import Account
from ..base.wording import duration
from ..data import load as data
from ..data.catalogue import find
from ..evaluation.answering import seat_engines
from ..evaluation.check import check_train
from ..evaluation.estimate import account_of, estimate, left_of
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
    options: dict[str, object]
    source: str
    questions: list[Question]


@dataclass
class PlannedRun:
    """One run of a reproduction, in a folder of its own; `row` is the first of the rows asked for
    that share it.
    """

    row: PublishedRow
    preset: Preset
    program: Program
    lm: Any
    questions: list[Question]
    folder: Path
    settings: dict[str, object]
    training: NetworkTraining | None
    estimate: dict[str, Any] = field(default_factory=dict)


@dataclass
class TablePlan:
    """What the plans of all reproductions have: what is asked for, and where the table goes."""

    request: ReproduceRequest
    selection: Selection
    out: Path
    notes: list[str]
    warnings = ()

    @property
    def title(self) -> str:
        return self.selection.table.name

    @property
    def folder(self) -> Path:
        """The folder of the table."""
        return self.out / self.selection.paper.id / self.selection.table.id


@dataclass
class ReproductionPlan(TablePlan):
    """A reproduction that is checked. `folders` has the folder of the run of every row of the
    paper.
    """

    lms: PaperLMs
    runs: list[PlannedRun]
    folders: dict[str, Path]

    @property
    def total(self) -> dict[str, Any]:
        """The forecasts of all runs added up."""
        return added([run.estimate for run in self.runs])

    def account(self) -> Account | None:
        """What earlier attempts left of the budget. Raises UserError for a budget that could not be
        held.
        """
        engines = [one for run in self.runs for one in seat_engines(run.program, run.lm)]
        runs = [folder for run in self.runs for folder in (run.folder, run.folder / TRAINING_CALLS)]
        return account_of(self.request.budget, engines, self.out, *runs)

    @property
    def begun(self) -> bool:
        """Whether any run of the paper has a row in the folder."""
        return any(map(has_rows, self.folders.values()))

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

    def to_dict(self) -> dict[str, object]:
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

    With `keyless` (a plan alone), no keys are needed.
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
    made = _Maker(request, lms)
    runs: dict[Path, PlannedRun] = {}
    for row in wanted:
        folder = folders[row.name]
        if folder not in runs:
            runs[folder] = made.run(row, folder)
    for seat in made.prompts.keys() - made.worded:
        raise UserError(
            f"prompts: no run of {request.spec} has a seat {seat!r}: correct it, or drop it"
        )
    notes = _notes(selection, request, presets, made)
    planned = ReproductionPlan(request, selection, out, notes, lms, list(runs.values()), folders)
    planned.account()  # refused now rather than after a question
    return planned


class _Maker:
    """Makes runs; equal samples of questions are read once. `notes` is what a reader of the figures
    has to know of data and training.
    """

    def __init__(self, request: ReproduceRequest, lms: PaperLMs) -> None:
        self.request, self.lms = request, lms
        self.prompts = prompts_given(request.prompts)
        self.worded: set[str] = set()  # the seats that have these prompts
        self.samples: dict[Sample, list[Question]] = {}
        self.notes: dict[str, None] = {}

    def run(self, row: PublishedRow, folder: Path) -> PlannedRun:
        preset = row.preset
        assert preset is not None
        questions = self.questions(preset.data)
        training = self.training(preset, questions)
        program, lm = self.lms.options(preset).seat(self.program(preset, training))
        settings = {
            "command": "reproduce",
            "label": row.name,
            "paper": row.paper,
            "models": dict(preset.models),
            **data.recorded(questions, *self.drawn(preset.data)),
            "concurrency": self.request.concurrency,
        }
        if training is None:
            open_run(folder, program, questions, lm, {})  # refused where it holds another run
        else:
            fingerprint = data.fingerprint(training.questions)
            settings |= {
                "train": training.source,
                "train_fingerprint": fingerprint,
                "training_preset": training.preset,
            }
            about = {"lms": lms_of(program, lm), "data_fingerprint": fingerprint}
            _TRAINED.earlier(folder, about)
        run = PlannedRun(row, preset, program, lm, questions, folder, settings, training)
        run.estimate = self.estimate(run)
        return run

    def drawn(self, sample: Sample) -> tuple[str, str, int | None, int | None]:
        """Name, split, number and seed of the questions, as `load` takes them."""
        limit = sample.most(self.request.limit)
        return sample.name, sample.split, limit, sample.seed if limit is not None else None

    def questions(self, sample: Sample) -> list[Question]:
        if sample not in self.samples:
            limit, questions = sample.most(self.request.limit), self.loaded(sample)
            data.check_asked(questions)
            if limit is not None and len(questions) < limit:
                note = f"has {len(questions):,} questions here, not {limit:,}."
                self.notes[f"{sample.name} ({sample.split}) {note}"] = None
            self.samples[sample] = questions
        return self.samples[sample]

    def loaded(self, sample: Sample) -> list[Question]:
        """The questions of a sample; for a plan alone, questions like them where they are not here.

        Such a plan knows their number from the catalogue, and their length from questions of the
        same kind that are shipped.
        """
        try:
            return data.load(*self.drawn(sample))
        except UserError:
            spec = find(sample.name)
            size = spec.splits.get(spec.split(sample.split)) if spec else None
            if not self.lms.keyless or spec is None or size is None:
                raise
        count = min(size, sample.most(self.request.limit) or size)
        self.notes[
            f"{sample.name} ({sample.split}) is not here: the plan counts {count:,} questions as "
            "long as the shipped ones of their kind."
        ] = None
        shipped = data.load(f"sample-{spec.kind}", "test")
        return [
            Question(shipped[place % len(shipped)], id=f"planned-{place}") for place in range(count)
        ]

    def program(self, preset: Preset, training: NetworkTraining | None) -> Program:
        """The preset's program with the user's prompts."""
        spec = dict(preset.program)
        if self.request.environment and "environment" in spec:
            spec["environment"] = self.request.environment
        program: Program = fresh_network(training.config) if training else program_of(spec)
        meant = {meant_for(seat, self.prompts) for seat in program.seats()}
        if own := {name: text for name, text in self.prompts.items() if name in meant}:
            program.word(own)
        self.worded |= own.keys()
        return program

    def training(self, preset: Preset, test: Sequence[Question]) -> NetworkTraining | None:
        if preset.train is None or preset.training is None:
            return None
        embedding, warning = self.request.embedding, None
        if not embedding:
            embedding, warning = default_embedding()
        questions = self.questions(preset.train)
        for text in (warning, *check_train(questions, test)):
            self.notes |= {text: None} if text else {}
        options = {
            **{k: value for k, value in preset.program.items() if k not in ("program", _LAYOUT)},
            "seed": preset.train.seed,
            "embedding": embedding,
        }
        config, settings = configured(options, preset.training)
        return NetworkTraining(
            config, settings, preset.training, options, preset.train.name, questions
        )

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
    total: dict[str, Any] = {}
    for key in ("calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds"):
        ends = [(part[key], part.get("times", 1)) for part in parts]
        total[key] = None
        if all(value is not None for value, _ in ends):
            low, high = (sum(value[0] for value, _ in ends), sum(v[1] * n for v, n in ends))
            total[key] = [low, high]
    total["unpriced"] = list(dict.fromkeys(name for part in parts for name in part["unpriced"]))
    return total


def _wanted(selection: Selection) -> list[PublishedRow]:
    """The rows that are run: those selected, and those that selected ones are computed from."""
    rows = (
        one
        for row in selection.rows
        for one in (selection.paper.sources(row) if row.derive else [row])
    )
    return list({one.name: one for one in rows if one.preset is not None}.values())


def _owners(paper: Paper, lms: PaperLMs) -> dict[str, PublishedRow]:
    """Of each row of a paper, the first one that runs the same: the two share a folder."""
    first: dict[str, PublishedRow] = {}
    owners: dict[str, PublishedRow] = {}
    for row in paper.rows():
        if row.preset is None:
            continue
        with suppress(UserError):  # no stand-in: where the row is wanted, that has been named
            owners[row.name] = first.setdefault(identity(row.preset, lms.seats(row.preset)), row)
    return owners


def _default_out(paper: Paper, request: ReproduceRequest) -> Path:
    """One folder for each choice of LMs and limit: a later table of the paper finds the runs it
    shares.
    """
    options = ("lm", "api_base", "limit", "environment", "embedding", "max_tokens", "answer_form")
    values = [*(getattr(request, option) for option in options), prompts_given(request.prompts)]
    text = json.dumps(values, default=str, sort_keys=True)
    return RUNS / f"reproduce-{paper.id}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _notes(
    selection: Selection, request: ReproduceRequest, presets: Sequence[Preset], made: _Maker
) -> list[str]:
    notes = [selection.paper.note or "", selection.table.note or "", *made.lms.notes(presets)]
    if request.environment:
        notes.append(
            f"Looked up in {request.environment} instead of Wikipedia: what is not there cannot be "
            "found."
        )
    if request.prompts is not None:
        notes.append(
            f"The instructions of {', '.join(sorted(made.worded))} are those that --prompts gives."
        )
    if request.limit is not None:
        notes.append(f"At most {request.limit:,} questions per row, drawn with the row's seed.")
    return [" ".join(note.split()) for note in (*notes, *made.notes) if note]


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
    cost, seconds = expected["cost_usd"], expected["seconds"]
    tokens = map(sum, zip(expected["prompt_tokens"], expected["completion_tokens"], strict=True))
    return [
        range_words(expected["calls"]),
        range_words(tokens),
        "unknown" if cost is None else f"{cost[0]:.2f} to {cost[1]:.2f} USD",
        "unknown" if seconds is None else " to ".join(map(duration, seconds)),
    ]


def range_words(ends: Any) -> str:
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def has_rows(folder: Path) -> bool:
    results = folder / RESULTS
    return (folder / MANIFEST).exists() and results.exists() and results.stat().st_size > 0
