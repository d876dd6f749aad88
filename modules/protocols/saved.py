"""A program as JSON: its settings, prompts, demonstrations and LMs by agent; no code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import dspy
from dspy.predict.parameter import Parameter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ..agents.adapter import profile_of, settings_of
from ..agents.profile import SAMPLING, SETTINGS
from ..agents.retrieval import environments_in
from ..agents.seat import Seat
from ..base.errors import UserError, first_fault, system_errors
from ..base.files import read_regular, write_whole
from ..base.saved_file import ADDRESSES, FILE, Described, check_document

T = TypeVar("T")

_installed = cache(version)

FORMAT = 1
PACKAGES = ("folkmoot", "dspy")


class Saveable(Protocol):
    """The methods of a program that saving needs."""

    def describe(self) -> Described: ...

    def seats(self) -> Mapping[str, Seat]: ...

    def parts(self, kind: type[T]) -> list[tuple[str, T]]: ...


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


Identity = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
"""The identity of what a network has learned, which is also the name of its folder."""


def _settings_among(names: Sequence[str]) -> AfterValidator:
    def check(settings: dict[str, object]) -> dict[str, object]:
        if unknown := settings.keys() - {*names}:
            raise ValueError(f"there is no setting {min(unknown)!r}")
        return settings

    return AfterValidator(check)


Sampling = Annotated[dict[str, object], _settings_among(SAMPLING)]
LMSettings = Annotated[dict[str, object], _settings_among(SETTINGS)]


class SavedField(_Strict):
    prefix: str
    description: str


class SavedPredictor(_Strict):
    """The prompt of one predictor: its agent, the texts of its signature, and its demos."""

    seat: str
    instructions: str
    fields: dict[str, SavedField]
    demos: list[dict[str, object]]
    config: Sampling


class SavedLM(_Strict):
    """The LM of an agent by name. `addressed`: it had an address of its own, which is not saved."""

    name: str
    settings: LMSettings
    profile: dict[str, Any] | None
    addressed: bool


class SavedProgram(_Strict):
    """The whole content of `program.json`.

    `program` is `describe()`; `environments` has the text form, or None, of every environment by
    its fingerprint; `predictors` and `learned`, the identities of trained networks, are by DSPy's
    names; `lms` are by agent.
    """

    format: int
    versions: dict[str, str]
    program: dict[str, object]
    environments: dict[str, str | None] = Field(default_factory=dict)
    predictors: dict[str, SavedPredictor]
    learned: dict[str, Identity] = Field(default_factory=dict)
    lms: dict[str, SavedLM] = Field(default_factory=dict)
    prompt_hash: str
    program_hash: str


def dspy_parameters(program: Saveable) -> dict[str, Parameter]:
    """Return every DSPy parameter by DSPy's name for it; unlike DSPy, also those of compiled
    members, which are frozen.
    """
    parameters: dict[str, Parameter] = {}
    seen: set[int] = set()

    def look(name: str, value: object) -> None:
        if not isinstance(value, dspy.Module | Parameter) or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Parameter):
            parameters[name] = value
        else:
            for attribute, item in vars(value).items():
                into(f"{name}.{attribute}".lstrip("."), item)

    def into(name: str, value: object) -> None:
        if isinstance(value, list | tuple):
            for index, item in enumerate(value):
                look(f"{name}[{index}]", item)
        elif isinstance(value, dict):
            for key, item in value.items():
                look(f"{name}['{key}']", item)
        else:
            look(name, value)

    look("", program)
    return parameters


def predictors_of(program: Saveable) -> dict[str, dspy.Predict]:
    """Return the predictors among `dspy_parameters`."""
    parameters = dspy_parameters(program).items()
    return {name: part for name, part in parameters if isinstance(part, dspy.Predict)}


def learned_in(program: Saveable) -> dict[str, Parameter]:
    """Return the other parameters: the weights of strategy networks. Each has an `identity`, and
    `save` and `load` for its own folder.

    Raises UserError for a parameter without these.
    """
    states = {}
    for name, part in dspy_parameters(program).items():
        if not isinstance(part, dspy.Predict):
            # Not by its class, whose import would import PyTorch.
            if not hasattr(part, "identity"):
                raise UserError(
                    f"{name} is a {type(part).__name__}, which cannot be saved: give it methods "
                    "identity, save and load, or keep the program as code"
                )
            states[name] = part
    return states


def check_no_pickle(path: Path, save_program: bool, modules_to_serialize: object) -> None:
    """Raise UserError if the arguments of DSPy's `save` ask for pickle."""
    if save_program or modules_to_serialize or path.suffix in (".pkl", ".pickle"):
        raise UserError("pickle could run anything and is not written: save('folder/') writes JSON")


def check_kept(program: dspy.Module) -> None:
    """Raise UserError if DSPy's state leaves out a parameter, as it does for a compiled part."""
    kept = set(map(id, program.parameters()))
    for name, part in dspy_parameters(program).items():
        if id(part) not in kept:
            raise UserError(
                f"DSPy's state leaves out {name}, since a part that it belongs to is compiled: set "
                "_compiled = False there, and save again"
            )


def hashes(program: Saveable) -> dict[str, str]:
    """Return `prompt_hash`, over instructions, fields and demos of every predictor, and
    `program_hash`, over those and the structure.
    """
    prompts: dict[str, list[object]] = {}
    for name, predictor in predictors_of(program).items():
        prompts[name] = [predictor.signature.dump_state(), list(map(dict, predictor.demos))]
        # An agent's own adapter makes another prompt of the same words.
        if (adapter := getattr(predictor, "adapter", None)) is not None:
            prompts[name].append(type(adapter).__name__)
    return hashes_of(program.describe(), prompts)


def state_of(program: Saveable) -> SavedProgram:
    """Return the program as it is written. Raises UserError for a part that JSON cannot hold."""
    for name in ("forward", "aforward", "solve"):
        if name in vars(program):
            raise UserError(
                f"the program's {name} was replaced, as DSPy's KNNFewShot does, and code is not "
                "saved: save the program before that, or choose another optimizer"
            )
    for _, part in program.parts(dspy.Module):
        if (check := getattr(part, "check_saved", None)) is not None:
            check()
    seats, predictors = seats_by_predictor(program), {}
    for name, predictor in predictors_of(program).items():
        if predictor.fields:
            raise UserError(
                f"the predictor {name} has decision fields, which cannot be saved: keep the "
                "program as code"
            )
        if getattr(predictor, "adapter", None) is not None:
            raise UserError(
                f"the agent of {name} has an adapter of its own, which cannot be saved: set it "
                "to None, and set the adapter again after loading"
            )
        signature = predictor.signature
        texts = zip(signature.fields, signature.dump_state()["fields"], strict=True)
        predictors[name] = {
            "seat": seats[name],
            "instructions": signature.instructions,
            "fields": dict(texts),
            "demos": list(map(dict, predictor.demos)),
            "config": predictor.config,
        }
    lms = {
        name: saved_lm(seat.predict.lm).model_dump(exclude_unset=True)
        for name, seat in program.seats().items()
        if seat.predict.lm is not None
    }
    document = {
        "format": FORMAT,
        "versions": {package: _installed(package) for package in PACKAGES},
        "program": program.describe(),
        "environments": {place.fingerprint: place.text_form for place in environments_in(program)},
        "predictors": predictors,
        "learned": {name: learned.identity for name, learned in learned_in(program).items()},
        "lms": lms,
        **hashes(program),
    }
    # The check of files that are read, so that nothing is written that would be refused.
    return checked_document(_plain(document), "the program")


def seats_by_predictor(program: Saveable) -> dict[str, str]:
    """Return the agent of each predictor by the predictor's DSPy name; empty for a predictor that
    belongs to no agent.
    """
    seats = {id(seat.predict): seat.name for _, seat in program.parts(Seat)}
    predictors = predictors_of(program).items()
    return {name: seats.get(id(predictor), "") for name, predictor in predictors}


def saved_lm(lm: dspy.BaseLM) -> SavedLM:
    """Return an LM as it is saved: its name and what prompts depend on, but no address, header or
    key. Raises UserError for settings that cannot be saved.
    """
    profile = profile_of(lm)
    document = {
        "name": lm.model,
        "settings": settings_of(lm),
        "profile": None if profile is None else asdict(profile),
        "addressed": bool(getattr(lm, "addressed", False) or ADDRESSES.intersection(lm.kwargs)),
    }
    try:
        return SavedLM.model_validate(_plain(document))
    except ValidationError as problem:
        raise UserError(
            f"the LM {lm.model} cannot be saved ({problem.errors()[0]['msg']}): take it "
            "out, and give it again with lms={…} when loading"
        ) from None


def write(program: Saveable, folder: Path) -> None:
    """Write the program into a folder, which is created if it is missing. Each file is written
    whole or not at all, and `program.json` last, so that its folder is complete. Raises UserError
    if the folder cannot be written.
    """
    saved = state_of(program)
    with system_errors(folder, "check the folder and its space"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, learned in learned_in(program).items():
            learned.save(place_of_learned(folder, name, learned.identity))
        text = json.dumps(saved.model_dump(exclude_unset=True), indent=1, ensure_ascii=False) + "\n"
        write_whole(folder / FILE, text, sync=True)


def place_of_learned(folder: Path, name: str, identity: str) -> Path:
    """Return the folder of a parameter: that of `program.json` for the program's own network."""
    return folder if name == "selector.state" else folder / identity


def checked_document(document: dict[str, object], where: str) -> SavedProgram:
    """Return the document as a saved program. Raises UserError for a document of another form."""
    check_document(document, where)
    try:
        return SavedProgram.model_validate(document)
    except ValidationError as problem:
        raise UserError(f"{where}: {first_fault(problem)}; save the program again") from None


def hashes_of(described: Described, prompts: Mapping[str, object]) -> dict[str, str]:
    """Return the hashes of a program with this description and these prompts."""
    return {"prompt_hash": _sha(prompts), "program_hash": _sha([described, prompts])}


def _sha(value: object) -> str:
    text = json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _plain(value: object) -> Any:
    """Return the value written as JSON and read again, which turns other objects into text."""
    return json.loads(json.dumps(value, ensure_ascii=False, default=str))


def read_plain(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a regular file of at most that size. Raises UserError for others, and for
    links, which could lead to any file.
    """
    instead = "name the folder of a saved program, with its own files in it"
    with system_errors(path, instead, "cannot be read"):
        return read_regular(path, max_bytes, links=False)
