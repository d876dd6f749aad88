"""The space of a study: the protocols' own, narrowed and widened by a spec or a YAML file, and
checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from ...modules.agents.retrieval import environments_in
from ...modules.base.errors import UserError
from ...modules.base.keyed import only, without, without_none
from ...modules.base.space import Distribution, Parameter, Space, choice, coded
from ...modules.protocols.declaration import Protocol, Trainable
from ...modules.protocols.program import Program, lms_by_seat
from ...modules.protocols.registry import PROTOCOLS, known
from ...modules.protocols.saved import hashes
from ...optimizers.structure.points import (
    Draw,
    Setting,
    constructed,
    decoded,
    draw_setting,
    located,
    options,
    parameter_name,
)
from ..lms.named import lm_for
from ..programs.build import MakeLM, made, takes_list
from ..programs.resolve import program_of
from ..programs.saved import saved_program
from ..programs.seats import Unused, program_given
from ..runs.folder import TemporaryFolder

PROGRAM = "program"
LMS = "lms."
OPTIMIZER, PRESET = "compile.optimizer", "compile.preset"
"""The parameters that say how the prompts of a setting are compiled."""
NOT_COMPILED = "none"
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')  # of JSON
CHECKED = 200  # values of one parameter that are tried out before anything is spent


def rebuilt(
    folder: Path, program: Program, changed: Mapping[str, object], make_lm: MakeLM = lm_for
) -> Program:
    """Return the program that is saved in a folder, with some parameters changed, and with the LMs
    and the environment of `program`, which has the same seats.

    Raises UserError for parameters that would change which seats there are.
    """
    places = {place.fingerprint: place for place in environments_in(program)}
    return saved_program(
        folder,
        sets=changed,
        lms=without_none(lms_by_seat(program)),
        environment=places or None,
        make_lm=make_lm,
    )


@dataclass(frozen=True)
class ReadyProgram:
    """A program with its prompts, of which a study may change constructor parameters.

    Args:
        folder: where it is saved; None for a module or function of the user's.
        program: the program as it is.
        keep: what a temporary folder lives as long as.
    """

    folder: Path | None
    program: Program
    keep: TemporaryFolder | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Leave the folder's end to the process that made it."""
        return {**self.__dict__, "keep": None}

    @classmethod
    def of(cls, source: Any, make_lm: MakeLM) -> ReadyProgram:
        """Return the program of a folder, or of an object in Python, which is saved in a temporary
        folder.

        Raises UserError for what is not a program, or cannot be saved.
        """
        if isinstance(source, str | Path) and Path(source).expanduser().is_dir():
            return cls(Path(source).expanduser(), program_of(source, make_lm=make_lm))
        program = program_given(source)
        if program.foreign:
            return cls(None, program)
        # Its parameters are changed by loading it anew, so it has to be in a folder.
        keep = TemporaryFolder()
        program.save(keep.path)
        return cls(keep.path, program, keep)

    @property
    def protocol(self) -> Protocol | None:
        return known(str(self.program.describe()["program"]))

    def build(self, parameters: Mapping[str, object], make_lm: MakeLM) -> Program:
        """Return the program with some constructor parameters changed, its prompts and LMs as they
        were.

        Raises UserError for parameters that its prompts do not fit.
        """
        described = self.program.describe()
        changed = dict[str, object]()
        for name, value in parameters.items():
            before = described.get(name)
            if value == before:
                continue
            # A mapping, such as the sampling, is given in part: the rest stays as it was.
            if isinstance(value, Mapping):
                value = {**(before or {}), **value}
            changed[name] = value
        if not changed:
            same: Program = self.program.deepcopy()
            return same
        if self.folder is None:
            raise UserError(f"{min(changed)} cannot be set on a program of your own: leave it out")
        return rebuilt(self.folder, self.program, changed, make_lm)


class Recipe(NamedTuple):
    """How the prompts of a setting are compiled."""

    optimizer: str
    preset: str


@dataclass(frozen=True)
class Branch:
    """One program of a space: what is fixed, what may vary, and the LMs that may sit in its seats.

    Args:
        label: what trials call it.
        spec: a protocol's name, or what the user called a program of her own.
        fixed: parameters that are not part of the space, such as an environment.
        space: what may vary, compilation included.
        lms: the choices by seat.
        file: what the space was read from, where it was a file.
        mine: the parameters that the user set besides that file.
        ready: the program whose prompts stay, where it is not made anew from its protocol.
    """

    label: str
    spec: str
    fixed: Mapping[str, object] = field(default_factory=dict)
    space: Space = field(default_factory=dict)
    lms: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    file: str | None = None
    mine: frozenset[str] = frozenset()
    ready: ReadyProgram | None = None

    @property
    def learning(self) -> Trainable | None:
        """How its programs are trained, where they are made anew and have to be."""
        if self.ready is not None or "folder" in (*self.fixed, *self.space):
            return None
        protocol = PROTOCOLS.find(self.spec)
        return None if protocol is None else protocol.learning

    @property
    def trains(self) -> bool:
        return self.learning is not None

    @property
    def compiles(self) -> bool:
        return OPTIMIZER in self.space

    def choices(self, name: str) -> list[Any]:
        """Return the values of a parameter, none where it does not vary."""
        if name not in self.space:
            return []
        return options(self.space[name].values) or []

    @property
    def protocol(self) -> Protocol | None:
        if self.ready is not None:
            return self.ready.protocol
        if self.learning is not None:
            return self.learning.untrained
        # A worker has not imported a class that the user has named.
        found = PROTOCOLS.spec(self.spec)
        return None if found is None else found.thing

    def parameters(self, setting: Mapping[str, object]) -> dict[str, Any]:
        """Return the constructor's parameters for a point of this branch."""
        own = only(without(setting, (OPTIMIZER, PRESET)), self.space)
        parameters = constructed(self.space, own)
        for name, value in self.fixed.items():
            if isinstance(value, Mapping):
                value = {**value, **parameters.get(name, {})}
            parameters[name] = value
        return parameters

    def recipe(self, setting: Mapping[str, Any]) -> Recipe | None:
        """Return how the prompts of a point of this branch are compiled; None where they are
        not.
        """
        optimizer = setting.get(OPTIMIZER, NOT_COMPILED)
        if optimizer == NOT_COMPILED:
            return None
        return Recipe(optimizer, setting[PRESET])

    def build(
        self, parameters: Mapping[str, object], lms: Mapping[str, object], make_lm: MakeLM
    ) -> Program:
        """Return the program; LMs for seats that it does not have are passed over."""
        if self.ready is not None:
            program = self.ready.build(parameters, make_lm)
        elif self.learning is not None:
            program = made(self.spec, self.spec, parameters, self.learning.untrained)
        else:
            # What the user gave herself may name code of hers, what a file says may not.
            spec, mine = without(parameters, self.mine), only(parameters, self.mine)
            spec[PROGRAM] = self.spec
            program = program_of(spec, mine, make_lm=make_lm, file=self.file)
        for seat, wanted in lms.items():
            if program.has_seat(seat):
                program.assign({seat: made_lm(wanted, make_lm)})
        return program

    def to_dict(self) -> dict[str, object]:
        """As JSON, for reports and to tell spaces apart."""
        spec = hashes(self.ready.program) if self.ready is not None else self.spec
        return {
            "label": self.label,
            "spec": spec,
            "fixed": self.fixed,
            "space": {name: _shown(parameter) for name, parameter in self.space.items()},
            "lms": self.lms,
        }


@dataclass(frozen=True)
class TuneSpace:
    """All that a study may try: one branch per program. `where` says what to correct when it is
    wrong.
    """

    where: str
    branches: tuple[Branch, ...]
    make_lm: MakeLM = lm_for

    @property
    def trains(self) -> bool:
        return any(branch.trains for branch in self.branches)

    @property
    def compiles(self) -> bool:
        return any(branch.compiles for branch in self.branches)

    def point(self, draw: Draw) -> Setting:
        """Return a point, drawn parameter by parameter; seats' LMs last, as far as the program has
        the seats.
        """
        branch = self.branches[0]
        setting: Setting = {}
        if len(self.branches) > 1:
            setting[PROGRAM] = draw(PROGRAM, choice(*(each.label for each in self.branches)).made())
            branch = self.branch(setting)
        prefix = self.prefix(branch)
        own = draw_setting(branch.space, lambda name, values: draw(prefix + name, values))
        for name, value in own.items():
            setting[prefix + name] = value
        if not branch.lms:
            return setting
        program = branch.build(branch.parameters(own), {}, self.make_lm)
        for seat, choices in branch.lms.items():
            if program.has_seat(seat):
                name = f"{prefix}{LMS}{seat}"
                setting[name] = choices[0]
                if len(choices) > 1:
                    setting[name] = decoded(draw(name, choice(*choices).made()))
        return setting

    def branch(self, setting: Mapping[str, object]) -> Branch:
        label = setting.get(PROGRAM, self.branches[0].label)
        return next(branch for branch in self.branches if branch.label == label)

    def prefix(self, branch: Branch) -> str:
        if len(self.branches) == 1:
            return ""
        return f"{branch.label}/"

    def whole(
        self, branch: Branch, own: Mapping[str, object], lms: Mapping[str, object], program: Program
    ) -> Setting:
        """Return a point of the branch as one of the whole space, with the LMs of seats that its
        program has.
        """
        setting: Setting = {}
        if len(self.branches) > 1:
            setting[PROGRAM] = branch.label
        prefix = self.prefix(branch)
        for name, value in own.items():
            setting[prefix + name] = value
        for seat, wanted in lms.items():
            if program.has_seat(seat):
                setting[f"{prefix}{LMS}{seat}"] = wanted
        return setting

    def own(self, setting: Mapping[str, object]) -> tuple[Branch, Setting, dict[str, object]]:
        """Return (branch, its parameters without the prefix, LM by seat) of a point.

        Raises UserError for a text that the space does not have: a study's storage may be somebody
        else's, and such a text could name code, or an LM elsewhere.
        """
        branch = self.branch(setting)
        prefix = self.prefix(branch)
        own, lms = dict[str, object](), dict[str, object]()
        for full, value in setting.items():
            name = full.removeprefix(prefix)
            if name.startswith(LMS):
                lms[name.removeprefix(LMS)] = value
            elif full != PROGRAM:
                own[name] = value
        # Numbers are harmless, wherever they come from; texts are compared as JSON writes them.
        for text in _TEXTS.findall(_as_json([*own.values(), *lms.values()])):
            if text not in self._text:
                raise UserError(
                    f"{self.where}: the study has a trial with {text}, which its space does not "
                    f"have: take another --out or --study"
                )
        return branch, own, lms

    def program(self, setting: Mapping[str, object]) -> Program:
        """Return the program of a point, with prompts as they are before a compilation."""
        branch, own, lms = self.own(setting)
        return branch.build(branch.parameters(own), lms, self.make_lm)

    def default(self) -> tuple[Setting | None, Program]:
        """Return the first program as it is without tuning, and its point; None where the space
        leaves it out.
        """
        branch = self.branches[0]
        lms = {seat: choices[0] for seat, choices in branch.lms.items()}
        parameters = dict[str, object]()
        if branch.protocol is not None and branch.ready is None:
            parameters = _defaults(branch, branch.protocol)
        program = branch.build(parameters, lms, self.make_lm)
        uncompiled = {"compile": {"optimizer": NOT_COMPILED}}
        own = located(branch.space, {**uncompiled, **program.describe(), **parameters})
        if own is None:
            return None, program
        # A parameter whose condition does not hold is left out, as in a trial: otherwise the same
        # network would be trained under two names.
        if branch.trains:
            program = branch.build(branch.parameters(own), lms, self.make_lm)
        return self.whole(branch, own, lms, program), program

    def first(self) -> list[Setting]:
        """Return the settings that a study begins with: the default, where prompts can be compiled
        also with each optimizer.
        """
        default, _ = self.default()
        branch = self.branches[0]
        if default is None:
            if not branch.compiles:
                return []
            default = self.point(_first_value)
        if not branch.compiles:
            return [default]
        name, preset = self.prefix(branch) + OPTIMIZER, self.prefix(branch) + PRESET
        plain = dict(default)
        plain.pop(name, None)
        plain.pop(preset, None)
        settings = []
        for optimizer in branch.choices(OPTIMIZER):
            settings.append({**plain, name: optimizer})
            if optimizer != NOT_COMPILED:
                settings[-1][preset] = branch.choices(PRESET)[0]
        return settings

    def check(self) -> None:
        """Build a program with every value of every parameter. Raises UserError naming file and
        parameter.
        """
        for branch in self.branches:
            where = f"{self.where}: {branch.label}"
            # Not every setting has every seat: a seat is wrong only where none has it.
            unseated = set(branch.lms)
            for name, draw in _tries(branch.space):
                try:
                    parameters = branch.parameters(draw_setting(branch.space, draw))
                    program = branch.build(parameters, {}, self.make_lm)
                except UserError as problem:
                    at = f"{where}: {name}" if name else where
                    problem.args = (f"{at}: {problem}",)
                    raise
                unseated -= {seat for seat in unseated if program.has_seat(seat)}
            for seat, choices in branch.lms.items():
                if seat in unseated:
                    raise Unused(
                        f"{where}: lms: no setting has an agent {seat!r}: the agents are "
                        f"{', '.join(program.seats())}",
                        seat,
                    )
                for wanted in choices:
                    try:
                        made_lm(wanted, self.make_lm)
                    except UserError as problem:
                        raise UserError(f"{where}: lms.{seat}: {problem}") from None

    def to_dict(self) -> dict[str, object]:
        """As JSON, for reports and to tell spaces apart."""
        return {"branches": json.loads(_as_json([branch.to_dict() for branch in self.branches]))}

    @cached_property
    def _text(self) -> str:
        return _as_json(self.to_dict())

    @property
    def hash(self) -> str:
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _defaults(branch: Branch, protocol: Protocol) -> dict[str, object]:
    """Return the constructor's defaults, and the example's where it has none, with all that the
    space fixes.
    """
    allowed, only = dict[str, list[object]](), dict[str, object]()
    for name, parameter in branch.space.items():
        if parameter.joins is None:
            values = allowed[name] = options(parameter.values) or []
            if len(values) == 1 and name not in (OPTIMIZER, PRESET):
                only[name] = values[0]
    first = {**constructed({}, only), **branch.fixed}
    example = protocol.read(protocol.example.split(":", 2)[1:])
    for name, values in allowed.items():
        if name in protocol.space and name not in first and takes_list(protocol, name):
            first[name] = example[name] if example.get(name) in values else values[0]
    # a parameter that completes another one is an item of a list
    for parameter in branch.space.values():
        if parameter.joins and parameter.among and parameter.when and parameter.when.holds(first):
            first[parameter.joins] = f"{first[parameter.joins]}:{first[parameter.among][0]}"
    return first


def _as_json(value: object) -> str:
    return json.dumps(value, default=lambda other: getattr(other, "source", str(other)))


def made_lm(wanted: object, make_lm: MakeLM) -> object:
    """Return the LM of a seat, by name or by the arguments of `lm`."""
    if isinstance(wanted, Mapping):
        return make_lm(**wanted)
    return make_lm(wanted)


def _tries(space: Space) -> Iterator[tuple[str, Draw]]:
    """Yield what to draw so that each value of each parameter is drawn once, the others at their
    first; the name is of the parameter, or empty where it is not one alone.
    """
    yield "", partial(_tried, space, "", 0)
    for name, parameter in space.items():
        values = options(parameter.values)
        # A range is tried at both ends; what is drawn among another's values has no list here.
        count = len(values) if values and not parameter.among else 2
        for place in range(0, count, max(1, count // CHECKED)):
            yield name, partial(_tried, space, name, place)
    yield "", partial(_tried, space, "", -1)


def _tried(space: Space, name: str, place: int, key: str, values: Distribution) -> object:
    """Return a value to try out: of the parameter `name` the one at that place, of the one that it
    depends on a value with which it exists.
    """
    allowed = options(values)
    if allowed is None:
        return values.low if place % 2 == 0 else values.high  # type: ignore[union-attr]
    if parameter_name(key) == name:
        return coded(allowed[place % len(allowed)])
    when = space[name].when if name in space else None
    if when is not None and when.parameter == key:
        fitting = (value for value in allowed if when.holds({key: value}))
        return coded(next(fitting, allowed[0]))
    if place < 0:
        return coded(allowed[-1])
    return coded(allowed[0])


def _first_value(_: str, values: Distribution) -> object:
    allowed = options(values)
    return coded(allowed[0]) if allowed else values.low  # type: ignore[union-attr]


def _shown(parameter: Parameter) -> dict[str, object]:
    """Return a parameter as JSON, as reports have it."""
    allowed, values = options(parameter.values), parameter.values
    shown: dict[str, object] = {"values": allowed}
    if allowed is None:
        shown = {"low": values.low, "high": values.high}  # type: ignore[union-attr]
    if parameter.among is not None:
        shown = {"among": parameter.among}
    if parameter.when:
        shown["when"] = asdict(parameter.when)
    return shown
