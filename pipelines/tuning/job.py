"""A study as its workers get it: what to try on which questions, where it is kept, and what it may cost."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning

from ...modules.base.calls import bound
from ...modules.base.errors import UserError
from ...modules.reading.question import Question
from ...optimizers.structure.front import MAXIMISED
from ...optimizers.structure.search import grid, parameters_of
from ..base.budget import ACCOUNTS, Budget, open_account
from ..data import load as data
from ..lms.cache import ACTIVE_CACHE, open_cache
from ..lms.ledger import LEDGERS, Ledger, totals
from ..lms.named import engine_of, lm_identity
from .budget import SEARCH_SHARE, SharedAccount, share_of
from .loop import Worker
from .network import Networks, halves
from .space import TuneSpace
from .storage import is_local, open_storage, shown
from .trial import Bench

_SAME = {
    "space": "space",
    "train": "training data",
    "objectives": "objectives",
    "sampler": "sampler",
    "seed": "seed",
    "lm": "LM",
}


@dataclass
class Job:
    """A study as its workers get it."""

    space: TuneSpace
    train: list[Question]
    lm: Any
    objectives: list[str]
    folder: Path
    storage: str | None
    study: str
    trials: int
    sampler: str
    seed: int
    budget: Budget | None
    concurrency: int
    cache: bool
    settings: dict[str, Any] = field(default_factory=dict)

    def bench(self) -> Bench:
        order = np.random.default_rng(self.seed).permutation(len(self.train))
        asked = [self.train[place] for place in order]
        bench = Bench(
            self.folder, self.space, asked, self.objectives, self.lm, self.concurrency, self.settings
        )
        if self.space.trains:
            learnt, bench.questions = halves(asked)
            bench.train = Networks(self.folder, learnt, self.lm, self.cache).trained
        return bench

    def account(self, share: float = SEARCH_SHARE) -> SharedAccount | None:
        """The account of a share of the budget. Raises UserError for a budget that could not be held."""
        if self.budget is None:
            return None
        held = share_of(self.budget, share) if share < 1 else self.budget
        open_account(held, engines_of(self.space, self.lm), totals(self.folder))
        return SharedAccount(held, folder=self.folder)

    def open(self) -> optuna.Study:
        """The study, made if it is not there. Raises UserError when there is another of its name."""
        # For good, since a filter for a time would undo those that a thread sets meanwhile.
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", category=ExperimentalWarning)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            kept = open_storage(self.storage, self.folder)
        except OSError as problem:
            raise UserError(
                f"{problem.filename or self.folder} cannot be written ({problem.strerror or problem}): "
                "choose another --out"
            ) from None
        large, small = optuna.study.StudyDirection.MAXIMIZE, optuna.study.StudyDirection.MINIMIZE
        directions = [large if name in MAXIMISED else small for name in self.objectives]
        study = optuna.create_study(
            storage=kept, study_name=self.study, directions=directions, load_if_exists=True
        )
        mine = self.identity()
        known = study.user_attrs.get("identity")
        if known is None:
            study.set_user_attr("home", self.bench().home)
            study.set_user_attr("identity", mine)
        else:
            for key, what in _SAME.items():
                if known.get(key) != mine[key]:
                    raise UserError(
                        f"{shown(self.storage)} holds another study {self.study!r} (its {what} differs): "
                        "choose another --study or --out"
                    )
        return study

    def identity(self) -> dict[str, Any]:
        return {
            "space": self.space.hash,
            "train": data.fingerprint(self.train),
            "objectives": self.objectives,
            "sampler": self.sampler,
            "seed": self.seed,
            "lm": _lm_name(self.lm),
        }

    def planned(self) -> tuple[int, dict[int, dict[str, Any]]]:
        """(number of trials, parameters of those not drawn): the grid's, or the default as the first."""
        point = self.space.point
        if self.sampler == "grid":
            cells = grid(point)[: self.trials]
            return len(cells), {place: parameters_of(point, cell)[0] for place, cell in enumerate(cells)}
        default, _ = self.space.default()
        if default is None:
            return self.trials, {}
        return self.trials, {0: parameters_of(point, default)[0]}


def engines_of(space: TuneSpace, lm: Any) -> list[Any]:
    """The engine of every LM that may sit somewhere; None for an LM that is not ours."""
    made = [lm] if lm is not None else []
    for branch in space.branches:
        for one in (one for choices in branch.lms.values() for one in choices):
            made.append(space.make_lm(**one) if isinstance(one, Mapping) else space.make_lm(one))
    return [engine_of(one) for one in made]


def work(job: Job, tell: Callable[[optuna.trial.FrozenTrial], None] = lambda trial: None) -> None:
    """Take trials of a study until none is left, in this process. Raises BudgetSpent."""
    study = job.open()
    trials, planned = job.planned()
    with ExitStack() as held:
        ledger = Ledger(job.folder)
        held.callback(ledger.close)
        held.enter_context(bound(LEDGERS, (ledger, *LEDGERS.get())))
        cache = job.cache and "latency" not in job.objectives
        held.enter_context(bound(ACTIVE_CACHE, held.enter_context(open_cache(cache))))
        account = job.account()
        if account is not None:
            held.enter_context(bound(ACCOUNTS, (account, *ACCOUNTS.get())))
        Worker(study, job.bench(), trials, job.sampler, job.seed, planned, is_local(job.storage)).run(tell)


def _lm_name(lm: Any) -> Any:
    """An LM without its address, which may differ from machine to machine."""
    known = lm_identity(lm)
    if known is None:
        return getattr(lm, "model", None)
    return json.loads(json.dumps({key: known[key] for key in ("name", "profile", "settings")}))
