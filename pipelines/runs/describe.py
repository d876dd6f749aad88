"""Describes a run before it starts: its program, prompts, LMs, data and versions; and saves its
program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import dspy

from ...modules.base.errors import UserError
from ...modules.base.saved_file import LM_FILE, MEASURED
from ...modules.protocols.program import Program, lms_by_seat
from ...modules.protocols.saved import hashes, saved_lm
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from ..base.journal import as_json, write_json
from ..base.run_files import LMFields, Manifest, RunSettings
from ..data.questions import fingerprint, origin_of
from ..lms.named import engine_of, lm_identity, settings_of
from .manifest import made_with

SAVED = "program"
"""The sub-folder with the program of a run, or with the program that a run produced."""


def manifest_of(
    program: Program,
    questions: Sequence[Question],
    lm: object,
    settings: RunSettings,
    metric: Metric | None = None,
    *,
    data_fingerprint: str | None = None,
) -> Manifest:
    """Describe a run, as `run.json` does; `data_fingerprint` is that of the questions, where it is
    known.
    """
    shown = max((len(predictor.demos) for predictor in program.predictors()), default=0)
    manifest = {
        "program": program.describe(),
        **hashes(program),
        "lms": lms_of(program, lm),
        "data_fingerprint": data_fingerprint or fingerprint(questions),
        "questions": len(questions),
        "metric": metric.identity() if metric is not None else None,
        "settings": {"loaded_from": origin_of(questions), **settings, "demos": shown or None},
        **made_with(),
    }
    return Manifest.of(as_json(manifest))


def lms_of(program: Program, lm: object) -> dict[str, LMFields]:
    """Seat → identity of its LM; `*` is the LM of all seats without their own, of other names
    that a metered program sends, or, for a program without seats, the LM that DSPy is configured
    with.
    """
    identities: dict[str, LMFields] = {}
    seated = lms_by_seat(program)
    # A metered program may send names of models that have no LM of their own.
    if lm is not None and (program.metered_parts or not seated):
        seated = {"*": None, **seated}
    for name, own in seated.items():
        used = own or lm
        if used is None:
            raise UserError(
                f"no LM is set for the agent {name!r}: give --lm NAME, in Python lm=fm.lm('…')"
            )
        if not isinstance(used, dspy.BaseLM):
            what = f"a {type(used).__name__}"
            if isinstance(used, str) and len(used) < 80:
                what = repr(used)
            raise UserError(
                f"the LM of the agent {name!r} is {what}, not an LM: pass lm=fm.lm('…')"
            )
        identities[name if own is not None else "*"] = lm_identity(used) or LMFields(
            name=used.model,
            endpoint=used.model,
            profile={},
            # Only settings that cannot hold a secret; headers and client settings could.
            settings=settings_of(used),
        )
    return identities


def save_with_lm(program: Program, folder: Path, lm: object, questions: Iterable[Question]) -> None:
    """Save a program, and beside it the kinds of the questions that it was measured on, and the LM
    of seats without one: by name and settings, without address or key, so that who loads it is
    answered by the same LM. An LM of a user's own class is not saved, since no name makes it again.
    """
    program.save(folder)
    write_json(folder / MEASURED, {"kinds": sorted({question.kind for question in questions})})
    if engine_of(lm) is not None or type(lm) is dspy.LM:
        write_json(folder / LM_FILE, saved_lm(lm).model_dump(exclude_unset=True))
