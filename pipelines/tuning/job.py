"""A study as its workers get it: what to try on which questions, where it is kept, what it may
cost.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Literal

import dspy
import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    check_distribution_compatibility,
)
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, GridSampler
from optuna.trial import FrozenTrial

from ...modules.base.calls import Usage
from ...modules.base.errors import (
    UserError,
    checked_among,
    checked_whole,
    from_extra,
    system_errors,
)
from ...modules.base.files import locked, read_regular, whole_lines
from ...modules.base.keyed import only
from ...modules.base.space import Distribution
from ...modules.reading.metrics import Metric, check_metric, metric_of
from ...modules.reading.question import Question
from ...optimizers.structure.search import DIRECTIONS, SAMPLERS, grid, parameters_of, suggested
from ..base.account import Account, open_account
from ..base.budget import Budget
from ..base.journal import as_json, parsed
from ..base.run_files import RunSettings, books_of
from ..data import questions as data
from ..evaluation.check import check_train
from ..lms.ledger import LEDGER, totals, usage_of
from ..lms.named import Billed, billed_as, lm_identity
from ..lms.store import books_around
from ..runs.describe import lms_of
from ..runs.manifest import OtherRun
from .recovery import Crew
from .request import SCORE
from .space import TuneSpace, made_lm
from .storage import check_url, open_storage, safe_url

FEWEST_TRAINED = 20
"""Training questions of a study that trains networks: half of them teach, half of them score."""
FEWEST_COMPILED = 8
"""Training questions of a study that compiles: half of them for the optimizer, half to score."""
SEARCH_SHARE = 0.8
"""The part of a budget that trials may spend; the rest is kept for the winner's evaluation."""


@dataclass
class SharedAccount(Account):
    """An account that also sees what other processes of the study have paid, on the ledger in
    `folder`.

    What they have in flight is not seen: over all, at most the calls in flight go beyond the
    ceiling.
    """

    folder: Path = field(default_factory=Path)
    _read_to: int = 0

    def _over(self) -> str | None:
        self._sync()
        return super()._over()

    def _sync(self) -> None:
        """Take what has been spent from the ledger's lines that are new, and what dead workers left
        in flight.
        """
        # Only what is new is read, since every call asks: the ledger of a study has many lines.
        home = books_of(self.folder)
        for ledger in books_around().ledgers:
            if ledger.folder == home:
                ledger.adopt()
        for start, line in whole_lines(home / LEDGER, self._read_to):
            self._read_to = start + len(line)
            bill = parsed(line, ("prompt_tokens", "completion_tokens", "cost_usd"))
            if bill is not None:
                self.spent.add(usage_of(bill))

    def _spend(self, usage: Usage) -> None:
        """Leave it to the ledger: whoever pays writes there, and everyone reads it."""


class StudySettings(RunSettings):
    """How a study was asked for: as a run, and where its validation questions come from."""

    __slots__ = ()
    validation: str | None = None
    validation_split: str | None = None
    validation_limit: int | None = None
    space: str | None = None


@dataclass
class Job:
    """A study as its workers get it; `fm.tune` says what the fields are."""

    space: TuneSpace
    train: list[Question]
    lm: dspy.BaseLM
    objectives: list[str]
    folder: Path
    storage: str | None
    study: str
    trials: int
    sampler: str | BaseSampler
    seed: int
    budget: Budget | None
    concurrency: int
    cache: bool
    settings: StudySettings = field(default_factory=StudySettings)
    metric: Metric = field(default_factory=lambda: metric_of(None))
    own: optuna.Study | None = None  # the user's, as an object
    pruner: BasePruner | None = None
    callbacks: Sequence[Callable[[optuna.Study, FrozenTrial], None]] = ()
    tracking: bool = False
    earlier: int = 0  # trials that the study had when this attempt began
    began: float = 0.0
    share: float = SEARCH_SHARE  # of the budget, for the search

    def checked(self, validation: Sequence[Question], workers: int) -> Job:
        """Return the study with its objectives in order, the one to be made large first.

        Raises UserError for what cannot be a study, before anything is spent.
        """
        renamed = {SCORE: self.metric.name}
        objectives = [renamed.get(name, name) for name in self.objectives]
        measured = ["accuracy", "f1"] if self.metric.default else [self.metric.name]
        names = [*measured, *DIRECTIONS]
        for name in objectives:
            if name not in names or objectives.count(name) > 1:
                raise UserError(
                    f"there is no objective {name!r}, or it is given twice: choose among "
                    f"{', '.join(names)}"
                )
        quality = [name for name in objectives if name in measured]
        if len(quality) != 1:
            raise UserError(f"the objectives need {' or '.join(measured)}, one of them: add it")
        if not isinstance(self.sampler, BaseSampler):
            checked_among("sampler", self.sampler, SAMPLERS)
        if self.sampler_name in ("gp", "GPSampler"):
            with from_extra("network", "the sampler gp"):
                import_module("torch")  # with which Optuna models the space
        if self.storage is not None:
            check_url(self.storage)
        counts = {"trials": self.trials, "workers": workers, "concurrency": self.concurrency}
        for what, number in counts.items():
            checked_whole(what, number)
        checked_whole("seed", self.seed, 0)
        for what, questions in (("training", self.train), ("validation", validation)):
            if not questions:
                raise UserError(f"there are no {what} questions: name some")
            data.check_asked(questions)
            check_metric(self.metric, questions)
        if not self.metric.default and self.space.trains:
            raise UserError(
                "a strategy network learns from right and wrong answers: tune it without a metric"
            )
        all_spans = all(question.kind == "span" for question in (*self.train, *validation))
        if quality == ["f1"] and self.metric.default and not all_spans:
            raise UserError(
                "f1 is for short answers (kind span): take accuracy for these questions"
            )
        for warning in check_train(self.train, validation):
            warnings.warn(warning, stacklevel=3)
        _, default = self.space.default()
        # Refused now where an agent has no LM.
        lms_of(default, self.lm)
        self._check_learning()
        # Pruning, the winner and the plots take the first objective for the one to be made large.
        objectives.sort(key=lambda name: name not in measured)
        ordered = replace(self, objectives=objectives)
        ordered._check_optuna(workers)
        return ordered

    def _check_learning(self) -> None:
        """Raise UserError for too few questions, and an embedding model that cannot be loaded."""
        space = self.space
        least = max(FEWEST_COMPILED * space.compiles, FEWEST_TRAINED * space.trains)
        if len(self.train) < least:
            raise UserError(
                "a study that trains networks or compiles prompts needs at least "
                f"{least} training questions, half to learn from and half to score on, and there "
                f"are {len(self.train)}: give more"
            )
        for branch in space.branches:
            if branch.learning is not None:
                tried = {name: branch.choices(name) for name in branch.space}
                tried |= {name: [value] for name, value in branch.fixed.items()}
                branch.learning.check(tried)

    def _check_optuna(self, workers: int) -> None:
        """Raise UserError for a study of the user's that does not fit or has a second storage, and
        for objects of Optuna's that worker processes cannot get.
        """
        if self.own is not None:
            self._check_fits(self.own)
            if self.storage is not None:
                raise UserError("the study has a storage of its own: leave out storage=")
        if isinstance(self.sampler, GridSampler):
            some = optuna.create_study(sampler=deepcopy(self.sampler)).ask()
            try:
                suggested(some, self.space.point)
            except ValueError as problem:
                raise UserError(
                    f"the GridSampler does not fit the space ({problem}): give it values for every "
                    'parameter, or pass sampler="grid"'
                ) from None
        if workers > 1 and (
            self.own or self.pruner or self.callbacks or not isinstance(self.sampler, str)
        ):
            raise UserError(
                f"{workers} workers are processes, which get no objects of Optuna's: leave out "
                "workers=, or pass study= and sampler= by name, without pruner= and callbacks="
            )

    def _check_fits(self, study: optuna.Study) -> None:
        """Raise OtherRun for a study that was made for something else: other directions, another
        metric, or parameters of our names with other values.
        """
        wanted = self._directions
        has = [direction.name.lower() for direction in study.directions]
        if has != wanted:
            raise OtherRun(
                f"the study {self.study!r} is to {' and '.join(has)}, and "
                f"{', '.join(self.objectives)} need directions={wanted}: pass a study with "
                "these, or other objectives"
            )
        if study.metric_names not in (None, self.objectives):
            raise OtherRun(
                f"the study {self.study!r} measures {', '.join(study.metric_names)}, and not "
                f"{', '.join(self.objectives)}: choose another --study"
            )
        known: dict[str, BaseDistribution] = {}
        for trial in study.get_trials(deepcopy=False):
            known |= trial.distributions

        def first(name: str, values: Distribution) -> object:
            try:
                check_distribution_compatibility(known.get(name, values), values)
            except ValueError:
                raise OtherRun(
                    f"the study {self.study!r} has other values for {name} ({known[name]}): choose "
                    "another --study"
                ) from None
            if isinstance(values, CategoricalDistribution):
                return values.choices[0]
            return values.low

        self.space.point(first)

    @property
    def _directions(self) -> list[Literal["maximize", "minimize"]]:
        return [DIRECTIONS.get(name, "maximize") for name in self.objectives]

    @property
    def sampler_name(self) -> str:
        if isinstance(self.sampler, str):
            return self.sampler
        return type(self.sampler).__name__

    @property
    def questions(self) -> tuple[list[Question], list[Question]]:
        """(questions in the order in which every setting is asked them, those that networks and
        optimizers learn from).
        """
        # One order for all settings: a pruned one has answered the same questions as its rivals.
        order = np.random.default_rng(self.seed).permutation(len(self.train))
        asked = [self.train[place] for place in order]
        if not (self.space.trains or self.space.compiles):
            return asked, []
        # No trial is scored on a question whose answer its prompts or policy have seen.
        middle = len(asked) // 2
        return asked[middle:], asked[:middle]

    @property
    def home(self) -> str:
        """The id of this folder, which other machines' folders do not have."""
        # Workers begin at the same time: the first one's id counts for all.
        path = books_of(self.folder) / "home"
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                path.write_text(uuid.uuid4().hex)
            return read_regular(path).decode()

    def account(self) -> SharedAccount | None:
        """Return the account of the share of the budget. Raises UserError for a budget that could
        not be held.
        """
        if self.budget is None:
            return None
        held = self.budget.part(self.share) if self.share < 1 else self.budget
        # For its check alone: the account that counts is the one that sees all workers.
        open_account(self.budget, engines_of(self.space, self.lm), totals(self.folder))
        return SharedAccount(held, whole=self.budget, folder=self.folder, _began=self.began)

    def opened(self) -> tuple[optuna.Study, Crew]:
        """Return the study, made if it is not there, and its workers. Raises UserError when there
        is another study of its name.
        """
        # For good: a filter that is taken back would also undo those that another thread sets
        # meanwhile.
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", category=ExperimentalWarning)
        with system_errors(self.folder):
            books = books_of(self.folder)
            books.mkdir(parents=True, exist_ok=True)
            try:
                with locked(books / "study.lock"):  # two that made the tables would clash
                    kept, study = None, self.own
                    if study is None:
                        kept = open_storage(self.storage, self.folder)
                        study = optuna.create_study(
                            storage=kept,
                            study_name=self.study,
                            directions=self._directions,
                            load_if_exists=True,
                        )
            except StorageInternalError as problem:
                raise UserError(
                    f"the storage {safe_url(self.storage)} holds something else than Optuna's "
                    f"studies ({type(problem.__cause__ or problem).__name__}): choose another "
                    "--storage"
                ) from None
        self._check_fits(study)
        identity = self.identity()
        is_new = "identity" not in study.user_attrs
        # A study of the user's may outlive the folder of an earlier call.
        if is_new or self.own is not None:
            study.set_user_attr("home", self.home)
        if is_new:
            study.set_user_attr("identity", identity)
        if is_new and self.own is None:
            study.set_metric_names(self.objectives)  # which Optuna's plots show
        earlier = study.user_attrs["identity"]
        differs = next((name for name in identity if earlier.get(name) != identity[name]), None)
        if differs is not None:
            what = {"train": "training data", "lm": "LM"}.get(differs, differs)
            raise OtherRun(
                f"the study {self.study!r} has trials of another tuning (its {what} differs): "
                "choose another --study or --out"
            )
        return study, Crew(study, kept, books_of(self.folder) / "workers", self.home)

    def identity(self) -> dict[str, object]:
        return {
            "space": self.space.hash,
            "train": data.fingerprint(self.train),
            "objectives": self.objectives,
            "sampler": self.sampler_name,
            "seed": self.seed,
            "lm": _lm_name(self.lm),
            "metric": self.metric.identity(),
        }

    def planned(self) -> tuple[int, dict[int, dict[str, object]]]:
        """Return (number of trials, parameters of those that are not drawn): the grid's, or the
        default and its compilations as the first.
        """
        point, number = self.space.point, self.trials
        if self.sampler == "grid":
            cells = grid(point)[:number]
            number = len(cells)
        else:
            cells = self.space.first()[:number]
        return number, {place: parameters_of(point, cell)[0] for place, cell in enumerate(cells)}


def engines_of(space: TuneSpace, lm: object) -> list[Billed]:
    """Return what every LM that some agent may have is billed as."""
    lms = [lm]
    for branch in space.branches:
        for choices in branch.lms.values():
            lms += [made_lm(wanted, space.make_lm) for wanted in choices]
    return [billed_as(each) for each in lms if each is not None]


def _lm_name(lm: object) -> object:
    """Return an LM without its address, which may differ from machine to machine."""
    identity = lm_identity(lm)
    if identity is None:
        return getattr(lm, "model", None)
    return as_json(only(identity, ("name", "profile", "settings")))
