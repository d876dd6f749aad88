"""Plans a pipeline: each key of its file is a request of a command, which plans and carries out the
step.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import dspy

from ...modules.base.errors import UserError
from ...modules.base.keyed import only, without, without_none
from ...modules.base.yaml_file import SUFFIXES, read_yaml
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS
from ...modules.reading.question import Question
from ..base.budget import Budget
from ..base.cards import Kind
from ..base.life import Plan, PlanOfSteps
from ..base.request import Columned, Default, folder_at
from ..cli.command import CommandOption, command_options, options_of_file
from ..compilation.card import KIND as COMPILATION
from ..compilation.compile import compile_as_planned
from ..compilation.plan import plan_compilation
from ..compilation.request import CompileRequest
from ..contest.card import KIND as CONTESTED
from ..contest.contest import carry_out_contest
from ..contest.plan import plan_contest
from ..contest.request import ContestRequest
from ..data.parts import load_part
from ..data.questions import fingerprint
from ..evaluation.check import check_train
from ..lms.named import default_lm
from ..programs.build import NoParameter
from ..programs.resolve import program_of
from ..programs.seats import Unused
from ..runs.manifest import made_with
from ..tracking.context import check_model_name
from ..tuning.card import KIND as STUDY
from ..tuning.plan import plan_study
from ..tuning.request import TuneRequest
from ..tuning.tune import tune_as_planned
from .card import STEPS
from .request import PipelineRequest

HELD_OUT = 0.3
"""Share of the training questions that is held out where a file names no others."""

GIVEN = ("program", "questions", "train", "validation", "budget", "out", "register", "tracking")
"""Options of commands that the pipeline gives."""

READ_BY = ("columns", "kind", "train_split", "validation_split")
"""Options of steps that say how questions to learn from are read."""

BY_NAME = {"lm": "=", "api_base": "=", "lm_set": ".", "price": "="}
"""Options that may be for one agent, or one LM, which only some of the programs have; and what
follows its name.
"""


class StepKind(NamedTuple):
    """A command that can be a step: its request, its plan, the function that carries it out, the
    card of its folder, and the questions that it learns from.
    """

    request: type[Any]
    plan: Callable[..., Plan]
    carry_out: Callable[..., Any]
    shown: Kind
    learns_from: Callable[..., list[Question]] = lambda plan: []

    @property
    def options(self) -> dict[str, CommandOption]:
        return without(command_options(self.request), GIVEN)


COMPILE, TUNE, CONTEST = "compile", "tune", "contest"
STEP_KINDS = {
    COMPILE: StepKind(
        CompileRequest,
        plan_compilation,
        lambda plan: compile_as_planned(plan).compilation,
        COMPILATION,
        lambda plan: plan.train + plan.validation,
    ),
    TUNE: StepKind(
        TuneRequest,
        plan_study,
        tune_as_planned,
        STUDY,
        lambda plan: [*chain(*plan.job.questions), *plan.validation],
    ),
    CONTEST: StepKind(ContestRequest, plan_contest, carry_out_contest, CONTESTED),
}
"""The steps in their order."""

OWN = ("data", "programs", "register", "budget", *STEP_KINDS)
SOURCE = command_options(CompileRequest)["train"]
"""The option that names questions, or a file of them."""


@dataclass
class PipelineStep:
    """A step: the key it stands under, the program it works on (empty for the contest), its folder
    below that of the pipeline, and its options.
    """

    key: str
    program: str
    folder: str
    options: Mapping[str, Any]

    @property
    def kind(self) -> StepKind:
        return STEP_KINDS[self.key]

    @property
    def title(self) -> str:
        return f"{self.key} {self.program}".strip()

    def plan(self, programs: Mapping[Any, object], **given: Any) -> Plan:
        """Return the command's own plan, with the programs as they are by now, by name."""
        options = {**self.options, "tracking": False, **given}
        program = programs.get(self.program)
        if Path(str(program)).is_dir():
            options.pop("roles", None)  # which the folder has
        if self.key == COMPILE:
            options["program"] = program
        elif self.key == TUNE:
            options["space"] = {**options["space"], "program": str(program)}
        else:
            # A single program races against the default field; several race against each other,
            # unless the file names a field.
            if len(programs) == 1 or "field" in options:
                options["added"] = [programs, options.get("added") or []]
            else:
                options["field"] = programs
        request = self.kind.request(**options)
        if not request.lm and dspy.settings.lm is None:  # the default of the command itself
            request.lm = default_lm()
            request.defaults["lm"] = Default(request.lm, "")
        return self.kind.plan(request)

    def without(self, name: str) -> PipelineStep:
        """Return the step without what its options say of the agent or LM `name`."""
        options = dict(self.options)
        for option, ends in BY_NAME.items():
            given = options.get(option) or ()
            of_it = f"{name}{ends}"
            if isinstance(given, Mapping):
                kept: Any = {
                    key: value for key, value in given.items() if not f"{key}=".startswith(of_it)
                }
            else:
                if isinstance(given, str):
                    given = [given]
                kept = [value for value in given if not str(value).startswith(of_it)]
            options[option] = kept or None
        return replace(self, options=options)


@dataclass
class PipelinePlan(PlanOfSteps):
    """A checked pipeline. `programs` are what its file names, by name; `notes` says which of them a
    step leaves as they are.
    """

    request: PipelineRequest
    programs: Mapping[str, object]
    steps: list[PipelineStep]
    plans: dict[str, Plan]
    register: str | None
    about: dict[str, Any]
    out: Path | None
    notes: list[str]
    title: str = "pipeline"


def plan_pipeline(request: PipelineRequest, *, stored: bool = False) -> PipelinePlan:
    """Read and check the file and the input of every step. Raises UserError before any LM is
    called. With `stored`, a pipeline without a folder gets one under `runs/`.
    """
    if request.file is None:
        raise UserError("FILE is missing: name a pipeline, or write one with --new")
    document, name, home = request.file, "pipeline", Path()
    if not isinstance(document, Mapping):
        file = Path(document).expanduser()
        document = read_yaml(file, "pipeline", "programs: [single:cot]")
        name, home = file.stem, file.parent
    out = request.out or None
    if stored and out is None:
        out = f"runs/pipeline-{name}"
    budget = Budget.of(request.budget or document.get("budget"))
    register, notes = document.get("register"), list[str]()
    check_model_name(register, tracked=request.tracking)
    if register is not None:
        notes.append(f"the winner is registered as {register}")
    programs = _programs(document, home)
    named = list(_steps(document, home, list(programs)))
    # What earlier steps leave is shared again, so that this is the least that a step gets.
    share = budget and budget.part(1 / len(named))
    steps, plans = list[PipelineStep](), dict[str, Plan]()
    unused, misfits = list[dict[str, Unused]](), list[str]()
    for step in named:
        # All are planned at once: a mistake in the last step is found before the first one is paid.
        given = programs
        if step.key == CONTEST and len(named) > 1:
            given = {each: _untrained(each, place) for each, place in programs.items()}
        try:
            step, plans[step.title], without = _plan_step(step, given, share)
            if step.key == TUNE:
                _check_compiled(step, plans.get(f"{COMPILE} {step.program}"), share)
        except NoParameter as misfit:
            if step.key != TUNE or len(programs) == 1:
                raise
            misfits.append(str(misfit))
            notes.append(f"{step.program} is not tuned: it has no {misfit.parameter}")
        except UserError as problem:
            advice = ""
            if "--" in str(problem):
                advice = " (options are keys of the file: --api-base is api_base)"
            raise UserError(f"{step.title}: {problem}{advice}") from None
        else:
            steps.append(step)
            if step.key != CONTEST:
                unused.append(without)
    if unused:
        for nobodys in set.intersection(*map(set, unused)):
            raise unused[0][nobodys]
    if TUNE in document and not any(step.key == TUNE for step in steps):
        raise UserError(f"no program can be tuned: {'; '.join(misfits)}")
    judged: Any = plans.get(CONTEST)
    learnt, apart = list[Question](), list[Question]()
    for step in steps:
        learnt += step.kind.learns_from(plans[step.title])
    if judged is not None:
        apart = [*judged.race, *judged.demos, *judged.unseen]
    notes += check_train(learnt, apart)
    about = _about(name, document, steps, fingerprint([*learnt, *apart]))
    request = replace(request, budget=budget)
    return PipelinePlan(request, programs, steps, plans, register, about, folder_at(out), notes)


def _plan_step(
    step: PipelineStep, programs: Mapping[Any, object], share: Budget | None
) -> tuple[PipelineStep, Plan, dict[str, Unused]]:
    """Return (the step without options for agents and LMs that only other programs have, its plan,
    what such options are for).
    """
    without = dict[str, Unused]()
    while True:
        try:
            return step, step.plan(programs, budget=share), without
        except Unused as misfit:
            if step.key == CONTEST or len(programs) == 1 or misfit.name in without:
                raise
            without[misfit.name] = misfit
            step = step.without(misfit.name)


def _check_compiled(step: PipelineStep, compiled: Any, share: Budget | None) -> None:
    """Plan the study of a program that is compiled before it as that of a saved one, which takes
    fewer changes. Raises UserError.
    """
    if compiled is None or compiled.learning or compiled.program.foreign:
        return
    with TemporaryDirectory() as folder:
        compiled.program.save(folder)
        try:
            _plan_step(step, {step.program: folder}, share)
        except UserError as problem:
            raise UserError(str(problem).replace(folder, str(step.program))) from None


def _programs(document: Mapping[str, object], home: Path) -> dict[str, str]:
    """Return the programs by name: specs, or files and folders relative to the pipeline's file.
    Raises UserError for anything else.
    """
    names: Any = document.get("programs")
    named = names if isinstance(names, list) else []
    texts = {name for name in named if isinstance(name, str)}
    if not named or len(texts) < len(named):
        raise UserError(
            f"programs is {names!r}: give a list of different programs, such as [single:cot]"
        )
    if len(names) > 1 and CONTEST not in document:
        raise UserError("several programs and no contest: add contest, or leave one program")
    programs = dict[str, str]()
    for name in names:
        programs[name] = name
        # A program's name goes before a folder that happens to be called so.
        if not PROTOCOLS.find(name):
            programs[name] = SOURCE.placed(name, home)
    return programs


def _untrained(name: str, place: str) -> Program | str:
    """Return the program as the contest is planned with it: one that an earlier step trains is not
    there yet.
    """
    protocol = PROTOCOLS.find(name)
    learns = protocol is not None and protocol.learning is not None
    if learns or Path(place).suffix in SUFFIXES:
        return program_of(place, untrained=True)
    return place


def _steps(
    document: Mapping[str, object], home: Path, programs: list[str]
) -> Iterator[PipelineStep]:
    """Yield the steps, each with the options that all share, and its own. Raises UserError for a
    file without a step, and for options that are not of one.
    """
    kinds = {key: STEP_KINDS[key] for key in STEP_KINDS if key in document}
    if not kinds:
        raise UserError(f"the pipeline has no step: give one of {', '.join(STEP_KINDS)}")
    known = dict[str, CommandOption]()
    for kind in kinds.values():
        known |= kind.options
    rest = without(document, OWN)
    shared = options_of_file("the pipeline", rest, known, home, OWN)
    by_step = dict[str, dict[str, Any]]()
    for key, kind in kinds.items():
        own = document[key]
        if own is None:
            own = {}
        if not isinstance(own, Mapping):
            raise UserError(
                f"{key} is {own!r}: give its options, such as {key}: {{}}, or leave the key out"
            )
        by_step[key] = only(shared, kind.options)
        by_step[key] |= options_of_file(key, own, kind.options, home)
    learning = [by_step[key] for key in (COMPILE, TUNE) if key in by_step]
    data = _data(document, home, learning, shared.get("seed", 0))
    for key, options in by_step.items():
        if key == TUNE:
            _check_space(options.setdefault("space", {}))
        if key == CONTEST:
            yield PipelineStep(key, "", key, {**options, "questions": data["test"]})
            return
        options |= {part: data[part] for part in ("train", "validation")}
        for number, program in enumerate(programs, 1):
            # Specs have colons, and may be paths.
            slug = re.sub(r"[^\w.=+-]+", "-", program).strip("-")[:60]
            yield PipelineStep(key, program, f"{key}-{number}-{slug}", options)


def _check_space(space: object) -> None:
    if not isinstance(space, Mapping) or {"program", "programs"} & space.keys():
        raise UserError(
            f"tune: space is {space!r}: give parameters of the pipeline's programs and their "
            "values, such as {max_rounds: [1, 2]}"
        )


def _data(
    document: Mapping[str, object], home: Path, learning: Sequence[Mapping[str, Any]], seed: int
) -> dict[str, Any]:
    """Return the questions by part. Where a file names none for validation, some of the training
    questions are held out by the seed, read as the options of the steps that learn say. Raises
    UserError for steps that read them in different ways.
    """
    named = document.get("data")
    if not isinstance(named, Mapping):
        raise UserError("the pipeline has no data: write data: {train: FILE, test: FILE}")
    parts = ("train", "validation", "test")
    data = options_of_file("data", named, dict.fromkeys(parts, SOURCE), home)
    for part, needed in (("train", learning), ("test", CONTEST in document)):
        if needed and data.get(part) is None:
            raise UserError(f"data has no {part}: name a file of labelled questions")
    if learning and data.get("validation") is None:
        ways = [without_none(only(options, READ_BY)) for options in learning]
        if ways[0] != ways[-1] or "validation_split" in ways[0]:
            raise UserError(
                "data has no validation: name its questions, or drop validation_split and what "
                "compile and tune say differently of columns, kind or train_split"
            )
        how = Columned(**only(ways[0], ("columns", "kind"))).reading()
        questions, _ = load_part(data["train"], "train", ways[0].get("train_split"), **how)
        # Files are often sorted by topic or answer: the last part would be another population.
        random.Random(seed).shuffle(questions)
        held_out = round(HELD_OUT * len(questions))
        data |= {"validation": questions[:held_out], "train": questions[held_out:]}
    return data


def _about(
    name: str, document: Mapping[str, Any], steps: list[PipelineStep], questions: str
) -> dict[str, Any]:
    """Return the description in `pipeline.json`. A larger budget or another name for the winner
    does not make another pipeline.
    """
    kept = without(document, ("budget", "register"))
    # An LM or a program of Python's is known by its name, since its address is another each time.
    text = json.dumps(kept, sort_keys=True, default=_named)
    digest = hashlib.sha256(text.encode()).hexdigest()
    data = str(document["data"].get("test") or document["data"].get("train"))
    manifest = {
        "program": {"program": "pipeline"},
        "program_hash": digest,
        "prompt_hash": "",
        "lms": {},
        "data_fingerprint": questions,
        "questions": 0,
        "settings": {"command": "pipeline", "label": name, "data": data},
        **made_with(),
    }
    return {
        "hash": digest,
        "questions": questions,
        "manifest": manifest,
        STEPS: {each.folder: each.title for each in steps},
    }


def _named(thing: object) -> str:
    return str(getattr(thing, "model", None) or getattr(thing, "__name__", type(thing).__name__))
