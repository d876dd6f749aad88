"""The places of a run's files, and the types of `run.json` (its manifest) and of parts of
`summary.json`.
"""

from __future__ import annotations

from collections.abc import KeysView
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.keyed import Keyed
from ...modules.base.saved_file import Described
from ...modules.base.usage import UsageFields
from ...modules.reading.grading import MetricFields as MetricFields

BOOKS = ".folkmoot"
"""The hidden sub-folder of a run with what only folkmoot reads: calls, their ledger, locks, and
what the tracking store already has.
"""

_ONCE_BESIDE_RESULTS = ("ledger.jsonl", "calls.jsonl", "lms.json")


def books_of(folder: Path) -> Path:
    """Return the folder with the books of a run, or of a record of calls (`--record`): the hidden
    sub-folder, or the folder itself for older runs and records. Raises UserError for a link.
    """
    if (folder / BOOKS).is_symlink():
        raise UserError(
            f"{folder / BOOKS} is a link to another place: name a folder with the books themselves"
        )
    beside = any((folder / name).exists() for name in _ONCE_BESIDE_RESULTS)
    return folder if beside else folder / BOOKS


class ScoreFields(Keyed):
    """A score over `n` questions with its 95% interval.

    `rate` is False for a mean of scores that are neither right nor wrong; without it, the score is
    a share in 0 … 1.
    """

    __slots__ = ()
    value: float
    low: float
    high: float
    n: int = 0
    rate: bool = True


def score_fields(estimate: tuple[float, float, float], n: int) -> ScoreFields:
    """Return a score, (value, low, high), as it is written into files."""
    value, low, high = estimate
    return ScoreFields(value=value, low=low, high=high, n=n)


class Counts(Keyed):
    """Numbers of questions and rows; `correct` is None if scores are neither right nor wrong."""

    __slots__ = ()
    questions: int
    rows: int = 0
    correct: int | None = None
    errors: int = 0
    unreadable: int = 0
    truncated: int = 0


class Flaky(Keyed):
    """A question that is right in some of its repeats and wrong in others; `flips` is the share of
    repeats that differ from the majority.
    """

    __slots__ = ()
    id: str
    repeats: int
    right: int
    flips: float


class FittedWeights(Keyed):
    """The weights that an ensemble learned, the number of training questions, and the cost."""

    __slots__ = ()
    weights: dict[str, float]
    questions: int
    usage: UsageFields


class Latency(Keyed):
    """Seconds per question; empty if no row has them."""

    __slots__ = ()
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


class LMFields(Keyed):
    """An LM in a run's manifest: all that is needed to ask it again, except its key."""

    __slots__ = ()
    name: str
    endpoint: str
    profile: dict[str, Any]
    settings: dict[str, Any]


class SummaryFields(Keyed):
    """What others read of a run's `summary.json`; see `runs.summary.Summary`."""

    __slots__ = ()
    scores: dict[str, ScoreFields]
    counts: Counts
    usage: UsageFields
    takes: UsageFields | None = None
    paid: UsageFields | None = None
    lost: UsageFields | None = None
    seconds: Latency = Latency()
    report: dict[str, object] | None = None
    stopped: str | None = None
    ending: str | None = None


class JudgeFields(Keyed):
    """The LM that graded answers and, if `checked`, its agreement with people."""

    __slots__ = ()
    lm: str
    checked: bool
    agreement: ScoreFields | None = None
    kappa: ScoreFields | None = None
    too_kind: list[str] | None = None
    too_strict: list[str] | None = None
    unreadable: list[str] | None = None
    usage: UsageFields | None = None


class DataSettings(Keyed):
    """The settings from which later commands read the same questions and prices again."""

    __slots__ = ()
    split: str | None = None
    kind: str | None = None
    sets: list[str] | None = None
    columns: list[str] | None = None
    prices: list[str] | None = None


class RunSettings(DataSettings):
    """The settings of a run: fields of its request, and additions of its command."""

    __slots__ = ()
    command: str | None = None
    program_spec: str | None = None
    run_name: str | None = None
    label: str | None = None
    concurrency: int | None = None
    engine: str | None = None
    data: str | None = None
    loaded_from: str | None = None
    cluster: str | None = None
    limit: int | None = None
    seed: int | None = None
    sampling: str | None = None
    kinds: Any = None
    types: Any = None
    budget: str | None = None
    train: str | None = None
    train_split: str | None = None
    train_fingerprint: str | None = None
    demos: int | None = None
    demo_seed: int | None = None
    alone: list[str] | None = None
    repeats: int | None = None
    permute: bool = False
    warnings: list[str] | None = None


class Manifest(Keyed):
    """`run.json`: the description of a run, and where it is tracked.

    `program` is the program's `describe()`; `lms` has the LM of each seat, with `*` for all others;
    `metric` is None for accuracy. `imported` describes the log that a run was read from. The last
    fields are those of the tracking store.
    """

    __slots__ = ()
    program: Described
    program_hash: str
    prompt_hash: str
    lms: dict[str, LMFields]
    data_fingerprint: str
    questions: int
    metric: MetricFields | None = None
    settings: RunSettings
    versions: dict[str, str]
    git_commit: str | None
    judge: JudgeFields | None = None
    imported: dict[str, Any] | None = None
    mlflow_run_id: str | None = None
    mlflow_parent_id: str | None = None
    mlflow_experiment_id: str | None = None
    mlflow_experiment: str | None = None

    @property
    def lm_names(self) -> list[str]:
        """The different LMs, by name."""
        return list(dict.fromkeys(lm.name for lm in self.lms.values()))

    @property
    def endpoints(self) -> KeysView[str]:
        """The different LMs, by name and address."""
        return dict.fromkeys(str(lm.endpoint) for lm in self.lms.values()).keys()
