"""Programs by name: a short spec such as `single:cot`, a YAML file, or a mapping."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ...modules.base.errors import UserError
from ...modules.base.files import read_regular
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS
from ...modules.protocols.strategies import STRATEGIES
from ..lms.named import lm
from .build import MakeLM as MakeLM
from .build import check_names, environment_of, made, no_protocol
from .saved import saved_program

YAML_SUFFIXES = (".yaml", ".yml")
MOST_BYTES, MOST_VALUES = 2**24, 100_000
"""Of a YAML file, and of what it holds once its references are followed."""


def program_of(
    spec: str | Path | Mapping[str, Any], sets: Mapping[str, Any] | None = None, *, make_lm: MakeLM = lm
) -> Program:
    """The program that a spec names.

    Args:
        spec: a short spec (`single:cot`, `single:role=critic`, `ensemble:simple,cot:majority`,
            `deliberation:intuitive,reasoner:strongest=intuitive`), a saved program's folder, the path of a
            YAML file, or what such a file holds: `program` (a protocol's name or a short spec), any
            constructor parameter, `lms` (seat, then LM name or the arguments of `lm`) and, for an ensemble,
            `members` (specs of either form) or, for a router, `cheap` and `team`.
        sets: constructor parameters that go before those of the spec; `environment` is `corpus:PATH`,
            `wikipedia`, `wikipedia:HOST`, `record:PATH:ENVIRONMENT` or `replay:PATH`.
        make_lm: makes the LMs under `lms`.

    Raises UserError for anything that is not such a spec; a parameter's own error comes from its constructor.
    """
    if isinstance(spec, Mapping):
        return _build("the program", spec, sets or {}, make_lm)
    text = str(spec)
    if isinstance(spec, str) and _is_written(text.partition(":")[0]):
        return _build(text, {"program": text}, sets or {}, make_lm)
    path = Path(text).expanduser()
    if text and path.is_dir():
        return saved_program(path, sets=sets, make_lm=make_lm)
    if path.suffix.casefold() in YAML_SUFFIXES or path.is_file():
        return _build(text, read_yaml(path), sets or {}, make_lm)
    return _build(text, {"program": text}, sets or {}, make_lm)


def program_given(program: Any, inputs: Mapping[str, str] | None = None) -> Program:
    """The program that a user gives, in Python: one of folkmoot's, a spec or folder, a `dspy.Module` of any
    kind, or a callable; the last two take `inputs`, their field → the question's.

    Raises UserError for anything else.
    """
    if isinstance(program, str | Path):
        program = program_of(program)
    if isinstance(program, Program):
        if not inputs:
            return program
        if not isinstance(program, Foreign):
            raise UserError(
                f"inputs are for programs of your own: a {type(program).__name__} knows its fields"
            )
        return Foreign(program.module, inputs, program.spec)
    if isinstance(program, type):
        raise UserError(f"{program.__name__} is a class: give an instance, {program.__name__}()")
    if not callable(program):
        raise UserError(
            f"a {type(program).__name__} is no program: give one such as fm.SingleAgent(), a dspy.Module, a "
            "function of a question, or a spec such as 'single:cot'"
        )
    return Foreign(program, inputs)


def _is_written(name: str) -> bool:
    """Whether a short spec may begin with this name."""
    protocol = PROTOCOLS.find(name)
    return protocol is not None and bool(protocol.example)


def parse_sets(pairs: Iterable[str]) -> dict[str, Any]:
    """`KEY=VALUE` pairs of the command line, each value read as YAML: `2`, `true`, `[a, b]`, `text`."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--set {pair!r} is no KEY=VALUE pair: write for example --set max_rounds=2")
        if key.strip() in found:
            raise UserError(f"--set gives {key.strip()!r} twice: keep one of them")
        try:
            found[key.strip()] = yaml.load(value, Loader=_Loader)
        except yaml.YAMLError:
            raise UserError(
                f"--set {pair!r}: the value is not valid YAML; quote it as {key}='\"…\"'"
            ) from None
    return found


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds. Raises UserError naming file and line."""
    try:
        found = yaml.load(read_regular(path, MOST_BYTES).decode("utf-8-sig"), Loader=_Loader)
    except OSError as problem:
        raise UserError(f"the file {path} cannot be read ({problem.strerror}): correct the path") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8: save the file as UTF-8") from None
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(
            f"{where}: {getattr(problem, 'problem', None) or 'not valid YAML'}; correct it"
        ) from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply: write a flatter file") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no program: it needs a line such as 'program: deliberation'")
    return found


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which also refuses a key that stands twice instead of dropping the first, and
    references that unfold to more than any program has."""

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _unfolded(node, {}) > MOST_VALUES:
            raise yaml.constructor.ConstructorError(
                None, None, f"it unfolds to more than {MOST_VALUES:,} values", node.start_mark
            )
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value if isinstance(key.value, str) else None)
        return super().construct_mapping(node, deep)


def _unfolded(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node holds, each of them as often as it is referred to; endless within itself."""
    if id(node) not in known:
        known[id(node)] = MOST_VALUES + 1  # of one that holds itself
        parts = (
            [part for pair in node.value for part in pair]
            if isinstance(node, yaml.MappingNode)
            else node.value
        )
        inner = [] if isinstance(node, yaml.ScalarNode) else parts
        known[id(node)] = 1 + sum(_unfolded(part, known) for part in inner)
    return known[id(node)]


# YAML 1.1 reads 1e-3 as text, though whoever writes it means a number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _build(where: str, given: Mapping[str, Any], sets: Mapping[str, Any], make_lm: MakeLM) -> Program:
    fields = dict(given)
    spec = fields.pop("program", None)
    if not isinstance(spec, str):
        raise UserError(
            f"{where} does not say which program it is: add a line such as 'program: deliberation'"
        )
    found = PROTOCOLS.spec(spec)
    if found is None or not found.thing.example:
        raise no_protocol(spec)
    protocol, parts = found.thing, [part.strip() for part in found.rest.split(":", 1)] if found.rest else []
    lms = fields.pop("lms", None)
    parameters = {**protocol.read(parts), **fields, **sets}
    check_names(protocol, parameters)
    if isinstance(parameters.get("strategy"), str):
        STRATEGIES.spec(parameters["strategy"])  # known from here on, if it is module:Name
    for part in {*protocol.holds} & parameters.keys():
        held = parameters[part]
        parameters[part] = (
            [_member(one, make_lm) for one in held] if isinstance(held, list) else _member(held, make_lm)
        )
    if "environment" in parameters:
        parameters["environment"] = environment_of(parameters["environment"])
    program = made(where, found.name, parameters)
    program.assign(_seat_lms(where, lms, make_lm))
    return program


def _member(member: Any, make_lm: MakeLM) -> str | Program:
    """A member of an ensemble or a part of a router, which are left to read the bare name of a strategy."""
    if isinstance(member, str) and PROTOCOLS.find(member) is None and ":" not in member:
        return member
    if isinstance(member, str | Mapping):
        return program_of(member, make_lm=make_lm)
    example = PROTOCOLS["deliberation"].example
    raise UserError(
        f"{member!r} is no member: give a strategy, a spec such as {example}, or a mapping with 'program'"
    )


def _seat_lms(where: str, lms: Any, make_lm: MakeLM) -> dict[str, Any]:
    if lms is None:
        return {}
    if not isinstance(lms, Mapping):
        raise UserError(
            f"{where} has lms that are no mapping: write seats and LM names, such as {{judge: openai/gpt-4o}}"
        )
    made = {}
    for seat, wanted in lms.items():
        if isinstance(wanted, str):
            made[str(seat)] = make_lm(wanted)
        elif isinstance(wanted, Mapping) and isinstance(wanted.get("name"), str):
            made[str(seat)] = make_lm(**{str(key): value for key, value in wanted.items()})
        else:
            raise UserError(
                f"{where}: the LM of the seat {seat!r} is {wanted!r}; give a name such as openai/gpt-4o-mini"
            )
    return made
