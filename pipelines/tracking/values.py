"""What an MLflow run says about an evaluation: its names, tags, parameters and metrics, free of secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.protocols.registry import titled

if TYPE_CHECKING:
    from ..runs.summary import Summary

# The limits of MLflow's tracking stores.
LONGEST_NAME = 250
LONGEST_PARAM = 6000
LONGEST_TAG = 8000
LONGEST_EXPERIMENT = 500

FOLKMOOT = "folkmoot"
DATA_SETTINGS = ("data", "split", "limit", "seed", "sampling", "kinds", "types")

_SECRET = re.compile(
    r"(?:^|[._\- ])(?:(?:api|access|secret|private)?[._\- ]?key|secret|password|passwd|auth|authorization"
    r"|bearer|credentials?|cookies?|headers?)$|token$",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY_SECRET = re.compile(
    r"([?&][\w.\-]*(?:key|token|secret|password|signature|sig)=)[^&\s\"']+", re.IGNORECASE
)
_CREDENTIALS = re.compile(r"\b(Basic|Bearer) [\w.~+/=\-]{8,}")
_NOT_IN_NAMES = re.compile(r"[^\w.\- :/]")


def scrubbed(value: Any) -> Any:
    """A copy of JSON-able data without fields named like keys or headers, and passwords in URLs masked."""
    if isinstance(value, Mapping):
        return {name: scrubbed(item) for name, item in value.items() if not _SECRET.search(str(name))}
    if isinstance(value, list | tuple):
        return [scrubbed(item) for item in value]
    if isinstance(value, str):
        return _QUERY_SECRET.sub(r"\1***", _USER_INFO.sub("***@", value))
    return value


def masked(said: str) -> str:
    """What a store said, without passwords in URLs and without the credentials that it was sent."""
    return _CREDENTIALS.sub(r"\1 ***", str(scrubbed(said)))


def experiment_name(run: Mapping[str, Any]) -> str:
    """The name of the run's data set: as given, or a file's name without its ending; else `folkmoot`."""
    data = run["settings"].get("data")
    if not isinstance(data, str) or not data.strip():
        return FOLKMOOT
    name = Path(data).stem if Path(data).suffix else Path(data).name
    return (name.strip() or FOLKMOOT)[:LONGEST_EXPERIMENT]


def run_name(run: Mapping[str, Any]) -> str:
    """Such as `deliberation intuitive, reasoner · judge` or `single simple · 4 demos`; or as it was named."""
    demos = run["settings"].get("demos")
    if named := run["settings"].get("run_name"):
        return str(named)[:LONGEST_NAME]
    parts = [titled(run["program"]), f"{demos} demos" if demos else ""]
    return " · ".join(part for part in parts if part)[:LONGEST_NAME]


def tags_of(run: Mapping[str, Any]) -> dict[str, str]:
    """What runs are searched and grouped by."""
    names = list(dict.fromkeys(str(lm.get("name")) for lm in run["lms"].values()))
    known = {
        "mlflow.source.name": FOLKMOOT,
        "mlflow.source.type": "LOCAL",
        "mlflow.parentRunId": run.get("mlflow_parent_id"),
        "mlflow.source.git.commit": run.get("git_commit"),
        "folkmoot.version": run["versions"].get(FOLKMOOT),
        "folkmoot.program": run["program"].get("program"),
        "folkmoot.lm": ", ".join(names),
        "folkmoot.split": run["settings"].get("split"),
        "folkmoot.data_fingerprint": run["data_fingerprint"],
        "folkmoot.program_hash": run["program_hash"],
        "folkmoot.prompt_hash": run["prompt_hash"],
    }
    return {name: str(value)[:LONGEST_TAG] for name, value in known.items() if value}


def params_of(run: Mapping[str, Any]) -> dict[str, str]:
    """Every setting by a dotted name, values cut at MLflow's limit; settings without a value are left out."""
    settings = dict(run["settings"])
    data = {
        "name": experiment_name(run),
        "fingerprint": run["data_fingerprint"],
        "questions": run["questions"],
    }
    data |= {"source" if key == "data" else key: settings.pop(key, None) for key in DATA_SETTINGS}
    lms = {seat: lm for seat, lm in run["lms"].items() if seat != "*"}
    tree = {
        "program": run["program"],
        "lm": {**lms, **run["lms"].get("*", {})},
        "data": data,
        "settings": settings,
        "versions": run["versions"],
    }
    return {_name(path): _text(value)[:LONGEST_PARAM] for path, value in _leaves(tree) if _text(value)}


def metrics_of(summary: Summary) -> dict[str, float]:
    """Scores with their interval's ends, counts, usage, seconds, groups, the protocol's report, forensics."""
    found: dict[str, float] = {}
    for name, score in summary.scores.items():
        found |= {name: score["value"], f"{name}_low": score["low"], f"{name}_high": score["high"]}
    found |= {name: summary.counts[name] for name in ("rows", "errors", "unreadable")}
    found |= {name: value for name, value in summary.usage.items() if value is not None}
    found |= {f"seconds_{name}": summary.seconds[name] for name in ("p50", "p90") if name in summary.seconds}
    for group, values in summary.groups.items():
        for value, score in values.items():
            found[_free(found, f"by_{group}/{value.replace('/', '_')}")] = score["value"]
    for name, tree in ((summary.run["program"]["program"], summary.report), ("forensics", summary.forensics)):
        for path, number in _leaves(tree):
            if isinstance(number, int | float):
                parts = [str(part).replace("/", "_") for part in path]
                found[_free(found, "/".join([name, *parts]))] = number
    return rounded(found)


def rounded(figures: Mapping[str, float]) -> dict[str, float]:
    """Six digits of each, more than they mean, since the UI shows all that it is given; counts stay whole."""
    return {
        name: float(value if isinstance(value, int) else f"{value:.6g}") for name, value in figures.items()
    }


def headline(summary: Summary) -> str:
    """The run's description in MLflow's UI, in Markdown."""
    accuracy, counts, usage = summary.scores["accuracy"], summary.counts, summary.usage
    tokens = usage["prompt_tokens"] + usage["completion_tokens"]
    cost = "unknown cost" if usage["cost_usd"] is None else f"${usage['cost_usd']:,.4f}"
    return (
        f"**{accuracy['value']:.1%} right** (95% interval {accuracy['low']:.1%} to {accuracy['high']:.1%}) "
        f"on {counts['rows']:,} of {counts['questions']:,} questions; {counts['errors']:,} failed, "
        f"{counts['unreadable']:,} unreadable. {usage['calls']:,} calls, {usage['cached_calls']:,} of them "
        f"from record; {tokens:,} tokens; {cost}."
    )


def _leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, str(name)))
        else:
            yield (*path, str(name)), value


def _text(value: Any) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, list):
        simple = all(isinstance(item, str | int | float) for item in value)
        return ", ".join(map(str, value)) if simple else json.dumps(value, ensure_ascii=False)
    return str(value)


def _name(path: tuple[str, ...]) -> str:
    return valid_name(".".join(part.replace("/", "_") for part in path))


def valid_name(name: str) -> str:
    """The nearest name that MLflow takes: its characters, no empty or dotted parts, at most 250 long."""
    parts = [part if part.strip(".") else "_" for part in _NOT_IN_NAMES.sub("_", name).split("/")]
    return "/".join(parts)[:LONGEST_NAME].rstrip("/")


def _free(taken: Mapping[str, Any], name: str) -> str:
    """A valid name that is not taken yet: two groups may differ only in characters that MLflow refuses."""
    wanted, number = valid_name(name), 2
    while wanted in taken:
        ending = f" {number}"
        wanted, number = valid_name(name)[: LONGEST_NAME - len(ending)] + ending, number + 1
    return wanted
