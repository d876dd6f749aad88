"""Loads a saved program from its folder."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dspy
from pydantic import TypeAdapter, ValidationError

from ...modules.agents.profile import Profile
from ...modules.base.errors import UserError, did_you_mean, said_by
from ...modules.base.keyed import without, without_none
from ...modules.base.registry import names_from
from ...modules.base.saved_file import FILE, LM_FILE, MODULE, Described
from ...modules.environment.base import Environment
from ...modules.protocols.foreign import COMMAND, STATE, Foreign
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS, known, written
from ...modules.protocols.roles import HERE
from ...modules.protocols.saved import PACKAGES, SavedLM, SavedProgram
from ..base.cards import measured_kinds, result_kind
from ..base.journal import read_object
from ..lms.named import EVERY, lm_for
from .build import MakeLM, environment_of, made
from .restored import read_document, read_saved, restore

LEARNED = re.compile(r"[0-9a-f]{16}")


def load_program(
    folder: str | Path,
    *,
    lms: Mapping[str, str | dspy.BaseLM] | None = None,
    environment: Environment | Mapping[str, object] | str | None = None,
    embedding: Callable[..., object] | str | Path | None = None,
    protocols: Mapping[str, Callable[..., Program]] | None = None,
) -> dspy.Module:
    """Return the program that `program.save(folder)` wrote, or your own module that `fm.compile`
    wrote.

    Args:
        folder: the folder of a saved program, or one that compile, tune or train wrote.
        lms: LMs, or their names, by agent, in place of the saved ones. Addresses and keys are never
            saved.
        environment: where agents look things up: an environment or its text form, such as
            `corpus:PATH`.
        embedding: what embeds a strategy network's questions, if that was a function or in a
            folder.
        protocols: protocols of your own by the name in their `describe()`.

    Raises UserError, and loads nothing, for a missing folder, and for a file that is damaged,
    newer, of an unknown protocol, or not a saved program.
    """
    program = saved_program(
        folder, lms=lms, environment=environment, embedding=embedding, protocols=protocols
    )
    with_own_lm(program, folder)
    if not isinstance(program, Foreign):
        return program
    if program.own_lm is not None and isinstance(program.module, dspy.Module):
        try:
            program.module.set_lm(program.own_lm())
        except UserError as missing:  # a warning, since it can be asked on DSPy's LM
            warnings.warn(str(missing), stacklevel=2)
    return program.module


def saved_program(
    folder: str | Path,
    *,
    sets: Mapping[str, object] | None = None,
    lms: Mapping[str, str | dspy.BaseLM] | None = None,
    environment: object = None,
    embedding: object = None,
    protocols: Mapping[str, Callable[..., Program]] | None = None,
    make_lm: MakeLM = lm_for,
) -> Program:
    """As `load_program`, with changed constructor parameters (`sets`), with a function that makes
    the agents' LMs, and always as a `Program`. Raises UserError for a parameter that would change
    which agents there are.
    """
    place = _find_folder(folder)
    _check_lms(lms)
    given = dict(lms or {})
    for name, own in given.items():
        if isinstance(own, str):
            given[name] = make_lm(own)
    changed = dict(sets or {})
    if changed.get("own_roles") is not None:
        raise UserError(f"the saved program {folder} has its own roles: leave roles out")
    environment = changed.pop("environment", environment)
    embedding = changed.pop("embedding", embedding)
    if (place / MODULE).is_file():
        changed |= {"lms": given or None, "environment": environment, "embedding": embedding}
        changed = without_none(changed)
        return saved_module(place, changed, protocols or {})
    saved = read_saved(place)
    where = str(place / FILE)
    fixed = {"prompts"}
    for protocol in PROTOCOLS.values():
        fixed.update(protocol.holds, protocol.fixed)
    if wrong := fixed & changed.keys():
        raise UserError(
            f"{min(wrong)} cannot be set on the saved program {folder}: its prompts belong to what "
            "it was"
        )
    try:
        builder = _Builder(place, saved, environment, embedding, protocols or {})
        program = builder.build({**saved.program, **changed}, place)
    except RecursionError:
        raise UserError(f"{where} is nested too deeply: save the program again") from None
    if environment is not None and not builder.used:
        raise UserError(f"the program in {folder} looks nothing up: drop the environment")
    if embedding is not None and not builder.embeds:
        raise UserError(f"the program in {folder} has no strategy network: drop the embedding")
    try:
        restore(program, saved, place, sampling="sampling" not in changed, fewer=bool(changed))
    except UserError:
        if not changed:
            raise
        raise UserError(
            f"with {', '.join(changed)} set, the program in {folder} would have other agents than "
            "those whose prompts are saved: leave it out"
        ) from None
    described, elsewhere = program.describe(), environment is not None
    for key, value in saved.program.items():
        # If the file was edited, the saved prompts may not fit the program that it describes.
        if key not in changed and not _same(described, {key: value}, elsewhere):
            raise UserError(
                f"{where} describes a program with another {key} than it can have: save the "
                "program again"
            )
    if changed:  # a change may remove an agent, such as the judge, and so its LM
        saved.lms = {name: own for name, own in saved.lms.items() if program.has_seat(name)}
        given = {name: own for name, own in given.items() if program.has_seat(name)}
    _seat(program, saved, where, given, make_lm)
    _warn_of_versions(saved, where)
    return program


def own_lm(folder: Path) -> SavedLM | None:
    """Return the LM that was saved with a program, for agents without one; None if there is none.
    Raises UserError for a damaged file.
    """
    try:
        written = read_object(folder / LM_FILE)
        if written is None:
            return None
        return SavedLM.model_validate(written)
    except ValidationError:
        raise UserError(f"{folder / LM_FILE} is damaged: save the program again") from None


def with_own_lm(program: Program, folder: str | Path, make_lm: MakeLM = lm_for) -> Program:
    """Return the program, with what is saved next to it: its own LM, made when it is first needed,
    and the kinds of questions that it was measured on.
    """
    folder = program_folder(Path(folder).expanduser())
    program.kinds = measured_kinds(folder)
    saved = own_lm(folder)
    if saved is not None:
        where = str(folder / LM_FILE)
        program.own_lm = cache(partial(lm_of, saved, EVERY, where, make_lm))
    return program


def program_folder(folder: Path) -> Path:
    """Return the folder of the program in a result's folder: that of a compilation, a study or a
    contest; else the folder itself. Raises UserError if the command has not written its program
    yet.
    """
    if (folder / FILE).exists():
        return folder
    kind = result_kind(folder)
    if kind is None or kind.program is None:
        return folder
    if not (folder / kind.program).is_dir():
        raise UserError(
            named_again(folder)
            or f"{folder} has no program yet: run its folkmoot {kind.command} to the end"
        )
    return folder / kind.program


def _find_folder(folder: str | Path) -> Path:
    """Return the folder of a saved program, which may be that of a result. Raises UserError for
    others.
    """
    if not isinstance(folder, str | Path):
        raise UserError(f"{folder!r} is not a folder: name one that program.save wrote")
    place = program_folder(Path(folder).expanduser())
    if place.suffix in (".pkl", ".pickle"):
        raise UserError(
            f"{place} is a pickle, which could run anything: save with program.save('folder/')"
        )
    if place.is_file():
        raise UserError(
            f"{folder} is a file: name a folder that program.save wrote, or load the file into a "
            f"DSPy program of yours with program.load({str(folder)!r}), and give that"
        )
    if not place.is_dir():
        raise UserError(f"there is no folder {folder}: name one that program.save wrote")
    return place


def named_again(folder: Path) -> str:
    """Return advice on how to name a run's program again that is code, and so not saved; else
    empty.
    """
    described = (read_object(folder / "run.json") or {}).get("program")
    match described:
        case {"program": "command", "command": str(command)}:
            what, spec = "a command", f"'{COMMAND}{command}'"
        case {"program": "foreign", "class": str(own), **rest}:
            what, spec = "code of your own", str(rest.get("spec") or own)
        case _:
            return ""
    return f"the program of {folder} is {what}, which no file holds: name it again, as {spec}"


def saved_module(
    folder: Path, changed: Mapping[str, object], protocols: Mapping[str, Callable[..., object]]
) -> Foreign:
    """Return a user's own module that `fm.compile` or `Foreign.save` wrote, made again and with its
    state.

    Args:
        changed: may have the name of the module's class as `program`.
        protocols: classes by the names that are used in the folder.

    Raises UserError, with advice on how to load it, for a module that cannot be made here.
    """
    about, state = read_document(folder, MODULE), read_document(folder, STATE)
    name, others = str(about.get("spec") or about.get("class")), {*changed} - {"program"}
    if others:
        raise UserError(f"the module in {folder} has no {min(others)!r} to set: load it in Python")
    try:
        protocol = None
        if changed:
            protocol = PROTOCOLS.spec(str(changed["program"]))
        if protocol is None:
            module = _module(name, about.get("signature"), protocols)
        else:
            module = protocol.thing.make()
        module.load_state(without(state, ["metadata"]))
        return Foreign(module, about.get("inputs"), about.get("spec"))
    except (
        UserError,
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
        NotImplementedError,
    ) as problem:
        raise UserError(
            f"the {name} in {folder} cannot be made here ({said_by(problem)}): name its class "
            f"with --set program={name} (protocols={{{name!r}: …}}), or make it in Python and call "
            f"module.load({str(folder / STATE)!r})"
        ) from None


def _module(
    name: str, signature: object, protocols: Mapping[str, Callable[..., object]]
) -> dspy.Module:
    """Return a new module of the class that a file names. The class must be imported already, since
    no code is imported by a name in a file. Raises UserError if it is not.
    """
    place, _, attribute = name.partition(":")
    there, protocol = getattr(sys.modules.get(place), attribute, None), PROTOCOLS.find(name)
    # DSPy's own classes need the signature, which a user's class has in its code.
    if there in (dspy.Predict, dspy.ChainOfThought):
        return there(signature)
    make = protocols.get(name) or (protocol and protocol.make)
    if make is None and isinstance(there, type) and issubclass(there, dspy.Module):
        make = there
    module = make() if make else None
    if not isinstance(module, dspy.Module):
        raise UserError(f"{name} is not a dspy.Module that is imported: import its module first")
    return module.deepcopy()


def _check_lms(lms: object) -> None:
    """Raise UserError unless `lms` maps agents to LMs or names."""
    if lms is not None and not isinstance(lms, Mapping):
        raise UserError(
            f"lms is a {type(lms).__name__}: pass LMs by agent, such as lms={{'judge': fm.lm('…')}}"
        )
    for seat, wanted in (lms or {}).items():
        if wanted is not None and not isinstance(wanted, str | dspy.BaseLM):
            raise UserError(
                f"lms has a {type(wanted).__name__} for the agent {seat!r}: pass fm.lm('…')"
            )


class _Builder:
    """Builds a program, and the programs inside it, from its `describe()`."""

    def __init__(
        self,
        folder: Path,
        saved: SavedProgram,
        environment: object,
        embedding: object,
        protocols: Mapping[str, Callable[..., Program]],
    ) -> None:
        self.folder, self.where = folder, str(folder / FILE)
        self.saved, self.protocols = saved, protocols
        self.override, self.used = environment, False
        self.embedding, self.embeds = embedding, False
        self.opened: dict[str, Environment] = {}

    def build(self, described: Described, place: Path) -> Program:
        """Return the program of a description; `place` is the folder of what it has learned. Raises
        UserError if it cannot be made.
        """
        fields = {str(key): value for key, value in described.items()}
        name = fields.pop("program", None)
        inheriting = fields.pop("class", None)
        if inheriting is not None and name not in self.protocols:
            name = inheriting
        if not isinstance(name, str):
            raise UserError(
                f"{self.where} does not say which protocol it is: save the program again"
            )
        protocol = None if name in self.protocols else known(name)
        # A trained program has more in its folder than `describe()`.
        if protocol is not None and "folder" in protocol.fixed:
            fields = without(fields, protocol.fixed)
            fields |= {"folder": str(place), "embedding": self.embedding}
            self.embeds = True
            if isinstance(fields.get("strategies"), dict):
                stands_for = fields["strategies"].items()
                fields["strategies"] = {name: self._make(what) for name, what in stands_for}
        for key, value in fields.items():
            if isinstance(value, list):
                fields[key] = list(map(self._make, value))
            else:
                fields[key] = self._make(value)
        own = fields.get("own_roles")
        if isinstance(own, dict):
            fields["own_roles"] = {name: self._role(role) for name, role in own.items()}
        if "environment" in fields and (fields["environment"], self.override) != (None, None):
            fields["environment"] = self._environment(fields["environment"])
        if protocol is not None:
            return made(self.where, name, fields, protocol)
        if name not in self.protocols:
            raise UserError(
                f"{self.where} is of the program {name[:80]!r}, which is not known here"
                f"{did_you_mean(name, written())}: install the package that registers it (entry "
                "point folkmoot.programs), or name its class, with --set program=MODULE:CLASS or "
                "fm.load_program(…, protocols={…})"
            )
        try:
            return self.protocols[name](**fields)
        except (TypeError, ValueError, AttributeError) as problem:
            raise UserError(
                f"{self.where}: {name} cannot be built ({problem}): save it again"
            ) from None

    def _make(self, described: Any) -> object:
        """Return the program that a value describes; any other value as it is."""
        if not isinstance(described, dict) or "program" not in described:
            return described
        if described["program"] == "foreign":
            spec = described.get("spec")
            name = str(spec or described.get("class"))
            return Foreign(_module(name, None, self.protocols), described.get("inputs"), spec)
        place = str(described.get("learned"))
        # Another name could be a path that leads out of the program's folder.
        if LEARNED.fullmatch(place) is None:
            place = "network"
        return self.build(described, self.folder / place)

    def _role(self, role: object) -> object:
        """Return a user's own role, with its tools in place of their fingerprints."""
        if not isinstance(role, Mapping) or not isinstance(role.get("tools"), list):
            return role
        tools = [tool if tool == HERE else self._environment(tool) for tool in role["tools"]]
        return {**role, "tools": tools}

    def _environment(self, fingerprint: object) -> object:
        """Return the environment with this fingerprint: the one that the user gave, else as it was
        saved. Raises UserError if it cannot be made, or has changed.
        """
        if isinstance(self.override, Mapping):  # fingerprint → tool, of the user's own roles
            self.used = True
            if fingerprint is None:
                return None
            return self.override[str(fingerprint)]
        if self.override is not None:
            self.used = True
            self.override = environment_of(self.override)
            return self.override
        if not isinstance(fingerprint, str) or fingerprint not in self.saved.environments:
            raise UserError(
                f"{self.where} does not say where its environment is: give environment=…"
            )
        text = self.saved.environments[fingerprint]
        if text is None:
            raise UserError(
                f"{self.where} was saved with an environment that Python alone can make "
                f"({fingerprint}): give it when loading, with environment=…"
            )
        if not text.startswith(("corpus:", "replay:", "wikipedia:")):
            raise UserError(
                f"{self.where} has the environment {text[:80]!r}, which files may not open: give "
                "environment=…"
            )
        elsewhere = "environment=…, or --set environment=…"
        if text not in self.opened:
            try:
                with names_from(self.where, f"with {elsewhere}"):
                    self.opened[text] = environment_of(text)
            except UserError as problem:
                if not text.startswith(("corpus:", "replay:")):
                    raise
                raise UserError(f"{problem.args[0].rstrip('.')}, or give {elsewhere}") from None
        now = self.opened[text].fingerprint
        if now != fingerprint:
            raise UserError(
                f"{text} is no longer what {self.where} was saved with ({now}, not "
                f"{fingerprint}): give {elsewhere}, to use it all the same"
            )
        return self.opened[text]


def _same(described: object, saved: object, elsewhere: bool) -> bool:
    """Return whether a description has all that was saved; that of a later version may have more.

    `elsewhere`: the user gave another environment.
    """
    if described == "disputed" and isinstance(saved, Mapping):  # the rule of a router
        from ...modules.protocols.router.router import EARLIER

        return saved == EARLIER
    if isinstance(saved, Mapping) and isinstance(described, Mapping):
        left_out = {"code"}  # a user's own module may have a new version
        if elsewhere:
            left_out |= {"environment", "tools"}
        return all(
            _same(described.get(key), value, elsewhere)
            for key, value in saved.items()
            if key not in left_out
        )
    if isinstance(saved, list) and isinstance(described, list | tuple):
        return len(saved) == len(described) and all(
            _same(one, other, elsewhere) for one, other in zip(described, saved, strict=True)
        )
    # In Python, True equals 1.
    return bool(described == saved) and isinstance(described, bool) == isinstance(saved, bool)


def _seat(
    program: Program, saved: SavedProgram, where: str, lms: Mapping[str, object], make_lm: MakeLM
) -> None:
    seats = program.seats()
    for name, seat_lm in saved.lms.items():
        if name not in seats:
            raise UserError(
                f"{where} has an LM for the agent {name!r}, which it does not have: save it again"
            )
        if not any(name == seat or name.startswith(f"{seat}.") for seat in lms):
            seats[name].predict.lm = lm_of(seat_lm, name, where, make_lm)
    program.assign(lms)


def lm_of(saved_lm: SavedLM, seat: str, where: str, make_lm: MakeLM) -> dspy.BaseLM:
    """Return the LM that a file describes, made by `make_lm`. Raises UserError for one that cannot
    be made.
    """
    if "://" in saved_lm.name:
        raise UserError(
            f"{where} has an address in the LM of the agent {seat!r}: give lms={{{seat!r}: …}}"
        )
    settings = dict(saved_lm.settings)
    if saved_lm.profile is not None:
        try:
            settings["profile"] = TypeAdapter(Profile).validate_python(
                asdict(Profile(**saved_lm.profile))
            )
        except (TypeError, ValidationError):
            raise UserError(
                f"{where}: {seat} has an LM profile that is not valid: save the program again"
            ) from None
    if settings.get("temperature") == 0:
        del settings["temperature"]  # the default, but for copies of an agent another one
    return make_lm(saved_lm.name, seat=seat, addressed=saved_lm.addressed, **settings)


def _warn_of_versions(saved: SavedProgram, where: str) -> None:
    """Warn if packages that write prompts have other versions than when it was saved."""
    other: list[str] = []
    for package in PACKAGES:
        then, now = saved.versions.get(package, "none"), version(package)
        if now != then:
            other.append(f"{package} {then} (now {now})")
    if other:
        warnings.warn(
            f"{where} was saved with {', '.join(other)}: prompts may be written in another way",
            stacklevel=4,
        )
