"""Roles, which say how an agent is asked: the built-in ones, and users' own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import dspy

from ...signatures import roles as words
from ...signatures import team
from ..agents.seat import Seat
from ..base.errors import UserError, checked_whole, did_you_mean
from ..base.registry import Registry
from .declaration import distinct, known_names

if TYPE_CHECKING:
    from ..environment.base import Environment

HERE = "environment"
"""The tool that stands for the program's environment."""

SEATS = ("judge", "supervisor", "evaluator")
"""Names by which a user's own role replaces that agent."""

KEYS = ("instruction", "outputs", "tools", "lm", "repeats")
"""The keys of a role that is written as a mapping."""

MAX_REPEATS = 8
_INPUTS = {**words.Speaking.input_fields, **team.Acting.input_fields}
_NAME = re.compile(r"[^\W\d][\w-]*")


@dataclass(frozen=True)
class Role:
    """How an agent is asked. `ROLES["mine"] = Role(MySignature)` adds one.

    Args:
        signature: its docstring is the instruction, and `answer` the last of its outputs, which are
            text. Workers and supervisors take the instruction alone; one with the outputs `thought`
            and `action` is a worker.
        tools: environments, or functions of a query; the text `environment` stands for the
            program's.
        lm: its LM, if no other is given.
        repeats: how many agents have it.
    """

    signature: type[dspy.Signature] = field(repr=False)
    tools: Sequence[Any] = ()
    lm: dspy.BaseLM | None = None
    repeats: int = 1
    checked_as: str = field(default="", init=False, repr=False, compare=False)

    def __deepcopy__(self, memo: dict[int, object]) -> Role:
        return self

    @property
    def acts(self) -> bool:
        """Whether it can only be a worker, since it has no answer among its outputs."""
        return list(self.signature.output_fields)[-2:] == ["thought", "action"]

    def place(self, here: Environment | None) -> Environment | None:
        """Return the environment that it searches, if any; `here` is the program's environment."""
        places: list[Environment] = []
        for tool in self.tools:
            place = here if tool == HERE else tool
            if place is not None:
                places.append(place)
        if len(places) > 1:
            from ..environment.tools import SeveralEnvironments

            return SeveralEnvironments(places)
        return next(iter(places), None)

    def describe(self) -> dict[str, object]:
        """Return the role as JSON, without its LM."""
        outputs = self.signature.output_fields.items()
        return {
            "instruction": self.signature.instructions,
            "outputs": {name: info.json_schema_extra["desc"] for name, info in outputs},
            "tools": [getattr(tool, "fingerprint", HERE) for tool in self.tools],
            "repeats": self.repeats,
        }


_BUILT_IN = {
    "intuitive": Role(words.Intuitive),
    "reasoner": Role(words.Reasoner),
    "retriever": Role(words.Retriever, tools=(HERE,)),
    "critic": Role(words.Critic),
    "bold": Role(team.Bold),
    "cautious": Role(team.Cautious),
    "neutral": Role(team.Neutral),
}
SPEAKERS = tuple(name for name, role in _BUILT_IN.items() if not role.acts)
WORKERS = tuple(name for name, role in _BUILT_IN.items() if role.acts)
"""The roles of the papers."""


def role_of(name: str, thing: object) -> Role:
    """Return the checked role in what a user gives: a `Role`, a signature, or a mapping as from a
    file. Raises UserError for what cannot be a role.
    """
    if thing is not None and thing is _BUILT_IN.get(name):
        return _BUILT_IN[name]
    if isinstance(thing, Role) and thing.checked_as == name:
        return thing
    role = _read_role(name, thing) if isinstance(thing, Mapping) else thing
    if isinstance(role, type) and issubclass(role, dspy.Signature):
        role = Role(role)
    if not isinstance(role, Role):
        raise UserError(
            f"the role {name!r} is {role!r}: give a dspy.Signature, an fm.Role, or a mapping of "
            f"{', '.join(KEYS)}"
        )
    outputs = role.signature.output_fields
    if not role.acts and list(outputs)[-1:] != ["answer"]:
        raise UserError(f"the role {name!r} gives no answer: make 'answer' its last output")
    wrong = role.signature.input_fields.keys() - _INPUTS
    wrong |= {output for output, info in outputs.items() if info.annotation is not str}
    if wrong:
        raise UserError(
            f"the role {name!r} has the field {min(wrong)!r}: its inputs are some of "
            f"{', '.join(_INPUTS)}, and its outputs text (str)"
        )
    if not isinstance(role.lm, dspy.BaseLM | None):
        raise UserError(f"the role {name!r} has the lm {role.lm!r}: give one such as fm.lm('…')")
    most = 1 if name in SEATS else MAX_REPEATS
    if checked_whole(f"repeats of the role {name!r}", role.repeats) > most:
        raise UserError(f"the role {name!r} has {role.repeats} repeats: give {most} at most")
    tools = []
    for tool in role.tools:
        place = tool
        if tool != HERE:
            from ..environment.tools import place_of_tool

            place = place_of_tool(tool)
        tools.append(place)
        if place is None:
            raise UserError(
                f"the role {name!r} has the tool {tool!r}: give an environment, a function of a "
                "query, or all roles to fm.roles, which reads texts such as corpus:PATH"
            )
    signature = dspy.Signature({**_INPUTS, **outputs}, role.signature.instructions)
    checked = replace(role, signature=signature, tools=tools)
    # So that it is not checked again, which would wrap its functions and signature once more.
    object.__setattr__(checked, "checked_as", name)
    return checked


def _read_role(name: str, written: Mapping[str, Any]) -> Role:
    """Return the role in a mapping, as a file has it. Raises UserError."""
    for key in written:
        if key not in KEYS:
            raise UserError(
                f"the role {name!r} has no {key!r}{did_you_mean(key, KEYS)}: it has "
                f"{', '.join(KEYS)}"
            )
    more = dict(written)
    instruction, outputs = more.pop("instruction", None), more.pop("outputs", None)
    if not isinstance(instruction, str) or not instruction.strip():
        raise UserError(f"the role {name!r} has no instruction: write a text that says what it is")
    if not isinstance(outputs, Mapping):
        raise UserError(
            f"the role {name!r} has no outputs: write fields with a description, such as "
            "{answer: your answer}"
        )
    fields = dict[str, object]()
    for output, desc in outputs.items():
        if output in _INPUTS or not str(output).isidentifier() or not isinstance(desc, str | None):
            raise UserError(
                f"the role {name!r} has the output {output!r}: {desc!r}, which cannot be asked "
                "for: write another word, and a text that describes it"
            )
        fields[output] = str, dspy.OutputField(desc=desc or f"${{{output}}}")
    return Role(dspy.Signature({**_INPUTS, **fields}, instruction.strip()), **more)


ROLES: Registry[Role] = Registry("roles", role_of, lambda: _BUILT_IN)
"""All roles by name: built in, added here, and of installed packages."""


def roles_given(given: object) -> dict[str, Role]:
    """Return the user's own roles by name. Raises UserError for what is no role, and for a name
    that `ROLES` has already.
    """
    if not isinstance(given, Mapping | None):
        raise UserError(
            f"own_roles is {given!r}: give roles by name, such as fm.roles('roles.yaml')"
        )
    # `{"critic": "critic"}` names a role of `ROLES`, and is none of the user's own.
    own = {name: thing for name, thing in (given or {}).items() if thing != name}
    for name in own:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UserError(f"the role {name!r} needs a name of letters, digits, _ and -")
        # In a list or in a saved program, a name must mean one role.
        if ROLES.find(name) is not None:
            raise UserError(f"there is a role {name!r} already: give yours another name")
    return {name: role_of(name, thing) for name, thing in own.items()}


def cast_of(
    parameter: str, value: object, own: Mapping[str, Role], advice: str, *, acting: bool = False
) -> dict[str, Role]:
    """Name → role, for the names in a parameter: the user's own roles or those of `ROLES`, as
    workers if `acting`. Raises UserError for the first name that is neither.
    """
    out_of_place: Sequence[str] = (*SEATS, *WORKERS)
    what = "role"
    if acting:
        out_of_place, what = SEATS, "worker"
    fitting = [name for name in (*own, *ROLES.names()) if name not in out_of_place]
    names = known_names(parameter, value, fitting, what, advice)
    return {name: role_of(name, own.get(name) or ROLES.find(name)) for name in names}


class Seated(NamedTuple):
    """The names of an agent and its role; and its sample number if the role has several agents."""

    name: str
    role: str
    sample: int | None


def seated(cast: Mapping[str, Role], names: Iterable[str]) -> list[Seated]:
    """Return the agents of the named roles; equal names become `NAME.0`, `NAME.1`, …."""
    roles = [name for name in names for _ in range(cast[name].repeats)]
    # The first of a role gets no sample number, as an agent that has its role alone.
    samples = [roles[:place].count(role) or None for place, role in enumerate(roles)]
    return list(map(Seated, distinct(roles), roles, samples))


def seat_of(
    name: str,
    role: Role,
    environment: Environment | None = None,
    retrieval: str = "queries",
    max_queries: int = 2,
) -> Seat:
    """Return an agent of that name for a role; with tools, one that searches. Raises UserError for
    a role that can only be a worker.
    """
    if role.acts:
        raise UserError(f"{name!r} is a worker and gives no answer: name it in a team")
    if not role.tools:
        return Seat(name, role.signature)
    from ..agents.informed import InformedSeat

    return InformedSeat(name, role.signature, role.place(environment), retrieval, max_queries)


def acting_as(role: Role) -> type[dspy.Signature]:
    """Return the signature of a worker in that role; from a role that answers, only the
    instruction.
    """
    words: type[dspy.Signature] = role.signature
    if not role.acts:
        words = team.Acting.with_instructions(f"{role.signature.instructions} {team.NEXT}")
    return words
