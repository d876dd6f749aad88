"""What a study learns before it scores: trained networks and compiled prompts, each made once, on
questions that no trial is scored on.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...modules.base.files import locked
from ...modules.base.keyed import only, without
from ...modules.base.saved_file import FILE
from ...modules.base.space import coded
from ...modules.protocols.declaration import Replays
from ...modules.protocols.foreign import STATE, Foreign
from ...modules.protocols.program import Program, lms_by_seat
from ...modules.protocols.saved import hashes
from ...modules.reading.question import Question
from ...optimizers.structure.points import key_of, options
from ..base.budget import BudgetSpent
from ..base.run_files import books_of
from ..compilation.card import PROGRAM
from ..compilation.compile import compile_as_planned
from ..compilation.outcome import compilation_in
from ..compilation.plan import CompilationPlan, plan_compilation
from ..compilation.request import CompileRequest
from ..data import questions as data
from ..lms.store import CALLS as RECORD
from ..lms.store import CallStore
from ..programs.restored import read_document
from ..programs.saved import saved_program
from ..runs.books import open_books
from ..runs.describe import lms_of
from ..tracking.context import ABOVE
from .job import Job
from .space import Branch, Recipe, TuneSpace, rebuilt

NETWORKS = "networks"
TRIED = 100
"""Points of a space among which the longest program is chosen."""


def digest_name(what: object) -> str:
    """Return the name of the folder that holds what is made from these values."""
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def most_turns(space: TuneSpace) -> tuple[int, int]:
    """Return the most calls that a question can take, and that training a network can ask of one,
    among points of the space drawn at random.
    """
    # A space may have more points than can be built, so that a sample stands for all.
    dice = random.Random(0)

    def draw(_: str, values: Any) -> object:
        choices = options(values)
        if choices:
            return coded(dice.choice(choices))
        return dice.uniform(values.low, values.high)

    turns: dict[str, tuple[int, int]] = {}
    for _ in range(TRIED):
        branch, own, _ = space.own(space.point(draw))
        if branch.learning is not None:
            # Building a program takes long, and most settings do not change what it asks.
            own = only(own, branch.learning.of_turns)
        # Programs of several branches may have parameters of one name.
        key = key_of({"": branch.label, **own})
        if key not in turns:
            program = branch.build(branch.parameters(own), {}, space.make_lm)
            training = program.training_turns() if branch.learning is not None else 0
            turns[key] = program.most_turns(), training
    asked, trained = zip(*turns.values(), strict=True)
    return max(asked), max(trained)


def learning_calls(folder: Path) -> int:
    """Return the calls that the trainings and compilations in a study's folder take, each on its
    own, whoever paid for them.
    """
    calls = 0
    for place in (f"{NETWORKS}/*/*/", f"{COMPILED}/*/"):
        for path in folder.glob(place):
            books = books_of(path)
            if (books / RECORD).is_file():  # there is none where the LM keeps no record
                with closing(CallStore(books, readonly=True)) as store:
                    calls += len(store)
    return calls


@dataclass
class Networks:
    """The trained programs of a study, such as strategy networks, each in a folder of its own in
    the study's; one a process. `questions` are what to train on.
    """

    job: Job
    questions: Sequence[Question]
    _last: dict[str, Program] = field(default_factory=dict)

    def trained(self, program: Program) -> Program:
        """Return the program of these settings, trained if nobody has done so before.

        Whoever else wants the same program waits; a training that was stopped goes on from its
        checkpoint. Raises BudgetSpent, `Unanswered` for a question that no LM answers, and
        UserError.
        """
        job, name = self.job, self.name_of(program)
        if name in self._last:
            return self._last[name]
        folder = job.folder / NETWORKS / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        # The study's record answers what its trials have asked before.
        with locked(folder.with_suffix(".lock")), open_books(records=[books_of(job.folder)]):
            if not (folder / FILE).exists():  # the last file that a training writes
                program.train(
                    self.questions,
                    folder,
                    lm=job.lm,
                    cache=job.cache,
                    tracking=job.tracking,
                    parent=ABOVE,
                )
        self._last = {name: saved_program(folder, lms=lms_by_seat(program))}
        return self._last[name]

    def name_of(self, program: Program) -> str:
        """Return the name of the folder with the trained program of these settings."""
        lms = lms_of(program, self.job.lm)
        return digest_name([hashes(program)["program_hash"], lms, data.fingerprint(self.questions)])


COMPILED = "compiled"


def structure_of(branch: Branch, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of the program that is compiled for these: at the largest number of
    rounds, and with the recorded run's ties where other ties are replayed.
    """
    protocol = branch.protocol
    if protocol is None or protocol.replays is None:
        return dict(parameters)
    replays = protocol.replays
    most = largest(branch, replays)
    if replays.tell([], parameters) is None:  # it takes calls of its own, such as a judge's
        return {**parameters, **most}
    return replays.record(parameters, most)


def largest(branch: Branch, replays: Replays) -> dict[str, object]:
    """Return the largest number that each parameter can be that replays are free to change."""
    most: dict[str, object] = {}
    for name in replays.free:
        values = branch.choices(name)
        if values and all(isinstance(value, int) for value in values):
            most[name] = max(values)
    return most


@dataclass
class CompiledPrompts:
    """The compiled prompts of a study, each compilation in a folder of its own in the study's; one
    a process. `questions` are what the optimizers learn from and select by.
    """

    job: Job
    questions: Sequence[Question]

    def plan(
        self, structure: Program, recipe: Recipe, folder: Path | None = None
    ) -> CompilationPlan:
        """Return the compilation of a structure. Raises UserError for what cannot be compiled."""
        job = self.job
        return plan_compilation(
            CompileRequest(
                structure,
                list(self.questions),
                metric=job.metric,
                lm=job.lm,
                optimizer=recipe.optimizer,
                preset=recipe.preset,
                seed=job.seed,
                concurrency=job.concurrency,
                cache=job.cache,
                out=folder,
                tracking=False,
                progress=False,
            )
        )

    def applied(self, program: Program, structure: Program, recipe: Recipe) -> Program:
        """Return the program with the prompts of its structure, compiled if nobody has done so
        before.

        Whoever else wants the same prompts waits; a compilation that was stopped goes on. Raises
        BudgetSpent, and UserError.
        """
        job = self.job
        what: list[object] = [hashes(structure)["program_hash"], lms_of(structure, job.lm), *recipe]
        what += [job.seed, job.metric.identity(), data.fingerprint(self.questions)]
        folder = job.folder / COMPILED / digest_name(what)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock")), open_books(records=[books_of(job.folder)]):
            earlier = compilation_in(folder)
            if earlier is None or earlier.stopped is not None:
                best = compile_as_planned(self.plan(structure, recipe, folder))
                if best.compilation.stopped is not None:
                    raise BudgetSpent(best.compilation.stopped)
        if isinstance(program, Foreign):
            state = read_document(folder / PROGRAM, STATE)
            program.module.load_state(without(state, ["metadata"]))
            return program
        # What was compiled is the structure: what the trial changes of it is set on top.
        before, now = structure.describe(), program.describe()
        changed = {name: now[name] for name in now if before.get(name) != now[name]}
        changed.pop("own_roles", None)  # the folder has all of them, whether they sit there or not
        return rebuilt(folder / PROGRAM, structure, changed)
