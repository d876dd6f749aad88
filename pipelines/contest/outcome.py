"""`Contest`: the result of a contest, just made or read from a folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ..base.cards import ShownResult
from ..base.run_files import SummaryFields
from ..base.wording import money, thousand, unanswered
from ..comparison.compare import compare
from ..comparison.comparison import Comparison
from ..comparison.table import table_lines
from ..evaluation.card import costs_of
from ..evaluation.earlier import Evaluation, earlier
from ..programs.saved import load_program
from ..reporting.contested import ContestResult
from ..reporting.report import Report, report
from ..runs.rows import RESULTS
from ..tracking.log_model import log_program
from .card import WINNER, winner_commands

if TYPE_CHECKING:
    import pandas as pd

CONFIRM = "confirm"
NO_FILE = "your own code, which no folder holds: name it where it is, or call it in Python."


class Contest(ContestResult, ShownResult):
    """A contest: which program won, why, and what it cost.

    `outcome` is `better`, `not worth it` or `undecided`, and `reason` a sentence. `winner` is the
    program to take, ready to be asked. `standings` is a DataFrame with a row for each program,
    `runs` its evaluations by name. `confirmed` compares the winner with the reference on fresh
    questions, or is None.
    """

    def __init__(
        self,
        folder: Path,
        result: Mapping[str, Any],
        *,
        winner: Any = None,
        keep: object = None,
        again: Any = None,
    ) -> None:
        super().__init__(folder, result)
        self._winner, self._keep, self._again = winner, keep, again
        self.stopped: str | None = result["stopped"]
        self.run_id: str | None = None

    @cached_property
    def winner(self) -> Any:
        """The program to take: the cheapest that nothing is shown to beat.

        It can be asked at once; `save(folder)` keeps it, and `register(name)` enters the program of
        the contest's folder into MLflow's model registry.
        """
        if not self.result["finished"]:
            raise UserError(f"the contest in {self.folder} has no winner yet: continue it first")
        winner = self._winner
        if winner is None:
            winner = load_program(self.folder / WINNER)
        # A module of DSPy's is handed over as the user's own object, to which nothing is added.
        if self.result.get("saved") and isinstance(self._winner, Program | None):
            winner.register = partial(log_program, self.folder / WINNER)
        return winner

    @property
    def standings(self) -> pd.DataFrame:
        """The standings as a DataFrame, with a row for each program."""
        import pandas as pd

        return pd.DataFrame(map(asdict, self.places))

    @cached_property
    def runs(self) -> dict[str, Evaluation]:
        """The evaluations by name of the programs that have answered, the reference first."""
        runs: dict[str, Evaluation] = {}
        for name, folder in self.folders.items():
            # A contest may stop before each program has.
            rows = folder / RESULTS
            if not rows.exists() or rows.stat().st_size:
                runs[name] = earlier(folder, self._keep)
        return runs

    @cached_property
    def confirmed(self) -> Comparison | None:
        """The winner and the reference on questions that the race had not used."""
        names: Mapping[str, str] = self.result["confirmed"] or {}
        folders = [self.folder / CONFIRM / place for place in names.values()]
        if not folders:
            return None
        return compare(*folders)

    @property
    def empty(self) -> bool:
        """Whether there is no verdict because of a stop."""
        return self.stopped is not None and not self.result["finished"]

    @property
    def paused(self) -> bool:
        """Whether an endpoint or account failed."""
        return not self.result["finished"]

    def fails(self, condition: str) -> bool:
        """Return whether the outcome is `worse`, `undecided` or `not-better`, as `--fail-if` has
        it.

        `worse` means that the best team is shown to be worse than the reference.
        """
        if condition == "worse":
            teams = []
            for place in self.places:
                if place.team and place.difference_high is not None:
                    teams.append((place.difference or 0.0, place.difference_high))
            # One team that may be as good is enough, so that only the best counts.
            best = max(teams, key=itemgetter(0), default=None)
            return best is not None and best[1] < 0
        if condition == "not-better":
            return self.outcome != "better"
        return self.outcome == "undecided"

    def report(self, out: str | Path | None = None) -> Report:
        """Write one HTML page about the contest, by default `report.html` in its folder."""
        return report(self.folder, out=out, tracking=False)

    def resume(self, budget: str | None = None) -> Contest:
        """Continue the contest, with another budget if one is given.

        Raises UserError for a contest that was read from its folder: give its command again.
        """
        if self._again is None:
            raise UserError(
                f"the contest in {self.folder} was read from disk: give the same command again"
            )
        contest: Contest = self._again(budget)
        return contest

    def lines(self) -> list[str]:
        """Return the ending: table, sentences, price, and what to do next, at most 24 lines."""
        best, price, spent = self.winning, "", ""
        if best is not None:
            price = thousand(best.usd, best.tokens)
        elif (run := (self.result["confirmed"] or {}).get(self.winner_name)) is not None:
            # One that was compiled after the race has answered the unseen questions alone.
            summary = earlier(self.folder / CONFIRM / Path(run).name).summary
            costs = costs_of(SummaryFields.of(summary.to_dict()))
            usd = costs.get("cost_per_1000")
            price = thousand(usd and usd / 1000, costs.get("tokens_per_question"))
        if (paid := self.paid["cost_usd"]) is not None:
            spent = f"the contest paid {money(paid)}"
        lost = unanswered(self.result.get("lost"))
        if not self.result["finished"]:  # its scores so far are no result
            if not spent and not lost:
                return self.sentences
            bill = f"{spent or 'the contest has no known price'}{lost}."
            return [*self.sentences, bill[0].upper() + bill[1:]]
        lines = ["", *self.sentences]
        if self.asked:
            first, title = self.asked[0].name, self.title
            lines = [*table_lines(self.asked, first, is_rate=self.is_rate, metric=title), *lines]
        if improved := self.result.get("improved"):
            lines.append(improved)
        failures = []
        for row in self.asked:
            if row.failures:
                failures.append(f"{row.name} {row.failures}")
        if failures:
            what = "Failed answers are left out, unreadable ones are wrong"
            lines.append(f"{what}: {'; '.join(failures)}.")
        lines += self.result.get("unmetered", ())
        lines.append(f"Price: {price or 'not known'}{spent and '; '}{spent}{lost}.")
        if not self.result.get("saved"):
            lines.append(f"{self.winner_name} is {NO_FILE}")
        lines.append("")
        for name, command in winner_commands(self).items():
            lines.append(f"{name:<8}{command}")
        lines.append(f"report  folkmoot report {shlex.quote(str(self.folder))}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {"out": str(self.folder), **self.result}

    def __repr__(self) -> str:
        return f"Contest({self.outcome}, {self.winner_name or 'no winner yet'})"
