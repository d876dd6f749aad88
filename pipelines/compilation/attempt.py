"""One attempt at a compilation: comparison before, optimizer on its budget, comparison after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dspy

from ...modules.base.calls import Usage, asking, metered
from ...modules.base.errors import UserError, said_by
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from ...modules.reading.grading import Graded
from ...modules.reading.question import Question
from ...optimizers.prompts.candidates import Candidates, PromptCandidate, candidate_row, prompts_of
from ...optimizers.prompts.metric import OptimizerMetric
from ...optimizers.prompts.optimizers import Bench
from ...optimizers.prompts.proposer import ProposalAdapter, Proposer
from ...optimizers.prompts.student import CallControl, Halted, Student
from ..base.budget import Account, BudgetSpent
from ..base.display import ProgressLine
from ..base.journal import write_json
from ..base.run_files import ScoreFields
from ..base.wording import counted, money
from ..evaluation.answering import METRIC, lms_in, useful_concurrency
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import evaluate
from ..lms.foreign import metering
from ..lms.ledger import totals
from ..runs.lines import Progress, evaluation_line
from ..tracking.context import ABOVE
from ..tracking.run import Run
from .budget import first_share, kept_back, without_reserve
from .outcome import COMPILE, PROGRAM, Compilation, compared, summed, verdict_on
from .plan import CompilationPlan
from .record import CANDIDATES, PROMPTS, Lines, Proposals, logged, prompts_page

BEFORE, AFTER = "before", "after"


@dataclass
class Compiling:
    """Where a running compilation stands: handed to `progress`.

    `phase` is `before`, `optimize` or `after`; `evaluation` is the state of the evaluation in the
    first and the last; `best` is the best selection score so far (0 to 1), `given` that of the
    program as it was given.
    """

    phase: str
    candidates: int = 0
    scorings: int = 0
    best: float | None = None
    given: float | None = None
    usage: Usage = field(default_factory=Usage)
    evaluation: Progress | None = None


def compiling_line(state: Compiling) -> ProgressLine:
    """Phase, what is done, scores so far, calls and cost."""
    label = {"before": "held out, before", "after": "held out, after"}.get(state.phase, "optimizer")
    if state.evaluation is not None:
        return evaluation_line(label, state.evaluation)
    return ProgressLine(label, _parts(state))


def _parts(state: Compiling) -> Iterator[str]:
    yield f"{state.candidates:,} candidates, {state.scorings:,} answers scored"
    if state.best is not None and state.given is not None:
        yield f"best {state.best:.1%} (given {state.given:.1%})"
    cached = state.usage.cached_calls
    yield f"{state.usage.calls - cached:,} calls{f' and {cached:,} cached' if cached else ''}"
    yield money(state.usage.cost_usd)


@dataclass
class Attempt:
    """One attempt at a compilation, from the comparison before to the one after.

    `under_way` is the open run; its `about` is what `compile.json` says of it, but for the result.
    """

    plan: CompilationPlan
    under_way: Run[dict[str, Any]]
    progress: Callable[[Compiling], None]
    began: float
    stopped: str | None = None
    problem: BaseException | None = None
    before: Evaluation | None = None
    after: Evaluation | None = None

    def __post_init__(self) -> None:
        self.program, self.metric, self.chosen = (
            self.plan.program,
            self.plan.metric,
            self.plan.chosen,
        )
        self.folder, self.books = self.under_way.folder, self.under_way.books
        self.about = self.under_way.about
        self.usage = Usage()
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []
        self._accounts: tuple[Account, ...] = ()

    def run(self) -> None:
        """All three phases; what ends them early is left in `stopped` or `problem`."""
        given = _open_copy(self.program)
        with (
            closing(Lines(self.folder / CANDIDATES, "key")) as self._lines,
            closing(Proposals(self.folder)) as proposals,
        ):
            self.candidates = Candidates(
                given, self.plan.select, lambda one: self._found(one, True)
            )
            try:
                self._compare_and_optimize(given, proposals)
            except (KeyboardInterrupt, UserError) as problem:
                self.problem = problem
            except Exception as problem:
                problem.add_note(
                    f"This ended the compilation in {self.folder}; what was found is kept."
                )
                self.problem = problem
            for candidate in self.candidates:
                if (
                    candidate.scores
                    and not self.candidates.complete(candidate)
                    and self.problem is None
                ):
                    self._found(candidate, False)

    def _compare_and_optimize(self, given: Program, proposals: Proposals) -> None:
        total = self.books.account
        first: Account | None = None
        self._share: Account | None = None  # what the comparison after does not need
        if total is not None:  # time counts from here for all three
            first = Account(first_share(total.budget), totals(self.folder / BEFORE))
            self._share = Account(total.budget)
        self.before = self._evaluate(given, BEFORE, first)
        counts = self.before.summary.counts if self.before is not None else {"rows": 0, "errors": 0}
        if self.before is not None and 0 < counts["rows"] == counts["errors"]:
            error = self.before.rows[0]["error"]
            raise UserError(
                f"every held-out question failed, the first because {error}: fix the cause"
            )
        if total is not None and self._share is not None:
            spent_after = Usage()
            for folder in (self.folder / AFTER).glob("*/"):
                spent_after.add(totals(folder))
            self._share.spent = total.spent.without(spent_after)
            if self.before is not None:
                took, seconds = totals(self.folder / BEFORE), time.monotonic() - self._share._began
                self._share.budget = without_reserve(total.budget, took, seconds)
        self._optimize(given, proposals)
        best = self.candidates.best()
        if self.problem is None and self.before is not None:
            if best.name == self.candidates.first:
                self.after = self.before
            else:
                self.after = self._evaluate(best.program, AFTER, None, best.name)
                if total is not None and self.after is not None:
                    self.stopped = self.stopped or self.after.summary.stopped

    def _pay_from(self, own: Account | None) -> None:
        """The calls from here on are paid from an account of their own, if any, and from that of
        all.
        """
        self._accounts = tuple(each for each in (own, self.books.account) if each is not None)

    def _evaluate(
        self, program: Program, phase: str, account: Account | None, candidate: str = ""
    ) -> Evaluation | None:
        """An evaluation on held-out questions, as a run under this one; None without any.

        Of what came out each candidate has a folder: with a larger budget another one may win.
        """
        if not self.plan.validation:
            return None
        state = Compiling(phase, usage=self.usage)

        def show(progress: Progress) -> None:
            state.evaluation = progress
            self.progress(state)

        named = {"command": "compile", "run_name": None, "label": f"{phase} {self.chosen.name}"}
        same = {key: self.about[key] for key in ("optimizer", "preset")}
        self._pay_from(account)
        with self._within():
            return evaluate(
                program,
                self.plan.validation,
                lm=self.plan.lm,
                metric=self.metric,
                concurrency=self.plan.request.concurrency,
                out=self.folder / phase / candidate,
                cache=self.books.cache is not None,
                tracking=self.plan.request.tracking,
                parent=ABOVE,
                settings={**self.about["settings"], **same, **named},
                progress=show,
            )

    @contextmanager
    def _within(self) -> Iterator[None]:
        """What every call of this run is made in, in whatever thread."""
        with self.books.used(self._accounts), metered() as usage:
            try:
                yield
            finally:
                with self._lock:
                    self.usage.add(usage)

    def _optimize(self, given: Program, proposals: Proposals) -> None:
        self._pay_from(self._share)
        control = CallControl(self._within)
        student = Student(given.deepcopy(), control)
        seats = {id(seat.predict): name for name, seat in student.program.seats().items()}
        names = {name: seats.get(id(one), name) for name, one in student.named_predictors()}

        # With all that a metric may look at, which no LM is shown.
        whole = {question.id: question for question in self.plan.train}

        def grade(gold: Question, *told: Any) -> Graded:
            # a metric that gives no score ends the compilation
            with control.working(), asking(seat=METRIC):
                return self.metric.grade_now(whole[gold.id], *told)

        metric = OptimizerMetric(self._scored, names, None if self.metric.default else grade)
        threads = max(1, useful_concurrency(self.plan.request.concurrency, given, self.plan.lm))
        bench = Bench(
            student=student,
            learn=self.plan.learn,
            select=self.plan.select,
            metric=metric,
            proposer=Proposer(self.plan.prompt_lm, control, proposals),
            settings=self.chosen.presets[self.about["preset"]],
            threads=threads,
            seed=self.about["seed"],
            teacher=self._teacher(control),
        )
        score = dspy.Evaluate(devset=self.plan.select, metric=metric, num_threads=threads)
        self._show()
        lms = [*lms_in(student.program, self.plan.lm), self.plan.task_lm, self.plan.prompt_lm]
        lms += lms_in(bench.teacher.program, self.plan.lm) if bench.teacher else []
        settings = dspy.context(
            lm=self.plan.task_lm,
            adapter=ProposalAdapter(given),
            disable_history=True,
            trace=None,
            callbacks=[],
            max_errors=10**9,  # Student makes wrong answers of failures, and counts them itself
            warn_on_type_mismatch=False,
        )
        try:
            with logged(self.folder), settings, metering(lms, isinstance(given, Foreign)):
                score(student)
                for one in self.chosen.run(bench):
                    score(one)
        except Halted:
            pass
        except KeyboardInterrupt as problem:
            control.halt(problem)
        except Exception:
            if control.problem is None:
                raise  # else it is what a library made of being halted
        if isinstance(control.problem, BudgetSpent):
            self.stopped = self._spent(control.problem)
        elif control.problem is not None:
            self.problem = control.problem

    def _teacher(self, control: CallControl) -> Student | None:
        """The program that writes the demonstrations, which is not a candidate."""
        if self.plan.teacher is None:
            return None
        teacher = Student(self.plan.teacher.deepcopy(), control)
        teacher.sampled = True
        # DSPy adds labelled questions to one without demonstrations of its own
        teacher._compiled = any(one.demos for one in teacher.predictors())
        return teacher

    def _spent(self, problem: BudgetSpent) -> str:
        """Why the optimizer was stopped; its part of the budget is nothing that the user
        has named.
        """
        share, total = self._share, self.books.account
        if (
            share is None
            or total is None
            or share.uncounted
            or str(total.budget) == str(share.budget)
        ):
            return str(problem)
        return (
            f"budget {total.budget} spent ({counted(total.spent.calls, 'call')} so far) but for "
            f"{kept_back(total.budget, share.budget)} kept back to ask the result the held-out "
            f"questions: "
            "the best so far is kept; a larger budget goes on from there"
        )

    def _scored(self, question: Question, prediction: Any, value: float) -> None:
        self.candidates.scored(question, prediction, value)
        self._show()

    def _found(self, candidate: PromptCandidate, complete: bool) -> None:
        row = candidate_row(
            self.candidates.selected(candidate) if complete else candidate, complete
        )
        self._lines.add(row)
        self._rows.append(row)
        best = max(known["score"] for known in self._rows)
        self.under_way.tracking.show(
            len(self._rows), {"candidates": float(len(self._rows)), "best": best}
        )
        self._show()

    def _show(self) -> None:
        known = self.candidates
        first = known[known.first]
        scores = [known.selected(one).score for one in known if one.scores and known.complete(one)]
        given = known.selected(first).score if first.scores else None
        self.progress(
            Compiling(
                "optimize", len(known), known.scorings, max(scores, default=None), given, self.usage
            )
        )

    def finish(self, show: Callable[[Compilation], None] | None = None) -> Program:
        """Save the best program and all there is to say of it, and log the end; the program is
        returned.
        """
        candidates, about = self.candidates, self.about
        best, first = candidates.best(), candidates[candidates.first]
        program = _open_copy(best.program)
        kept = best.name == first.name
        pair = compared(self.before, self.after)
        if self.problem is not None:
            interrupted = isinstance(self.problem, KeyboardInterrupt)
            self.stopped = "interrupted" if interrupted else said_by(self.problem)
        gain, verdict = verdict_on(
            pair,
            kept,
            about["questions"]["validation"],
            tried=sum(
                one.name != first.name and bool(candidates.selected(one).scores)
                for one in candidates
            ),
            answered=self.before.summary.counts["rows"] if self.before is not None else 0,
            stopped=self.stopped is not None,
        )
        preset, paid = about["preset"], self.books.paid
        result = Compilation(
            folder=self.folder,
            optimizer=self.chosen.name,
            preset=preset,
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
            candidates=len(candidates),
            calls_made=paid.calls,
            calls_saved=self.usage.cached_calls,
            paid=paid.to_dict(),
            settings={**self.chosen.presets[preset], "seed": about["seed"], **about["questions"]},
            seconds=round(time.monotonic() - self.began, 3),
            stopped=self.stopped,
            mlflow_run_id=self.under_way.tracking.run_id,
        )
        prompts = prompts_of(program)
        page = prompts_page(f"{self.chosen.name} {preset}: {result.winner} program", prompts)
        (self.folder / PROMPTS).write_text(page, encoding="utf-8", errors="backslashreplace")
        write_json(self.folder / "prompts.json", prompts)
        program.save(self.folder / PROGRAM)
        write_json(self.folder / COMPILE, {**about, "result": result.to_dict()})
        self.under_way.end(None if show is None else partial(show, result))
        result.mlflow_run_id = self.under_way.tracking.run_id
        program.compilation = result
        return program

    def _score(self, candidate: PromptCandidate) -> ScoreFields | None:
        selected = self.candidates.selected(candidate)
        chosen = selected if selected.scores else candidate
        if not chosen.scores:
            return None
        low, high = chosen.interval()
        score: ScoreFields = {
            "value": chosen.score,
            "low": low,
            "high": high,
            "n": len(chosen.scores),
        }
        if not (self.metric.default or set(chosen.scores.values()) <= {0.0, 1.0}):
            score["rate"] = False
        return score


def _open_copy(program: Program) -> Program:
    """A copy without compiled parts, whose predictors DSPy would hide and leave out of its
    states.
    """
    copied: Program = program.deepcopy()
    for _, part in copied.named_sub_modules(dspy.Module):
        part._compiled = False
    return copied
