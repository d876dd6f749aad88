"""One attempt at a compilation: comparison before, optimizer on its budget, comparison after."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import dspy

from ...modules.base.calls import EndpointDown, Usage, asking, metered
from ...modules.base.errors import UserError, said_by
from ...modules.base.usage import total as sum_of
from ...modules.protocols.declaration import Trainable
from ...modules.protocols.program import Program
from ...modules.reading.grading import Graded, MetricError
from ...modules.reading.question import Question
from ...optimizers.prompts.candidates import Candidates, PromptCandidate, candidate_row, prompts_of
from ...optimizers.prompts.metric import OptimizerMetric
from ...optimizers.prompts.optimizers import Bench
from ...optimizers.prompts.proposer import ProposalAdapter, Proposer
from ...optimizers.prompts.student import CallControl, Halted, Student, TeamTeacher
from ..base.account import Account
from ..base.budget import Budget, BudgetSpent
from ..base.journal import write_json
from ..base.run_files import ScoreFields, books_of, score_fields
from ..base.wording import ProgressLine, paused
from ..evaluation.answering import METRIC, lms_in, useful_concurrency
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import evaluate
from ..lms.foreign import metering
from ..lms.ledger import totals
from ..lms.store import books_around
from ..runs.caveats import run_failed
from ..runs.describe import save_with_lm
from ..runs.lines import Progress, evaluation_line, spent
from ..runs.summary import Ending
from ..tracking.context import ABOVE, to_show
from ..tracking.run import Run
from .card import COMPILE, PROGRAM, PROMPTS
from .outcome import COMPILED, GIVEN, Compilation, compared, summed, verdict_on
from .plan import MOST_ROUNDS, CompilationPlan, answers_alike, plan_compilation
from .record import CANDIDATES, PROPOSALS, Lines, Proposals, logged, prompts_page

BEFORE, AFTER = "before", "after"
FIRST_SHARE = 1 / 3
"""The most that the comparison before may take of every ceiling."""

AFTERWARDS = 1.5
"""The second comparison is taken to cost so many times the first: demonstrations make prompts
longer.
"""

FEWEST_ROUTED = 8
"""A strategy of a network with fewer questions than this of its own is compiled on all of them."""


@dataclass
class Compiling:
    """The state of a running compilation, which `progress` gets.

    `phase` is `before`, `optimize` or `after`; in the first and the last, `evaluation` is the state
    of the evaluation. `best` is the best selection score so far (0 to 1), `given` that of the given
    program. `part` is the part of a strategy network that is being compiled or trained.
    """

    phase: str
    candidates: int = 0
    scorings: int = 0
    best: float | None = None
    given: float | None = None
    usage: Usage = field(default_factory=Usage)
    evaluation: Progress | None = None
    part: str = ""


def compiling_line(state: Compiling) -> ProgressLine:
    """Return the progress of a compilation: phase, what is done, scores so far, calls and cost."""
    if state.evaluation is not None:
        return evaluation_line(f"held out, {state.phase}", state.evaluation)
    parts = [f"{state.candidates:,} candidates, {state.scorings:,} answers"]
    if state.best is not None and state.given is not None:
        parts.append(f"best {state.best:.1%} (given {state.given:.1%})")
    parts.append(spent(state.usage))
    return ProgressLine(state.part or "optimizer", parts)


@dataclass
class Attempt:
    """One attempt at a compilation: an evaluation on held-out questions, the optimizer, and another
    evaluation.

    `under_way` is the open run; its `about` is the content of `compile.json` without the result.
    `compile_part` compiles a program among which a strategy network chooses.
    """

    plan: CompilationPlan
    under_way: Run[dict[str, object]]
    progress: Callable[[Compiling], None]
    began: float
    compile_part: Callable[[CompilationPlan], Program]
    stopped: str | None = None
    short: bool = False  # the budget ended it
    problem: BaseException | None = None
    before: Evaluation | None = None
    after: Evaluation | None = None

    def __post_init__(self) -> None:
        self.folder, self.books = self.under_way.folder, self.under_way.books
        self.about, self.usage = self.under_way.about, Usage()
        self._lock = threading.Lock()
        self._accounts: list[Account] = []
        self._share: Account | None = None  # what the search may spend
        self._line: Account | None = None  # the same, but with enough left for the evaluation after

    def run(self) -> None:
        """Run all three phases; what ends them early is left in `stopped` or `problem`."""
        # A copy, since optimizers change the program that they are given.
        program = _open_copy(self.plan.program)
        with (
            closing(Lines(self.folder / CANDIDATES)) as self._lines,
            closing(Proposals(books_of(self.folder) / PROPOSALS)) as proposals,
        ):
            self.candidates = Candidates(
                program, self.plan.select, lambda candidate: self._note(candidate, True)
            )
            try:
                self._compare_and_optimize(program, proposals)
            except EndpointDown as problem:
                self._note_end(problem)
            except (KeyboardInterrupt, UserError) as problem:
                self.problem = problem
            except Exception as problem:
                problem.add_note(
                    f"This ended the compilation in {self.folder}; the best so far is kept."
                )
                self.problem = problem
            # The next attempt will score the rest, and must not find unfinished rows.
            if self.problem is not None:
                return
            # Keep the candidates that were not scored on all questions, and so not compared.
            for candidate in self.candidates:
                if candidate.scores and not self.candidates.complete(candidate):
                    self._note(candidate, False)

    def _compare_and_optimize(self, program: Program, proposals: Proposals) -> None:
        total = self.books.account
        first: Account | None = None
        if total is not None:  # time counts from here for all three
            first = Account(total.budget.part(FIRST_SHARE), totals(self.folder / BEFORE))
            self._share = Account(total.budget, whole=total.budget)
            self._line = Account(total.budget, self._share.spent)
        self.before = self._evaluate(program, BEFORE, first)
        if self.before is not None and self.before.summary.counts.rows and self.before.empty:
            raise UserError(
                "every held-out question failed, the first because "
                f"{self.before.rows[0]['error']}: fix the cause"
            )
        if self.before is not None and self.before.summary.ending == Ending.PAUSED:
            self.stopped = self.before.summary.stopped
            return
        if total is not None and self._share is not None and self._line is not None:
            # Without what an earlier attempt paid for its evaluation after, which is no search.
            spent_after = sum_of(totals(folder) for folder in (self.folder / AFTER).glob("*/"))
            self._share.spent = self._line.spent = total.spent.without(spent_after)
            if self.before is not None:
                took, seconds = totals(self.folder / BEFORE), time.monotonic() - self._share._began
                self._line.budget = without_reserve(total.budget, took, seconds)
        if self.plan.learning is None:
            self._optimize(program, proposals, self.plan.chosen.run)
        else:
            self._learn_together(program, proposals, self.plan.learning)
        if self.problem is not None:
            return
        # Chosen on the selection questions alone, since the held-out ones will judge it.
        best = self.candidates.best()
        # If the given program is the best, its evaluation is both.
        if self.before is None or best.name == self.candidates.first:
            self.after = self.before
            return
        self.after = self._evaluate(best.program, AFTER, None, best.name)
        if self.after is not None:
            self.stopped = self.stopped or self.after.summary.stopped
            self.short = self.short or self.after.summary.ending == Ending.STOPPED

    def _pay_from(self, own: Account | None) -> None:
        """Charge the calls from here on to this account, if any, and to that of the whole run."""
        self._accounts = [each for each in (own, self.books.account) if each is not None]

    def _evaluate(
        self, program: Program, phase: str, account: Account | None, candidate: str = ""
    ) -> Evaluation | None:
        """Return the evaluation of a program on the held-out questions, as a run below this one;
        None without held-out questions.

        Each `candidate` has its own folder, since with a larger budget another one may win.
        """
        if not self.plan.validation:
            return None
        state = Compiling(phase, usage=self.usage)

        def show(progress: Progress) -> None:
            state.evaluation = progress
            self.progress(state)

        request = self.plan.request
        named = request.named("optimizer", "preset") if phase == AFTER else dict[str, object]()
        named |= {
            "command": "compile",
            "run_name": None,
            "label": f"{phase} {self.plan.chosen.name}",
        }
        self._pay_from(account)
        with self._within():
            return evaluate(
                program,
                self.plan.validation,
                lm=self.plan.lm,
                metric=self.plan.metric,
                concurrency=request.concurrency,
                out=self.folder / phase / candidate,
                cache=self.books.cache is not None,
                tracking=request.tracking,
                parent=ABOVE,
                settings={**self.plan.settings, **named},
                progress=show,
            )

    def _pay_for_search(self) -> None:
        self._keep_reserve()
        self._pay_from(self._share)

    def _keep_reserve(self) -> None:
        """Once a candidate is ahead of the given program, reserve what the evaluation after the
        search needs; without one, there will be none.
        """
        ahead = self.candidates.best().name != self.candidates.first
        if ahead and self._share is not None and self._line is not None:
            self._share.budget = self._line.budget

    @contextmanager
    def _within(self) -> Iterator[None]:
        """The block in which every call of this run is made, in any thread."""
        # Only once the reserve is reached, since the best of many candidates takes a while to find.
        if self._line is not None and self._line.is_spent:
            self._keep_reserve()
        with self.books.used(tuple(self._accounts)), metered() as usage:
            try:
                yield
            finally:
                with self._lock:
                    self.usage.add(usage)

    def _learn_together(self, program: Program, proposals: Proposals, learning: Trainable) -> None:
        """Compile the prompts of each strategy and train the policy on their answers, in rounds, as
        long as that is better on the selection questions.
        """
        self._optimize(program, proposals, _nothing)
        if self.stopped is not None or self.problem is not None:
            return
        # In rounds, since a strategy's prompts depend on the questions that it is given, and these
        # on its prompts.
        for number in range(1, MOST_ROUNDS + 1):
            best = self.candidates.best()
            try:
                taught = self._teach(best.program, learning, number)
            except (BudgetSpent, EndpointDown) as problem:
                self._note_end(problem)
                return
            if taught is None:
                return
            self._optimize(taught, proposals, _nothing)
            if self.stopped is not None or self.candidates.best().name == best.name:
                return

    def _teach(self, program: Program, learning: Trainable, number: int) -> Program | None:
        """Return a copy with compiled prompts and a policy that was trained with them; None if the
        budget ended that. From the second round on, a strategy learns from the questions that the
        policy gives it.
        """
        taught = learning.fresh(program)
        home, learn, shown = self.folder / f"round-{number}", self.plan.learn, set[str]()
        state = Compiling("optimize", usage=self.usage)

        def show(part: str, compiling: Compiling) -> None:
            self.progress(replace(compiling, part=part, usage=self.usage))

        self._pay_for_search()
        with self._within():
            routed = taught.routed(learn) if number > 1 else dict[str, list[Question]]()
            for place, (name, part) in enumerate(self.plan.parts.items()):
                member, own = taught.members[name], routed.get(name, [])
                if len(own) < FEWEST_ROUTED:
                    own = learn
                folder = re.sub(r"[^\w.-]+", "-", f"{place:02}-{name}")
                # Another seed, since with that of the last round the optimizer would draw the same.
                request = replace(
                    part.request,
                    program=member,
                    train=own,
                    seed=part.request.seed + number - 1,
                    out=home / folder,
                    progress=partial(show, f"round {number}, {name}"),
                )
                compiled = self.compile_part(plan_compilation(request))
                made = compiled.compilation
                if made.paused:
                    self.stopped = made.stopped
                elif made.stopped is not None:
                    self._note_end(BudgetSpent(made.stopped))
                # A strategy that is only half compiled could not be compared with the others.
                if self.stopped is not None:
                    return None
                pairs = zip(member.predictors(), compiled.predictors(), strict=True)
                for predictor, better in pairs:
                    predictor.signature, predictor.demos = better.signature, better.demos
                    shown |= {str(demo.get("question")) for demo in better.demos}
            # Without the questions in demonstrations, which a strategy answers by heart: the policy
            # would learn to prefer it for that.
            show(f"round {number}, policy", state)
            learning.teach(
                taught,
                [question for question in learn if question.question not in shown],
                home / "policy",
                lm=self.plan.lm,
                cache=self.books.cache is not None,
                tracking=self.plan.request.tracking,
                parent=ABOVE,
            )
        program_taught: Program = taught
        return program_taught

    def _optimize(
        self, program: Program, proposals: Proposals, search: Callable[[Bench], list[Student]]
    ) -> None:
        """Score the program, and the candidates that a search makes of it."""
        self._pay_for_search()
        control = CallControl(self._within)
        student = Student(program.deepcopy(), control)
        seats = {id(seat.predict): name for name, seat in student.program.seats().items()}
        # For the metric, which names agents where DSPy names predictors.
        named = student.named_predictors()
        names = {name: seats.get(id(predictor), name) for name, predictor in named}

        # The whole questions for the metric, of which an LM is not shown everything.
        questions = {question.id: question for question in self.plan.train}

        def grade(gold: Question, *answer: object) -> Graded:
            # A metric that gives no score ends the compilation.
            with control.working(), asking(seat=METRIC):
                try:
                    return self.plan.metric.grade_now(questions[gold.id], *answer)
                except MetricError as problem:
                    raise UserError(f"{problem} on {gold.id!r}: fix the metric") from problem

        metric = OptimizerMetric(self._scored, names, None if self.plan.metric.default else grade)
        threads = max(1, useful_concurrency(self.plan.request.concurrency, program, self.plan.lm))
        bench = Bench(
            student=student,
            learn=self.plan.learn,
            select=self.plan.select,
            metric=metric,
            proposer=Proposer(self.plan.prompt_lm, control, proposals),
            settings=self.plan.chosen.presets[self.plan.request.preset],
            threads=threads,
            seed=self.plan.request.seed,
            teacher=self._teacher(control),
        )
        score = dspy.Evaluate(devset=self.plan.select, metric=metric, num_threads=threads)
        self._show()
        # All LMs that the optimizer may ask, to be metered; those of the teacher, too.
        lms = [self.plan.task_lm, self.plan.prompt_lm]
        for taught in (student.program, bench.teacher and bench.teacher.program, self.plan.teacher):
            if taught:
                lms += lms_in(taught, self.plan.lm)
        settings = dspy.context(
            lm=self.plan.task_lm,
            adapter=ProposalAdapter(program),
            disable_history=True,
            trace=None,
            callbacks=[],
            max_errors=10**9,  # `Student` turns failures into wrong answers, and counts them itself
            warn_on_type_mismatch=False,
        )
        try:
            with logged(self.folder), settings, metering(lms, program.foreign):
                # The given program is a candidate, too, and wins if none is better.
                score(student)
                # On all selection questions, since an optimizer itself scores on samples.
                for candidate in search(bench):
                    score(candidate)
        except Halted:
            pass
        except KeyboardInterrupt as problem:
            control.halt(problem)
        except Exception:
            if control.problem is None:
                raise  # else a library raised it because the search was halted
        if control.problem is not None:
            self._note_end(control.problem)

    def _note_end(self, problem: BaseException) -> None:
        """Note the reason why the search ended."""
        if isinstance(problem, BudgetSpent):
            self.stopped, self.short = str(problem), True
        # If no call was ever answered, the address is more likely wrong than the endpoint down.
        elif isinstance(problem, EndpointDown) and self.books.paid.calls:
            self.stopped = paused(problem)
        else:
            self.problem = problem

    def _teacher(self, control: CallControl) -> Student | None:
        """Return the program that writes the demonstrations, which is not a candidate."""
        if self.plan.teacher is None:
            return None
        if not answers_alike(self.plan.program, self.plan.teacher):
            return TeamTeacher(self.plan.program.deepcopy(), self.plan.teacher, control)
        teacher = Student(self.plan.teacher.deepcopy(), control)
        teacher.sampled = True
        # DSPy adds labelled questions to a teacher that is not compiled.
        teacher._compiled = any(predictor.demos for predictor in teacher.predictors())
        return teacher

    def _scored(self, question: Question, prediction: object, value: float) -> None:
        self.candidates.scored(question, prediction, value)
        self._show()

    def _note(self, candidate: PromptCandidate, complete: bool) -> None:
        """Write a candidate with its scores into the folder."""
        selected = self.candidates.selected(candidate) if complete else candidate
        self._lines.add(candidate_row(selected, complete))
        rows = self._lines.rows.values()
        best = max(row["score"] for row in rows)
        self.under_way.tracking.show(len(rows), {self.plan.metric.name: best})
        self._show()

    def _show(self) -> None:
        candidates = self.candidates
        first = candidates[candidates.first]
        scores = list[float]()
        for candidate in candidates:
            # Not those with scores on some questions only, which may be high by chance.
            if candidate.scores and candidates.complete(candidate):
                scores.append(candidates.selected(candidate).score)
        given = candidates.selected(first).score if first.scores else None
        best, tried = max(scores, default=None), len(candidates)
        self.progress(Compiling("optimize", tried, candidates.scorings, best, given, self.usage))

    def finish(self, show: Callable[[Compilation], None] | None = None) -> Program:
        """Write the result and the program that won, and end the run; returns that program."""
        candidates, about = self.candidates, self.about
        best, first = candidates.best(), candidates[candidates.first]
        compiled, kept = _open_copy(best.program), best.name == first.name
        pair = compared(self.before, self.after)
        if isinstance(self.problem, KeyboardInterrupt):
            self.stopped = "interrupted"
        elif self.problem is not None:
            self.stopped = said_by(self.problem)
        # Without the given program, which is no attempt at a better one.
        tried = sum(bool(each.scores) for each in candidates if each.name != first.name)
        answered = 0
        if self.before is not None:
            answered = self.before.summary.counts.rows
        insists = self.plan.request.keep == COMPILED
        gain, back, verdict = verdict_on(
            pair,
            kept,
            len(self.plan.validation),
            tried=tried,
            answered=answered,
            stopped=self.stopped is not None,
            insists=insists,
            failed=self._failed(),
        )
        kept = kept or (back and not insists)
        program, winner = compiled, COMPILED
        if kept:
            program, winner = _open_copy(first.program), GIVEN
        preset, paid = self.plan.request.preset, self.books.paid
        result = Compilation(
            folder=self.folder,
            optimizer=self.plan.chosen.name,
            preset=preset,
            winner=winner,
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
            lost=self.books.lost.to_dict(),
            settings={
                **self.plan.chosen.presets[preset],
                "seed": self.plan.request.seed,
                **self.plan.counts,
            },
            seconds=round(time.monotonic() - self.began, 3),
            stopped=self.stopped,
            spent=self._ending_budget(),
            mlflow_run_id=self.under_way.tracking.run_id,
        )
        self._write_prompts(program, result)
        save_with_lm(program, self.folder / PROGRAM, self.plan.lm, self.plan.train)
        shutil.rmtree(self.folder / COMPILED, ignore_errors=True)  # of another outcome
        if back:
            save_with_lm(compiled, self.folder / COMPILED, self.plan.lm, self.plan.train)
        write_json(self.folder / COMPILE, {**about, "result": result.to_dict()})
        self.under_way.end(to_show(show, result))
        result.mlflow_run_id = self.under_way.tracking.run_id
        program.compilation = result
        return program

    def _write_prompts(self, program: Program, result: Compilation) -> None:
        """Write the prompts of the program that won, as a page and as JSON."""
        prompts = prompts_of(program)
        # An LM may have proposed lone surrogates, which UTF-8 cannot encode.
        page = prompts_page(f"{result.optimizer} {result.preset}: {result.winner} program", prompts)
        (self.folder / PROMPTS).write_text(page, encoding="utf-8", errors="backslashreplace")
        write_json(self.folder / "prompts.json", prompts)

    def _ending_budget(self) -> str | None:
        """Return the budget that ended it, the user's or that of a run around it; None if
        none did.
        """
        if not self.short:
            return None
        return str(self.plan.request.budget or books_around().accounts[0].budget)

    def _failed(self) -> str:
        """Return a sentence if too many of the given program's held-out questions failed; else
        empty.
        """
        if self.before is None:
            return ""
        counts = self.before.summary.counts
        finished = self.before.summary.finished
        return run_failed("the given program", counts.errors, counts.rows, finished)

    def _score(self, candidate: PromptCandidate) -> ScoreFields | None:
        chosen = self.candidates.selected(candidate)
        if not chosen.scores:
            chosen = candidate
        if not chosen.scores:
            return None
        score = score_fields(chosen.estimate(), len(chosen.scores))
        if not (self.plan.metric.default or set(chosen.scores.values()) <= {0.0, 1.0}):
            score["rate"] = False
        return score


def _nothing(bench: Bench) -> list[Student]:
    """Return a search without candidates of its own: only the given program is scored."""
    return []


def _open_copy(program: Program) -> Program:
    """Return a copy in which no part counts as compiled: DSPy hides the predictors of such
    parts.
    """
    copied: Program = program.deepcopy()
    for _, part in copied.named_sub_modules(dspy.Module):
        part._compiled = False
    return copied


def without_reserve(budget: Budget, before: Usage, seconds: float) -> Budget:
    """Return what comparison before and optimizer may take together: all but what the comparison
    after will need.

    That is AFTERWARDS times what the one before took (`before`, in `seconds`), at most a third.
    """
    most = vars(budget.part(FIRST_SHARE))
    took = {
        "usd": before.cost_usd or 0.0,
        "calls": before.calls,
        "tokens": before.tokens or 0,
        "seconds": seconds,
    }
    return budget.each(lambda name, ceiling: ceiling - min(AFTERWARDS * took[name], most[name]))
