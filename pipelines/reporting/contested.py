"""A contest's folder: the outcome in words, the standings, and how the race went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ...modules.base.errors import UserError
from ...modules.base.usage import UsageFields
from ...modules.statistics.statistics import Estimate
from ..base.journal import read_object
from ..base.wording import counted, rounded_money
from ..comparison.table import Standing
from ..plots.comparison import interval_plot
from ..runs.manifest import CONTEST

Outcome = Literal["better", "not worth it", "undecided"]
RESULT, RUNS = "result", "runs"


class Step(TypedDict):
    """A point in the race of a program: its difference to the reference after a number of
    questions, with its interval.
    """

    questions: int
    name: str
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Place:
    """One program in the standings.

    `right` is its mean score, in the metric's scale, over `n` questions with the ends of its 95%
    interval. `difference` is that to the reference on the questions of both, for new questions; the
    `listed` ends are for all questions of the contest, equal once all were asked. `usd`, `tokens`
    and `calls` are its cost per question with every call at its price, None where unknown;
    `multiple` is that cost divided by the reference's. `failed` questions are neither right nor
    wrong, and not among `n`; `unread` answers are wrong. A program that has left says why in
    `reason`. A `free` one was never asked: its answers follow from those of others.
    """

    name: str
    right: float
    low: float
    high: float
    n: int
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    listed_low: float | None = None
    listed_high: float | None = None
    usd: float | None = None
    tokens: float | None = None
    calls: float | None = None
    multiple: float | None = None
    state: Literal["racing", "out", "free"] = "racing"
    reason: str = ""
    failed: int = 0
    unread: int = 0
    reference: bool = False
    fair: bool = False
    team: bool = False
    free: bool = False

    @property
    def shown(self) -> Standing:
        """The line of the table."""
        difference = None
        if self.difference is not None:
            difference = Estimate(
                self.difference, self.difference_low or 0.0, self.difference_high or 0.0
            )
        note = f"out: {self.reason}" if self.reason and not self.reference else ""
        score = Estimate(self.right, self.low, self.high)
        counts = {"failed": self.failed, "could not be read": self.unread}
        failures = " and ".join(f"{count:,} {what}" for what, count in counts.items() if count)
        return Standing(self.name, score, difference, self.multiple, note, self.usd, failures)


_PLACES, _COURSE = TypeAdapter(list[Place]), TypeAdapter(list[Step])


class ContestResult:
    """The result of a contest.

    Attributes:
        result: what `contest.json` has.
        outcome: `better`, `not worth it` or `undecided`. `reason` says why, in a sentence.
        winner_name: the name of the program to take; empty where the contest is not finished.
        places: the standings, the reference first and free entrants last.
        asked: the lines of the table, without free entrants.
        winning: the standing of the winner; None where it was compiled after the race.
        course: how far each program was from the reference, each time answers were tested.
        folders: the folders of the programs' runs by name.
        paid: what the contest paid, over all attempts.
        sentences: the outcome in three sentences at most.
    """

    def __init__(self, folder: Path, result: Mapping[str, Any]) -> None:
        self.folder, self.result = folder, result
        self.outcome: Outcome = result["outcome"]
        self.reason, self.winner_name = str(result["reason"]), str(result["winner"] or "")
        self.places = _PLACES.validate_python(result["standings"])
        self.asked = [place.shown for place in self.places if not place.free]
        self.winning = next(
            (place for place in self.places if place.name == self.winner_name), None
        )
        self.course = _COURSE.validate_python(result["course"])
        # By name below the folder that is read: a file from elsewhere must not lead out of it.
        self.folders = dict[str, Path]()
        for name, place in result[RUNS].items():
            run = folder / RUNS / Path(place).name
            if run.is_dir():
                self.folders[name] = run
        self.paid: UsageFields = result["paid"]
        self.sentences = list(filter(None, _sentences(result)))

    @property
    def is_rate(self) -> bool:
        """Whether answers are right or wrong."""
        return bool(self.result.get("rate", True))  # the first contests did not note it

    @property
    def title(self) -> str:
        """What the scores are called."""
        return str(self.result.get("scores", "right"))

    def plot(self, path: str | Path, *, rate: bool | None = None) -> Path:
        """Draw how far each program is from the reference, with intervals, as PNG or SVG. `rate`
        says whether scores are shares; None is `is_rate`. Raises UserError where none was compared.
        """
        if rate is None:
            rate = self.is_rate
        differences = {shown.name: shown.difference for shown in self.asked if shown.difference}
        reference = next((shown.name for shown in self.asked), "the reference")
        return interval_plot(differences, reference, Path(path), rate=rate)


ContestKind = TypeVar("ContestKind", bound=ContestResult)


def contest_in(folder: Path, kind: type[ContestKind]) -> ContestKind | None:
    """Read the result of a contest, ended or stopped; None where there is none. Raises UserError
    for a damaged one.
    """
    result = (read_object(folder / CONTEST) or {}).get(RESULT)
    if not isinstance(result, dict):
        return None
    try:
        return kind(folder, result)
    # The file may be edited, or of another version.
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{folder / CONTEST} is damaged: run the contest again") from None


def _sentences(result: Mapping[str, Any]) -> Iterator[str]:
    if not result["finished"]:
        yield f"{_capital(str(result['stopped']))}."
        return
    why = result["confirmation"] or result.get("advice") or "nothing is shown to beat it"
    if result["chosen_on_same"]:
        less = "1–3 points" if result.get("rate", True) else "a little"
        why += f"; chosen and measured on the same questions: expect {less} less"
    now = " for now" if result["outcome"] == "undecided" else ""
    yield f"Take {result['winner']}{now}: {why}."
    yield f"{_capital(result['outcome'])}: {result['reason']}."
    if still_open := result.get("open"):  # which the first contests did not note
        yield f"Open: {still_open}{_prediction(result)}."


def _prediction(result: Mapping[str, Any]) -> str:
    needed, usd = result["needed"], result["needed_usd"]
    if needed is None:
        return ""
    more = counted(max(1, needed - result["questions"]), "more question")
    if usd:
        more += f" ({rounded_money(usd)})"
    return f"; about {more} would decide"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
