"""`Protocol`: what is declared about a protocol (name, short spec, search space, replays, plot),
and helpers for declarations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.errors import UserError, checked_among
from ..reading.row import ResultRow

if TYPE_CHECKING:  # which would bring Optuna along
    from ..base.space import Space

MAX_ROUNDS = 3
"""The most rounds of a dialogue in the papers."""


class Replayed(NamedTuple):
    """The outcome of one question under another setting; `calls` is how many of the recorded calls,
    from the first on, it needs.
    """

    answer: str | None
    decided_by: str
    rounds: int
    calls: int


@dataclass(frozen=True)
class Replays:
    """The constructor parameters whose effect can be computed from a recorded run.

    Args:
        free: the names of those parameters.
        record: (a program's parameters, the largest value of each free number) → the parameters of
            the run to record, from which all settings can be computed.
        tell: (rows of such a run, parameters) → an outcome per row, None for a failed row; None
            altogether if the parameters need calls of their own. Raises UserError for rows of
            another program.
        same_calls: whether every setting needs all recorded calls.
    """

    free: tuple[str, ...]
    record: Callable[[Mapping[str, object], Mapping[str, object]], dict[str, object]]
    tell: Callable[[Sequence[ResultRow], Mapping[str, object]], list[Replayed | None] | None]
    same_calls: bool = False


class Plot(NamedTuple):
    """The drawing of a protocol's report, and a sentence on what the picture shows.

    `draw` is the name of a function in `pipelines/plots/evaluation.py`, or a function like those:
    (report, path) → whether there was anything to draw.
    """

    draw: str | Callable[..., bool]
    caption: str


def no_parts(parts: Sequence[str]) -> dict[str, object]:
    """Return the parameters in a short spec that may only be the protocol's name: none. Raises
    UserError for further parts.
    """
    if any(parts):
        raise UserError(
            f"{':'.join(parts)!r} is more than the program's name: give parameters with --set"
        )
    return {}


def comma_items(parts: Sequence[str]) -> list[str]:
    """Return the items, separated by commas, of the first part of a short spec."""
    return list(map(str.strip, parts[0].split(","))) if any(parts[:1]) else []


def known_names(
    parameter: str, value: object, allowed: Iterable[str], what: str, advice: str
) -> list[str]:
    """Return the names that a parameter is set to, a list or one text.

    Raises UserError for the first name that is not allowed, which it calls a `what`, and, with the
    advice, for a value that is not a sequence.
    """
    if not isinstance(value, Sequence):
        raise UserError(f"{parameter} is {value!r}: {advice}")
    names, choices = list(value), list(allowed)
    if isinstance(value, str):
        names, parts = [value], comma_items([value])
        # "a,b" is surely meant as two names, but elsewhere a comma may be part of one.
        if len(parts) > 1 and {*parts} <= {*choices}:
            raise UserError(f"{parameter} is one text: give a list, {parameter}={parts}")
    for name in names:
        checked_among(what, name, choices)
    return names


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names in order, repeated ones numbered: `a, b, a` becomes `a.0, b, a.1`."""
    times, numbers = Counter(names), defaultdict[str, Iterator[int]](count)
    used = {name for name in names if times[name] == 1}
    result = []
    for name in names:
        new = name
        # Numbers are skipped whose name is taken: a program may be called `a.0` itself.
        while times[name] > 1 and (new == name or new in used):
            new = f"{name}.{next(numbers[name])}"
        used.add(new)
        result.append(new)
    return result


@dataclass(frozen=True)
class Trainable:
    """How the programs of a protocol learn from questions before they can answer.

    Args:
        untrained: the protocol of programs that are still to be trained; they have the methods
            `train` and `training_turns`.
        settled: (parameters) → (these, with what a study has to know beforehand, and a warning).
        check: (parameter → its values) raises UserError for values that no training can take.
        of_turns: the parameters that say how often a program asks.
        rescored: (a trained program's folder, recorded answers, parameters) → its scores on them.
        fresh: (program) → a copy that can learn: as it was before training where it has had none.
        teach: (such a program, questions, folder, LM, cache, tracking, parent, progress) trains it
            further. Its `members` are what it chooses among, and `routed(questions)` says which of
            them it gives to each.
    """

    untrained: Protocol
    settled: Callable[[Mapping[str, object]], tuple[dict[str, object], str | None]]
    check: Callable[[Mapping[str, Sequence[object]]], None]
    of_turns: tuple[str, ...]
    rescored: Callable[..., Any]
    fresh: Callable[..., Any]
    teach: Callable[..., None]


@dataclass(frozen=True)
class Protocol:
    """The facts about a protocol that other modules need; `Program.protocol` of its class.

    Args:
        name: under which it is found, written, saved and plotted.
        example: a short spec; empty if no short spec can make such a program.
        read: (the parts of a short spec after the name, at most two) → constructor parameters.
        space: what can be tuned.
        replays: the outcomes under other settings that follow from a recorded run.
        plot: how its report is drawn.
        holds: the parameters that are programs, or lists of them.
        fixed: the parameters, besides `holds`, that decide which prompts there are, so that those
            of a saved program cannot be changed.
        program: makes a program from its parameters; by default the class. If it has a parameter
            `embedder`, it is given one: (name of a model) → what embeds texts.
        learning: how its programs are trained, if they have to be.
    """

    name: str
    example: str = ""
    read: Callable[[Sequence[str]], dict[str, object]] = no_parts
    space: Space = field(default_factory=dict)
    replays: Replays | None = None
    plot: Plot | None = None
    holds: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    program: Callable[..., object] | None = None
    learning: Trainable | None = None

    def make(self, **parameters: object) -> Any:
        """Return a program with these parameters."""
        assert self.program is not None, f"{self.name} is not registered"
        return self.program(**parameters)
