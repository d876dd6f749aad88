"""Programs by name: a short spec such as `single:cot`, a YAML file, or a mapping."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..modules.deliberation import Deliberation
from ..modules.ensemble import Ensemble
from ..modules.environment import CorpusEnvironment
from ..modules.errors import UserError
from ..modules.program import Program
from ..modules.seat import Seat
from ..modules.single import SingleAgent
from .lms import SAMPLING, lm
from .settings import settings

YAML_SUFFIXES = (".yaml", ".yml")
MakeLM = Callable[..., Any]
SeatTurns = tuple[Seat, float, float]


@dataclass(frozen=True)
class Protocol:
    """How one protocol is written and built.

    `read` turns the parts of a short spec after the protocol's name (at most two) into constructor
    parameters; `most_turns` is the largest number of turns that one question can take; `example` is a short
    spec; `turns` tells the fewest and most turns of every seat.
    """

    program: type[Program]
    read: Callable[[Sequence[str]], dict[str, Any]]
    most_turns: Callable[[Any], int]
    example: str
    turns: Callable[[Any], list[SeatTurns]] | None = None


def _read_single(parts: Sequence[str]) -> dict[str, Any]:
    if len(parts) > 1:
        raise UserError(f"a single agent has one strategy or role, not {':'.join(parts)!r}: write single:cot")
    name = parts[0] if parts else ""
    if name.startswith("role="):
        return {"role": name.removeprefix("role=")}
    return {"strategy": name} if name else {}


def _read_ensemble(parts: Sequence[str]) -> dict[str, Any]:
    return {"members": _items(parts)} | ({"vote": parts[1]} if len(parts) > 1 else {})


def _read_deliberation(parts: Sequence[str]) -> dict[str, Any]:
    return {"roles": _items(parts)} | ({"tie_break": parts[1]} if len(parts) > 1 else {})


def _items(parts: Sequence[str]) -> list[str]:
    return [item.strip() for item in parts[0].split(",")] if parts and parts[0] else []


PROTOCOLS: dict[str, Protocol] = {
    "single": Protocol(
        SingleAgent,
        _read_single,
        lambda program: program.samples or 1,
        "single:cot",
        lambda program: [(program.seat, program.samples or 1, program.samples or 1)],
    ),
    "ensemble": Protocol(
        Ensemble,
        _read_ensemble,
        lambda program: sum(map(most_turns, program.members)),
        "ensemble:simple,cot:majority",
        lambda program: [turns for member in program.members for turns in seat_turns(member)],
    ),
    "deliberation": Protocol(
        Deliberation,
        _read_deliberation,
        lambda program: len(program.agents) * program.max_rounds + (program.judge is not None),
        "deliberation:intuitive,reasoner:judge",
        lambda program: [
            *((agent, 1, program.max_rounds) for agent in program.agents),
            *([(program.judge, 0, 1)] if program.judge is not None else []),
        ],
    ),
}


def program_of(
    spec: str | Path | Mapping[str, Any], sets: Mapping[str, Any] | None = None, *, make_lm: MakeLM = lm
) -> Program:
    """The program that a spec names.

    Args:
        spec: a short spec (`single:cot`, `single:role=critic`, `ensemble:simple,cot:majority`,
            `deliberation:intuitive,reasoner:strongest=intuitive`), the path of a YAML file, or what such a
            file holds: `program` (a protocol's name or a short spec), any constructor parameter, `lms` (seat,
            then LM name or the arguments of `lm`) and, for an ensemble, `members` (specs of either form).
        sets: constructor parameters that go before those of the spec; `environment` is `corpus:PATH`.
        make_lm: makes the LMs under `lms`.

    Raises UserError for anything that is not such a spec; a parameter's own error comes from its constructor.
    """
    if isinstance(spec, Mapping):
        return _build("the program", spec, sets or {}, make_lm)
    text = str(spec)
    if isinstance(spec, str) and text.partition(":")[0] in PROTOCOLS:
        return _build(text, {"program": text}, sets or {}, make_lm)
    path = Path(text).expanduser()
    if text and path.is_dir():
        raise UserError(
            f"the folder {text} holds no saved program: name a YAML file or a spec such as {_example()}"
        )
    if path.suffix.casefold() in YAML_SUFFIXES or path.is_file():
        return _build(text, read_yaml(path), sets or {}, make_lm)
    raise _no_protocol(text)


def most_turns(program: Program) -> int:
    """The largest number of turns that one question can take; one call each, two if unreadable."""
    for protocol in PROTOCOLS.values():
        if isinstance(program, protocol.program):
            return protocol.most_turns(program)
    return len(program.seats())


def seat_turns(program: Program) -> list[SeatTurns]:
    """Each seat with the fewest and the most turns it takes over one question.

    A protocol that does not say counts with at least one turn in all, and with all seats alike.
    """
    for protocol in PROTOCOLS.values():
        if isinstance(program, protocol.program) and protocol.turns is not None:
            return protocol.turns(program)
    seats = program.seats().values()
    return [(seat, 1 / len(seats), most_turns(program) / len(seats)) for seat in seats]


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
        found = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
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
    """YAML's safe loader, which also refuses a key that stands twice instead of dropping the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value if isinstance(key.value, str) else None)
        return super().construct_mapping(node, deep)


# YAML 1.1 takes 1e-3 for text, which nobody who writes a number means.
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
    name, *parts = (part.strip() for part in spec.split(":", 2))
    protocol = PROTOCOLS.get(name)
    if protocol is None:
        raise _no_protocol(spec)
    lms = fields.pop("lms", None)
    parameters = {**protocol.read(parts), **fields, **sets}
    _check_names(name, protocol, parameters)
    if "members" in parameters and isinstance(parameters["members"], list):
        parameters["members"] = [_member(member, make_lm) for member in parameters["members"]]
    if "environment" in parameters:
        parameters["environment"] = _environment(parameters["environment"])
    _check_sampling(parameters.get("sampling"))
    try:
        program = protocol.program(**parameters)
    except UserError:
        raise
    except (TypeError, ValueError, AttributeError) as problem:
        raise UserError(f"{where} cannot be built ({problem}): check its parameters") from None
    if parameters.get("environment") is not None and getattr(program, "retrieval", None) is None:
        raise UserError(
            f"{where} has an environment but no retriever to use it: add the role or drop the environment"
        )
    program.assign(_seat_lms(where, lms, make_lm))
    return program


def _check_names(name: str, protocol: Protocol, parameters: Mapping[str, Any]) -> None:
    """The constructor's parameters are those a user can set; LMs have options of their own."""
    signature = inspect.signature(protocol.program.__init__).parameters
    known = [key for key in signature if key not in ("self", "lm", "lms")]
    for key in parameters:
        if key not in known:
            raise UserError(f"{name} has no parameter {key!r}{_meant(key, known)}: it has {', '.join(known)}")
    for key, parameter in signature.items():
        if key == "self":
            continue
        if parameter.default is inspect.Parameter.empty and not parameters.get(key):
            raise UserError(f"{name} needs {key}: write for example {protocol.example}")


def _check_sampling(sampling: Any) -> None:
    if sampling is None:
        return
    if not isinstance(sampling, Mapping):
        raise UserError(f"sampling is {sampling!r}: give settings such as {{temperature: 0.5}}")
    for key in sampling:
        if key not in SAMPLING:
            raise UserError(
                f"there is no sampling setting {key!r}{_meant(key, SAMPLING)}: "
                f"choose among {', '.join(SAMPLING)}"
            )


def _member(member: Any, make_lm: MakeLM) -> str | Program:
    """A member of an ensemble; the bare name of a strategy is left to the ensemble."""
    if isinstance(member, str) and member not in PROTOCOLS and ":" not in member:
        return member
    if isinstance(member, str | Mapping):
        return program_of(member, make_lm=make_lm)
    raise UserError(
        f"{member!r} is no member: give a strategy, a spec such as {_example()}, or a mapping with 'program'"
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


def _corpus(path: str) -> CorpusEnvironment:
    return CorpusEnvironment(path, index_dir=settings().cache)


ENVIRONMENTS: dict[str, Callable[[str], Any]] = {"corpus": _corpus}


def _environment(value: Any) -> Any:
    """`corpus:PATH` as an environment; None, or an environment that is made already, as it is."""
    if not isinstance(value, str):
        if value is None or hasattr(value, "source"):
            return value
        raise UserError(
            f"environment is {value!r}: give corpus:PATH, the path of a JSONL file of titles and texts"
        )
    name, _, rest = value.partition(":")
    if name not in ENVIRONMENTS or not rest:
        raise UserError(
            f"there is no environment {value!r}: give corpus:PATH, a JSONL file of titles and texts"
        )
    return ENVIRONMENTS[name](rest)


def _no_protocol(spec: str) -> UserError:
    name = spec.partition(":")[0]
    return UserError(
        f"there is no program or file {spec!r}{_meant(name, PROTOCOLS)}: the programs are "
        f"{', '.join(PROTOCOLS)}, or name a YAML file"
    )


def _example() -> str:
    return PROTOCOLS["deliberation"].example


def _meant(name: Any, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
