"""Names, tags, parameters and figures of MLflow runs, without secrets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...modules.base.fence import one_line
from ...modules.protocols.short_names import full_name, short_name
from ..base.run_files import LMFields, Manifest
from ..base.wording import shortened

# The limits of MLflow's tracking stores.
LONGEST_NAME = 250
LONGEST_PARAM = 6000
LONGEST_TAG = 8000
LONGEST_PROMPT = 100_000
LONGEST_EXPERIMENT = 500
LONGEST_PROBLEM, LONGEST_ANSWER = 300, 120
LONGEST_TITLE, LONGEST_LM = 40, 16
SEPARATOR = " · "

FOLKMOOT = "folkmoot"
DATA_SETTINGS = ("split", "limit", "seed", "sampling", "kinds", "types")

_SECRET = re.compile(
    r"(?:^|[._\- ])(?:(?:api|access|secret|private)?[._\- ]?key|secret|password|passwd|auth"
    r"|authorization|bearer|credentials?|cookies?|headers?)$|token$",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY_SECRET = re.compile(
    r"([?&][\w.\-]*(?:key|token|secret|password|signature|sig)=)[^&\s\"']+", re.IGNORECASE
)
_CREDENTIALS = re.compile(r"\b(Basic|Bearer) [\w.~+/=\-]{8,}")
_TAG = re.compile(r"<[^>]*>")
# SQLAlchemy says before a driver's message where it was raised, and of what class it is.
_DRIVER = re.compile(r"^(?:\(raised as a result [^)]*\) )?\((?:\w+\.)+\w+\) ")
# And after it the whole statement with its values, and a link.
_STATEMENT = re.compile(r" (?:\[SQL: |\(Background on this error at: ).*$")
_LOGIN = (
    "; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, as the "
    "server wants them"
)
_ADDRESS = "; MLFLOW_TRACKING_URI has to be the address at which MLflow's API answers"
_STATUS = (
    r"(?:^|failed with error code )({}) (?:!= 200\.|\w+ Error: .*) Response (?:body|text): "
    r"'?(.*?)'?$"
)
_EXPLAINED = {
    _STATUS.format("401|403"): f"the server answers {{}}: {{}}{_LOGIN}",
    _STATUS.format("404"): f"the server answers {{}}: {{}}{_ADDRESS}",
    _STATUS.format("[0-9]{3}"): "the server answers {}: {}",
    "^(UNAUTHENTICATED.*)": f"{{}}{_LOGIN}",
    r"not in a valid JSON format\. Response body: '(.*)'$": (
        f"the server answers with a page: {{}}{_ADDRESS}"
    ),
    "got unsupported URI '(.*?)'": (
        "MLFLOW_TRACKING_URI={} is not the address of a store: write it as http://HOST:PORT or "
        "sqlite:////PATH/mlflow.db"
    ),
    "out-of-date database schema": (
        "its tables are not those of MLflow {mlflow}, which is installed: copy the database and "
        "run `mlflow db upgrade` on it, or install the MLflow that it is used with"
    ),
    "filesystem tracking backend": (
        "MLflow keeps no new runs in a folder: set MLFLOW_TRACKING_URI to "
        "sqlite:////PATH/mlflow.db, where `mlflow migrate-filestore` puts the earlier ones"
    ),
    r"API request to (https?://[^/\s]+)\S* failed with exception (?:.*Caused by \w+)?"
    r"\(?['\"]?(?:HTTPS?Connection(?:Pool)?\([^)]*\): )?"
    r"(.*?)(?: \(read.*|', .*)?['\")]*$": "{} cannot be used: {}",
}
"""What is said in place of an error of MLflow, requests (of artifacts) or urllib3, by its words."""
_NOT_IN_NAMES = re.compile(r"[^\w.\- :/]")


def scrubbed(value: object) -> Any:
    """Return a copy of JSON-able data without fields named like keys or headers, and passwords in
    URLs masked.
    """
    if isinstance(value, Mapping):
        return {
            name: scrubbed(item) for name, item in value.items() if not _SECRET.search(str(name))
        }
    if isinstance(value, list | tuple):
        return [scrubbed(item) for item in value]
    if isinstance(value, str):
        return _QUERY_SECRET.sub(r"\1***", _USER_INFO.sub("***@", value))
    return value


def problem_line(problem: Exception) -> str:
    """Return an error in one line, without passwords in URLs and the store's credentials. Of a
    failed request it has what the server said, or why it was not reached.
    """
    text = _DRIVER.sub("", _STATEMENT.sub("", one_line(str(problem))))
    text = text or type(problem).__name__
    for words, sentence in _EXPLAINED.items():
        if found := re.search(words, text):
            text = sentence.format(*map(_words, found.groups()), mlflow=version("mlflow"))
            # A proxy may answer without any words.
            text = text.removesuffix(": ").replace(": ;", ";")
            break
    return shortened(_CREDENTIALS.sub(r"\1 ***", str(scrubbed(text))), LONGEST_PROBLEM)


def _words(page: str) -> str:
    """Return the words of an answer, which may be a web page, cut so that there is room for
    advice.
    """
    return shortened(one_line(_TAG.sub(" ", page)), LONGEST_ANSWER)


def experiment_name(run: Manifest) -> str:
    """Return the name of the task: that of the data set that it was judged on, or the file's name
    without its extension; else `folkmoot`.
    """
    data = data_place(run)
    if data is None:
        return FOLKMOOT
    return (Path(data).stem.strip() or FOLKMOOT)[:LONGEST_EXPERIMENT]


def data_place(run: Manifest) -> str | None:
    """Return the file or data set that a run was judged on; None where no place of it is known."""
    for name in ("validation", "data", "loaded_from"):
        place = run["settings"].get(name)
        if isinstance(place, str) and place.strip():
            return place
    return None


def run_name(run: Manifest) -> str:
    """Return the title, such as `2 agents + judge: intuitive, reasoner`, or a given name: the
    settings have the user's as `run_name`, and a command's own as `label`.
    """
    settings = run["settings"]
    if own := settings.get("run_name") or settings.get("label"):
        return one_line(str(own))[:LONGEST_NAME]
    return one_line(full_name(run["program"], settings.get("demos") or 0))[:LONGEST_NAME]


def title(run: Manifest, score: str | None = None, program: str | None = None) -> str:
    """Return the name of a run in the store: `72% · two who talk · gpt-4o-mini`, at most 40
    characters. The score comes first, so that a column of names can be compared. `program` replaces
    the program's name, which is the full one where that fits (`1 agent: cot`). The user's own name
    is not changed.
    """
    settings = run.get("settings") or {}
    if own := one_line(str(settings.get("run_name") or "")):
        return own[:LONGEST_NAME]
    lms = dict.fromkeys(name.rpartition("/")[2] for name in _lm_names(run.get("lms") or {}))
    lm = shortened(next(iter(lms), ""), LONGEST_LM)
    if len(lms) > 1:
        lm += "…"
    others = filter(None, (score, lm))
    room = LONGEST_TITLE - sum(len(part) + len(SEPARATOR) for part in others)
    name = program or settings.get("label")
    if not name:
        name = full_name(run["program"])
        if len(name) > room:
            name = short_name(run["program"])
    parts = [score, shortened(str(name), room), lm]
    return one_line(SEPARATOR.join(filter(None, parts)))


def score_head(metric: str, score: Mapping[str, object]) -> str:
    """Return a score at the beginning of a name: `72%`, or `f1 0.52` for scores that are not
    rates.
    """
    if score.get("rate", True):
        return f"{score['value']:.0%}"
    return f"{metric} {score['value']:.3g}"


def tags_of(run: Manifest) -> dict[str, str]:
    """Return the tags by which runs are searched and grouped."""
    tags = {
        "mlflow.source.name": FOLKMOOT,
        "mlflow.source.type": "LOCAL",
        "mlflow.parentRunId": run.get("mlflow_parent_id"),
        "mlflow.source.git.commit": run.get("git_commit"),
        "folkmoot.version": run["versions"].get(FOLKMOOT),
        "folkmoot.program": _program_name(run["program"]),
        "folkmoot.lm": ", ".join(_lm_names(run["lms"])),
        "folkmoot.split": run["settings"].get("split"),
        "folkmoot.data_fingerprint": run["data_fingerprint"],
        "folkmoot.program_hash": run["program_hash"],
        "folkmoot.prompt_hash": run["prompt_hash"],
    }
    return {name: str(value)[:LONGEST_TAG] for name, value in tags.items() if value}


def settings_of_run(run: Manifest) -> dict[str, str]:
    """Return all values of a manifest, by dotted names, without missing ones."""
    settings = dict(run["settings"])
    data = {
        "name": experiment_name(run),
        "fingerprint": run["data_fingerprint"],
        "questions": run["questions"],
        "source": settings.pop("data", None),
    }
    data |= {key: settings.pop(key, None) for key in DATA_SETTINGS}
    lms = dict(run["lms"])
    shared = lms.pop("*", {})
    tree = {
        "program": run["program"],
        "lm": {**lms, **shared},
        "data": data,
        "settings": settings,
        "versions": run.get("versions") or {},
    }
    # MLflow takes a slash for a group
    return _params({".".join(path).replace("/", "_"): value for path, value in leaves(tree)})


def shown_parameters(run: Manifest) -> dict[str, str]:
    """Return the settings by which runs are compared, at most twelve, each under a plain name;
    everything else is in an artifact.
    """
    program, settings, lms = run["program"], run["settings"], run["lms"]
    names, data = _lm_names(lms), experiment_name(run)
    heats = {(lm.get("settings") or {}).get("temperature") for lm in lms.values()}
    values = {
        "program": _program_name(program),
        "lm": "mixed" if len(names) > 1 else next(iter(names), None),
        "strategy": program.get("strategy"),
        "roles": program.get("roles") or program.get("workers"),
        "rounds": program.get("max_rounds"),
        "tie_break": program.get("tie_break") or program.get("vote"),
        "samples": program.get("samples"),
        "optimizer": settings.get("optimizer"),
        "examples": settings.get("demos") or None,
        "temperature": next(iter(heats)) if len(heats) == 1 else None,
        "data": data if data != FOLKMOOT else None,
        "seed": settings.get("seed"),
    }
    return _params(values)


def _lm_names(lms: Mapping[str, LMFields]) -> list[str]:
    return list(dict.fromkeys(str(lm.get("name")) for lm in lms.values()))


def _program_name(program: dict[str, object]) -> str | None:
    return short_name(program) if program.get("program") else None


def _params(values: Mapping[str, object]) -> dict[str, str]:
    """Return values as MLflow takes them as parameters, without empty ones."""
    params = {}
    for name, value in values.items():
        text = as_param(value)
        if text:
            params[valid_name(name)] = text[:LONGEST_PARAM]
    return params


def leaves(
    tree: Mapping[str, object], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield every value of nested dicts, with the names that lead to it."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, str(name)))
        else:
            yield (*path, str(name)), value


def as_param(value: object) -> str:
    """Return a value as a parameter: a list of plain values is joined by commas; None becomes
    empty.
    """
    if value is None or value == []:
        return ""
    if isinstance(value, list):
        if all(isinstance(item, str | int | float) for item in value):
            return ", ".join(map(str, value))
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def valid_name(name: str) -> str:
    """Return the nearest name that MLflow accepts: allowed characters, no empty or dotted parts, at
    most 250 long.
    """
    parts = [part if part.strip(".") else "_" for part in _NOT_IN_NAMES.sub("_", name).split("/")]
    return "/".join(parts)[:LONGEST_NAME].rstrip("/")


def trace_number(run_id: str, question: str) -> int:
    """Return the OpenTelemetry id of a question's trace in a run, which is stable, so that sending
    it again adds nothing.
    """
    text = f"{run_id}/{question}".encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.sha256(text).digest()[:16]) or 1


def trace_id(run_id: str, question: str) -> str:
    return f"tr-{trace_number(run_id, question):032x}"
