"""Reads the space of a study: a protocol's name, a short spec, a YAML file, or what such a file
holds.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.registry import names_from
from ...modules.base.space import (
    Choice,
    Parameter,
    Pick,
    Real,
    Values,
    Whole,
    constructed,
    how_many,
    settled,
)
from ...modules.protocols.declaration import Protocol
from ...modules.protocols.registry import PROTOCOLS, written
from ..lms.named import lm
from ..programs.build import MakeLM, takes, takes_list
from ..programs.networks import TO_TRAIN, default_embedding
from ..programs.resolve import INSTEAD, YAML_SUFFIXES, read_program
from .space import PROGRAM, Branch, TuneSpace

MOST_VALUES = 100_000  # of one parameter
_WRITTEN = {"from", "to", "step", "of", "least", "most"}


def space_of(
    spec: str | Path | Mapping[str, Any],
    sets: Mapping[str, Any] | None = None,
    *,
    lms: Mapping[str, Any] | None = None,
    make_lm: MakeLM = lm,
) -> TuneSpace:
    """The space that a study goes through.

    Args: spec: a protocol's name for the space declared beside it; a short spec that fixes a part
        of it (`deliberation:intuitive,reasoner`); the path of a YAML file, or what such a file
        holds: `program` and, by parameter, a value that is fixed, a list of values to choose from
        (for a parameter that is a list itself, a list of lists), `{from: 1, to: 5, step: 1}`, or
        `{of: […], least: 1, most: 3}` for lists of items in every order. Where any is written, an
        opening, a prompt layout and rules for ties vary only if they are, too. `lms` gives seats
        lists of LMs. `programs` is a list of such mappings, short specs and folders of saved
        programs, to choose the protocol, too. `network` without a folder is trained with each
        setting, `network:FOLDER` not.
        sets: parameters to fix in every program that has them.
        lms: LMs for seats that the spec gives none, by name or by the arguments of `lm`.
        make_lm: makes the LMs under `lms`.

    Raises UserError naming file and parameter; no LM is called.
    """
    where, given, file = str(spec), spec, None
    if isinstance(spec, Mapping):
        where = "the space"
    elif isinstance(spec, Path) or Path(str(spec)).suffix.casefold() in YAML_SUFFIXES:
        given, file = read_program(Path(spec).expanduser()), where
    listed: list[Any] = [given]
    if isinstance(given, Mapping) and "programs" in given:
        rest = [str(name) for name in given if name != "programs"]
        if rest or not isinstance(given["programs"], list) or not given["programs"]:
            raise UserError(
                f"{where}: programs is a list that stands alone: {', '.join(rest) or 'fill it'}"
            )
        listed = list(given["programs"])
    branches: list[Branch] = []
    for entry in listed:
        with names_from(file, INSTEAD):
            branch = replace(_branch(where, entry, sets or {}, lms or {}), file=file and "the file")
        same = sum(known.label.partition("#")[0] == branch.label for known in branches)
        branches.append(replace(branch, label=f"{branch.label}#{same + 1}") if same else branch)
    for name in sets or {}:
        known = list(
            dict.fromkeys(key for one in branches if one.protocol for key in takes(one.protocol))
        )
        if name.partition(".")[0] not in known:
            raise UserError(
                f"--set {name}: {where} has no such parameter: it has {', '.join(known)}"
            )
    found = TuneSpace(where, tuple(branches), make_lm)
    found.check()
    return found


def _branch(where: str, entry: Any, sets: Mapping[str, Any], seated: Mapping[str, Any]) -> Branch:
    fields = dict(entry) if isinstance(entry, Mapping) else {PROGRAM: str(entry)}
    spec = fields.pop(PROGRAM, None)
    if not isinstance(spec, str):
        raise UserError(
            f"{where} does not say which program: add a line such as 'program: deliberation'"
        )
    name, *parts = (part.strip() for part in spec.split(":", 2))
    protocol = PROTOCOLS.find(name)
    if protocol is None or not protocol.example:
        if not Path(spec).expanduser().is_dir():
            if PROTOCOLS.spec(spec) is not None:
                raise UserError(
                    f"{where}: {spec} is a program of your own, whose settings are not known "
                    f"here: tune a "
                    "protocol, evaluate your program beside it, and compile it to improve its "
                    "prompts"
                )
            raise UserError(
                f"{where}: there is no program {spec!r}: give one of {', '.join(written())}, a "
                f"YAML file or "
                "a saved program's folder"
            )
        if fields:
            raise UserError(
                f"{where}: {spec} is a saved program, which has no parameters: drop them"
            )
        return Branch(spec, spec)
    if name == TO_TRAIN.name and parts == [""]:
        raise UserError(
            f"{where}: {spec!r} names no folder: write network:FOLDER, or network to train some"
        )
    lms = _lm_choices(where, seated) | _lm_choices(where, fields.pop("lms", None))
    given = protocol.read(parts) | fields if any(parts) else fields
    trains = Branch(name, name, {**given, **sets}).trains
    protocol = TO_TRAIN if trains else protocol
    own = {key: value for key, value in sets.items() if key.partition(".")[0] in takes(protocol)}
    given = _flat({**given, **own})
    if trains and "embedding" not in given:
        given["embedding"], warning = default_embedding()
        if warning is not None:
            warnings.warn(warning.replace("--embedding ", "embedding="), stacklevel=4)
    named = given.keys() & protocol.space.keys()
    space, fixed = dict(settled(protocol.space, named) if named else protocol.space), {}
    for parameter, value in given.items():
        values = _values(f"{where}: {parameter}", protocol, parameter, value)
        if values is None:
            fixed[parameter] = value
        else:
            declared = space.get(parameter)
            space[parameter] = (
                Parameter(values)
                if declared is None
                else replace(declared, values=values, joins=None)
            )
    mine = frozenset(key.partition(".")[0] for key in own)
    return Branch(name, name, constructed({}, fixed), space, lms, mine=mine)


def _values(where: str, protocol: Protocol, name: str, value: Any) -> Values | None:
    """The values that a spec gives a parameter; None for a fixed value that the space does not
    declare.
    """
    declared = protocol.space.get(name)
    if declared is not None and declared.joins is not None:
        raise UserError(
            f"{where} follows from {declared.joins}: write there for example {name}:VALUE"
        )
    if isinstance(value, Mapping):
        if value.keys() <= _WRITTEN and "of" in value:
            return _countable(where, _pick(where, value, declared.values if declared else None))
        if value.keys() <= _WRITTEN and {"from", "to"} <= value.keys():
            return _countable(where, _range(where, **value))
        raise UserError(
            f"{where} is {dict(value)!r}: write a value, a list of values, {{from: 1, to: 5}}, or "
            "{of: [a, b, c], least: 1, most: 2}"
        )
    lists = [isinstance(item, list) for item in value] if isinstance(value, list) else []
    if isinstance(value, list) and (any(lists) or not takes_list(protocol, name)):
        if not value:
            raise UserError(f"{where} is an empty list: give the values to choose from")
        if takes_list(protocol, name) and not all(lists):
            raise UserError(f"{where} mixes lists and values: give a list of lists to choose from")
        if any(value.count(item) > 1 for item in value):
            raise UserError(f"{where} names a value twice: keep one of them")
        return Choice(tuple(value))
    return Choice((value,)) if declared is not None else None


def _pick(where: str, value: Mapping[str, Any], declared: Values | None) -> Pick:
    items, least = value["of"], value.get("least", 1)
    most = value.get("most", len(items) if isinstance(items, list) else 0)
    if not isinstance(items, list) or not items or not all(map(_whole, (least, most))):
        raise UserError(f"{where}: of is a list of items, least and most are whole numbers")
    # Where lists are declared one by one, as a network's strategies are, their order does not
    # count.
    like = declared if isinstance(declared, Pick) else Pick((), ordered=declared is None)
    if not 1 <= least <= most or (most > len(items) and not like.repeated):
        raise UserError(f"{where}: no list of {least} to {most} can be made of {len(items)} items")
    return Pick(tuple(items), least, most, like.ordered, like.repeated)


def _range(where: str, **value: Any) -> Whole | Real:
    for key, number in value.items():
        given = (_whole(number) or isinstance(number, float)) and abs(number) < 1e300
        if not given and not (key == "step" and number is None):
            raise UserError(f"{where}: {key} is {number!r}: give a number")
    low, high, step = value["from"], value["to"], value.get("step")
    if low > high or (step is not None and step <= 0):
        raise UserError(
            f"{where}: a range goes from the smaller to the larger number in steps above 0"
        )
    if all(map(_whole, (low, high))) and (step is None or _whole(step)):
        return Whole(low, high, step or 1)
    return Real(float(low), float(high), None if step is None else float(step))


def _countable(where: str, values: Whole | Real | Pick) -> Values:
    """The values. Raises UserError for more than a study could tell apart, before they are
    listed.
    """
    if how_many(values) > MOST_VALUES:
        raise UserError(
            f"{where} allows more than {MOST_VALUES:,} values: give fewer, or larger steps"
        )
    return values


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """`sampling: {temperature: 0.5}` as `sampling.temperature: 0.5`."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name == "sampling" and isinstance(value, Mapping):
            found |= {f"sampling.{key}": item for key, item in value.items()}
        else:
            found[str(name)] = value
    return found


def _lm_choices(where: str, given: Any) -> dict[str, tuple[Any, ...]]:
    if not isinstance(given, Mapping | None):
        raise UserError(
            f"{where}: lms is {given!r}: write seats and LMs, such as {{judge: [openai/a, "
            f"openai/b]}}"
        )
    found: dict[str, tuple[Any, ...]] = {}
    for seat, wanted in (given or {}).items():
        choices = wanted if isinstance(wanted, list) else [wanted]
        named = [
            isinstance(one, str) or (isinstance(one, Mapping) and "name" in one) for one in choices
        ]
        if not choices or not all(named):
            raise UserError(
                f"{where}: lms.{seat} is {wanted!r}: give LM names such as openai/gpt-4o-mini"
            )
        found[str(seat)] = tuple(choices)
    return found
