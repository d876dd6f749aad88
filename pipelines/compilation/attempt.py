"""One attempt at a compilation: comparison before, optimizer on its budget, comparison after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.calls import Usage, metered
from ...modules.base.errors import UserError, said_by
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...optimizers.prompts.candidates import Candidates, PromptCandidate, candidate_row, prompts_of
from ...optimizers.prompts.metric import Metric
from ...optimizers.prompts.optimizers import Bench, PromptOptimizer
from ...optimizers.prompts.proposer import ProposalAdapter, Proposer
from ...optimizers.prompts.student import CallControl, Halted, Student
from ..base.budget import Account, BudgetSpent
from ..base.journal import write_json
from ..base.wording import counted
from ..evaluation.answering import taken_at_once
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import evaluate
from ..lms.ledger import totals
from ..runs.books import Books
from ..runs.progress import Progress
from ..tracking.uploads import ModelUpload, Tracker
from .budget import first_share, kept_back, minus, without_reserve
from .logged import candidates_of, compilation_uploads
from .outcome import Compilation, compared, summed, verdict_on
from .record import CANDIDATES, PROMPTS, Lines, Proposals, logged, prompts_page

COMPILE, PROGRAM, BEFORE, AFTER = "compile.json", "program", "before", "after"


@dataclass
class Compiling:
    """Where a running compilation stands: handed to `progress`.

    `phase` is `before`, `optimize` or `after`; `evaluation` is the state of the evaluation in the first and
    the last; `best` is the best selection score so far (0 to 1), `given` that of the program as it was given.
    """

    phase: str
    candidates: int = 0
    scorings: int = 0
    best: float | None = None
    given: float | None = None
    usage: Usage = field(default_factory=Usage)
    evaluation: Progress | None = None


Told = Callable[[Compiling], None]


@dataclass
class Work:
    """One attempt at a compilation, from the comparison before to the one after."""

    program: Program
    lm: Any
    task_lm: Any
    chosen: PromptOptimizer
    preset: str
    folder: Path
    books: Books
    tracker: Tracker
    seed: int
    concurrency: int
    tracking: bool
    settings: dict[str, Any]
    progress: Told | None
    stopped: str | None = None
    problem: BaseException | None = None
    before: Evaluation | None = None
    after: Evaluation | None = None

    def __post_init__(self) -> None:
        self.usage = Usage()
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []
        self._accounts: tuple[Account, ...] = ()

    def run(
        self,
        learn: list[Question],
        select: list[Question],
        validation: list[Question],
        prompt_lm: Any,
    ) -> None:
        """All three phases; what ends them early is left in `stopped` or `problem`."""
        given: Program = self.program.deepcopy()
        for _, part in given.named_sub_modules(dspy.Module):
            part._compiled = False  # DSPy hides the predictors of what another optimizer has compiled
        lines = Lines(self.folder / CANDIDATES, "key")
        proposals = Proposals(self.folder)
        self.candidates = Candidates(given, select, lambda one: self._found(lines, one, True))
        self._optimizing = self._share_out()
        try:
            self.before = self._evaluate(given, validation, BEFORE, self._first)
            if self.before is not None:
                self._check_alive(self.before)
            self._hold_back()
            self._optimize(given, learn, select, prompt_lm, proposals)
            best = self.candidates.best()
            if self.problem is None and self.before is not None:
                if best.name == self.candidates.first:
                    self.after = self.before
                else:
                    total = (self.books.account,) if self.books.account is not None else ()
                    self.after = self._evaluate(best.program, validation, AFTER, total, best.name)
        except (KeyboardInterrupt, UserError) as problem:
            self.problem = problem
        except Exception as problem:
            problem.add_note(f"This ended the compilation in {self.folder}; what was found is kept.")
            self.problem = problem
        finally:
            for candidate in self.candidates:
                if candidate.scores and not self.candidates.complete(candidate) and self.problem is None:
                    self._found(lines, candidate, False)
            lines.close()
            proposals.close()

    def _share_out(self) -> tuple[Account, ...]:
        """Accounts of the first comparison and of the optimizer, opened now so that time counts from here."""
        total = self.books.account
        if total is None:
            self._first: tuple[Account, ...] = ()
            return ()
        self._first = (Account(first_share(total.budget), totals(self.folder / BEFORE)), total)
        spent = minus(total.spent, self._spent_after())
        return (Account(total.budget, spent), total)

    def _spent_after(self) -> Usage:
        spent = Usage()
        for folder in (self.folder / AFTER).glob("*/"):
            spent.add(totals(folder))
        return spent

    def _hold_back(self) -> None:
        """Leave the optimizer what the comparison after will not need."""
        if self._optimizing and self.before is not None:
            mine, total = self._optimizing
            took = totals(self.folder / BEFORE)
            mine.budget = without_reserve(total.budget, took, time.monotonic() - mine._began)
            mine.spent = minus(total.spent, self._spent_after())

    def _evaluate(
        self,
        program: Program,
        questions: list[Question],
        name: str,
        accounts: tuple[Account, ...],
        candidate: str = "",
    ) -> Evaluation | None:
        """An evaluation on held-out questions, as a run under this one; None without any.

        Of what came out each candidate has a folder: with a larger budget another one may win.
        """
        if not questions:
            return None
        state = self._state(name)

        def told(progress: Progress) -> None:
            state.evaluation = progress
            if self.progress is not None:
                self.progress(state)

        self._accounts = accounts
        with self._within():
            found = evaluate(
                program,
                questions,
                lm=self.lm,
                concurrency=self.concurrency,
                out=self.folder / name / candidate,
                cache=self.books.cache is not None,
                tracking=self.tracking,
                parent=self.tracker.run_id,
                settings={**self.settings, "command": "compile", "run_name": f"{name} {self.chosen.name}"},
                progress=told,
            )
        if found.summary.stopped and accounts and name == AFTER:
            self.stopped = self.stopped or found.summary.stopped
        return found

    def _check_alive(self, before: Evaluation) -> None:
        counts = before.summary.counts
        if counts["rows"] and counts["errors"] == counts["rows"]:
            error = next(before.rows)["error"]
            raise UserError(f"every held-out question failed, the first because {error}: mend the cause")

    @contextmanager
    def _within(self) -> Iterator[None]:
        """What every call of this run is made in, in whatever thread."""
        with self.books.used(self._accounts), metered() as usage:
            try:
                yield
            finally:
                with self._lock:
                    self.usage.add(usage)

    def _optimize(
        self,
        given: Program,
        learn: list[Question],
        select: list[Question],
        prompt_lm: Any,
        proposals: Proposals,
    ) -> None:
        self._accounts = self._optimizing
        control = CallControl(self._within)
        student = Student(given.deepcopy(), control)
        seats = {id(seat.predict): name for name, seat in student.program.seats().items()}
        names = {name: seats.get(id(one), name) for name, one in student.named_predictors()}
        metric = Metric(self._scored, names)
        threads = max(1, min(self.concurrency, taken_at_once(given, self.lm)))
        bench = Bench(
            student=student,
            learn=learn,
            select=select,
            metric=metric,
            proposer=Proposer(prompt_lm, control, proposals),
            settings=self.chosen.presets[self.preset],
            threads=threads,
            seed=self.seed,
        )
        score = dspy.Evaluate(devset=select, metric=metric, num_threads=threads)
        self._tell()
        settings = dspy.context(
            lm=self.task_lm,
            adapter=ProposalAdapter(given),
            disable_history=True,
            trace=None,
            callbacks=[],
            max_errors=10**9,  # Student makes wrong answers of failures, and counts them itself
            warn_on_type_mismatch=False,
        )
        try:
            with logged(self.folder), settings:
                score(student)
                for one in self.chosen.run(bench):
                    score(one)
        except Halted:
            pass
        except KeyboardInterrupt as problem:
            control.halt(problem)
        except Exception as problem:
            if control.problem is None:
                raise
            del problem  # what a library made of being halted
        if isinstance(control.problem, BudgetSpent):
            self.stopped = self._spent(control.problem)
        elif control.problem is not None:
            self.problem = control.problem

    def _spent(self, problem: BudgetSpent) -> str:
        """Why the optimizer was stopped; its part of the budget is nothing that the user has named."""
        mine, total = self._optimizing or (None, None)
        if mine is None or total is None or mine.uncounted or str(total.budget) == str(mine.budget):
            return str(problem)
        return (
            f"budget {total.budget} spent ({counted(total.spent.calls, 'call')} so far) but for "
            f"{kept_back(total.budget, mine.budget)} kept back to ask the result the held-out questions: the "
            "best so far is kept; a larger budget goes on from there"
        )

    def _scored(self, question: Question, prediction: Any, value: float) -> None:
        self.candidates.scored(question, prediction, value)
        self._tell()

    def _found(self, lines: Lines, candidate: PromptCandidate, complete: bool) -> None:
        row = candidate_row(self.candidates.selected(candidate) if complete else candidate, complete)
        lines.add(row)
        self._rows.append(row)
        self.tracker.live(lambda: candidates_of(self._rows))
        self._tell()

    def _state(self, phase: str) -> Compiling:
        return Compiling(phase, usage=self.usage)

    def _tell(self) -> None:
        if self.progress is None:
            return
        known = self.candidates
        first = known[known.first]
        scores = [known.selected(one).score for one in known if one.scores and known.complete(one)]
        given = known.selected(first).score if first.scores else None
        self.progress(
            Compiling("optimize", len(known), known.scorings, max(scores, default=None), given, self.usage)
        )

    def finish(self, about: Mapping[str, Any], began: float) -> Program:
        """Save the best program and all there is to say of it, and log the end; the program is returned."""
        best = self.candidates.best()
        first = self.candidates[self.candidates.first]
        program: Program = best.program.deepcopy()
        kept = best.name == first.name
        pair = compared(self.before, self.after)
        if self.problem is not None:
            why = "interrupted" if isinstance(self.problem, KeyboardInterrupt) else said_by(self.problem)
            self.stopped = why
        gain, verdict = verdict_on(
            pair,
            kept,
            about["questions"]["validation"],
            tried=sum(one.name != first.name and bool(self._selected(one).scores) for one in self.candidates),
            answered=self.before.summary.counts["rows"] if self.before is not None else 0,
            stopped=self.stopped is not None,
        )
        result = Compilation(
            folder=self.folder,
            optimizer=self.chosen.name,
            preset=self.preset,
            winner="given" if kept else "compiled",
            verdict=verdict,
            gain=gain,
            selection={
                "given": self._score(first),
                "winner": self._score(best),
                "candidate": best.name,
            },
            before=summed(self.before),
            after=summed(self.after),
            comparison=None if pair is None else pair.to_dict(),
            candidates=len(self.candidates),
            calls_made=self.books.paid.calls,
            calls_saved=self.usage.cached_calls,
            paid=self.books.paid.to_dict(),
            settings={**self.chosen.presets[self.preset], "seed": self.seed, **about["questions"]},
            seconds=round(time.monotonic() - began, 3),
            stopped=self.stopped,
            mlflow_run_id=self.tracker.run_id,
        )
        prompts = prompts_of(program)
        title = f"{self.chosen.name} {self.preset}: {result.winner} program"
        page = prompts_page(title, prompts)
        (self.folder / PROMPTS).write_text(page, encoding="utf-8", errors="backslashreplace")
        write_json(self.folder / "prompts.json", prompts)
        program.save(self.folder / PROGRAM)
        document = {**about, "mlflow_run_id": self.tracker.run_id, "result": result.to_dict()}
        write_json(self.folder / COMPILE, document)
        status = "FINISHED" if self.stopped is None else "KILLED"
        self.tracker.end(
            compilation_uploads(result, self._rows), status, self.folder, ModelUpload(program, lm=self.lm)
        )
        result.mlflow_run_id = self.tracker.run_id
        program.compilation = result
        return program

    def _selected(self, candidate: PromptCandidate) -> PromptCandidate:
        return self.candidates.selected(candidate)

    def _score(self, candidate: PromptCandidate) -> dict[str, float] | None:
        chosen = self._selected(candidate)
        if not chosen.scores:
            chosen = candidate
        if not chosen.scores:
            return None
        low, high = chosen.interval()
        return {"value": chosen.score, "low": low, "high": high, "n": len(chosen.scores)}
