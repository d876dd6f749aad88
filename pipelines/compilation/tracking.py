"""Logs a compilation to MLflow: a run with settings, prompts and comparison, its candidates as children."""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tracking.tracker import FINISH_SECONDS, LIVE_SECONDS, MlflowTracker
from ..tracking.values import rounded, scrubbed
from .record import CANDIDATES, PROMPTS, prompts_page

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from ...modules.protocols.program import Program
    from .outcome import Compilation

_FILES = (PROMPTS, "prompts.json", "compile.json", CANDIDATES)
_TAG, _KEY = "folkmoot.candidate", "folkmoot.candidate_key"


class NoCompileTracker:
    """Logs nothing."""

    run_id: str | None = None

    def candidate(self, row: Mapping[str, Any]) -> None:
        return None

    def end(self, result: Compilation, status: str, program: Program, lm: Any) -> None:
        return None


def start_compile_run(about: Mapping[str, Any]) -> CompileTracker:
    """Begin the MLflow run of a compilation, or go on with the one in `about["mlflow_run_id"]`.

    `about` is what `compile.json` says. If the store cannot be reached, everything is tried again at the end.
    """
    settings = about["settings"]
    run = {
        **{key: about[key] for key in ("program", "program_hash", "prompt_hash", "lms", "versions")},
        "git_commit": about["git_commit"],
        "data_fingerprint": about["validation_fingerprint"] or about["train_fingerprint"],
        "questions": about["questions"]["validation"] or about["questions"]["select"],
        "settings": {
            "command": "compile",
            "run_name": f"compile {about['optimizer']} {about['preset']}",
            **settings,
            "optimizer": about["optimizer"],
            "preset": about["preset"],
            "seed": about["seed"],
            "prompt_lm": (about["prompt_lm"] or {}).get("name"),
            "train_fingerprint": about["train_fingerprint"],
            **{f"questions_{name}": count for name, count in about["questions"].items()},
        },
        "mlflow_run_id": about["mlflow_run_id"],
    }
    tracker = CompileTracker(run)
    tracker.open()
    return tracker


class CompileTracker(MlflowTracker):
    """One MLflow run of a compilation. None of its methods raises, and `candidate` does not wait."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        super().__init__(run)
        self._rows: list[Mapping[str, Any]] = []
        self._logged: set[str] | None = None

    def candidate(self, row: Mapping[str, Any]) -> None:
        """Keep a candidate, and send what is kept every LIVE_SECONDS at most."""
        self._rows.append(row)
        now = time.monotonic()
        if now < self._next_live or (self._thread is not None and self._thread.is_alive()):
            return
        self._next_live = now + LIVE_SECONDS
        self._start(self._send)

    def end(self, result: Compilation, status: str, program: Program, lm: Any) -> None:
        """Send all that is missing and end the run. Warns, once, when something could not be logged.

        `program` is the result, logged as a model; `lm` answers in seats without an LM of their own.
        """
        left = ["candidates", "scores", "prompts", "the end of the run", "the program"]
        self._problem = None
        self._program, self._lm = program, lm
        self._do(lambda: self._end(result, status, left), FINISH_SECONDS)
        result.mlflow_run_id = self.run_id
        if left:
            why = self._problem or "it does not answer in time"
            warnings.warn(
                f"MLflow did not take {', '.join(left)} ({' '.join(str(why).split())[:300]}): "
                f"{result.folder} has everything, and the same command with the same folder logs it once the "
                "store is back",
                RuntimeWarning,
                stacklevel=4,
            )

    def _end(self, result: Compilation, status: str, left: list[str]) -> None:
        self._send()
        left.remove("candidates")
        tags = {"mlflow.note.content": description(result), "folkmoot.winner": result.winner}
        self._log(metrics_of(result), 0, tags)
        left.remove("scores")
        client, run_id = self._opened(), str(self.run_id)
        for name in _FILES:
            if (result.folder / name).is_file():
                client.log_artifact(run_id, str(result.folder / name))
        if (result.folder / "program").is_dir():
            client.log_artifacts(run_id, str(result.folder / "program"), "program")
        left.remove("prompts")
        client.set_terminated(run_id, status)
        left.remove("the end of the run")
        self._log_program()
        left.remove("the program")

    def _send(self) -> None:
        """A child run for every candidate that has none yet."""
        client, parent = self._opened(), str(self.run_id)
        if self._logged is None:
            self._logged = set(_children(client, parent))
        for row in list(self._rows):
            if row["key"] not in self._logged:
                self._child(client, parent, row)
                self._logged.add(row["key"])

    def _child(self, client: MlflowClient, parent: str, row: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        experiment = client.get_run(parent).info.experiment_id
        name = str(row["candidate"])
        tags = {
            "mlflow.parentRunId": parent,
            "mlflow.note.content": "One of the prompts that were tried: `prompts.md` under Artifacts.",
            _TAG: name,
            _KEY: row["key"],
            "folkmoot.kind": "candidate",
        }
        shown = f"candidate {name} · {row['score']:.1%} on {row['questions']:,}"
        run_id = client.create_run(experiment, tags=tags, run_name=shown).info.run_id
        now = int(time.time() * 1000)
        figures = rounded({key: row[key] for key in ("score", "low", "high", "questions")})
        client.log_batch(run_id, metrics=[Metric(key, value, now, 0) for key, value in figures.items()])
        with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
            page = prompts_page(f"candidate {name}", row["prompts"])
            (Path(scratch) / PROMPTS).write_text(page, encoding="utf-8", errors="backslashreplace")
            text = json.dumps(scrubbed(row["prompts"]), indent=2, ensure_ascii=False, default=str)
            (Path(scratch) / "prompts.json").write_text(text, encoding="utf-8", errors="backslashreplace")
            client.log_artifacts(run_id, scratch)
        client.set_terminated(run_id, "FINISHED" if row["complete"] else "KILLED")


def _children(client: MlflowClient, parent: str) -> Iterator[str]:
    """The candidates that an earlier attempt has logged."""
    experiment = client.get_run(parent).info.experiment_id
    token = None
    while True:
        page = client.search_runs(
            [experiment], f"tags.`mlflow.parentRunId` = '{parent}'", max_results=1000, page_token=token
        )
        yield from (run.data.tags[_KEY] for run in page if _KEY in run.data.tags)
        token = page.token
        if not token:
            return


def description(result: Compilation) -> str:
    """The compilation's description in MLflow's UI, in Markdown: the verdict, the scores, the bill."""
    parts = [f"**{result.verdict}**"]
    scores = []
    for phase, summary in (("Before", result.before), ("after", result.after)):
        if summary is not None:
            score = summary["scores"]["accuracy"]
            scores.append(f"{phase} {score['value']:.1%} ({score['low']:.1%} to {score['high']:.1%})")
    if scores:
        parts.append(", ".join(scores) + " right on questions that the optimizer did not see.")
    parts.append(
        f"{result.candidates:,} candidates; {result.calls_made:,} calls were made, {result.calls_saved:,} "
        "saved. The prompts: `prompts.md` under Artifacts."
    )
    return "\n\n".join(parts)


def metrics_of(result: Compilation) -> dict[str, float]:
    """Selection scores, held-out scores and their difference, with their interval's ends, and the bill."""
    found: dict[str, float] = {}

    def add(name: str, score: Mapping[str, Any] | None) -> None:
        if score is not None:
            found[name] = score["value"]
            found.update({f"{name}_low": score["low"], f"{name}_high": score["high"]})

    for phase, summary in (("before", result.before), ("after", result.after)):
        for name, score in (summary or {}).get("scores", {}).items():
            add(f"{name}_{phase}", score)
            if phase == "after":  # under the name that evaluations have, so that tables sort them together
                add(name, score)
    if result.comparison is not None:
        pair = result.comparison
        add("difference", {"value": pair["difference"], "low": pair["low"], "high": pair["high"]})
        found["p"] = pair["p"]
        if pair["f1"] is not None:
            add("difference_f1", {**pair["f1"], "value": pair["f1"]["difference"]})
    add("selection_given", result.selection["given"])
    add("selection_winner", result.selection["winner"])
    found |= {"candidates": result.candidates, "calls_made": result.calls_made}
    found["calls_saved"] = result.calls_saved
    found |= {f"paid_{name}": value for name, value in result.paid.items() if value is not None}
    return rounded(found)
