"""Programs by name: a short spec such as `single:cot`, a YAML file, or a mapping."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.space import Space
from ...modules.environment import (
    CorpusEnvironment,
    RecordingEnvironment,
    ReplayEnvironment,
    WikipediaEnvironment,
)
from ...modules.network import space as network_space
from ...modules.protocols import causal, deliberation, ensemble, single
from ...modules.protocols.causal import CausalConsistency
from ...modules.protocols.deliberation import Deliberation
from ...modules.protocols.ensemble import Ensemble
from ...modules.protocols.nearest import NearestDemos
from ...modules.protocols.program import Program
from ...modules.protocols.replays import Replays
from ...modules.protocols.router import Router
from ...modules.protocols.single import SingleAgent
from ...modules.protocols.team import team
from ...modules.protocols.team.team import SupervisedTeam
from ..base.settings import settings
from ..lms.named import SAMPLING, lm
from .networks import ToTrain, trained_network

YAML_SUFFIXES = (".yaml", ".yml")
MakeLM = Callable[..., Any]


@dataclass(frozen=True)
class Protocol:
    """How one protocol is written and built.

    `program` is its class, or a function that makes it; `read` turns the parts of a short spec after the
    protocol's name (at most two) into its parameters; `example` is a short spec. `space` is what can be
    tuned, and `replays` what a recorded run tells of other settings.
    """

    program: Callable[..., Program]
    read: Callable[[Sequence[str]], dict[str, Any]]
    example: str
    space: Space = field(default_factory=dict)
    replays: Replays | None = None


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


def _read_causal(parts: Sequence[str]) -> dict[str, Any]:
    if not any(parts):
        return {}
    counts = re.fullmatch(r"R(\d{1,4})(?:E(\d{1,4}))?", parts[0], re.IGNORECASE)
    if len(parts) > 1 or counts is None:
        raise UserError(
            f"{':'.join(parts)!r} is no number of reasoners and evaluators: write for example causal:R2E1"
        )
    reasoners, evaluators = counts.groups()
    return {"reasoners": int(reasoners)} | ({"evaluators": int(evaluators)} if evaluators else {})


def _read_team(parts: Sequence[str]) -> dict[str, Any]:
    if len(parts) > 1:
        raise UserError(f"a team has workers only, not {':'.join(parts)!r}: write team:bold,cautious")
    return {"workers": _items(parts)}


def _read_router(parts: Sequence[str]) -> dict[str, Any]:
    return dict(zip(("cheap", "team"), parts, strict=False))


def _read_network(parts: Sequence[str]) -> dict[str, Any]:
    return {"folder": ":".join(parts)}


def _items(parts: Sequence[str]) -> list[str]:
    return [item.strip() for item in parts[0].split(",")] if parts and parts[0] else []


PROTOCOLS: dict[str, Protocol] = {
    "single": Protocol(SingleAgent, _read_single, "single:cot", single.SPACE),
    "ensemble": Protocol(
        Ensemble, _read_ensemble, "ensemble:simple,cot:majority", ensemble.SPACE, ensemble.REPLAYS
    ),
    "deliberation": Protocol(
        Deliberation,
        _read_deliberation,
        "deliberation:intuitive,reasoner:judge",
        deliberation.SPACE,
        deliberation.REPLAYS,
    ),
    "causal": Protocol(CausalConsistency, _read_causal, "causal:R2E1", causal.SPACE),
    "team": Protocol(SupervisedTeam, _read_team, "team:bold,cautious", team.SPACE),
    "router": Protocol(Router, _read_router, "router:self_consistency:deliberation:intuitive,reasoner:judge"),
    "network": Protocol(trained_network, _read_network, "network:runs/network"),
}

TO_TRAIN = Protocol(
    ToTrain(),
    lambda parts: {"strategies": list(network_space.PAPER_STRATEGIES)},
    "network",
    network_space.SPACE,
)
"""What only a study makes: a strategy network that it trains."""

COMPILED = {"nearest": Protocol(NearestDemos, lambda parts: {}, "runs/compiled/program")}
"""What only a compilation makes: found in saved programs, without a short spec."""


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
    if isinstance(spec, str) and text.partition(":")[0] in PROTOCOLS:
        return _build(text, {"program": text}, sets or {}, make_lm)
    path = Path(text).expanduser()
    if text and path.is_dir():
        from .saved import saved_program

        return saved_program(path, sets=sets, make_lm=make_lm)
    if path.suffix.casefold() in YAML_SUFFIXES or path.is_file():
        return _build(text, read_yaml(path), sets or {}, make_lm)
    raise _no_protocol(text)


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
    for part in {"cheap", "team"} & parameters.keys():
        parameters[part] = _member(parameters[part], make_lm)
    if "environment" in parameters:
        parameters["environment"] = environment_of(parameters["environment"])
    program = made(where, name, parameters)
    program.assign(_seat_lms(where, lms, make_lm))
    return program


def made(where: str, name: str, parameters: Mapping[str, Any], protocol: Protocol | None = None) -> Program:
    """The protocol of that name with these parameters, members and environments made already.

    Raises UserError for a name that no protocol has, and parameters that it does not take.
    """
    protocol = protocol or PROTOCOLS.get(name) or COMPILED.get(name)
    if protocol is None:
        raise _no_protocol(name)
    _check_names(name, protocol, parameters)
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
    return program


def _check_names(name: str, protocol: Protocol, parameters: Mapping[str, Any]) -> None:
    """The constructor's parameters are those a user can set; LMs have options of their own."""
    made_by = protocol.program
    built = made_by.__init__ if isinstance(made_by, type) else made_by  # type: ignore[misc]
    signature = inspect.signature(built).parameters
    known = [key for key in signature if key not in ("self", "lm", "lms")]
    for key in parameters:
        if key not in known:
            raise UserError(
                f"{name} has no parameter {key!r}{did_you_mean(key, known)}: it has {', '.join(known)}"
            )
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
                f"there is no sampling setting {key!r}{did_you_mean(key, SAMPLING)}: "
                f"choose among {', '.join(SAMPLING)}"
            )


def _member(member: Any, make_lm: MakeLM) -> str | Program:
    """A member of an ensemble or a part of a router, which are left to read the bare name of a strategy."""
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


def _wikipedia(address: str) -> WikipediaEnvironment:
    host, _, path = address.partition("/")
    return WikipediaEnvironment(
        host or "en.wikipedia.org", path=f"/{path or 'w/api.php'}", cache_dir=settings().cache
    )


def _recording(rest: str) -> RecordingEnvironment:
    path, _, environment = rest.partition(":")
    if not path or not environment:
        raise UserError(f"record:{rest} names no file or no environment: write record:pages.jsonl:wikipedia")
    return RecordingEnvironment(environment_of(environment), path)


ENVIRONMENTS: dict[str, Callable[[str], Any]] = {
    "corpus": _corpus,
    "wikipedia": _wikipedia,
    "replay": ReplayEnvironment,
    "record": _recording,
}
_FORMS = (
    "corpus:PATH (a JSONL file of titles and texts), wikipedia, wikipedia:HOST, "
    "record:PATH:ENVIRONMENT or replay:PATH"
)


def environment_of(value: Any) -> Any:
    """An environment by its text form; None, or an environment that is made already, as it is."""
    if not isinstance(value, str):
        if value is None or hasattr(value, "source"):
            return value
        raise UserError(f"environment is {value!r}: give {_FORMS}")
    name, _, rest = value.partition(":")
    if name not in ENVIRONMENTS or not (rest or value == "wikipedia"):
        meant = "" if name in ENVIRONMENTS else did_you_mean(name, ENVIRONMENTS)
        raise UserError(f"there is no environment {value!r}{meant}: give {_FORMS}")
    return ENVIRONMENTS[name](rest)


def _no_protocol(spec: str) -> UserError:
    name = spec.partition(":")[0]
    return UserError(
        f"there is no program or file {spec!r}{did_you_mean(name, PROTOCOLS)}: the programs are "
        f"{', '.join(PROTOCOLS)}, or name a YAML file"
    )


def _example() -> str:
    return PROTOCOLS["deliberation"].example
