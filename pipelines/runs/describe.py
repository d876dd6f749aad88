"""Describes a run before it starts: its program, prompts, LMs, data and versions."""

from __future__ import annotations

from collections.abc import Sequence

import dspy

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from ..base.journal import as_json
from ..base.run_files import LMFields, Manifest, RunSettings
from ..data.questions import fingerprint, origin_of
from ..lms.named import lm_identity, settings_of
from .manifest import made_with


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
    manifest = {
        "program": program.describe(),
        **hashes(program),
        "lms": lms_of(program, lm),
        "data_fingerprint": data_fingerprint or fingerprint(questions),
        "questions": len(questions),
        "metric": metric.identity() if metric is not None else None,
        "settings": {"loaded_from": origin_of(questions), **settings},
        **made_with(),
    }
    return Manifest.of(as_json(manifest))


def lms_of(program: Program, lm: object) -> dict[str, LMFields]:
    """Seat → identity of its LM; `*` is the LM of all seats without their own, or, for a program
    without seats, the LM that DSPy is configured with.
    """
    identities: dict[str, LMFields] = {}
    seated = {name: seat.predict.lm for name, seat in program.seats().items()}
    for name, own in seated.items() or ([("*", None)] if lm is not None else []):
        used = own or lm
        if used is None:
            raise UserError(f"no LM is set for the agent {name!r}: pass lm=fm.lm('…')")
        if not isinstance(used, dspy.BaseLM):
            named = isinstance(used, str) and len(used) < 80
            what = repr(used) if named else f"a {type(used).__name__}"
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
