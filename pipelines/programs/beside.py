"""What stands beside a saved program: its LM, and the kinds of questions it was measured on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import dspy
from pydantic import ValidationError

from ...modules.base.errors import UserError
from ...modules.base.saved_file import MEASURED
from ...modules.protocols.program import Program
from ...modules.protocols.saved import SavedLM, saved_lm
from ...modules.reading.question import Question
from ..base.journal import read_object, write_json
from ..base.settings import settings as read_settings
from ..lms.named import engine_of

EVERY = "*"
LM_FILE = "lm.json"
"""The LM of seats without one, beside a saved program."""

SAVED = "program"
"""The sub-folder with the program of a run, or with the program that a run produced."""


def save_with_lm(program: Program, folder: Path, lm: object, questions: Iterable[Question]) -> None:
    """Save a program, and beside it the kinds of the questions that it was measured on, and the LM
    of seats without one: by name and settings, without address or key, so that who loads it is
    answered by the same LM. An LM of a user's own class is not saved, since no name makes it again.
    """
    program.save(folder)
    write_json(folder / MEASURED, {"kinds": sorted({question.kind for question in questions})})
    if engine_of(lm) is not None or type(lm) is dspy.LM:
        write_json(folder / LM_FILE, saved_lm(lm).model_dump(exclude_unset=True))


def own_lm(folder: Path) -> SavedLM | None:
    """The LM that was saved beside a program. Raises UserError for a damaged file."""
    try:
        written = read_object(folder / LM_FILE)
        return None if written is None else SavedLM.model_validate(written)
    except ValidationError:
        raise UserError(f"{folder / LM_FILE} is damaged: save the program again") from None


def check_address(name: str, seat: str, how: str = "") -> None:
    """Raise UserError for an LM that had an address of its own, unless OPENAI_BASE_URL says where
    it is. `how` says how it is given where that is not known.
    """
    if seat == EVERY:
        who = f"the LM {name} that it was saved with"
        how = how or "--api-base URL, fm.lm(…, api_base=…)"
    else:
        who = f"the LM {name} of the agent {seat!r}"
        how = how or f"lms={{{seat!r}: fm.lm({name!r}, api_base=…)}}, --api-base {seat}=URL"
    current = read_settings()
    if name.startswith("openai/") and current.openai_base_url != current.default_openai_base_url:
        return
    raise UserError(
        f"{who} had an address of its own, which is not saved: give it with {how}, or "
        "OPENAI_BASE_URL"
    )
