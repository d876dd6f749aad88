"""Reads the file of a saved program, and gives its words and settings to a program like it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.errors import UserError
from ...modules.base.saved_file import FILE, MAX_BYTES, check_document
from ...modules.protocols.saved import (
    FORMAT,
    Saveable,
    SavedProgram,
    checked_document,
    hashes_of,
    learned_in,
    place_of_learned,
    predictors_of,
    read_plain,
    seats_by_predictor,
)


def read_document(folder: Path, file: str = FILE) -> dict[str, Any]:
    """Return the JSON object in a file of the folder. Raises UserError unless it is plain JSON of
    limited size.
    """
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in (".pkl", ".pickle"))
    if pickles:
        raise UserError(
            f"{folder} holds a pickle ({pickles[0]}), which could run anything: "
            "save the prompts of a dspy.Module as .json, and name the module that loads them"
        )
    path = folder / file
    if not os.path.lexists(path):
        raise UserError(
            f"the folder {folder} holds no saved program: name one that program.save wrote"
        )
    content = read_plain(path, MAX_BYTES)
    try:
        document = json.loads(content.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as problem:
        deep = isinstance(problem, RecursionError)
        what = "nested too deeply" if deep else f"not valid JSON ({problem})"
        raise UserError(f"{path} is {what}: save the program again") from None
    if not isinstance(document, dict):
        raise UserError(f"{path} holds no program: save the program again")
    check_document(document, str(path))
    return document


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # JSON readers differ in which of two equal keys they take, so a check could miss one.
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is given twice")
    return values


def read_saved(folder: Path) -> SavedProgram:
    """Return the content of a folder's `program.json`, checked as far as a file can be; nothing is
    built.

    Raises UserError naming the file.
    """
    document = read_document(folder)
    where = str(folder / FILE)
    # Before anything else is read, which another version may have named otherwise.
    if (written := document.get("format")) != FORMAT:
        raise UserError(
            f"{where} has the format {repr(written)[:40]}, and this version reads {FORMAT}: "
            "upgrade folkmoot, or save the program again"
        )
    saved = checked_document(document, where)
    prompts = {}
    for name, kept in saved.predictors.items():
        fields = [field.model_dump() for field in kept.fields.values()]
        prompts[name] = [{"instructions": kept.instructions, "fields": fields}, kept.demos]
    if hashes_of(saved.program, prompts) != saved.model_dump(
        include={"prompt_hash", "program_hash"}
    ):
        raise UserError(
            f"{where} is damaged: its content is not what its program_hash says; "
            "save the program again"
        )
    return saved


def restore(
    program: Saveable,
    saved: SavedProgram,
    folder: Path,
    *,
    sampling: bool = True,
    fewer: bool = False,
) -> None:
    """Give a program of the same structure the words, demos and, by default, settings of the one
    that was saved in the folder, and what it had learned.

    Agents in another order are found by their names. With `fewer`, the program may lack agents of
    the saved one, as the judge where a majority now decides. Raises UserError, and changes nothing,
    when the seats or their fields are others, or the networks.
    """
    where = folder / FILE
    prompts, ours = saved.predictors, seats_by_predictor(program)
    theirs = {name: kept.seat for name, kept in prompts.items()}
    by_seat = {kept.seat: kept for kept in prompts.values()}
    same_seats = sorted(ours.values()) == sorted(theirs.values())
    some_seats = fewer and len(set(ours.values())) == len(ours) and {*ours.values()} <= {*by_seat}
    if ours != theirs and (same_seats or some_seats) and len(by_seat) == len(theirs):
        # DSPy's names follow the order of the agents, so words go by the agents' own names.
        prompts = {name: by_seat[seat] for name, seat in ours.items()}
        theirs = ours
    if ours != theirs:
        differing = next(name for name in [*theirs, *ours] if ours.get(name) != theirs.get(name))
        raise UserError(
            f"{where} has prompts for other agents than the program that it describes "
            f"(first {differing}): save the program again"
        )
    ready, predictors = {}, predictors_of(program)
    for name, kept in prompts.items():
        signature = predictors[name].signature
        state = signature.dump_state()
        fields = dict(zip(signature.fields, state["fields"], strict=True))
        for field, words in kept.fields.items():
            if field not in fields:
                raise UserError(f"{where}: {name} has no field {field!r}; save the program again")
            fields[field] = words.model_dump()
        wanted = {"instructions": kept.instructions, "fields": list(fields.values())}
        # An unchanged signature stays the same class, for which prompts are already cached.
        ready[name] = signature if wanted == state else signature.load_state(wanted)
    networks = learned_in(program)
    if networks.keys() != saved.learned.keys():
        raise UserError(
            f"{where} has other networks than the program that it describes: save it again"
        )
    for name, identity in saved.learned.items():
        if networks[name].identity != identity:  # the module's code has made a new one
            loaded = networks[name].load(place_of_learned(folder, name, identity))
            networks[name].load_state(loaded.dump_state())
    # Only now that all of it fits: an error above leaves the program as it was.
    for name, kept in prompts.items():
        predictors[name].signature = ready[name]
        predictors[name].demos = list(map(dspy.Example, kept.demos))
        if sampling:
            predictors[name].config = dict(kept.config)
