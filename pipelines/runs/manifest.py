"""What identifies a run: program, prompts, LMs, data and versions; only the same run resumes a folder."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes as hashes
from ...modules.reading.question import Question
from ..data.load import fingerprint
from ..lms.named import SAMPLING, lm_identity
from .rows import RESULTS

MANIFEST = "run.json"
PACKAGES = ("folkmoot", "dspy", "litellm", "optuna", "mlflow", "torch", "numpy", "xllamacpp")
_SAME = {"program_hash": "program", "lms": "LM", "data_fingerprint": "data"}


def open_run(
    folder: Path, program: Program, questions: Sequence[Question], lm: Any, settings: dict[str, Any]
) -> dict[str, Any]:
    """Make the folder and describe the run that is to fill it.

    Returns a JSON-able dict: program, program_hash, prompt_hash, lms (seat → identity), data_fingerprint,
    questions, settings, versions, git_commit and, when resuming, mlflow_run_id. Raises UserError when the
    folder holds another run.
    """
    run: dict[str, Any] = {
        "program": program.describe(),
        **hashes(program),
        "lms": lms_of(program, lm),
        "data_fingerprint": fingerprint(questions),
        "questions": len(questions),
        "settings": settings,
        "versions": dict(versions()),
        "git_commit": git_commit(),
    }
    run = json.loads(json.dumps(run, default=str))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / MANIFEST
    if path.exists():
        try:
            earlier = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise UserError(f"{path} is damaged: choose another --out, or delete the folder") from None
        for key, what in _SAME.items():
            if earlier.get(key) != run[key]:
                raise UserError(
                    f"{folder} holds another run (its {what} differs): choose another --out, or delete it"
                )
        run["mlflow_run_id"] = earlier.get("mlflow_run_id")
    elif (folder / RESULTS).exists() and (folder / RESULTS).stat().st_size:
        raise UserError(
            f"{folder} holds rows but not of which run ({MANIFEST} is missing): choose another --out"
        )
    return run


def save_run(folder: Path, run: Mapping[str, Any]) -> None:
    write_json(folder / MANIFEST, run)


def write_json(path: Path, value: Any) -> None:
    """Write atomically: a reader sees the old file or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"
    temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    os.replace(temporary, path)


def lms_of(program: Program, lm: Any) -> dict[str, Any]:
    """Seat → identity of its LM; `*` is the LM of all seats without one of their own."""
    found: dict[str, Any] = {}
    for name, seat in program.seats().items():
        used = seat.predict.lm or lm
        if used is None:
            raise UserError(f"no LM is set for the seat {name!r}: pass lm=fm.lm('…')")
        if not isinstance(used, dspy.BaseLM):
            raise UserError(f"the LM of the seat {name!r} is {_short(used)}, no LM: pass lm=fm.lm('…')")
        described = lm_identity(used) or {
            "name": used.model,
            "endpoint": used.model,
            "profile": {},
            # Only what is known to hold no secret: headers and client settings may.
            "settings": {key: used.kwargs[key] for key in SAMPLING if used.kwargs.get(key) is not None},
        }
        found[name if seat.predict.lm is not None else "*"] = described
    return found


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, str) and len(value) < 80 else f"a {type(value).__name__}"


@cache
def versions() -> Mapping[str, str]:
    """The installed version of Python and of every package that can change a result."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """The commit of the user's working folder, or None outside a repository."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None
