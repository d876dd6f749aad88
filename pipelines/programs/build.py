"""Makes programs and environments from their names and parameters, after checking these; and
programs of the user's own modules, functions and commands.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dspy

from ...modules.agents.profile import SETTINGS
from ...modules.agents.retrieval import environments_in
from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.registry import Registry, refuse_from_file
from ...modules.environment.base import Environment
from ...modules.environment.tools import FunctionEnvironment
from ...modules.protocols.declaration import Protocol
from ...modules.protocols.foreign import COMMAND, ENDPOINT, FOLDER, Foreign, asks_for
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS, written
from ..lms.prices import known_model

MakeLM = Callable[..., dspy.BaseLM]
"""As `lms.named.lm_for`, perhaps with the options of a request."""
MakeEnvironment = Callable[..., Environment]
"""(the text after the environment's name and a colon, if any) → the environment."""

_NOT_SET = ("self", "lm", "lms", "embedder")
"""Parameters that are not set here: LMs have their own options."""


class NoParameter(UserError):  # noqa: N818
    """The program has no such `parameter`."""

    def __init__(self, said: str, parameter: str = "") -> None:
        super().__init__(said)
        self.parameter = parameter


def made(
    where: str, name: str, parameters: Mapping[str, object], protocol: Protocol | None = None
) -> Program:
    """Return the program of a protocol with these parameters, in which members and environments are
    made already. Raises UserError for an unknown name or parameter.
    """
    protocol = protocol or PROTOCOLS.find(name)
    if protocol is None:
        raise no_protocol(name)
    check_names(protocol, parameters)
    arguments = dict(parameters)
    if "embedder" in _signature(protocol):
        arguments["embedder"] = embedder
    try:
        made_of = protocol.make(**arguments)
    except UserError:
        raise
    except (TypeError, ValueError, AttributeError) as problem:
        raise UserError(f"{where} cannot be built ({problem}): check its parameters") from None
    program: Program = made_of if isinstance(made_of, Program) else own_program(made_of, spec=name)
    # An environment that no agent searches is a mistake: the score would be that without it.
    given: Any = parameters.get("environment")
    used = {place.fingerprint for place in environments_in(program)}
    if given is not None and given.fingerprint not in used:
        raise UserError(
            f"{where} has an environment but no retriever to use it: add the role or drop the "
            "environment"
        )
    return program


def embedder(model: str) -> Any:
    """Return the embedder with the model of that name."""
    from ..data import embeddings  # imports NumPy

    return embeddings.Embedder(model)


def takes(protocol: Protocol) -> list[str]:
    """Return the parameters of a protocol that a user can set."""
    return [name for name in _signature(protocol) if name not in _NOT_SET]


def takes_list(protocol: Protocol, name: str) -> bool:
    """Return whether a parameter is a list itself, as its annotation says."""
    parameter = _signature(protocol).get(name)
    annotation = str(parameter and parameter.annotation).removeprefix("Annotated[")
    return annotation.startswith(("Sequence[", "list[", "tuple["))


def check_names(protocol: Protocol, parameters: Mapping[str, object]) -> None:
    """Raise UserError for a parameter that the protocol does not have, and one that is missing."""
    names = takes(protocol)
    for key in parameters:
        if key not in names and key.rpartition(".")[2] in SETTINGS:
            raise NoParameter(
                f"{protocol.name} has no parameter {key!r}, which is a setting of the LM: give "
                f"--lm-set {key}=VALUE, or fm.lm(…, {key}=VALUE)",
                key,
            )
        if key not in names:
            raise NoParameter(
                f"{protocol.name} has no parameter {key!r}{did_you_mean(key, names)}: it has "
                f"{', '.join(names)}",
                key,
            )
    for key, parameter in _signature(protocol).items():
        if (
            key in names
            and parameter.default is inspect.Parameter.empty
            and not parameters.get(key)
        ):
            instead = f"write for example {protocol.example}"
            if protocol.example == protocol.name:
                instead = f"give it by --set {key}=VALUE, or name an instance"
            raise UserError(f"{protocol.name} needs {key}: {instead}")


def _signature(protocol: Protocol) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of the function or class that makes a protocol's programs."""
    made_by = protocol.program
    # DSPy's metaclass hides the signature of a class.
    built = made_by.__init__ if isinstance(made_by, type) else made_by  # type: ignore[misc]
    assert built is not None
    return inspect.signature(built).parameters


def no_protocol(spec: str) -> UserError:
    """Return the error for a spec that names no program."""
    names, (name, colon, _) = written(), spec.partition(":")
    source = "module" if colon else "file"
    if known_model(spec) or spec.startswith("local/"):
        return UserError(
            f"{spec} is an LM, and a program is missing: name one, such as single:simple, and give "
            f"--lm {spec}"
        )
    meant = did_you_mean(name, names)
    if Path(f"{name}.py").is_file():
        meant = f" (did you mean '{name}.py:NAME'?)"
    return UserError(
        f"there is no program or {source} {name!r}{meant}: the programs are "
        f"{', '.join(names)}, or name module:Program, a YAML file or a folder"
    )


def own_program(
    module: object, inputs: Mapping[str, str] | None = None, spec: str | None = None
) -> Foreign:
    """Return a user's own module or callable as a program, metered where it asks for an
    endpoint.
    """
    if not asks_for(module, ENDPOINT) and not asks_for(module, FOLDER):
        return Foreign(module, inputs, spec)
    from ..meter.programs import Metered

    return Metered(module, inputs, spec)


def command_named(text: str, parameters: Mapping[str, Any]) -> Foreign:
    """Return the command that a user names as `cmd:COMMAND`. Raises UserError where a file names
    it.
    """
    # A file of somebody else's must not start programs.
    refuse_from_file(f"the command {text!r}")
    unknown = sorted(parameters.keys() - {"timeout", "pass_env", "cwd"})
    if unknown:
        raise UserError(f"a command has no {unknown[0]!r}: it takes timeout, pass_env and cwd")
    from ..meter.programs import Command

    return Command(text.removeprefix(COMMAND).strip(), **parameters)


def _environment_maker(name: str, maker: object) -> MakeEnvironment:
    if not callable(maker):
        raise UserError(
            f"{name} is not an environment: name a class, a function that makes one, or a search, "
            "a function of a query"
        )

    def make(*rest: str) -> Environment:
        if not rest and inspect.isfunction(maker):
            wanted = inspect.signature(maker).parameters.values()
            needed = [parameter for parameter in wanted if parameter.default is parameter.empty]
            if len(needed) == 1:
                return FunctionEnvironment(maker)  # of a query
        try:
            environment = maker(*rest)
        except TypeError as problem:
            raise UserError(
                f"the environment {name} cannot be made ({problem}): correct {name}:…"
            ) from None
        if not isinstance(environment, Environment):
            raise UserError(
                f"{name} made a {type(environment).__name__}, which is not an environment: have it "
                "return one"
            )
        return environment

    return make


_FORMS = (
    "corpus:PATH (a JSONL file of titles and texts), wikipedia, wikipedia:HOST, "
    "record:PATH:ENVIRONMENT, replay:PATH or module:function"
)
_WIKIPEDIA = re.compile(
    r"wikipedia(?::(?:[a-z0-9-]+\.)*wikipedia\.org(?:/[\w./-]*)?)?", re.IGNORECASE
)
_NEED_MORE = ("corpus", "replay", "record")


def _built_in() -> dict[str, MakeEnvironment]:
    from .environments import built_in  # imports NumPy

    return built_in(environment_of)


ENVIRONMENTS: Registry[MakeEnvironment] = Registry("environments", _environment_maker, _built_in)


def environment_of(value: object) -> Any:
    """Return an environment by its text form; None, or an environment that is made already, as it
    is.

    Raises UserError for anything else, and where a file names code, or a wiki elsewhere than
    Wikipedia, which would be asked what the questions are about.
    """
    if value is None or hasattr(value, "source"):
        return value
    text = str(value)
    named = ENVIRONMENTS.spec(text) if isinstance(value, str) else None
    if named is None or (not named.rest and (text.endswith(":") or named.name in _NEED_MORE)):
        problem = f"there is no environment {value!r}"
        if named is None:
            problem += did_you_mean(text.partition(":")[0], ENVIRONMENTS.names())
        problem += f": give {_FORMS}"
        others = [name for name in ENVIRONMENTS.names() if name not in _built_in()]
        if others:
            problem += f", or {', '.join(others)} of installed packages"
        raise UserError(problem)
    if named.name == "wikipedia" and not _WIKIPEDIA.fullmatch(text):
        refuse_from_file(f"the wiki {text}, an address other than Wikipedia's")
    if not named.rest:
        return named.thing()
    return named.thing(named.rest)
