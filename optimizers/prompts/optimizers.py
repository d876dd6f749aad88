"""DSPy's prompt optimizers by name, each with a light, a medium and a heavy preset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import log2
from types import SimpleNamespace
from typing import Any

import dspy
import optuna
from dspy.teleprompt.bootstrap_trace import bootstrap_trace_data
from dspy.teleprompt.gepa import InstructionProposer
from dspy.teleprompt.infer_rules import InferRules
from dspy.teleprompt.reanchor import ReAnchor

from ...modules.base.errors import UserError, checked_among, did_you_mean
from ...modules.base.registry import Registry
from ...modules.protocols.nearest import NearestDemos, Shown
from ...modules.reading.question import Question
from .candidates import demos_of
from .metric import OptimizerMetric
from .proposer import ProposalAdapter, Proposer
from .student import Student

PRESETS = ("light", "medium", "heavy")

FINALISTS = 3
"""How many of SIMBA's programs are scored on the selection questions, in addition to its best."""

Settings = Mapping[str, int]

Work = Callable[[SimpleNamespace], tuple[int, int]]
"""(a preset's settings, and the numbers of `learn` and `select` questions and `predictors`) → the
most questions answered, and the most proposals requested.
"""


@dataclass(frozen=True)
class Bench:
    """The inputs of an optimizer. `learn` are the questions for demonstrations and failures,
    `select` those for comparing candidates; `threads` is the number of questions in flight;
    `teacher` writes the demonstrations, by default the student itself.
    """

    student: Student
    learn: list[Question]
    select: list[Question]
    metric: OptimizerMetric
    proposer: Proposer
    settings: Settings
    threads: int
    seed: int
    teacher: Student | None = None

    def compiled(
        self, optimizer: dspy.teleprompt.Teleprompter, *, selecting: bool = True, **more: object
    ) -> dspy.Module:
        """Run DSPy's optimizer on the student, or on another one. It gets copies of the questions,
        since some optimizers shuffle them; only some accept questions to select by.
        """
        given = {"student": self.student, "trainset": list(self.learn)}
        if selecting:
            given["valset"] = list(self.select)
        return optimizer.compile(**given | more)

    @property
    def shown(self) -> dict[str, int]:
        """The most demonstrations in a prompt, as DSPy's settings of the two kinds."""
        settings = self.settings
        return {
            "max_bootstrapped_demos": settings["demos"],
            "max_labeled_demos": settings["labelled"],
        }


Run = Callable[[Bench], list[Student]]


@dataclass(frozen=True)
class PromptOptimizer:
    """An optimizer: its description in one line, its presets, and `run`, which yields its best
    programs first. `instructs` and `demonstrates` say whether it changes instructions and
    demonstrations; `proposes` whether it asks the prompt LM; `learns` whether it needs learning
    questions in addition to selection questions; `taught` whether a teacher can write its
    demonstrations; `decides` whether it fits thresholds of decision outputs, which the program must
    have. `work` gives the upper bound in a plan; only a budget limits the real cost.
    """

    name: str
    summary: str
    presets: Mapping[str, Settings]
    run: Run
    work: Work
    instructs: bool = False
    demonstrates: bool = False
    proposes: bool = False
    learns: bool = True
    taught: bool = False
    decides: bool = False

    def most_work(
        self, preset: str, *, learn: int, select: int, predictors: int
    ) -> tuple[int, int]:
        """Return the most questions that are answered, and the most proposals that are
        requested.
        """
        sizes = {"learn": learn, "select": select, "predictors": predictors}
        return self.work(SimpleNamespace(**sizes, **self.presets[preset]))


def _checked(name: str, thing: object) -> PromptOptimizer:
    """Check an imported optimizer; presets that it lacks get empty settings."""
    if not isinstance(thing, PromptOptimizer):
        raise UserError(
            f"{name} is not an optimizer: name a PromptOptimizer of folkmoot.optimizers.prompts"
        )
    presets = {preset: thing.presets.get(preset, {}) for preset in PRESETS}

    def run(bench: Bench) -> list[Student]:
        found = thing.run(bench)
        if isinstance(found, list) and all(isinstance(each, Student) for each in found):
            return found
        raise UserError(
            f"the optimizer {name} gives something else than a list of compiled programs: have "
            "its run return [bench.compiled(…)]"
        )

    return replace(thing, name=name, presets=presets, run=run)


OPTIMIZERS: Registry[PromptOptimizer] = Registry("optimizers", _checked)


def optimizer_of(name: str, preset: str) -> PromptOptimizer:
    """Return the optimizer of that name, or `module:Name`. Raises UserError with the nearest name,
    or for an unknown preset.
    """
    if not isinstance(name, str):
        raise UserError(
            f"the optimizer is a {type(name).__name__}: give a name, such as mipro, or module:NAME "
            "of a PromptOptimizer"
        )
    spec = OPTIMIZERS.spec(name)
    if spec is None or spec.rest:
        names = OPTIMIZERS.names()
        meant = did_you_mean(name, names)
        raise UserError(f"there is no optimizer {name!r}{meant}: choose one of {', '.join(names)}")
    checked_among("preset", preset, PRESETS)
    return spec.thing


def _register(
    summary: str, does: str, work: Work, **settings: tuple[int, int, int]
) -> Callable[[Run], Run]:
    """Add an optimizer under its function's name; a setting is given for all presets, light
    first.
    """

    def add(run: Run) -> Run:
        presets: dict[str, dict[str, int]] = {preset: {} for preset in PRESETS}
        for key, values in settings.items():
            for preset, value in zip(PRESETS, values, strict=True):
                presets[preset][key] = value
        # The only flag that is on where an optimizer of somebody else's says nothing.
        flags = {"learns": False} | dict.fromkeys(does.split(), True)
        OPTIMIZERS[run.__name__] = PromptOptimizer(
            run.__name__, summary, presets, run, work, **flags
        )
        return run

    return add


def _search_work(n: SimpleNamespace) -> tuple[int, int]:
    return (n.candidates + 3) * n.select + (n.candidates + 1) * n.learn, 0


def _mipro_work(n: SimpleNamespace, kinds: int = 2) -> tuple[int, int]:
    """`kinds` is the number of things searched per predictor: instructions, and possibly
    demonstrations. It uses as many trials as MIPROv2 recommends for its number of candidates, on 35
    questions each if there are many; after every fifth trial, the best so far is scored on all
    questions.
    """
    tried = (6, 12, 18)[n.auto]
    trials = int(max(2 * kinds * n.predictors * log2(tried), 1.5 * tried))
    # MIPROv2 tries each trial on a sample of 35 questions where there are more than 50.
    runs = (trials + 1) * n.select if n.select <= 50 else trials * 35 + (trials // 5 + 3) * n.select
    return tried * n.learn + runs, 12 + 3 * tried * n.predictors


def _copro_work(n: SimpleNamespace) -> tuple[int, int]:
    """With several predictors, every round also tries the candidates of all earlier rounds."""
    rounds = n.depth * (n.depth + 1) // 2 if n.predictors > 1 else n.depth
    return n.breadth * rounds * n.predictors * n.select, n.breadth * n.depth * n.predictors


def _simba_work(n: SimpleNamespace) -> tuple[int, int]:
    programs = n.candidates + 1
    tried = n.steps * programs
    compared = programs * n.learn + FINALISTS * n.select
    return 2 * tried * min(n.batch, n.learn) + compared, tried


def _gepa_work(n: SimpleNamespace) -> tuple[int, int]:
    runs = (n.evaluations + 1) * max(n.select, 6)
    return runs, runs // 3


def _together_work(n: SimpleNamespace) -> tuple[int, int]:
    (tried, proposals), (searched, _) = _mipro_work(n, kinds=1), _search_work(n)
    return tried + searched + 3 * n.select, proposals


@_register("shows labelled questions", "demonstrates learns", lambda n: (0, 0), demos=(4, 8, 16))
def labeled_few_shot(bench: Bench) -> list[Student]:
    return [bench.compiled(dspy.LabeledFewShot(k=bench.settings["demos"]), selecting=False)]


@_register(
    "shows questions that the program itself answered right",
    "demonstrates learns taught",
    lambda n: (n.learn, 0),
    demos=(4, 4, 8),
    labelled=(4, 8, 16),
)
def bootstrap(bench: Bench) -> list[Student]:
    made = dspy.BootstrapFewShot(metric=bench.metric, **bench.shown)
    return [bench.compiled(made, selecting=False, teacher=bench.teacher)]


@_register(
    "tries several sets of questions that the program answered right, and keeps the best",
    "demonstrates learns taught",
    _search_work,
    demos=(4, 4, 8),
    labelled=(4, 8, 16),
    candidates=(4, 8, 16),
)
def bootstrap_rs(bench: Bench) -> list[Student]:
    return [bench.compiled(_random_search(bench), teacher=bench.teacher)]


@_register(
    "searches which questions that the program answered right to show to each agent",
    "demonstrates learns taught",
    lambda n: (n.learn + n.candidates * n.select, 0),
    demos=(4, 8, 12),
    labelled=(4, 4, 4),
    candidates=(6, 12, 20),
)
def bootstrap_optuna(bench: Bench) -> list[Student]:
    made = _DemonstrationSearch(bench)
    return [bench.compiled(made, teacher=bench.teacher, max_demos=bench.settings["demos"])]


class _DemonstrationSearch(dspy.BootstrapFewShotWithOptuna):  # type: ignore[misc]
    """DSPy's search with seeded draws; it also works if some agents have no demonstrations to
    choose from.
    """

    def __init__(self, bench: Bench) -> None:
        self._sampler = optuna.samplers.TPESampler(seed=bench.seed)
        candidates = bench.settings["candidates"]
        shown, threads = bench.shown, bench.threads
        super().__init__(
            bench.metric, num_candidate_programs=candidates, num_threads=threads, **shown
        )

    def compile(
        self,
        student: dspy.Module,
        *,
        max_demos: int,
        trainset: list[dspy.Example],
        valset: list[dspy.Example],
        teacher: dspy.Module | None = None,
    ) -> dspy.Module:
        # As DSPy's own does, but `create_study` there has no seed.
        self.student, self.valset = student.reset_copy(), valset
        first = dspy.BootstrapFewShot(
            metric=self.metric,
            max_bootstrapped_demos=max_demos,
            max_labeled_demos=self.max_labeled_demos,
        )
        self.compiled_teleprompter = first.compile(student, teacher=teacher, trainset=trainset)
        study = optuna.create_study(direction="maximize", sampler=self._sampler)
        study.optimize(self.objective, n_trials=self.num_candidate_sets)
        return study.best_trial.user_attrs["program"]

    def objective(self, trial: optuna.Trial) -> float:
        candidate = self.student.reset_copy()
        solved = dict(self.compiled_teleprompter.named_predictors())
        for name, predictor in candidate.named_predictors():
            if demos := solved[name].demos:
                place = trial.suggest_int(f"demo_index_for_{name}", 0, len(demos) - 1)
                predictor.demos = [demos[place]]
        trial.set_user_attr("program", candidate)
        score = dspy.Evaluate(devset=self.valset, metric=self.metric, num_threads=self.num_threads)
        return float(score(candidate).score)


@_register(
    "fits the thresholds of decision outputs to the metric",
    "learns decides",
    lambda n: (n.passes * n.learn, 0),
    passes=(45, 45, 45),
)
def reanchor(bench: Bench) -> list[Student]:
    """Return one pass per candidate threshold; all passes make the same calls, which are paid for
    once.
    """
    made = ReAnchor(metric=bench.metric, num_threads=bench.threads, require_cache=False)
    return [bench.compiled(made, selecting=False)]


@_register(
    "shows, for each question, the solved ones that are most like it",
    "demonstrates learns taught",
    lambda n: (n.learn, 0),
    k=(3, 5, 8),
)
def knn(bench: Bench) -> list[Student]:
    """DSPy's KNNFewShot bootstraps again for every question; here each learning question is solved
    once, and a question finds its neighbours among them.
    """
    student = (bench.teacher or bench.student).deepcopy()
    solved = bootstrap_trace_data(
        student,
        list(bench.learn),
        metric=bench.metric,
        num_threads=bench.threads,
        raise_on_error=False,
        failure_score=0.0,
    )
    names = {id(predictor): name for name, predictor in student.program.named_predictors()}
    pool = [_demonstrate(traced, student, names, bench.metric) for traced in solved]
    # The student keeps its own prompts: of the teacher it has the solved questions alone.
    nearest = bench.student.deepcopy()
    nearest.program = NearestDemos(nearest.program, pool, bench.settings["k"])
    return [nearest]


@_register(
    "rewrites instructions, from the scores of earlier ones",
    "instructs proposes",
    _copro_work,
    breadth=(5, 8, 12),
    depth=(2, 3, 4),
)
def copro(bench: Bench) -> list[Student]:
    proposer = bench.proposer.as_lm(at_once=bench.settings["breadth"] - 1)
    made = dspy.COPRO(prompt_model=proposer, metric=bench.metric, **bench.settings)
    # COPRO scores instructions on the questions that it calls its training set.
    quiet = {"num_threads": bench.threads, "display_progress": False, "display_table": 0}
    return [bench.compiled(made, selecting=False, trainset=list(bench.select), eval_kwargs=quiet)]


@_register(
    "searches instructions and demonstrations together",
    "instructs demonstrates proposes learns taught",
    _mipro_work,
    demos=(4, 4, 4),
    labelled=(4, 4, 4),
    auto=(0, 1, 2),
)
def mipro(bench: Bench) -> list[Student]:
    return [bench.compiled(_mipro(bench, **bench.shown), teacher=bench.teacher)]


@_register(
    "lets the prompt LM draw rules from answers that went well and badly",
    "instructs demonstrates proposes learns",
    _simba_work,
    batch=(16, 32, 32),
    candidates=(4, 6, 6),
    steps=(4, 8, 12),
    demos=(4, 4, 4),
)
def simba(bench: Bench) -> list[Student]:
    made = dspy.SIMBA(
        metric=bench.metric,
        bsize=min(bench.settings["batch"], len(bench.learn)),
        num_candidates=bench.settings["candidates"],
        max_steps=bench.settings["steps"],
        max_demos=bench.settings["demos"],
        prompt_model=bench.proposer.as_lm(),
        num_threads=bench.threads,
    )
    # SIMBA compares on the questions that it learns from: its best few are compared again.
    best = bench.compiled(made, selecting=False, seed=bench.seed)
    others = [candidate_program["program"] for candidate_program in best.candidate_programs]
    return [best, *others][: 1 + FINALISTS]


@_register(
    "rewrites instructions from feedback on whole dialogues",
    "instructs proposes learns",
    _gepa_work,
    evaluations=(10, 20, 40),
)
def gepa(bench: Bench) -> list[Student]:
    made = dspy.GEPA(
        metric=bench.metric,
        max_metric_calls=bench.settings["evaluations"] * max(len(bench.select), 6),
        reflection_lm=bench.proposer.as_lm(),
        reflection_minibatch_size=min(3, len(bench.learn)),
        instruction_proposer=_propose_instructions,
        num_threads=bench.threads,
        warn_on_score_mismatch=False,
        seed=bench.seed,
    )
    return [bench.compiled(made)]


@_register(
    "turns solved questions into rules that are added to the instructions",
    "instructs demonstrates proposes learns",
    lambda n: (n.learn + n.candidates * n.select, n.candidates * n.predictors),
    candidates=(3, 6, 10),
    rules=(10, 10, 10),
    demos=(2, 4, 4),
    labelled=(2, 4, 8),
)
def infer_rules(bench: Bench) -> list[Student]:
    student = bench.student.deepcopy()
    # DSPy changes signature classes in place, which copies of a program share.
    student.own_signatures = True
    # DSPy would ask the rules of the LM that answers: the prompt LM is set below.
    made = InferRules(
        num_candidates=bench.settings["candidates"],
        num_rules=bench.settings["rules"],
        num_threads=bench.threads,
        teacher_settings={},
        metric=bench.metric,
        **bench.shown,
    )
    made.rules_induction_program.teacher_settings = {"lm": bench.proposer.as_lm()}
    return [bench.compiled(made, student=student.deepcopy())]


@_register(
    "instructions first (as mipro without demonstrations), then demonstrations (as bootstrap_rs)",
    "instructs demonstrates proposes learns",
    _together_work,
    demos=(4, 4, 8),
    labelled=(4, 8, 16),
    candidates=(4, 8, 16),
    auto=(0, 1, 2),
)
def better_together(bench: Bench) -> list[Student]:
    student = bench.student.deepcopy()
    for predictor in student.predictors():
        predictor.lm = predictor.lm or dspy.settings.lm  # DSPy refuses predictors without one
    made = dspy.BetterTogether(
        metric=bench.metric,
        instructions=_mipro(bench, max_bootstrapped_demos=0, max_labeled_demos=0),
        demonstrations=_random_search(bench),
    )
    best = bench.compiled(
        made,
        student=student,
        strategy="instructions -> demonstrations",
        num_threads=bench.threads,
        seed=bench.seed,
    )
    return [best]


def _random_search(bench: Bench) -> dspy.BootstrapFewShotWithRandomSearch:
    return dspy.BootstrapFewShotWithRandomSearch(
        metric=bench.metric,
        num_candidate_programs=bench.settings["candidates"],
        num_threads=bench.threads,
        **bench.shown,
    )


def _mipro(bench: Bench, **shown: int) -> dspy.MIPROv2:
    return dspy.MIPROv2(
        metric=bench.metric,
        prompt_model=bench.proposer.as_lm(),
        task_model=dspy.settings.lm,
        auto=PRESETS[bench.settings["auto"]],
        num_threads=bench.threads,
        seed=bench.seed + 1,  # DSPy takes 0 for none
        track_stats=False,
        **shown,
    )


def _demonstrate(
    traced: Mapping[str, Any], student: Student, names: Mapping[int, str], metric: OptimizerMetric
) -> Shown:
    """Return a learning question and its demonstrations: each seat's own work if it led to the
    right answer, else only the right answer.
    """
    question, prediction = traced["example"], traced["prediction"]
    demos: dict[str, dict[str, object]] = {}
    if metric.demonstrable(question, prediction):
        for predictor, inputs, outputs in traced["trace"]:
            if id(predictor) in names:
                # Of several calls of one predictor, such as rounds, the last.
                demos[names[id(predictor)]] = dict(inputs) | dict(outputs)
    labelled = dict(question.inputs()) | {"answer": question.answer}
    kept = {}
    for name, predictor in student.program.named_predictors():
        copied = dspy.Predict(predictor.signature)
        copied.demos = [dspy.Example(**demos.get(name, labelled))]
        for demo in demos_of(copied):  # none where the seat's last output is not in it
            kept[name] = demo
    return Shown(question.question, kept)


def _propose_instructions(
    candidate: dict[str, str], reflective_dataset: object, components_to_update: list[str]
) -> dict[str, str]:
    """Return GEPA's own proposer of instructions, with an adapter that reads every reply; without a
    usable reply, the instructions are unchanged.
    """
    propose = InstructionProposer(adapter=ProposalAdapter())
    try:
        return dict(propose(candidate, reflective_dataset, components_to_update))
    except (ValueError, KeyError, TypeError):
        return {name: candidate[name] for name in components_to_update}
