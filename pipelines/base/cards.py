"""What a result folder shows: each room that makes such folders declares a `Kind`, whose `describe`
makes the `Card` that the command line, pages, MLflow and Python read.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.keyed import without, without_none
from ...modules.base.registry import Registry, instances
from ...modules.base.saved_file import MEASURED, MODULE
from ...modules.base.usage import UsageFields, tokens_of
from .html import html_table
from .journal import read_object
from .run_files import LMFields, ScoreFields
from .settings import settings
from .wording import counted, money, percent, signed_interval, unanswered

MOST_FIGURES = 12
MOST_LISTED = 8  # runs within a result
DIFFERENCE = "difference"
"""The name of a score that is a difference to another program's."""


class State(StrEnum):
    """How far the work in a folder is."""

    FINISHED = "finished"
    STOPPED = "stopped"
    RUNNING = "running"
    FAILED = "failed"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Score:
    """A score with its name and 95% interval, over `n` questions. A `rate` is shown in per cent."""

    name: str
    value: float
    low: float
    high: float
    n: int | None = None
    rate: bool = True

    @classmethod
    def of(cls, name: str, score: Mapping[str, object]) -> Score:
        """Return the score in a file. Raises KeyError or TypeError if it is damaged."""
        read = ScoreFields.of(score)
        value, low, high = map(float, (read.value, read.low, read.high))
        return cls(name, value, low, high, read.n if "n" in read else None, read.rate)

    def __str__(self) -> str:
        return percent(vars(self))

    @property
    def in_words(self) -> str:
        """As a sentence gives it."""
        return str(self)

    def figures(self) -> dict[str, float]:
        """Return the score and the ends of its interval, by name."""
        ends = {f"{self.name}_low": self.low, f"{self.name}_high": self.high}
        return {self.name: self.value, **ends}


@dataclass(frozen=True)
class Gap(Score):
    """A score that is a difference, to another program's or between two arms."""

    def __str__(self) -> str:
        return signed_interval(self.value, self.low, self.high, is_rate=self.rate)

    @property
    def in_words(self) -> str:
        ends = (self.value, self.low, self.high)
        return signed_interval(*ends, is_rate=self.rate, points=True)


@dataclass(frozen=True)
class TableEntry:
    """Rows that a page or the tracking store shows as a table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Drawn:
    """A file that is made from `sources` only when it is needed: `write` gets its path, and may
    write nothing. `table` says that it writes a table.
    """

    sources: Sequence[Path]
    write: Callable[[Path], object]
    table: bool = False


Content = Path | str | dict[str, object] | TableEntry | Drawn
"""A file's content: a file or folder on disk, a text, JSON, a table, or what a function writes."""


@dataclass
class Card:
    """What a result folder shows; what is unknown is None or empty.

    `title` is the work in a few words; `program`, `lm` and `data` are what it was about; `scores`
    are its scores, the main one first, then its difference to what it is compared with. `problem`
    says why the `state` is not finished. `calls` and `cost_usd` are what was paid, `costs` what a
    question costs without caches. `sentences` are the conclusion, `outcome` is its word.
    `children` are the folders that belong to it, `below` the cards of parts without a folder, and
    `next` is the command to go on with.

    The tracking store shows all of it, and in addition the results of three functions: `run` (a
    description like a run's manifest), `artifacts` (name → content of a file) and `course` (the
    figures after so many questions). `name` is what the store calls the work, if not its program.
    If it is only `begun`, there is nothing to show yet. `traced`: its folder has traces. `times`:
    for a part without a folder, when it began and ended, in milliseconds since 1970.
    """

    title: str
    state: State = State.FINISHED
    problem: str | None = None
    program: str | None = None
    lm: str | None = None
    data: str | None = None
    scores: list[Score] = field(default_factory=list)
    calls: int | None = None
    cost_usd: float | None = None
    lost: str = ""
    """What calls without an answer may have cost besides, in words."""
    sentences: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    pictures: dict[Path, str] = field(default_factory=dict)
    """PNG files with their captions."""
    children: list[Path] = field(default_factory=list)
    next: str | None = None
    outcome: str | None = None
    costs: dict[str, float] = field(default_factory=dict)
    run: Callable[[], Mapping[str, Any]] = dict
    name: str | None = None
    artifacts: Callable[[], Mapping[str, Content]] = dict
    course: Callable[[], Sequence[tuple[int, Mapping[str, float]]]] = tuple
    labels: Mapping[str, str] = field(default_factory=dict)
    """What scores are called in words, where it is not their name."""
    below: list[Card] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    begun: bool = False
    traced: bool = False
    times: tuple[int | None, int | None] = (None, None)
    kind: str = ""
    folder: Path = Path()
    when: str = ""
    """The time of the last change (ISO, UTC)."""

    @property
    def score(self) -> Score | None:
        return self.scores[0] if self.scores else None

    def paid(self, usage: Mapping[str, object], lost: UsageFields | None = None) -> None:
        """Note what was paid, and what calls without an answer may have cost besides."""
        bill = UsageFields.of(usage)
        self.calls, self.cost_usd = bill.calls, bill.cost_usd
        self.lost = unanswered(lost)

    def ended(self, stopped: object) -> None:
        """Note the sentence that says why the work ended early, if it did."""
        if stopped:
            self.state, self.problem = State.STOPPED, str(stopped)

    def figures(self) -> dict[str, float]:
        """At most twelve figures, with the same names for every kind of result: the main score and
        the difference with their intervals, costs per question, what was paid, the number of
        questions, and as many other scores as there is room for.
        """
        figures: dict[str, float] = {}
        for place, score in enumerate(self.scores):
            if not place or score.name == DIFFERENCE:
                figures |= score.figures()
        figures |= self.costs
        if self.cost_usd is not None:
            figures["paid_usd"] = self.cost_usd
        if self.score is not None and self.score.n is not None:
            figures["questions"] = self.score.n
        others = {score.name: score.value for score in self.scores if score.name not in figures}
        return figures | dict(list(others.items())[: MOST_FIGURES - len(figures)])

    def check(self) -> None:
        """Raise TypeError or ValueError if a value cannot be shown, as in an edited file."""
        words = (self.title, self.program, self.lm, self.data, self.problem, *self.sentences)
        amounts = [self.calls or 0, self.cost_usd or 0]
        for score in self.scores:
            amounts += [score.value, score.low, score.high, score.n or 0]
        # `join` raises for anything but text, `fsum` for anything but numbers.
        "".join(filter(None, words))
        math.fsum(amounts)

    def lines(self) -> list[str]:
        """Return the card as lines of text."""
        state = str(self.state)
        if self.problem:
            state += f": {self.problem}"
        return [f"{self.title} ({state})", *self.said()]

    def said(self) -> list[str]:
        """Return what came out in words, the conclusion first."""
        lines = list(self.sentences)
        conclusion = " ".join(self.sentences)
        for score in self.scores:
            if score.in_words not in conclusion:  # else it would be read twice
                label = self.labels.get(score.name, score.name)
                lines.append(f"{label}: {score.in_words}")
        if self.calls is not None:
            paid = f"paid: {counted(self.calls, 'call')}"
            if self.cost_usd is not None:
                paid += f", {money(self.cost_usd)}"
            lines.append(f"{paid}{self.lost}")
        lines += [f"runs: {folder}" for folder in self.children[:MOST_LISTED]]
        if len(self.children) > MOST_LISTED:
            lines.append(f"runs: {len(self.children) - MOST_LISTED} more")
        lines += [f"file: {file}" for file in self.files]
        if self.next:
            lines.append(f"next: {self.next}")
        return lines

    def to_dict(self) -> dict[str, object]:
        score = self.score
        hidden = (
            *("run", "name", "artifacts", "course", "below", "tags", "begun", "traced", "times"),
            *("lost", "labels"),
        )
        return {
            **without(vars(self), hidden),
            "folder": str(self.folder),
            "score": None if score is None else vars(score),
            "scores": [vars(each) for each in self.scores],
            "files": list(map(str, self.files)),
            "pictures": {str(file): caption for file, caption in self.pictures.items()},
            "children": list(map(str, self.children)),
        }


@dataclass(frozen=True)
class Kind:
    """A kind of result folder.

    Args:
        file: the file by which a folder is recognised as one of this kind.
        command: the command that makes such folders.
        what: such a folder in words, such as `an evaluation`.
        describe: (folder, content of `file`) → the card; if it raises because of what is in the
            files, the folder is shown as damaged.
        program: the sub-folder with the resulting program, if there is one.
        tested: whether an evaluation of that program may be in the same folder.
    """

    file: str
    command: str
    what: str
    describe: Callable[[Path, Mapping[str, object]], Card]
    program: str | None = None
    tested: bool = False

    def card(self, folder: Path) -> Card:
        """Return the card of a folder; one that cannot be read is damaged, and says so."""
        try:
            document = read_object(folder / self.file)
            if document is None:
                raise ValueError
            card = self.describe(folder, document)
            card.check()
        except UserError as problem:
            card = Card(self.what, State.DAMAGED, str(problem))
        except (OSError, TypeError, ValueError, LookupError, AttributeError):
            # The files may have been edited, so `describe` may fail in any of these ways.
            card = Card(self.what, State.DAMAGED, f"{self.file} is damaged")
        card.kind, card.folder = self.command, folder
        return card


def question_costs(usage: UsageFields, answers: int) -> dict[str, float]:
    """Return the known costs per question: USD for 1,000, tokens, calls."""
    if not answers:
        return {}
    cost = usage.cost_usd
    totals = {
        "cost_per_1000": None if cost is None else 1000 * cost,
        "tokens_per_question": tokens_of(usage),
        "calls_per_question": usage.calls,
    }
    return {name: value / answers for name, value in without_none(totals).items()}


def kept_files(folder: Path, names: Sequence[str], under: str = "") -> dict[str, Content]:
    """Return the files and folders of these names that there are, by their names below `under`.
    Links are left out, since a link could name any file of this machine; so are FIFOs, which never
    end.
    """
    kept: dict[str, Content] = {}
    for name in names:
        path = folder / name
        if not path.is_symlink() and (path.is_file() or path.is_dir()):
            kept[f"{under}{name}"] = path
    return kept


class ShownResult:
    """A result with a folder, which shows what the card of the folder does."""

    folder: Path

    @property
    def card(self) -> Card:
        kind = result_kind(self.folder)
        return Card(repr(self)) if kind is None else kind.card(self.folder)

    def lines(self) -> list[str]:
        """Return the result in words, the conclusion first."""
        return self.card.said()

    def _repr_html_(self) -> str:
        return html_table([repr(self)], ([line] for line in self.card.said()))


KINDS: Registry[Kind] = Registry("kinds", instances(Kind, "a kind of result"))
"""The kinds by their file, after which their entry points are named; loaded where they are met."""


def kinds_in(folder: Path) -> list[Kind]:
    """Return the kinds of results that a folder holds."""
    held = [KINDS.find(file) for file in KINDS.names() if (folder / file).is_file()]
    return list(filter(None, held))


def result_kind(folder: Path) -> Kind | None:
    """Return the kind of a folder; that of the training where a network's test lies in the same
    folder.
    """
    held = kinds_in(folder)
    return min(held, key=lambda kind: kind.command == "evaluate", default=None)


def measured_kinds(program: Path) -> list[str]:
    """Return the kinds of the questions that the program in a folder was measured on, where it says
    so.
    """
    kinds = (read_object(program / MEASURED) or {}).get("kinds")
    return kinds if isinstance(kinds, list) else []


def ask_command(folder: Path, program: Path, lms: Mapping[str, LMFields]) -> str:
    """Return the command that asks the program of a result, to be pasted: with options where it was
    measured with them.
    """
    words = ["folkmoot", "ask", str(folder), "YOUR QUESTION"]
    if measured_kinds(program) == ["choice"]:
        words += ["--choice", "ONE OPTION", "--choice", "ANOTHER"]
    return shlex.join(words) + program_options(program, lms)


def program_options(program: Path, lms: Mapping[str, LMFields]) -> str:
    """Return the options that a saved program needs, to be pasted behind a command: the class of a
    module of the user's own, and the addresses of LMs, neither of which is taken from its files.
    """
    words = []
    module = read_object(program / MODULE) or {}
    if own := module.get("spec") or module.get("class"):
        words += ["--set", f"program={own}"]
    for seat, described in lms.items():
        address = described["endpoint"].rpartition(" at ")[2]
        if address.startswith("http") and address != settings().openai_base_url:
            words += ["--api-base", address if seat == "*" else f"{seat}={address}"]
    return f" {shlex.join(words)}" if words else ""
