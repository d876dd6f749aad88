"""Baselines with the budget of a run: the cost per question, how many samples that pays for, and
where the baseline is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...modules.base.errors import UserError
from ...modules.base.usage import Usage
from ...modules.reading.row import ResultRow, taken
from ..base.run_files import LMFields
from ..evaluation.earlier import Evaluation, earlier
from ..runs.folder import MANIFEST

MATCH = "match-budget"
"""The name of the folder inside the matched run's folder, and of the key in a baseline's settings.
"""

MATCHED = "1 agent, same budget"

TOLERANCE = 1.2
"""A baseline may take this many times the bill of the matched run, since a pilot is not exact."""


OVER, UNDER = 1.1, 0.85
"""The shares of a team's bill between which an odd number of samples is looked for."""


def samples_for(team: float, sample: float) -> int:
    """Return how often one agent can be asked for the price of a team; `team` and `sample` are
    prices of one question, in the same unit.

    An odd number, since a vote of an even one can be tied: the next that costs at most 10% more
    than the team, else the one before where it still costs about as much. Two are never asked: a
    vote of two that differ is decided by the first.
    """
    if sample <= 0:
        return 1
    pays = team / sample
    # A team of three equal calls pays for three samples, whatever rounding does to the quotient.
    whole = max(1, math.floor(pays + 1e-9))
    if whole + 1 <= OVER * pays and whole % 2 == 0:
        return whole + 1
    if whole % 2 == 0 and (whole == 2 or whole - 1 >= UNDER * pays):
        return whole - 1
    return whole


@dataclass(frozen=True)
class Match:
    """How many samples of `lm` the bill pays for (`samples_for`).

    Both are in dollars where both are known, else in tokens (prompt and completion together). The
    cost of a question is the mean over the `rows` of the matched run whose calls were all paid for.
    The cost of a sample is the mean over `pilot` questions asked once, or an estimate where `pilot`
    is 0.
    """

    tokens_per_question: float
    rows: int
    tokens_per_sample: float = math.inf
    pilot: int = 0
    cost_per_question: float | None = None
    cost_per_sample: float | None = None
    lm: str = ""

    @property
    def in_dollars(self) -> bool:
        """Whether the spending and the cost of a sample are both known in dollars."""
        return bool(self.cost_per_question and self.cost_per_sample)

    @property
    def spent(self) -> float:
        """What the matched run spent per question, in dollars or tokens."""
        return (self.in_dollars and self.cost_per_question) or self.tokens_per_question

    @property
    def taken(self) -> float:
        """The cost of a sample, in the same unit."""
        return (self.in_dollars and self.cost_per_sample) or self.tokens_per_sample

    @property
    def samples(self) -> int:
        return samples_for(self.spent, self.taken)

    @property
    def fits(self) -> bool:
        """Whether at least one sample per question is within the bill."""
        return self.taken <= TOLERANCE * self.spent


def run_or_match(run: Evaluation | str | Path) -> Evaluation:
    """Open a run as `earlier` does; the folder of a baseline with its pilot opens the baseline."""
    if isinstance(run, str | Path) and not (Path(run).expanduser() / MANIFEST).exists():
        # One LM has its samples in the folder itself, several have a folder each.
        home = Path(run).expanduser()
        return _best_of([*home.glob("*-samples"), *home.glob("*/*-samples")]) or earlier(run)
    return earlier(run)


def with_matches(
    names: Sequence[str], runs: Sequence[Evaluation]
) -> tuple[list[str], list[Evaluation]]:
    """Return the runs, then the baselines in their folders that are not among them."""
    folders, titles, new = {run.folder.resolve() for run in runs}, list[str](), list[Evaluation]()
    for name, run in zip(names, runs, strict=True):
        match = _best_of((run.folder / MATCH).glob("**/*-samples"))
        if match is not None and match.folder.resolve() not in folders:
            folders.add(match.folder.resolve())
            titles.append(f"{MATCHED} as {name}")
            new.append(match)
    # One alone needs no other name to be told apart.
    if len(new) == 1:
        titles = [MATCHED]
    return [*names, *titles], [*runs, *new]


def _best_of(places: Iterable[Path]) -> Evaluation | None:
    """Return the finished baseline in these folders that is most often right, or None."""
    baselines = []
    for place in sorted(places):
        # A baseline that is not finished, or damaged, is no reason not to compare the runs.
        with suppress(UserError, OSError):
            run = earlier(place)
            finished = run.summary.finished == run.summary.counts.questions
            if finished and MATCH in run.summary.run.settings:
                baselines.append(run)
    return max(baselines, key=lambda run: run.score, default=None)


def same_lm(one: LMFields, other: LMFields) -> bool:
    """Return whether two identities are the same LM, as far as is known: no address is known of
    DSPy's own LMs.
    """
    # An LM whose address is not known has its name as endpoint.
    placed = {lm.endpoint for lm in (one, other)} - {one.name}
    return one.name == other.name and len(placed) < 2


def tokens_per_question(rows: Iterable[ResultRow]) -> tuple[float | None, int]:
    """Return mean tokens of the answered questions with known tokens, and their number; None for
    none. Failed questions are left out: their spending is not the price of an answer.
    """
    counts = [usage.tokens for usage in usages_of(rows) if usage.tokens is not None]
    if not any(counts):
        return None, len(counts)
    return sum(counts) / len(counts), len(counts)


def usages_of(rows: Iterable[ResultRow]) -> Iterator[Usage]:
    """Yield the usage of each answered question; questions without a call are left out."""
    for row in rows:
        usage = taken(row)
        if row.error is None and usage.calls:
            yield usage
