"""Reads the space of a study: a protocol's name, a short spec, a program, a YAML file, or what such
a file holds.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
from optuna.distributions import FloatDistribution, IntDistribution

from ...modules.base.errors import UserError
from ...modules.base.registry import names_from
from ...modules.base.saved_file import ADDRESSES
from ...modules.base.space import (
    MOST_VALUES,
    Declaration,
    Distribution,
    Parameter,
    Space,
    When,
    choice,
    lists,
)
from ...modules.base.yaml_file import ROWS, SUFFIXES
from ...modules.protocols.declaration import Protocol
from ...modules.protocols.registry import PROTOCOLS
from ...modules.protocols.roles import SEATS
from ...optimizers.prompts.optimizers import PRESETS, optimizer_of
from ...optimizers.structure.points import constructed, options, settled
from ..comparison.request import split_items
from ..lms.named import lm_for
from ..programs.build import MakeLM, NoParameter, no_protocol, takes, takes_list
from ..programs.own_roles import role_document, roles
from ..programs.resolve import INSTEAD, read_program
from .space import NOT_COMPILED, OPTIMIZER, PRESET, PROGRAM, Branch, ReadyProgram, TuneSpace

_WRITTEN = {"from", "to", "step", "of", "least", "most"}
_ROOM_FOR_PROMPTS = ("knn",)
"""Optimizers whose result is a program around the given one, with no rounds or ties of its own."""


def space_of(
    spec: object,
    sets: Mapping[str, object] | None = None,
    *,
    lms: Mapping[str, object] | None = None,
    compiled_by: str | Sequence[str] | None = None,
    make_lm: MakeLM = lm_for,
) -> TuneSpace:
    """Return the space that a study goes through.

    Args:
        spec: a protocol's name for the space declared beside it; a short spec that fixes a part of
            it (`deliberation:intuitive,reasoner`); a program as an object, or the folder of one
            that was saved or compiled, whose prompts stay; the path of a YAML file, or what such a
            file holds: `program` (any of these) and, by parameter, a value that is fixed, a list of
            values to choose from (for a parameter that is a list itself, a list of lists),
            `{from: 1, to: 5, step: 1}`, or `{of: […], least: 1, most: 3}` for lists of items in
            every order. Where any is written, an opening, a prompt layout and rules for ties vary
            only if they are, too; of a saved program only what is written varies. `lms` gives seats
            lists of LMs. `compile: {optimizer: [none, mipro], preset: light}` compiles prompts.
            `programs` is a list of such mappings, short specs and programs, to choose the protocol,
            too. `network` without a folder is trained with each setting, `network:FOLDER` not.
        sets: parameters to fix in every program that has them.
        lms: LMs for seats that the spec gives none, by name or by the arguments of `lm`.
        compiled_by: optimizers to compile prompts with, for programs whose spec has no `compile`.
        make_lm: makes the LMs under `lms`.

    Raises UserError naming file and parameter; no LM is called.
    """
    where, content, file = str(spec), spec, None
    if isinstance(spec, Mapping):
        where = "the space"
    elif isinstance(spec, dspy.Module):
        where = f"the {type(spec).__name__}"
    elif isinstance(spec, str | Path) and _is_file(spec):
        content, file = read_program(Path(spec).expanduser()), where
    entries: list[object] = [content]
    if isinstance(content, Mapping) and "programs" in content:
        rest = [str(name) for name in content if name != "programs"]
        if rest or not isinstance(content["programs"], list) or not content["programs"]:
            raise UserError(
                f"{where}: give a list of programs alone: {', '.join(rest) or 'it is empty'}"
            )
        entries = list(content["programs"])
    optimizers = [NOT_COMPILED, *split_items(compiled_by)] if compiled_by else None
    branches: list[Branch] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            entry = {PROGRAM: entry}
        fields = dict(entry)
        source, program = file, fields.get(PROGRAM)
        if isinstance(program, str | Path) and _is_file(program):
            source = str(program)
            del fields[PROGRAM]
            # What stands beside the program's file goes before what stands in it.
            fields = {**read_program(Path(program).expanduser()), **fields}
        # A program that says itself how it is compiled keeps that.
        fields.setdefault("compile", optimizers)
        with names_from(source, INSTEAD):
            branch = _branch(where, fields, sets or {}, lms or {}, make_lm)
        # One program may stand in a space several times, with other parameters fixed.
        same = sum(each.label.partition("#")[0] == branch.label for each in branches)
        if same:
            branch = replace(branch, label=f"{branch.label}#{same + 1}")
        branches.append(replace(branch, file=source and "the file"))
    for name in sets or {}:
        parameters = dict[str, None]()
        for branch in branches:
            if branch.protocol:
                parameters |= dict.fromkeys(takes(branch.protocol))
        if name.partition(".")[0] not in parameters:
            raise UserError(
                f"--set {name}: {where} has no such parameter: it has {', '.join(parameters)}"
            )
    space = TuneSpace(where, tuple(branches), make_lm)
    space.check()
    first = branches[0]
    fixed = all(value.values.single() for value in first.space.values() if value.among is None)
    if len(branches) == 1 and first.ready and fixed and not first.lms:
        raise UserError(
            f"{where}: nothing of {first.label} varies: give parameters lists of values, or "
            f"--compile an optimizer"
        )
    return space


def _is_file(spec: str | Path) -> bool:
    """Return whether a spec is the path of a YAML file: any path is, unless it is a folder."""
    place = Path(spec).expanduser()
    written = isinstance(spec, Path) or place.suffix.casefold() in (*SUFFIXES, *ROWS)
    return written and not place.is_dir()


def _branch(
    where: str,
    fields: dict[str, object],
    sets: Mapping[str, object],
    seated: Mapping[str, object],
    make_lm: MakeLM,
) -> Branch:
    spec = fields.pop(PROGRAM, None)
    if spec is None:
        raise UserError(
            f"{where} does not say which program: add a line such as 'program: deliberation'"
        )
    compiling = _compilation(where, fields.pop("compile", None))
    lms = _lm_choices(where, seated) | _lm_choices(where, fields.pop("lms", None))
    name, *parts = map(str.strip, str(spec).split(":", 2))
    protocol = PROTOCOLS.find(name) if isinstance(spec, str) else None
    if protocol is None and isinstance(spec, str):
        own_class = PROTOCOLS.spec(spec)
        # In a module or function that is named in this way, nothing varies.
        if own_class is not None and own_class.thing.space:
            name, protocol, rest = own_class
            parts = rest.split(":", 1)
    if protocol is None or not protocol.example:
        branch = _ready_branch(where, spec, fields, sets, make_lm)
        return replace(branch, space={**branch.space, **compiling}, lms=lms)
    if protocol.learning is not None and parts == [""]:
        raise UserError(
            f"{where}: {spec!r} names no folder: write {name}:FOLDER, or {name} to train some"
        )
    if any(parts):
        fields = protocol.read(parts) | fields
    learning = Branch(name, name, {**fields, **sets}).learning
    if learning is not None:
        protocol = learning.untrained
    own = _of(sets, takes(protocol))
    values = _flat({**fields, **own})
    if learning is not None:
        values, warning = learning.settled(values)
        if warning is not None:
            warnings.warn(warning.replace("--embedding ", "embedding="), stacklevel=4)
    own_roles = values.pop("own_roles", None)
    declared = protocol.space
    named = values.keys() & declared.keys()
    if named:
        declared = settled(declared, named)
    if own_roles is not None:
        names = [name for name in roles(own_roles, make_lm=make_lm) if name not in SEATS]
        declared = _with_roles(declared, names)
    space, fixed = _narrow(where, protocol, declared, values)
    if own_roles is not None:  # as the file is now, whatever becomes of it
        fixed["own_roles"] = role_document(own_roles)
    mine = frozenset(key.partition(".")[0] for key in own)
    return Branch(name, name, constructed({}, fixed), {**space, **compiling}, lms, mine=mine)


def _with_roles(space: Space, names: Sequence[str]) -> Space:
    """Return the space in which the user's own roles stand beside those of the papers."""
    widened = dict(space)
    for name, parameter in space.items():
        if names and parameter.of_roles is not None:
            widened[name] = replace(parameter, given=parameter.of_roles(names))
    return widened


def _ready_branch(
    where: str,
    spec: object,
    fields: Mapping[str, object],
    sets: Mapping[str, object],
    make_lm: MakeLM,
) -> Branch:
    """Return the branch of a saved program or an object. Raises UserError for what is neither."""
    is_text = isinstance(spec, str | Path)
    label = str(spec) if is_text else type(spec).__name__
    if is_text and not Path(label).expanduser().is_dir() and PROTOCOLS.spec(label) is None:
        raise no_protocol(label)
    ready = ReadyProgram.of(spec, make_lm)
    protocol = ready.protocol
    values = _flat(fields)
    if protocol is not None and ready.folder is not None:
        values = _flat({**fields, **_of(sets, takes(protocol))})
    if values and (protocol is None or ready.folder is None):
        name = min(values)
        raise NoParameter(f"{where}: {label} has no {name!r} to set: leave it out", name)
    if protocol is None:
        return Branch(label, label, ready=ready)
    for name in fields:
        if name.partition(".")[0] not in takes(protocol):
            has = ", ".join(takes(protocol))
            raise NoParameter(f"{where}: {label} has no {name!r}: it has {has}", name)
    space = dict[str, Parameter]()
    for name in filter(values.__contains__, protocol.space):
        parameter = space[name] = protocol.space[name]
        # The program has the condition's parameter fixed, unless that varies, too.
        if parameter.when and parameter.when.parameter not in values:
            space[name] = replace(parameter, when=None)
    space, fixed = _narrow(where, protocol, space, values)
    return Branch(label, label, constructed({}, fixed), space, ready=ready)


def _of(sets: Mapping[str, object], parameters: Collection[str]) -> dict[str, object]:
    """Return the settings of these parameters, or of parts of them."""
    return {key: value for key, value in sets.items() if key.partition(".")[0] in parameters}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _narrow(
    where: str, protocol: Protocol, declared: Space, values: Mapping[str, object]
) -> tuple[dict[str, Parameter], dict[str, object]]:
    """Return the declared space with the values that a spec gives, and what it fixes beside."""
    space, fixed = dict(declared), {}
    for name, value in values.items():
        distribution = _values(f"{where}: {name}", protocol, name, value)
        if distribution is None:
            fixed[name] = value
        else:
            parameter = space.get(name, Parameter(distribution))
            space[name] = replace(parameter, given=distribution, joins=None, among=None)
    return space, fixed


def _compilation(where: str, spec: object) -> dict[str, Parameter]:
    """Return the parameters of `compile`: an optimizer, and where there is one, a preset.

    Raises UserError for an unknown optimizer or preset.
    """
    if spec is None:
        return {}
    fields = spec if isinstance(spec, Mapping) else {"optimizer": spec}
    presets, named = _as_list(fields.get("preset", PRESETS[0])), list[str]()
    for optimizer in _as_list(fields.get("optimizer")):
        if optimizer in (None, NOT_COMPILED):
            named.append(NOT_COMPILED)
        else:
            named.append(optimizer_of(str(optimizer), presets[0]).name)
    compiled = tuple(name for name in named if name != NOT_COMPILED)
    if {*fields} - {"optimizer", "preset"} or not compiled or len({*named}) < len(named):
        raise UserError(
            f"{where}: compile is {spec!r}: write {{optimizer: [none, mipro], preset: light}}"
        )
    for each in compiled:
        if each in _ROOM_FOR_PROMPTS:
            raise UserError(
                f"{where}: compile: {each} chooses demonstrations for each question, so that "
                f"rounds and ties cannot vary: compile the winner with it"
            )
        for preset in presets:
            # Called for its check alone.
            optimizer_of(each, str(preset))
    return {
        OPTIMIZER: Parameter(choice(*named)),
        PRESET: Parameter(choice(*presets), When(OPTIMIZER, compiled)),
    }


def _values(
    where: str, protocol: Protocol, name: str, value: object
) -> Distribution | Declaration | None:
    """Return the values that a spec gives a parameter; None for a fixed value that the space does
    not declare.
    """
    declared = protocol.space.get(name)
    if declared is not None and declared.joins is not None:
        raise UserError(
            f"{where} follows from {declared.joins}: write there for example {name}:VALUE"
        )
    if isinstance(value, Mapping):
        if value.keys() <= _WRITTEN and "of" in value:
            return _lists(where, value, declared)
        if value.keys() <= _WRITTEN and {"from", "to"} <= value.keys():
            return _range(where, **value)
        raise UserError(
            f"{where} is {dict(value)!r}: write a value, a list of values, {{from: 1, to: 5}}, or "
            "{of: [a, b, c], least: 1, most: 2}"
        )
    if isinstance(value, list):
        takes_one = takes_list(protocol, name)
        given_lists = sum(isinstance(item, list) for item in value)
        # A list without lists in it is one value of a parameter that takes a list.
        if given_lists or not takes_one:
            mixed = takes_one and given_lists < len(value)
            if not value or mixed or any(value.count(item) > 1 for item in value):
                raise UserError(
                    f"{where} is {value!r}: give different values to choose from, of a parameter "
                    "that is a list itself a list of lists"
                )
            return choice(*value)
    if declared is None:
        return None
    return choice(value)


def _lists(where: str, value: Mapping[str, Any], declared: Parameter | None) -> Declaration:
    items, least = value["of"], value.get("least", 1)
    most = value.get("most", len(_as_list(items)))
    if not isinstance(items, list) or not items or not all(map(_whole, (least, most))):
        raise UserError(f"{where}: of is a list of items, least and most are whole numbers")
    # Where the declared lists have their items in one order, or an item twice, so do these.
    own = list[list[object]]()
    if declared is not None:
        own = [each for each in options(declared.values) or () if isinstance(each, list)]
    repeated = any(len(order) > len({*order}) for order in own)
    ordered = declared is None or any(order[::-1] in own for order in own if len({*order}) > 1)
    if not 1 <= least <= most or (most > len(items) and not repeated):
        raise UserError(f"{where}: no list of {least} to {most} can be made of {len(items)} items")
    try:
        return lists(items, least, most, ordered=ordered, repeated=repeated)
    except ValueError:
        raise _too_many(where) from None


def _range(where: str, **value: Any) -> Distribution:
    low, high, step = value["from"], value["to"], value.get("step")
    whole = all(map(_whole, (low, high, step or 1)))
    try:
        with warnings.catch_warnings():  # Optuna warns where the last step is not the upper end
            warnings.simplefilter("ignore")
            values: IntDistribution | FloatDistribution
            if whole:
                values = IntDistribution(low, high, step=1 if step is None else step)
            else:
                values = FloatDistribution(low, high, step=step)
    except (TypeError, ValueError):
        raise UserError(
            f"{where}: a range goes from the smaller to the larger number in steps above 0, not "
            f"{value!r}"
        ) from None
    if values.step and (values.high - values.low) / values.step >= MOST_VALUES:
        raise _too_many(where)
    return values


def _too_many(where: str) -> UserError:
    return UserError(
        f"{where} allows more than {MOST_VALUES:,} values: give fewer, or larger steps"
    )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flat(values: Mapping[str, object]) -> dict[str, object]:
    """Return `sampling: {temperature: 0.5}` as `sampling.temperature: 0.5`."""
    flat: dict[str, object] = {}
    for name, value in values.items():
        if name == "sampling" and isinstance(value, Mapping):
            flat |= {f"sampling.{key}": item for key, item in value.items()}
        else:
            flat[str(name)] = value
    return flat


SECRETS = ADDRESSES - {"api_base", "base_url"}
"""Arguments of an LM that may hold a key."""


def _names_lm(wanted: object) -> bool:
    return isinstance(wanted, str) or (isinstance(wanted, Mapping) and "name" in wanted)


def _lm_choices(where: str, lms: object) -> dict[str, tuple[object, ...]]:
    if not isinstance(lms, Mapping | None):
        raise UserError(
            f"{where}: lms is {lms!r}: write agents and LMs, such as "
            "{judge: [openai/a, openai/b]}"
        )
    seats: dict[str, tuple[object, ...]] = {}
    for seat, wanted in (lms or {}).items():
        seats[str(seat)] = tuple(_as_list(wanted))
        if not wanted or not all(map(_names_lm, seats[str(seat)])):
            raise UserError(
                f"{where}: lms.{seat} is {wanted!r}: give LM names such as openai/gpt-4o-mini"
            )
        for described in seats[str(seat)]:
            held = SECRETS.intersection(described if isinstance(described, Mapping) else ())
            if held:
                raise UserError(
                    f"{where}: lms.{seat} has {min(held)!r}, and a study writes its settings down: "
                    "take it out, and set the LM's key in the environment"
                )
    return seats
