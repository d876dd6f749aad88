"""The result of a contest, from this process or read from the folder of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.calls import UsageFields
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ..base.html import html_result
from ..base.journal import read_object
from ..base.wording import money
from ..comparison.compare import compare
from ..comparison.comparison import Comparison
from ..evaluation.earlier import Evaluation, earlier
from ..programs.saved import load_program
from ..reporting.contested import contest_sentences
from ..reporting.report import Report, report
from ..runs.manifest import CONTEST as CONTEST
from ..tracking.models import log_program
from .race import RUNS
from .standing import Outcome, Place, table

if TYPE_CHECKING:
    import pandas as pd

WINNER, CONFIRM = "winner", "confirm"
RESULT = "result"


class Contest:
    """A contest: which program won, why, and what it cost.

    `outcome` is `better`, `not worth it` or `undecided`, and `reason` says why in a sentence.
    `winner` is the program to take, ready to be asked. `standings` has a line for each program, and
    `runs` its evaluation by name. `confirmed` compares the winner with the reference on questions
    that the race had not used; None without a confirmation.
    """

    def __init__(
        self,
        folder: Path,
        about: Mapping[str, Any],
        *,
        winner: Any = None,
        keep: Any = None,
        again: Any = None,
        run_id: str | None = None,
    ) -> None:
        self.folder, self._about, self._result = folder, about, about[RESULT]
        self._winner, self._keep, self._again = winner, keep, again
        self.run_id = run_id

    @property
    def outcome(self) -> Outcome:
        """`better`, `not worth it` or `undecided`."""
        return self._result["outcome"]  # type: ignore[no-any-return]

    @property
    def reason(self) -> str:
        """Why, in a sentence."""
        return str(self._result["reason"])

    @property
    def winner_name(self) -> str:
        return str(self._result["winner"])

    @cached_property
    def winner(self) -> Any:
        """The program to take: the cheapest that nothing is shown to beat.

        It can be asked at once; `save(folder)` keeps it, and `register(name)` enters the program of
        the contest's folder into MLflow's model registry.
        """
        winner: Any = load_program(self.folder / WINNER) if self._winner is None else self._winner
        if isinstance(self._winner, Program | None):
            winner.register = partial(log_program, self.folder / WINNER)
        return winner

    @property
    def places(self) -> list[Place]:
        """The standings, the reference first and free entrants last."""
        return [Place(**one) for one in self._result["standings"]]

    @property
    def standings(self) -> pd.DataFrame:
        """The standings as a DataFrame, with a row for each program."""
        import pandas as pd

        return pd.DataFrame([one.to_dict() for one in self.places])

    @cached_property
    def runs(self) -> dict[str, Evaluation]:
        """The programs' evaluations by name, the reference first."""
        evaluations = {}
        for name, place in self._result["runs"].items():
            if (self.folder / RUNS / place).is_dir():
                evaluations[name] = earlier(self.folder / RUNS / place)
        return evaluations

    @cached_property
    def confirmed(self) -> Comparison | None:
        """The winner and the reference on questions that the race had not used."""
        names: Mapping[str, str] | None = self._result["confirmed"]
        return (
            compare(*(self.folder / CONFIRM / place for place in names.values()))
            if (names)
            else None
        )

    @property
    def stopped(self) -> str | None:
        """Why the contest stopped early, against the user's will; None if it did not."""
        stopped: str | None = self._result["stopped"]
        return stopped

    @property
    def empty(self) -> bool:
        """Whether there is no verdict because of a stop."""
        return self.stopped is not None and not self._result["finished"]

    @property
    def paid(self) -> UsageFields:
        """What the contest paid, over all attempts."""
        paid: UsageFields = self._result["paid"]
        return paid

    def fails(self, condition: str) -> bool:
        """Whether the outcome is one that `--fail-if` names: `worse`, `undecided` or `not-better`.

        `worse` means that the best team is shown to be worse than the reference.
        """
        if condition == "worse":
            teams = [one for one in self.places if one.team and one.difference_high is not None]
            best = max(teams, key=lambda one: one.difference or 0.0, default=None)
            return best is not None and (best.difference_high or 0.0) < 0
        return (
            self.outcome != "better" if condition == "not-better" else self.outcome == "undecided"
        )

    def report(self, out: str | Path | None = None) -> Report:
        """Write one HTML page about the contest, by default `report.html` in its folder."""
        return report(self.folder, out=out, tracking=False)

    def resume(self, budget: str | None = None) -> Contest:
        """Continue the contest, with another budget if one is given; nothing is paid twice.

        Raises UserError for a contest that was read from its folder: give its command again.
        """
        if self._again is None:
            raise UserError(
                f"the contest in {self.folder} was read from disk: give the same command again"
            )
        contest: Contest = self._again(budget)
        return contest

    def sentences(self) -> list[str]:
        """The outcome in three sentences at most."""
        return contest_sentences(self._result)

    def table(self) -> list[str]:
        """The standings as lines of text, at most 80 wide."""
        return table(self.places)

    def lines(self) -> list[str]:
        """The ending: table, sentences, price, and what to do next, at most 24 lines."""
        place = next((one for one in self.places if one.name == self.winner_name), None)
        price = "not known in dollars"
        if place is not None and place.usd is not None:
            price = f"{1000 * place.usd:.3g} USD per 1,000 questions"
        if place is not None and not place.usd and place.tokens is not None:
            price = f"{place.tokens:,.0f} tokens per question"
        where = self.folder / WINNER
        paid = self.paid["cost_usd"]
        spent = "" if paid is None else f"; the contest paid {money(paid)}"
        free = sorted((one for one in self.places if one.free), key=lambda one: -one.right)
        lines = [*self.table(), "", *self.sentences()]
        if free:
            best = free[0]
            lines.append(
                f"Without a call, from the same answers: {best.name} would be "
                f"{100 * best.right:.0f}% right."
            )
        if improved := self._result.get("improved"):
            lines.append(improved)
        return [
            *lines,
            *self._result.get("unmetered", ()),
            f"Price: {price}{spent}.",
            "",
            f"winner  {where}",
            f'ask     folkmoot ask {where} "…"',
            f'load    fm.load_program("{where}")',
            f"serve   folkmoot serve {where}",
            f"improve folkmoot compile {where} --train FILE",
            f"report  folkmoot report {self.folder}",
        ]

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        fields = {"outcome": self.outcome, "winner": self.winner_name, "because": self.reason}
        return {"winner": self.winner_name} if quiet else {**fields, "folder": str(self.folder)}

    def to_dict(self) -> dict[str, Any]:
        return {"out": str(self.folder), **self._result}

    def __repr__(self) -> str:
        return f"Contest({self.outcome}, {self.winner_name})"

    def _repr_html_(self) -> str:
        return html_result(f"Contest: {self.outcome}", self.in_words())


def contest_in(folder: Path | None) -> Contest | None:
    """Read the result of a contest, ended or stopped, from its folder; None where there is none."""
    about = None if folder is None else read_object(folder / CONTEST)
    if folder is None or about is None or not isinstance(about.get(RESULT), dict):
        return None
    return Contest(folder, about)
