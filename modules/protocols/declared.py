"""`Declared`: protocols that are declared by one method, from whose parameters the constructor, the
short spec, the search space and the saved settings follow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

import dspy
from pydantic import BaseModel

from ..agents.own_prompts import prompts_given
from ..agents.retrieval import retrieval_settings
from ..agents.seat import Seat
from ..base.errors import UserError, checked_among
from ..base.keyed import without
from ..base.saved_file import Described
from ..base.space import Declaration, Parameter, Space, choice
from .declaration import Protocol, comma_items
from .program import LAYOUT, Program, SeatTurns


class Shared(TypedDict, total=False):
    """The constructor's arguments of every declared program, in addition to its settings."""

    lms: Mapping[str, dspy.BaseLM] | None
    sampling: Mapping[str, object] | None
    prompt_layout: str | None
    prompts: Mapping[str, str] | str | Path | None


class Said(Enum):
    """Marks, in its annotation, a setting that `describe()` does not always name."""

    CHANGED = "where it is not the default; a study varies it only where it is named"
    DRAWN = "where ties are drawn"


WORDING: Space = {
    "prompt_layout": LAYOUT,
    "sampling.temperature": Parameter(choice(None, 0.5, 1.0)),
}
"""What can be tuned in most of our own protocols, in addition to their settings."""

_WORDS_ONLY: Space = {"prompt_layout": LAYOUT}
_OF_DSPY = ("history", "callbacks")
"""Attributes that DSPy sets on a module."""
_SAID_OTHERWISE = ("own_roles", "environment", "retrieval", "max_queries", "lm")
"""Settings that `describe()` writes in a way of their own."""


class Setting(NamedTuple):
    """A setting of a protocol: name, type, default, and the further items of its `Annotated`."""

    name: str
    kind: object
    default: object
    marks: tuple[Any, ...]

    def checked(self, value: object) -> object:
        """Return the value that the annotation's functions (name, value) → value return for this
        one.
        """
        for mark in self.marks:
            if isinstance(mark, FunctionType | partial):
                value = mark(self.name, value)
        return value

    def tuned(self) -> Parameter | None:
        """Return the parameter of a search space that the annotation declares; None without one."""
        for mark in self.marks:
            # By a method, since importing Optuna for its distributions' classes takes long.
            if isinstance(mark, Declaration) or hasattr(mark, "to_internal_repr"):
                mark = Parameter(mark)
            if isinstance(mark, Parameter):
                if mark.default is None and Said.CHANGED in self.marks:
                    return replace(mark, default=self.default)
                return mark
        return None

    def read(self, part: str) -> object:
        """Return the value that a part of a short spec means, by the annotated type. Raises
        UserError.
        """
        # Of a union, such as `Sequence[str] | None`, each part.
        kinds = [get_origin(kind) or kind for kind in (self.kind, *get_args(self.kind))]
        if Sequence in kinds or list in kinds:
            return comma_items([part])
        if choices := self._choices():
            return choices[checked_among(self.name, part, choices)]
        for number in (int, float):
            if number in kinds:
                return _number(number, part)
        return part

    def _choices(self) -> dict[str, object]:
        """Return how it is written → value, for a bool or a Literal; empty for other types."""
        for kind in (self.kind, *get_args(self.kind)):
            if kind is bool:
                return {"true": True, "false": False}
            if get_origin(kind) is Literal:
                return {str(value): value for value in get_args(kind)}
        return {}


def _number(kind: Callable[[str], object], part: str) -> object:
    try:
        return kind(part)
    except ValueError:
        raise UserError(f"{part!r} is not a number ({kind.__name__}): write one there") from None


class Declared(Program):
    """A protocol of two methods, with the name that the class gives itself:

        class Debate(fm.Declared, name="debate"):
            def seat(self, debaters: Annotated[int, IntDistribution(2, 4)] = 2) -> None: ...
            async def solve(self, task: fm.Task) -> dspy.Prediction: ...

    `seat` puts a `fm.Seat` for each agent on the program. Its parameters are the settings, JSON
    values, which are attributes before it is called. They give the constructor, `describe()`, the
    short spec (`debate:3`, at most the first two), and by Optuna's distributions in the annotations
    the search space of `fm.tune`. A function (name, value) → value in the annotation checks a
    setting. `holds` names the settings that are programs or lists of them.

    For type checkers, write the method as `__init__`, without a call of its base's, and end it in
    `**shared: Unpack[Shared]`.

    Raises UserError for a setting that it does not have, one that is missing, and a name that every
    program uses itself.
    """

    settings: ClassVar[Sequence[Setting]] = ()
    sampling: Mapping[str, object] = MappingProxyType({})
    """The LM settings of all agents unless the user sets them; of the class, or set by `seat`."""

    def __init_subclass__(
        cls, name: str = "", *, space: Space = _WORDS_ONLY, order: Sequence[str] = (), **facts: Any
    ) -> None:
        """Declare the protocol.

        Args:
            name: its name; by default that of the class in small letters.
            space: what can be tuned in addition to settings.
            order: parameters that studies draw before the others.
            facts: further arguments of `Protocol`.
        """
        super().__init_subclass__()
        if not name and Declared not in cls.__bases__:
            return  # a user's subclass of a protocol has that protocol, and its class is named
        if seat := vars(cls).get("__init__") or getattr(cls, "seat", None):
            cls.settings = _settings_of(seat)
            for setting in cls.settings:
                shared = setting.name in (*_OF_DSPY, *Shared.__annotations__)
                if shared or callable(getattr(Declared, setting.name, None)):
                    raise UserError(
                        f"{cls.__name__} has a setting {setting.name!r}, which every program has "
                        "as a part of its own: give it another name"
                    )
            cls.__init__ = _constructor(seat, cls.settings)  # type: ignore[method-assign]
        tuned: dict[str, Parameter] = {}
        for setting in cls.settings:
            if (parameter := setting.tuned()) is not None:
                tuned[setting.name] = parameter
        tuned |= space
        ordered = {drawn: tuned[drawn] for drawn in (*order, *tuned)}
        name = name or cls.__name__.lower()
        facts = {"example": name, "read": partial(_read, cls.settings), **facts}
        cls.protocol = Protocol(name, space=ordered, **facts)

    def __init__(self, *given: object, **named: object) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no seat(): name its agents there")

    def describe(self) -> Described:
        described = self.named()
        for setting in filter(self._said, self.settings):
            described[setting.name] = _as_json(getattr(self, setting.name))
        seats = list(self.seats().values())
        if not self.protocol.holds:  # else each program inside has its own
            described["sampling"] = _shared_sampling(seats)
        if "environment" in vars(self):
            described |= retrieval_settings(seats, self.environment)
        return described

    def _said(self, setting: Setting) -> bool:
        """Return whether `describe()` names the setting."""
        if setting.name in _SAID_OTHERWISE:
            return False
        if Said.DRAWN in setting.marks:
            return self.draws
        changed = getattr(self, setting.name) != setting.default
        return changed or Said.CHANGED not in setting.marks

    @property
    def draws(self) -> bool:
        """Whether an answer depends on the seed."""
        return bool(self.ties.rule == "random")

    def turns(self) -> list[SeatTurns]:
        rounds = getattr(self, "max_rounds", 1)
        return [(seat, fewest, most * rounds) for seat, fewest, most in super().turns()]


def _as_json(value: object) -> object:
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Program):
        return value.describe()
    return value


def _shared_sampling(seats: Sequence[Seat]) -> dict[str, object]:
    """Return the LM settings that all agents have; one that not all have is an agent's own."""
    first, *others = [seat.predict.config for seat in seats] or [{}]
    shared = dict(first)
    for config in others:
        shared = {key: value for key, value in shared.items() if config.get(key) == value}
    return shared


def _settings_of(seat: Callable[..., None]) -> list[Setting]:
    hints, kinds = get_type_hints(seat, include_extras=True), get_type_hints(seat)
    _self, *parameters = _taken(seat)
    return [
        Setting(
            parameter.name,
            kinds.get(parameter.name),
            parameter.default,
            get_args(hints.get(parameter.name))[1:],
        )
        for parameter in parameters
    ]


def _taken(seat: Callable[..., None]) -> list[inspect.Parameter]:
    """Return the parameters of `seat`, the program first, without the `**shared` of type
    checkers.
    """
    parameters = inspect.signature(seat).parameters.values()
    return [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]


def _read(settings: Sequence[Setting], parts: Sequence[str]) -> dict[str, object]:
    """Return the settings in a short spec, whose parts are the first settings in order."""
    named = zip(settings, parts, strict=False)
    return {setting.name: setting.read(part) for setting, part in named if part}


def _constructor(seat: Callable[..., None], settings: Sequence[Setting]) -> Callable[..., None]:
    """Return the constructor of a class with this `seat`: it binds and checks settings, calls
    `seat`, and applies the `Shared` arguments. Its signature shows all of them.
    """
    own = inspect.Signature(_taken(seat))

    def built(
        self: Declared,
        *given: object,
        lms: Mapping[str, dspy.BaseLM] | None = None,
        sampling: Mapping[str, object] | None = None,
        prompt_layout: str | None = None,
        prompts: Mapping[str, str] | str | Path | None = None,
        **named: object,
    ) -> None:
        # Not `Declared.__init__`, which raises: it is for a class without `seat`.
        super(Declared, self).__init__()
        try:
            bound = own.bind(self, *given, **named)
        except TypeError as problem:
            raise UserError(
                f"{self.protocol.name} cannot be built ({problem}): its settings are "
                f"{', '.join(setting.name for setting in settings)}"
            ) from None
        bound.apply_defaults()
        arguments = {
            setting.name: setting.checked(bound.arguments[setting.name]) for setting in settings
        }
        if sampling and any(_modules(bound.arguments[name]) for name in self.protocol.holds):
            raise UserError(
                "sampling is for members given by name: set it on the programs that are members"
            )
        # Before `seat` runs, which may read its settings as attributes.
        self.__dict__.update(arguments)
        self.prompts = prompts_given(prompts)
        seat(self, **arguments)
        # Unless the class has its own `describe`, which need not read the attributes.
        described = type(self).describe is Declared.describe
        for name in without(arguments, self.protocol.holds):
            if described and _modules(getattr(self, name)):
                raise UserError(
                    f"seat() of {type(self).__name__} puts something else on self.{name}, which "
                    "is a setting: give one of the two another name"
                )
        # The protocol's own sampling first, since the user's overrides it.
        for agent in self.seats().values():
            agent.sample(self.sampling)
            agent.sample(sampling)
        self.word(prompts, prompt_layout)
        self.assign(lms)

    shared = [inspect.signature(built).parameters[name] for name in Shared.__annotations__]
    signature = own.replace(parameters=[*own.parameters.values(), *shared])
    built.__signature__ = signature  # type: ignore[attr-defined]
    return built


def _modules(value: object) -> list[dspy.Module]:
    """Return the modules in a value: itself, or those in a list."""
    if not isinstance(value, list | tuple):
        value = [value]
    return [part for part in value if isinstance(part, dspy.Module)]
