"""Compiles the prompts of a study's structures, each once, on questions that no trial is scored
on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...modules.base.files import locked
from ...modules.base.saved_file import read_document
from ...modules.base.space import options
from ...modules.protocols.declaration import Replays
from ...modules.protocols.foreign import STATE, Foreign
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from ..base.budget import BudgetSpent
from ..compilation.compile import compile_as_planned
from ..compilation.outcome import PROGRAM, compilation_in
from ..compilation.plan import CompilationPlan, plan_compilation
from ..compilation.request import CompileRequest
from ..data import load as data
from ..runs.books import open_books
from ..runs.describe import lms_of
from .given import rebuilt
from .network import CALLS, name_of
from .space import Branch, Recipe

COMPILED = "compiled"
FEWEST = 8
"""Training questions of a study that compiles: half of them for the optimizer, half to score."""


def structure_of(branch: Branch, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the program that is compiled for these: at the largest number of rounds,
    and with the recorded run's ties where other ties are replayed.
    """
    replays = branch.protocol.replays if branch.protocol else None
    if replays is None:
        return dict(parameters)
    most = largest(branch, replays)
    if replays.tell([], parameters) is None:  # it takes calls of its own, such as a judge's
        return {**parameters, **most}
    return replays.record(parameters, most)


def largest(branch: Branch, replays: Replays) -> dict[str, Any]:
    """The largest number that each parameter can be that replays are free to change."""
    most: dict[str, Any] = {}
    for name in replays.free:
        values = options(branch.space[name].values) if name in branch.space else None
        if values and all(isinstance(value, int) for value in values):
            most[name] = max(values)
    return most


@dataclass
class CompiledPrompts:
    """The compiled prompts of a study; one a process.

    Args:
        folder: of the study; every compilation has a folder of its own in it.
        questions: what the optimizers learn from and select by.
        lm: the LM of every seat without one of its own.
        seed: of the optimizers' draws.
        cache: whether calls that other runs made may answer.
    """

    folder: Path
    questions: Sequence[Question]
    metric: Metric
    lm: Any
    seed: int
    concurrency: int
    cache: bool

    def plan(
        self, structure: Program, recipe: Recipe, folder: Path | None = None
    ) -> CompilationPlan:
        """The compilation of a structure. Raises UserError for what cannot be compiled."""
        return plan_compilation(
            CompileRequest(
                structure,
                list(self.questions),
                metric=self.metric,
                lm=self.lm,
                optimizer=recipe.optimizer,
                preset=recipe.preset,
                seed=self.seed,
                concurrency=self.concurrency,
                cache=self.cache,
                out=folder,
                tracking=False,
                progress=False,
            )
        )

    def applied(self, program: Program, structure: Program, recipe: Recipe) -> Program:
        """The program with the prompts of its structure, compiled if nobody has done so before.

        Whoever else wants the same prompts waits; a compilation that was stopped goes on. Raises
        BudgetSpent, and UserError.
        """
        what: list[Any] = [hashes(structure)["program_hash"], lms_of(structure, self.lm), *recipe]
        what += [self.seed, self.metric.identity(), data.fingerprint(self.questions)]
        folder = self.folder / COMPILED / name_of(what)
        self._compile(structure, recipe, folder)
        if isinstance(program, Foreign):
            state = read_document(folder / PROGRAM, STATE)
            program.module.load_state({k: one for k, one in state.items() if k != "metadata"})
            return program
        before, now = structure.describe(), program.describe()
        changed = {name: now[name] for name in now if before.get(name) != now[name]}
        return rebuilt(folder / PROGRAM, structure, changed)

    def _compile(self, structure: Program, recipe: Recipe, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock")), open_books(records=[self.folder / CALLS]):
            earlier = compilation_in(folder)
            if earlier is not None and earlier.stopped is None:
                return
            best: Any = compile_as_planned(self.plan(structure, recipe, folder))
            if best.compilation.stopped is not None:
                raise BudgetSpent(best.compilation.stopped)
