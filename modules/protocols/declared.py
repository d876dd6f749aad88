"""Protocols that one method declares: its parameters are the settings, and all else follows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import dspy

from ..base.errors import UserError
from ..base.saved_file import Described
from ..base.space import Distribution, Parameter
from .declaration import Protocol, comma_items
from .program import LAYOUT, Program, SeatTurns


class Declared(Program):
    """A protocol of two methods, with the name that the class gives itself:

        class Debate(fm.Declared, name="debate"):
            def seat(self, debaters: Annotated[int, IntDistribution(2, 4)] = 2) -> None: ...
            async def solve(self, task: fm.Task) -> dspy.Prediction: ...

    `seat` puts a `fm.Seat` for each agent on the program. Its parameters are the settings: JSON
    values, which stand on the program under their names before `seat` is called. From them
    follow the constructor, `describe()`, the short spec (`debate:3`, at most the first two), and
    the search space of `fm.tune`: the distributions of Optuna that annotate them. Every such
    program also takes `lms`, `sampling`, `prompts` and `prompt_layout`, as others do. Plans count
    each seat once in each of `max_rounds` rounds, or once without such a setting.

    Raises UserError for a setting that it does not have, and one that is missing.
    """

    settings: ClassVar[tuple[str, ...]] = ()
    sampling: Mapping[str, object]

    def __init_subclass__(cls, name: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        parameters = list(inspect.signature(cls.seat).parameters.values())[1:]
        cls.settings = tuple(parameter.name for parameter in parameters)
        hints = get_type_hints(cls.seat, include_extras=True)
        space = {
            setting: Parameter(extra)
            for setting in cls.settings
            for extra in get_args(hints.get(setting))[1:]
            if isinstance(extra, Distribution)
        }
        plain = get_type_hints(cls.seat)

        def read(parts: Sequence[str]) -> dict[str, object]:
            named = list(zip(cls.settings, parts, strict=False))
            return {setting: _value(plain.get(setting), part) for setting, part in named if part}

        name = name or cls.__name__.lower()
        cls.protocol = Protocol(name, name, read, {**space, "prompt_layout": LAYOUT})
        cls.__init__ = _constructor(parameters)  # type: ignore[method-assign]

    def __init__(
        self,
        *given: Any,
        lms: Mapping[str, dspy.BaseLM] | None = None,
        sampling: Mapping[str, object] | None = None,
        prompts: Mapping[str, str] | str | Path | None = None,
        prompt_layout: str = "role_last",
        **named: Any,
    ) -> None:
        super().__init__()
        try:
            bound = inspect.signature(self.seat).bind(*given, **named)
        except TypeError as problem:
            raise UserError(
                f"{self.protocol.name} cannot be built ({problem}): its settings are "
                f"{', '.join(self.settings)}"
            ) from None
        bound.apply_defaults()
        for setting, value in bound.arguments.items():
            setattr(self, setting, value)
        self.seat(**bound.arguments)
        for setting, value in bound.arguments.items():
            if getattr(self, setting) is not value:
                raise UserError(
                    f"seat() of {type(self).__name__} puts something else on self.{setting}, which "
                    "is a setting: give one of the two another name"
                )
        self.sampling = dict(sampling or {})
        for seat in self.seats().values():
            seat.sample(self.sampling)
        self.word(prompts, prompt_layout)
        self.assign(lms)

    def seat(self) -> None:
        """Put the agents' seats on the program; the parameters are its settings."""
        raise NotImplementedError(f"{type(self).__name__} has no seat(): name its agents there")

    def describe(self) -> Described:
        own = {setting: getattr(self, setting) for setting in self.settings}
        return {**self.named(), **own, "sampling": dict(self.sampling)}

    def turns(self) -> list[SeatTurns]:
        rounds = getattr(self, "max_rounds", 1)
        return [(seat, fewest, most * rounds) for seat, fewest, most in super().turns()]


def _constructor(parameters: Sequence[inspect.Parameter]) -> Any:
    """A constructor whose signature shows the settings, then what every such program takes."""

    def built(self: Declared, *given: Any, **named: Any) -> None:
        Declared.__init__(self, *given, **named)

    shared = inspect.signature(Declared.__init__).parameters
    keywords = [each for each in shared.values() if each.kind is each.KEYWORD_ONLY]
    own = [shared["self"], *parameters, *keywords]
    own.sort(key=lambda parameter: parameter.kind)  # keywords of `seat` stand behind its others
    built.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    return built


def _value(kind: Any, part: str) -> object:
    """A part of a short spec as the setting's annotation has it. Raises UserError for another."""
    if kind in (list, Sequence) or get_origin(kind) in (list, Sequence):
        return comma_items([part])
    if kind not in (int, float):
        return part
    try:
        return kind(part)
    except ValueError:
        raise UserError(f"{part!r} is no {kind.__name__}: write a number there") from None
