"""Forecasts a vote's gain from recorded answers, without a call: `fm.forecast`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError
from ...modules.protocols.declaration import distinct
from ...modules.statistics.vote_forecast import (
    ABSTAINED,
    RIGHT,
    Codes,
    VoteForecast,
    forecast_vote,
)
from ..base.html import html_result
from ..base.request import entry
from ..base.wording import counted, signed
from ..comparison.sources import runs_in
from ..evaluation.earlier import Evaluation, load_run
from ..runs.outcomes import OutcomeRow, Outcomes, outcomes_from, outcomes_in
from .request import ForecastRequest

if TYPE_CHECKING:
    import pandas

FEWEST_AGENTS, FEWEST_QUESTIONS = 2, 10
MOST_AGENTS = 1000
"""The most agents whose vote is forecast: each takes time and memory."""

OUTCOMES_ALONE = (
    "answers: none are recorded, so all who failed are taken to agree, the worst for a vote; a "
    "pick among them is bounded by the share that any of them gets right"
)
SHOWN = (2, 3, 5, 7, 10, 15, 20, 30)
COLUMNS = ("n", "value", "low", "high")


@dataclass(frozen=True)
class Forecast:
    """The mean gain of a vote of n agents over one of them.

    `effective` is the number of independent agents that these are worth, `ceiling` the share of
    questions on which any is right, and `accuracy` their mean accuracy.
    """

    agents: tuple[str, ...]
    questions: int
    left_out: int
    """How many questions were left out, since not every agent has answered them."""

    vote: VoteForecast
    without_answers: bool = False
    """Whether only outcomes are known, as of tasks: then all who failed are taken to agree."""

    @property
    def gain(self) -> pandas.DataFrame:
        """A row for each number of agents: `n`, and `value`, `low`, `high` in -1 to 1 (90%)."""
        import pandas

        return pandas.DataFrame(self._rows(), columns=COLUMNS)

    @property
    def effective(self) -> float:
        return self.vote.effective

    @property
    def ceiling(self) -> float:
        return self.vote.ceiling

    @property
    def accuracy(self) -> float:
        return self.vote.accuracy

    def _rows(self) -> list[tuple[int, float, float, float]]:
        ends = zip(self.vote.sizes, self.vote.gain, self.vote.low, self.vote.high, strict=True)
        return [(n, float(value), float(low), float(high)) for n, value, low, high in ends]

    def to_dict(self) -> dict[str, object]:
        return {
            "agents": list(self.agents),
            "questions": self.questions,
            "left_out": self.left_out,
            "gain": [dict(zip(COLUMNS, row, strict=True)) for row in self._rows()],
            "effective": self.effective,
            "ceiling": self.ceiling,
            "accuracy": self.accuracy,
        }

    def lines(self) -> list[str]:
        """Return the forecast in words: lines for a few numbers of agents, then the data that it is
        based on.
        """
        lines, rows = [], self._rows()
        for n, value, low, high in [row for row in rows if row[0] in SHOWN] or rows:
            lines.append(
                f"vote of {n}: {signed(value)} points, 90% interval {signed(low)} to "
                f"{signed(high)}, {n} times the price"
            )
        asked = f"{counted(len(self.agents), 'agent')} on {counted(self.questions, 'question')}"
        if self.left_out:
            asked += f"; {counted(self.left_out, 'question')} left out"
        lines += [
            f"from {asked}: {self.accuracy:.0%} right on average, worth {self.effective:.1f} "
            f"independent agents, any of them right on {self.ceiling:.0%}",
            "not covered: talk between agents, and LMs unlike these",
        ]
        if self.without_answers:
            lines.append(OUTCOMES_ALONE)
        return lines

    def __repr__(self) -> str:
        return f"Forecast({self.lines()[0]})"

    def _repr_html_(self) -> str:
        parts = {}
        for line in self.lines():
            name, _, parts[name] = line.partition(": ")
        return html_result("Forecast", parts)


@entry(ForecastRequest)
def forecast(request: ForecastRequest) -> Forecast:
    """Forecast the gain of a vote of agents from a few agents on a few questions; no LM is asked.

    Raises UserError for fewer than 2 agents or 10 questions that all of them have answered, and for
    files that are neither runs nor outcome tables.
    """
    sizes = sorted({int(size) for size in request.sizes})
    if not sizes or sizes[0] < 1 or sizes[-1] > MOST_AGENTS:
        raise UserError(
            f"sizes are numbers of agents from 1 to {MOST_AGENTS:,}, such as range(2, 31)"
        )
    outcomes, one_lm = _outcomes(request)
    answers, agents, left_out, without_answers = vote_codes(outcomes)
    if len(agents) < FEWEST_AGENTS or len(answers) < FEWEST_QUESTIONS:
        raise UserError(
            f"a forecast needs {FEWEST_AGENTS} agents and {FEWEST_QUESTIONS} questions that all of "
            f"them have answered, and there are {len(agents)} and {len(answers)}: give more runs "
            "on the same questions"
        )
    wrong = outcomes.options
    if wrong is not None:
        wrong -= 1  # With few options, agents that guess agree by chance.
    vote = forecast_vote(answers, wrong, sizes, one_lm=one_lm, seed=request.seed)
    return Forecast(agents, len(answers), left_out, vote, without_answers)


def _outcomes(request: ForecastRequest) -> tuple[Outcomes, bool]:
    """Return the answers that a request names, as one table, and whether they come from one LM."""
    answers: object = request.answers
    if request.outcomes is not None:
        if answers:
            raise UserError("give runs or --outcomes, not both")
        return _table(request.outcomes)
    if isinstance(answers, Evaluation | str | Path):
        answers = [answers]
    if not isinstance(answers, list | tuple):
        return _table(answers)
    if not answers:
        raise UserError("give the folders of runs, or a table with --outcomes FILE")
    # Files are tables, folders are runs.
    files = all(isinstance(answer, str | Path) and Path(answer).is_file() for answer in answers)
    if files or isinstance(answers[0], Mapping):
        return _table(answers)
    runs = [load_run(run) for run in runs_in(answers)]
    names = distinct([run.folder.name for run in runs])
    lms = set[str]()
    for run in runs:
        lms |= {lm.name for lm in run.summary.run.lms.values()}
    return outcomes_from(_recorded(dict(zip(names, runs, strict=True)))), len(lms) == 1


def _recorded(runs: Mapping[str, Evaluation]) -> Iterator[OutcomeRow]:
    """Yield the outcomes of the questions that runs have answered, each once."""
    for name, run in runs.items():
        for row in run.rows:
            # Of repeats, the first: each agent has one vote.
            if row.error is None and row.correct is not None and not row.repeat:
                yield OutcomeRow(
                    question_id=row.id,
                    question=row.question,
                    agent=name,
                    answer=row.answer,
                    correct=row.correct,
                )


def _table(answers: object) -> tuple[Outcomes, bool]:
    outcomes = outcomes_in(answers)
    return outcomes, len(outcomes.agents) == 1


def vote_codes(outcomes: Outcomes) -> tuple[Codes, tuple[str, ...], int, bool]:
    """Return answers as `forecast_vote` takes them, the agents, how many questions are left out,
    and whether only outcomes are known.

    An agent is a pair of agent and strategy that the table has; a question counts if all have
    answered it.
    """
    shape = len(outcomes), len(outcomes.agents) * len(outcomes.labels)
    answered = outcomes.present.reshape(shape)
    used: npt.NDArray[np.bool_] = np.any(answered, axis=0)
    names = [" ".join(filter(None, pair)) for pair in product(outcomes.agents, outcomes.labels)]
    whole = answered[:, used].all(axis=1)
    raw = outcomes.answers.reshape(shape)[np.ix_(whole, used)]
    right = outcomes.correct.reshape(shape)[np.ix_(whole, used)]
    # Of tasks only the outcome is known. That those who failed agree is the worst for a vote.
    without_answer = ABSTAINED
    outcomes_alone = bool((right & (raw < 0)).any())
    if outcomes_alone:
        without_answer = 1
    # The table's codes begin at 0; here 0 is the right answer, and wrong ones begin at 1.
    answers = np.where(right, RIGHT, np.where(raw < 0, without_answer, raw + 1))
    # Only who agrees with whom counts: the wrong answers to a question are numbered from 1.
    for row in answers:
        wrong = row > 0
        row[wrong] = np.unique(row[wrong], return_inverse=True)[1] + 1
    agents = tuple(compress(names, used))
    return answers, agents, int((~whole).sum()), outcomes_alone
