"""Roles: the table of who may take a seat, and roles of the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dspy

from ...signatures import roles as words
from ...signatures import team
from ...signatures.strategies import Working
from ..agents.fields import fields_of
from ..agents.retrieval import InformedSeat
from ..agents.seat import Seat
from ..base.errors import UserError, checked_whole, did_you_mean
from ..base.registry import Registry
from ..environment import Environment, FunctionEnvironment, SeveralEnvironments
from .declaration import known_names

HERE = "environment"
"""The tool that is the place where all agents of the program look things up."""

SEATS = ("judge", "supervisor", "evaluator")
"""The seats that a role of the user's own takes when it is called so."""

KEYS = ("instruction", "outputs", "signature", "tools", "lm", "repeats")
"""All that can be written of a role."""

_INPUTS = {**words.Speaking.input_fields, **Working.input_fields}
_NAME = re.compile(r"[^\W\d][\w-]*")


@dataclass(frozen=True)
class Role:
    """Who takes a seat. `ROLES["mine"] = Role(MySignature)` is all it takes to add one.

    Args: signature: the docstring is the instruction. `answer` is the last output: such a role
        speaks, judges and evaluates, and in a team its instruction guides a worker or supervisor,
        who has outputs of its own. With the outputs `thought` and `action` it is a worker alone.
        tools: environments, or functions of a query, where it looks things up; the text
            `environment` stands for the program's.
        lm: the LM of its seat, where no other is given.
        repeats: how many seats it takes.
    """

    signature: type[Any] = field(repr=False)
    tools: Sequence[Any] = ()
    lm: Any = None
    repeats: int = 1

    def __deepcopy__(self, memo: dict[int, Any]) -> Role:
        return self

    @property
    def acts(self) -> bool:
        """Whether it is a worker, who acts step by step and has no answer among its outputs."""
        return list(self.signature.output_fields)[-1:] == ["action"]

    def place(self, here: Environment | None) -> Environment | None:
        """Where it looks things up; `here` is the program's environment."""
        tools = [here if tool == HERE else tool for tool in self.tools]
        places: list[Environment] = [tool for tool in tools if tool is not None]
        return SeveralEnvironments(places) if len(places) > 1 else next(iter(places), None)

    def describe(self) -> dict[str, object]:
        """The role as JSON, without its LM, which is saved with its seat: one whose outputs are
        text whole, another by the name of its signature.
        """
        signature: Any = self.signature
        described = dict[str, Any]()
        if fields_of(signature).plain:
            described["instruction"] = signature.instructions
            described["outputs"] = {
                name: ""
                if info.json_schema_extra["desc"] == f"${{{name}}}"
                else info.json_schema_extra["desc"]
                for name, info in signature.output_fields.items()
            }
        else:
            described["signature"] = f"{signature.__module__}:{signature.__qualname__}"
        if self.tools:
            described["tools"] = [HERE if tool == HERE else tool.fingerprint for tool in self.tools]
        return described | ({"repeats": self.repeats} if self.repeats > 1 else {})


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


def role_of(name: str, thing: Any) -> Role:
    """The role that a user means: a `Role`, a signature, or what a file says of one. Raises
    UserError for what cannot take a seat.
    """
    role = _written(name, thing) if isinstance(thing, Mapping) else thing
    if isinstance(role, type) and issubclass(role, dspy.Signature):
        role = Role(role)
    if not isinstance(role, Role):
        raise UserError(
            f"the role {name!r} is {role!r}: give a dspy.Signature, an fm.Role, or a mapping of "
            f"{', '.join(KEYS)}"
        )
    if not role.acts and list(role.signature.output_fields)[-1:] != ["answer"]:
        raise UserError(f"the role {name!r} gives no answer: make 'answer' its last output")
    for read in role.signature.input_fields.keys() - _INPUTS.keys():
        raise UserError(
            f"the role {name!r} reads {read!r}, which no seat is given: it may read "
            f"{', '.join(_INPUTS)}"
        )
    if not isinstance(role.lm, dspy.BaseLM | None):
        raise UserError(f"the role {name!r} has the lm {role.lm!r}: give one such as fm.lm('…')")
    checked_whole(f"repeats of the role {name!r}", role.repeats)
    return replace(role, tools=tuple(_tool(name, tool) for tool in role.tools))


def _written(name: str, written: Mapping[str, Any]) -> Role:
    unknown = [key for key in written if key not in KEYS]
    if unknown:
        raise UserError(
            f"the role {name!r} has no {unknown[0]!r}{did_you_mean(unknown[0], KEYS)}: it has "
            f"{', '.join(KEYS)}"
        )
    more = {key: written[key] for key in ("tools", "lm", "repeats") if key in written}
    if "signature" in written:
        return replace(role_of(name, written["signature"]), **more)
    instruction, outputs = written.get("instruction"), written.get("outputs")
    if not isinstance(instruction, str) or not instruction.strip():
        raise UserError(f"the role {name!r} has no instruction: write a text that says what it is")
    if not isinstance(outputs, Mapping):
        raise UserError(
            f"the role {name!r} has no outputs: write fields with a description, such as "
            "{answer: your answer}"
        )
    fields = dict[str, Any](words.Speaking.input_fields)
    for field, desc in outputs.items():
        if field in _INPUTS or not str(field).isidentifier() or not isinstance(desc, str | None):
            raise UserError(
                f"the role {name!r} has the output {field!r}: {desc!r}, which cannot be asked "
                "for: write another word, and a text that describes it"
            )
        fields[field] = str, dspy.OutputField(desc=desc) if desc else dspy.OutputField()
    return Role(dspy.Signature(fields, instruction.strip()), **more)


def _tool(name: str, tool: Any) -> Any:
    if tool == HERE or isinstance(tool, Environment):
        return tool
    if not callable(tool):
        raise UserError(
            f"the role {name!r} has the tool {tool!r}: give an environment, a function of a "
            "query, or all roles to fm.roles, which reads texts such as corpus:PATH"
        )
    return FunctionEnvironment(tool)


ROLES: Registry[Role] = Registry("roles", role_of, lambda: _BUILT_IN)
"""The roles by name: those of the papers, added here, and of installed packages."""


def roles_given(given: Any) -> dict[str, Role]:
    """Roles of the user's own by name; one whose value is its name is that of the table. Raises
    UserError for what is no role, and for a name that the table has.
    """
    if not isinstance(given, Mapping | None):
        raise UserError(
            f"own_roles is {given!r}: give roles by name, such as fm.roles('roles.yaml')"
        )
    own = {name: thing for name, thing in (given or {}).items() if thing != name}
    for name in own:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UserError(f"the role {name!r} needs a name of letters, digits, _ and -")
        if ROLES.find(name) is not None:
            raise UserError(f"there is a role {name!r} already: give yours another name")
    return {name: role_of(name, thing) for name, thing in own.items()}


def cast_of(
    parameter: str, value: Any, own: Mapping[str, Role], advice: str, *, acting: bool = False
) -> dict[str, Role]:
    """The roles that a parameter names, own ones or those of the table; `acting`: as workers.

    Raises UserError for the first one that there is not, or that cannot sit there.
    """
    known = {**{name: ROLES.get(name) for name in ROLES.names()}, **own}
    fitting = [
        name
        for name, role in known.items()
        if name not in SEATS and (acting or role is None or not role.acts)
    ]
    what = "worker {}" if acting else "role {}"
    names = known_names(parameter, value, fitting, what, advice)
    cast = {name: own[name] if name in own else role_of(name, ROLES.find(name)) for name in names}
    for name, role in cast.items():
        if role.acts and not acting:  # of a package that was not imported before
            raise UserError(f"the role {name!r} is a worker: name it in a team, such as team:bold")
    return cast


def own_seat(seat: str, own: Mapping[str, Role]) -> Role | None:
    """The user's own role for one of SEATS, if there is any. Raises UserError for a worker, and
    for one of several seats.
    """
    role = own.get(seat)
    if role is not None and (role.acts or role.repeats > 1):
        raise UserError(
            f"the role {seat!r} acts or repeats, but its seat is asked once for an answer: give "
            "it the output 'answer' and no repeats"
        )
    return role


def heard_by(signature: type[Any], frame: type[Any]) -> type[Any]:
    """The signature with all inputs of the frame, which says what its seat is given."""
    if frame.input_fields.keys() <= signature.input_fields.keys():
        return signature
    fields = {**frame.input_fields, **signature.output_fields}
    framed: type[Any] = dspy.Signature(fields, signature.instructions)
    return framed


def seat_of(
    name: str,
    role: Role,
    *,
    frame: type[Any] = words.Speaking,
    environment: Environment | None = None,
    sampling: Mapping[str, object] | None = None,
    **retrieval: Any,
) -> Seat:
    """A seat of that name for a role that answers; with tools, one that looks things up."""
    signature = heard_by(role.signature, frame)
    if not role.tools:
        return Seat(name, signature, sampling=sampling)
    place = role.place(environment)
    return InformedSeat(name, signature, place, sampling=sampling, **retrieval)


def acting_as(role: Role) -> type[Any]:
    """What a worker in that role is told; one that answers gives the instruction alone."""
    if role.acts:
        return heard_by(role.signature, Working)
    told: type[Any] = team.Acting.with_instructions(f"{role.signature.instructions} {team.NEXT}")
    return told


def seats_of(cast: Mapping[str, Role], names: Iterable[str]) -> list[str]:
    """The name of a role for each seat that it takes."""
    return [name for name in names for _ in range(cast[name].repeats)]
