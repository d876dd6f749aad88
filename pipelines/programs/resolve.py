"""Finds the program that a spec names: a short spec such as `single:cot`, a YAML file, a folder, or
a mapping.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.keyed import without
from ...modules.base.registry import names_from
from ...modules.base.saved_file import check_document
from ...modules.base.yaml_file import SUFFIXES, read_yaml
from ...modules.protocols.declaration import Protocol
from ...modules.protocols.deliberation.tie_breaks import TIE_BREAKS
from ...modules.protocols.foreign import COMMAND
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS
from ...modules.protocols.strategies import STRATEGIES
from ..lms.named import lm_for
from .build import MakeLM as MakeLM
from .build import check_names, command_named, environment_of, made, no_protocol, takes
from .own_roles import roles
from .saved import program_folder, saved_program, with_own_lm

INSTEAD = "with --set, or in place of the file"
"""How a user can name code that a program's file may not name."""


def program_of(
    spec: str | Path | Mapping[str, object],
    sets: Mapping[str, object] | None = None,
    *,
    make_lm: MakeLM = lm_for,
    file: str | None = None,
    untrained: bool = False,
) -> Program:
    """Return the program that a spec names.

    Args:
        spec: a short spec (`single:cot`, `single:role=critic`, `ensemble:simple,cot:majority`,
            `deliberation:intuitive,reasoner:strongest=intuitive`), a saved program's folder, the
            path of a YAML file, or the content of such a file: `program` (a protocol's name or a
            short spec), any constructor parameter, `lms` (agent → LM name or the arguments of `lm`)
            and, for an ensemble, `members` (specs of either form) or, for a router, `cheap` and
            `team`.
        sets: constructor parameters that override those of the spec; `environment` is
            `corpus:PATH`, `wikipedia`, `wikipedia:HOST`, `record:PATH:ENVIRONMENT` or
            `replay:PATH`.
        make_lm: makes the LMs under `lms`.
        file: the file that a mapping was read from: no code is imported by the names in it, unlike
            those in `sets`.
        untrained: whether the result may be a program that has yet to be trained (`network`).

    Raises UserError for anything that is not such a spec; a parameter's own error comes from its
    constructor.
    """
    if isinstance(spec, Mapping):
        return _build(file or "the program", spec, sets or {}, make_lm, file, untrained)
    text = str(spec)
    protocol = PROTOCOLS.find(text.partition(":")[0])
    # A program's name takes precedence over a file or folder of the same name.
    named = isinstance(spec, str) and (
        text.startswith(COMMAND) or (protocol is not None and bool(protocol.example))
    )
    path = Path(text).expanduser()
    if not named and text and path.is_dir():
        _import_named(sets or {})
        return with_own_lm(saved_program(path, sets=sets, make_lm=make_lm), path, make_lm)
    if not named and path.suffix == ".py":
        raise UserError(f"{text} is code: name the program in it, such as {text}:NAME")
    if not named and (path.suffix.casefold() in SUFFIXES or path.is_file()):
        return _build(text, read_program(path), sets or {}, make_lm, text, untrained)
    return _build(text, {"program": text}, sets or {}, make_lm, None, untrained)


def read_program(path: Path) -> dict[str, object]:
    """Return the content of a YAML file of a program or search space. Raises UserError, also for
    addresses and keys in it.
    """
    document = read_yaml(path, "program", "program: deliberation")
    if "data" in document and "program" not in document:
        raise UserError(f"{path} is the file of a pipeline: run it by folkmoot pipeline {path}")
    check_document(document, str(path))
    return document


def _build(
    where: str,
    document: Mapping[str, Any],
    sets: Mapping[str, Any],
    make_lm: MakeLM,
    file: str | None,
    untrained: bool,
) -> Program:
    """Return the program that a file's content describes; `where` begins an error."""
    fields = dict(document)
    spec = fields.pop("program", None)
    if isinstance(spec, str) and spec.startswith(COMMAND):
        with names_from(file, INSTEAD):
            return command_named(spec, {**fields, **sets})
    if not isinstance(spec, str):
        if "metadata" in fields:  # a state file of DSPy's
            raise UserError(
                f"{where} holds prompts of a DSPy program, and not which program: write a module "
                f"that makes it and calls program.load({where!r}), and give module:program"
            )
        raise UserError(
            f"{where} does not say which program it is: add a line such as 'program: deliberation'"
        )
    lms = fields.pop("lms", None)
    with names_from(file, INSTEAD):
        protocol_spec = PROTOCOLS.spec(spec)
        if protocol_spec is None or not protocol_spec.thing.example:
            # Raises a better error if the spec is a program that an unfinished command will write.
            program_folder(Path(spec).parent)
            raise no_protocol(spec)
        protocol, rest = protocol_spec.thing, protocol_spec.rest
        learning = protocol.learning
        if untrained and learning is not None and spec == protocol.name and "folder" not in fields:
            protocol = learning.untrained
            settled, warning = learning.settled({**fields, **sets})
            fields = without(settled, sets)
            if warning is not None:
                warnings.warn(warning.replace("--embedding ", "embedding="), stacklevel=4)
        parts: list[str] = []
        if rest:
            parts = list(map(str.strip, rest.split(":", 1)))
        fields = {**protocol.read(parts), **fields}
        inner, sets = dict[str, Any](), dict(sets)
        # Roles are passed on to the programs inside, if this one has no such parameter.
        if "own_roles" in sets and "own_roles" not in takes(protocol):
            inner["own_roles"] = sets.pop("own_roles")
        check_names(protocol, {**fields, **sets})
        fields = without(fields, sets)
        fields = _make_parts(fields, protocol, make_lm, inner)
    parameters = fields | _make_parts(sets, protocol, make_lm, inner)
    seated = _seat_lms(where, lms, make_lm)
    if "folder" in protocol.fixed:  # a saved program, written as PROTOCOL:FOLDER
        prompts = parameters.pop("prompts", None)
        program = saved_program(
            parameters.pop("folder"), sets=parameters, lms=seated, make_lm=make_lm
        )
        program.word(prompts)
        return program
    program = made(where, protocol_spec.name, parameters, protocol)
    program.assign(seated)
    return program


def _make_parts(
    parameters: Mapping[str, object],
    protocol: Protocol,
    make_lm: MakeLM,
    inner: Mapping[str, object],
) -> dict[str, Any]:
    """Return constructor parameters with programs, environments and roles in place of their specs.
    `inner`: parameters of programs inside.
    """
    made_of = dict(parameters)
    _import_named(made_of)
    for part in {*protocol.holds} & made_of.keys():
        held = made_of[part]
        if isinstance(held, list):
            made_of[part] = [_member(member, make_lm, inner) for member in held]
        else:
            made_of[part] = _member(held, make_lm, inner)
    if "environment" in made_of:
        made_of["environment"] = environment_of(made_of["environment"])
    if "own_roles" in made_of:
        made_of["own_roles"] = roles(made_of["own_roles"], make_lm=make_lm)
    return made_of


def _import_named(parameters: Mapping[str, Any]) -> None:
    """Register a program's class, a strategy and a tie-break that a user names as `module:Name`."""
    named = (PROTOCOLS, "program"), (STRATEGIES, "strategy"), (TIE_BREAKS, "tie_break")
    for registry, name in named:
        if isinstance(parameters.get(name), str):
            registry.spec(parameters[name])


def _member(member: object, make_lm: MakeLM, inner: Mapping[str, object]) -> str | Program:
    """Return a member of an ensemble or a part of a router, which are left to read the bare name of
    a strategy.
    """
    if isinstance(member, str) and PROTOCOLS.find(member) is None and ":" not in member:
        return member
    if isinstance(member, str | Mapping):
        return program_of(member, inner, make_lm=make_lm)
    example = PROTOCOLS["deliberation"].example
    raise UserError(
        f"{member!r} is not a member: give a strategy, a spec such as {example}, or a mapping with "
        "'program'"
    )


def _seat_lms(where: str, lms: object, make_lm: MakeLM) -> dict[str, object]:
    if lms is not None and not isinstance(lms, Mapping):
        raise UserError(
            f"{where} has lms that are not a mapping: write agents and LM names, such as "
            "{judge: openai/gpt-4o}"
        )
    seated = {}
    for seat, wanted in (lms or {}).items():
        settings = wanted
        if isinstance(wanted, str):
            settings = {"name": wanted}
        if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
            raise UserError(
                f"{where}: the LM of the agent {seat!r} is {wanted!r}; give a name such as "
                "openai/gpt-4o-mini"
            )
        seated[str(seat)] = make_lm(**{str(key): value for key, value in settings.items()})
    return seated
