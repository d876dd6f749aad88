"""Scores one setting of a study: runs what no record answers, shares every call, keeps a row per
question.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...modules.base.calls import plus
from ...modules.base.errors import UserError
from ...modules.base.files import locked
from ...modules.base.space import Parameter, choice
from ...modules.protocols.declaration import Replayed, Replays
from ...modules.protocols.ensemble import Ensemble
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.reading.answers import em_f1
from ...modules.reading.metrics import Metric
from ...modules.reading.row import ResultRow, score_in
from ...optimizers.structure.points import Setting, draw_setting, grid_settings, key_of
from ..base.budget import Unanswered
from ..base.run_files import RunSettings, books_of
from ..base.wording import common_error, counted
from ..evaluation.plan import EvaluationPlan
from ..evaluation.request import EvaluateRequest
from ..evaluation.sheet import AnswerSheet
from ..runs.books import Books, open_books
from ..runs.describe import lms_of, manifest_of
from ..runs.manifest import RUN
from ..tracking.context import ABOVE
from ..tracking.run import Run
from .job import Job
from .learned import CompiledPrompts, Networks, digest_name, largest, structure_of
from .space import Branch, Recipe

RUNS = "runs"
LATENCY = "latency"


@dataclass(frozen=True)
class Scored:
    """A setting with its score on each question so far, None where that failed, and what each
    question took by objective.

    Scores are what the metric gives, or F1; `cost` is in USD (NaN where a price
    is unknown), `latency` in seconds, `calls` (always there) and `tokens` are counts, each of what
    the setting takes on its own, whatever other trials had paid for. `problem` says why no question
    has an answer.
    """

    setting: Setting
    scores: tuple[float | None, ...]
    took: Mapping[str, tuple[float, ...]]
    problem: str | None = None

    def mean(self, objective: str, questions: int | None = None) -> float:
        """Return the mean over the answered ones of the first so many questions; NaN without
        any.
        """
        answered = []
        values = self.took.get(objective, self.scores)[:questions]
        for value, score in zip(values, self.scores, strict=False):
            if value is not None and score is not None:
                answered.append(value)
        return sum(answered) / (len(answered) or math.nan)

    @property
    def errors(self) -> int:
        return self.scores.count(None)


class Scorer:
    """All that scoring a setting needs; one a process.

    Every run of a program has a folder of its own in the study's.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.space, self.objectives = job, job.space, job.objectives
        self.questions, learnt = job.questions
        self._networks = Networks(job, learnt)
        self._prompts = CompiledPrompts(job, learnt)
        self.asks_again = False  # questions that failed

    @property
    def shares(self) -> bool:
        """Whether trials share calls: an answer that is not asked for again says nothing about
        latency.
        """
        return LATENCY not in self.objectives

    def measured(
        self, setting: Setting, questions: int, finished: Collection[str] = ()
    ) -> tuple[Scored, list[Scored]]:
        """Return the setting on the first so many questions, and all other settings that the same
        run answers, those whose keys are `finished` left out.

        Raises BudgetSpent when the budget ends before the questions do; their rows are kept.
        """
        branch, own, lms = self.space.own(setting)
        parameters, recipe = branch.parameters(own), branch.recipe(own)
        if branch.trains:
            # Trained beforehand, so that a training that no LM answers fails this trial alone.
            try:
                self._program(branch, parameters, lms, recipe)
            except Unanswered as problem:
                return Scored(setting, (None,) * questions, {}, f"training: {problem.what}"), []
        replays = self._replays(branch)
        others: dict[str, tuple[Setting, dict[str, object]]] = {}
        replayed: list[Scored] = []
        own_rows: list[ResultRow] | None = None
        # Where time counts, a replay is only fair if the setting would make the very same calls.
        if replays is not None and (self.shares or replays.same_calls):
            recorded = replays.record(parameters, largest(branch, replays))
            program = self._program(branch, recorded, lms, recipe)
            for changed, sibling in self._siblings(branch, own, replays):
                full = self.space.whole(branch, sibling, lms, program)
                known = key_of(full) == key_of(setting) or key_of(full) in finished
                if not known and replays.tell([], changed) is not None:
                    others[key_of(full)] = full, changed
            # No rows are enough to say whether a setting can be answered from a record at all.
            if others or replays.tell([], parameters) is not None:
                rows = self._rows(program, questions)
                outcomes = replays.tell(rows, parameters)
                if outcomes is not None:
                    own_rows = _replay(rows, outcomes, self.job.metric)
                for full, changed in others.values():
                    with suppress(UserError):  # the recorded run is too short for this one
                        answers = replays.tell(rows, changed) or []
                        changed_rows = _replay(rows, answers, self.job.metric)
                        replayed.append(self._score(full, changed_rows))
        if own_rows is None:
            own_rows = self._rows(self._program(branch, parameters, lms, recipe), questions)
        return self._score(setting, own_rows), replayed

    def network_of(self, setting: Setting) -> str | None:
        """Return the folder of the setting's network, where it has one that is not compiled."""
        branch, own, lms = self.space.own(setting)
        if not branch.trains or branch.recipe(own) is not None:
            return None
        return self._networks.name_of(branch.build(branch.parameters(own), lms, self.space.make_lm))

    def family(self, setting: Setting) -> str | None:
        """Return a key of all settings that one recorded run answers; None where a run answers only
        its own.
        """
        branch, own, lms = self.space.own(setting)
        replays = self._replays(branch)
        if replays is None or not self.shares:
            return None
        fixed = {name: value for name, value in own.items() if not _is_free(branch, name, replays)}
        return key_of({"": branch.label, **lms, **fixed})

    def _replays(self, branch: Branch) -> Replays | None:
        """Return what a recorded run answers beside its own setting; a metric of the user's own may
        want to see more of a prediction than its answer.
        """
        if branch.protocol is None or not self.job.metric.builtin:
            return None
        return branch.protocol.replays

    def program(self, setting: Setting) -> Program:
        """Return the program of a setting, fitted where it has something to fit."""
        branch, own, lms = self.space.own(setting)
        parameters, recipe = branch.parameters(own), branch.recipe(own)
        program = self._program(branch, parameters, lms, recipe)
        if isinstance(program, Ensemble) and program.weighs and program.weights is None:
            replays: Any = branch.protocol and branch.protocol.replays
            recorded = self._program(branch, replays.record(parameters, {}), lms, recipe)
            program.fit_weights(self._rows(recorded, len(self.questions)))
        return program

    def default(self) -> Program:
        """Return the first program of the space as it is without tuning, trained where it has to
        be.
        """
        _, program = self.space.default()
        if self.space.branches[0].trains:
            return self._networks.trained(program)
        return program

    def _siblings(
        self, branch: Branch, own: Setting, replays: Replays
    ) -> Iterator[tuple[dict[str, object], Setting]]:
        """Yield the settings that differ only in what replays are free to change: (parameters,
        setting).
        """
        narrowed = {}
        for name, parameter in branch.space.items():
            if _is_free(branch, name, replays):
                narrowed[name] = parameter
            elif name in own:
                narrowed[name] = Parameter(choice(own[name]), None, parameter.joins)
        for setting in grid_settings(lambda draw: draw_setting(narrowed, draw)):
            yield branch.parameters(setting), setting

    def _program(
        self,
        branch: Branch,
        parameters: Mapping[str, object],
        lms: Mapping[str, object],
        recipe: Recipe | None,
    ) -> Program:
        """Return the program of these parameters, trained or with compiled prompts where it has to
        be.
        """
        program = branch.build(parameters, lms, self.space.make_lm)
        if recipe is not None:
            structure = branch.build(structure_of(branch, parameters), lms, self.space.make_lm)
            return self._prompts.applied(program, structure, recipe)
        if branch.trains:
            return self._networks.trained(program)
        return program

    def _folder(self, program: Program) -> Path:
        what = [hashes(program)["program_hash"], lms_of(program, self.job.lm)]
        return self.job.folder / RUNS / digest_name(what)

    def _score(self, setting: Setting, rows: Sequence[ResultRow]) -> Scored:
        f1 = self.job.metric.default and "f1" in self.objectives
        why, scores = common_error(rows), list[float | None]()
        for row in rows:
            if row.error:
                scores.append(None)
            elif f1:
                scores.append(float(row.f1 or 0.0))
            else:
                scores.append(score_in(row))
        took = {}
        for name in (*self.objectives[1:], "calls"):
            took[name] = tuple(_took(row, name) for row in rows)
        failed = scores.count(None)
        problem = why and f"{failed:,} of {counted(len(scores), 'question')} failed: {why[0]}"
        return Scored(setting, tuple(scores), took, problem)

    def _rows(self, program: Program, questions: int) -> list[ResultRow]:
        """Return a row for each of the first so many questions, in order, asked as far as there is
        none yet.
        """
        folder = self._folder(program)
        asked, lm, metric = self.questions[:questions], self.job.lm, self.job.metric
        request = EvaluateRequest(
            program,
            asked,
            concurrency=self.job.concurrency,
            retry_errors=self.asks_again,
            tracking=False,
            parent=ABOVE,
        )
        plan = EvaluationPlan(
            request, program, lm, metric, asked, [], None, folder, RunSettings(), {}
        )
        # Locking a folder that is not there would make a file of its name.
        folder.mkdir(parents=True, exist_ok=True)
        # Two workers may need the same run; the second finds the rows of the first.
        with locked(folder), ExitStack() as held:
            manifest = manifest_of(program, self.questions, lm, self.job.settings, metric)
            manifest["mlflow_run_id"] = RUN.earlier(folder, manifest).get("mlflow_run_id")
            run = Run(folder, manifest, Books(), None)
            sheet = held.enter_context(AnswerSheet.opened(plan, run, prices=True))
            if sheet.waiting:
                records = list[Path]()
                if self.shares:
                    records.append(books_of(self.job.folder))
                held.enter_context(open_books(records=records))
                with sheet.asking():
                    sheet.ask()
                if sheet.over is not None:
                    raise sheet.over
                sheet.doubts.end()
            rows = {row.id: row for row in sheet.rows}
        return [rows[question.id] for question in asked]


def _replay(
    rows: Sequence[ResultRow], outcomes: Sequence[Replayed | None], metric: Metric
) -> list[ResultRow]:
    """Return the rows as they would be with other outcomes, and with the calls that those take."""
    changed_rows = []
    for row, outcome in zip(rows, outcomes, strict=True):
        if outcome is None:
            changed_rows.append(row)
            continue
        graded = metric.regrade(outcome.answer, row)
        # A copy: other settings read the same rows.
        changed = row.but(answer=outcome.answer, correct=graded.correct, score=graded.score)
        if row.kind == "span":
            changed["em"], changed["f1"] = em_f1(outcome.answer, row.gold or "")
        # A shorter dialogue is the beginning of the recorded one, and so are its calls.
        changed["worth"] = row["worth"][: outcome.calls]
        changed_rows.append(changed)
    return changed_rows


def _took(row: ResultRow, objective: str) -> float:
    if objective == LATENCY:
        return float(row.seconds or 0.0)
    if objective == "calls":
        return float(len(row["worth"]))
    each = list[float]()
    for prompt, completion, cost in row["worth"]:
        taken = plus(prompt, completion) if objective == "tokens" else cost
        # One call without a price makes the whole question's unknown.
        each.append(math.nan if taken is None else taken)
    return float(sum(each))


def _is_free(branch: Branch, name: str, replays: Replays) -> bool:
    """Return whether a recorded run answers for every value of a parameter."""
    parameter = branch.space.get(name)
    return name in replays.free or (parameter is not None and parameter.joins in replays.free)
