"""The space of a study: the protocols' own, narrowed and widened by a spec or a YAML file, and
checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.space import (
    Choice,
    Draw,
    Member,
    Parameter,
    Real,
    Setting,
    Space,
    Values,
    Whole,
    constructed,
    draw_setting,
    located,
    options,
    parameter_name,
)
from ...modules.protocols.declaration import Protocol
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS
from ..lms.named import lm
from ..programs.build import MakeLM, made, takes_list
from ..programs.networks import TO_TRAIN
from ..programs.resolve import program_of

PROGRAM = "program"
LMS = "lms."
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')  # of JSON
CHECKED = 200  # values of one parameter that are tried out before anything is spent


@dataclass(frozen=True)
class Branch:
    """One program of a space: what is fixed, what may vary, and the LMs that may sit in its seats.

    `spec` is a protocol's name or a saved program's folder; `fixed` holds parameters that are no
    part of the space, such as an environment; `lms` the choices by seat. `file` is what the space
    was read from, where it was a file, and `mine` the parameters that the user gave besides.
    """

    label: str
    spec: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    space: Space = field(default_factory=dict)
    lms: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    file: str | None = None
    mine: frozenset[str] = frozenset()

    @property
    def trains(self) -> bool:
        """Whether it is a strategy network to train, rather than one that a folder holds."""
        return self.spec == TO_TRAIN.name and "folder" not in (*self.fixed, *self.space)

    @property
    def protocol(self) -> Protocol | None:
        return TO_TRAIN if self.trains else PROTOCOLS.find(self.spec)

    def parameters(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """The constructor's parameters for a point of this branch."""
        found = constructed(self.space, {k: v for k, v in setting.items() if k in self.space})
        for name, value in self.fixed.items():
            found[name] = {**value, **found.get(name, {})} if isinstance(value, Mapping) else value
        return found

    def build(
        self, parameters: Mapping[str, Any], lms: Mapping[str, Any], make_lm: MakeLM
    ) -> Program:
        """The program; LMs for seats that it does not have are passed over."""
        if self.trains:
            program = made(self.spec, self.spec, parameters, TO_TRAIN)
        else:
            theirs = {key: value for key, value in parameters.items() if key not in self.mine}
            mine = {key: value for key, value in parameters.items() if key in self.mine}
            spec = self.spec if self.protocol is None else {PROGRAM: self.spec, **theirs}
            program = program_of(spec, mine, make_lm=make_lm, file=self.file)
        for seat, wanted in lms.items():
            if has_seat(program, seat):
                program.assign({seat: made_lm(wanted, make_lm)})
        return program


@dataclass(frozen=True)
class TuneSpace:
    """All that a study may try: one branch a program. `where` says what to correct when it is
    wrong.
    """

    where: str
    branches: tuple[Branch, ...]
    make_lm: MakeLM = lm

    @property
    def trains(self) -> bool:
        return any(branch.trains for branch in self.branches)

    def point(self, draw: Draw) -> Setting:
        """A point, drawn parameter by parameter; seats' LMs last, as far as the program has the
        seats.
        """
        branch = self.branches[0]
        setting: Setting = {}
        if len(self.branches) > 1:
            setting[PROGRAM] = draw(PROGRAM, Choice(tuple(known.label for known in self.branches)))
            branch = self.branch(setting)
        prefix = self.prefix(branch)
        own = draw_setting(branch.space, lambda name, values: draw(prefix + name, values))
        setting |= {prefix + name: value for name, value in own.items()}
        program = branch.build(branch.parameters(own), {}, self.make_lm) if branch.lms else None
        for seat, choices in branch.lms.items():
            if has_seat(program, seat):
                name = f"{prefix}{LMS}{seat}"
                setting[name] = choices[0] if len(choices) == 1 else draw(name, Choice(choices))
        return setting

    def branch(self, setting: Mapping[str, Any]) -> Branch:
        label = setting.get(PROGRAM, self.branches[0].label)
        return next(branch for branch in self.branches if branch.label == label)

    def prefix(self, branch: Branch) -> str:
        return f"{branch.label}/" if len(self.branches) > 1 else ""

    def whole(
        self, branch: Branch, own: Mapping[str, Any], lms: Mapping[str, Any], program: Program
    ) -> Setting:
        """A point of the branch as one of the whole space, with the LMs of seats that its program
        has.
        """
        named: Setting = {PROGRAM: branch.label} if len(self.branches) > 1 else {}
        seated = {f"{LMS}{seat}": wanted for seat, wanted in lms.items() if has_seat(program, seat)}
        return named | {
            self.prefix(branch) + name: value for name, value in {**own, **seated}.items()
        }

    def own(self, setting: Mapping[str, Any]) -> tuple[Branch, Setting, dict[str, Any]]:
        """(branch, its parameters without the prefix, LM by seat) of a point.

        Raises UserError for a text that the space does not have: a study's storage may be somebody
        else's, and such a text could name code, or an LM elsewhere.
        """
        branch = self.branch(setting)
        prefix = self.prefix(branch)
        own = {
            name.removeprefix(prefix): value for name, value in setting.items() if name != PROGRAM
        }
        for text in _TEXTS.findall(_as_json([*own.values()])):
            if text not in self._text:
                raise UserError(
                    f"{self.where}: the study has a trial with {text}, which its space does not "
                    f"have: take "
                    "another --out or --study"
                )
        lms = {name.removeprefix(LMS): value for name, value in own.items() if name.startswith(LMS)}
        return branch, {name: value for name, value in own.items() if not name.startswith(LMS)}, lms

    def program(self, setting: Mapping[str, Any]) -> Program:
        branch, own, lms = self.own(setting)
        return branch.build(branch.parameters(own), lms, self.make_lm)

    def default(self) -> tuple[Setting | None, Program]:
        """The first program as it is without tuning, and its point; None where the space leaves it
        out.
        """
        branch = self.branches[0]
        lms = {seat: choices[0] for seat, choices in branch.lms.items()}
        parameters = self._default_parameters(branch, branch.protocol) if branch.protocol else {}
        program = branch.build(parameters, lms, self.make_lm)
        own = located(branch.space, {**program.describe(), **parameters})
        if own is None:
            return None, program
        # what depends on a condition that does not hold is left out, as in a trial
        if branch.trains:
            program = branch.build(branch.parameters(own), lms, self.make_lm)
        return self.whole(branch, own, lms, program), program

    def _default_parameters(self, branch: Branch, protocol: Protocol) -> dict[str, Any]:
        """The constructor's defaults, and the example's where it has none, with all that the space
        fixes.
        """
        allowed = {
            n: options_of(known.values) for n, known in branch.space.items() if known.joins is None
        }
        only = {name: values[0] for name, values in allowed.items() if len(values) == 1}
        first = {**constructed({}, only), **branch.fixed}
        example = protocol.read(protocol.example.split(":", 2)[1:])
        for name, values in allowed.items():
            if name in protocol.space and name not in first and takes_list(protocol, name):
                first[name] = example[name] if example.get(name) in values else values[0]
        # what completes another parameter, which it is a member of
        for known in branch.space.values():
            if (
                known.joins
                and isinstance(known.values, Member)
                and known.when
                and known.when.holds(first)
            ):
                first[known.joins] = f"{first[known.joins]}:{first[known.values.of][0]}"
        return first

    def check(self) -> None:
        """Build a program with every value of every parameter. Raises UserError naming file and
        parameter.
        """
        for branch in self.branches:
            unseated = set(branch.lms)
            for name, chosen in _tries(branch.space):
                setting = draw_setting(branch.space, chosen)
                try:
                    program = branch.build(branch.parameters(setting), {}, self.make_lm)
                except UserError as problem:
                    what = f"{name}: " if name else ""
                    raise UserError(f"{self.where}: {branch.label}: {what}{problem}") from None
                unseated -= {seat for seat in unseated if has_seat(program, seat)}
            for seat, choices in branch.lms.items():
                if seat in unseated:
                    raise UserError(
                        f"{self.where}: {branch.label}: lms: no setting has a seat {seat!r}: "
                        f"the seats are {', '.join(program.seats())}"
                    )
                for wanted in choices:
                    try:
                        made_lm(wanted, self.make_lm)
                    except UserError as problem:
                        raise UserError(
                            f"{self.where}: {branch.label}: lms.{seat}: {problem}"
                        ) from None

    def to_dict(self) -> dict[str, Any]:
        """As JSON, for reports and to tell spaces apart."""
        found = [
            {
                "label": branch.label,
                "spec": branch.spec,
                "fixed": branch.fixed,
                "space": {name: _shown(known) for name, known in branch.space.items()},
                "lms": branch.lms,
            }
            for branch in self.branches
        ]
        return {"branches": json.loads(_as_json(found))}

    @cached_property
    def _text(self) -> str:
        return _as_json(self.to_dict())

    @property
    def hash(self) -> str:
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _as_json(value: Any) -> str:
    return json.dumps(value, default=lambda one: getattr(one, "source", str(one)))


def made_lm(wanted: Any, make_lm: MakeLM) -> Any:
    """The LM of a seat, by name or by the arguments of `lm`."""
    return make_lm(**wanted) if isinstance(wanted, Mapping) else make_lm(wanted)


def has_seat(program: Program | None, seat: str) -> bool:
    seats = program.seats() if program else ()
    return any(name == seat or name.startswith(f"{seat}.") for name in seats)


def options_of(values: Values) -> list[Any]:
    """All values, of endless ones the first."""
    known = options(values)
    return [values.low] if known is None else known  # type: ignore[union-attr]


def _tries(space: Space) -> list[tuple[str, Draw]]:
    """What to draw so that each value of each parameter is drawn once, the others at their first;
    the name is of the parameter, or empty where it is not one alone.
    """

    def taking(name: str, place: int) -> Draw:
        when = space[name].when if name in space else None

        def draw(key: str, values: Choice | Whole | Real) -> Any:
            known = options(values)
            if known is None:
                return values.low if place % 2 == 0 else values.high  # type: ignore[union-attr]
            if parameter_name(key) == name:
                return known[place % len(known)]
            if when is not None and when.parameter == key:
                return next((value for value in known if when.holds({key: value})), known[0])
            return known[-1 if place < 0 else 0]

        return draw

    found: list[tuple[str, Draw]] = [("", taking("", 0))]
    for name, parameter in space.items():
        count = len(options_of(parameter.values)) if not isinstance(parameter.values, Member) else 1
        found += [
            (name, taking(name, place))
            for place in range(0, max(count, 2), max(1, count // CHECKED))
        ]
    return [*found, ("", taking("", -1))]


def _shown(parameter: Parameter) -> dict[str, Any]:
    when = {"when": asdict(parameter.when)} if parameter.when else {}
    return {type(parameter.values).__name__.lower(): asdict(parameter.values), **when}
