"""What a compilation logs: its settings, candidates, scores and prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runs.summary import score_words
from ..tracking.uploads import STOPPED_TAG, Child, Upload, Uploads, existing
from ..tracking.values import (
    begun_name,
    bill,
    ended_name,
    experiment_name,
    rounded,
    run_name,
    with_ends,
)
from .record import CANDIDATES, PROMPTS, prompts_page

if TYPE_CHECKING:
    from .outcome import Compilation

_KEY = "folkmoot.candidate_key"


def compilation_run(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a compilation is of, as trackers take it, from what `compile.json` says."""
    same = ("program", "program_hash", "prompt_hash", "lms", "versions", "git_commit")
    return {
        **{key: about[key] for key in (*same, "mlflow_run_id", "tracking_key")},
        "data_fingerprint": about["validation_fingerprint"] or about["train_fingerprint"],
        "questions": about["questions"]["validation"] or about["questions"]["select"],
        "settings": {
            "command": "compile",
            "label": f"compile {about['optimizer']} {about['preset']}",
            **about["settings"],
            **{key: about[key] for key in ("optimizer", "preset", "seed", "train_fingerprint")},
            "prompt_lm": (about["prompt_lm"] or {}).get("name"),
            **{f"questions_{name}": count for name, count in about["questions"].items()},
        },
    }


def candidates_of(rows: Iterable[Mapping[str, Any]], about: Mapping[str, Any]) -> Upload:
    """Each candidate as a run of its own, with its score on the selection questions and its
    prompts.
    """
    return Upload(children=[_candidate(row, about) for row in rows])


def _candidate(row: Mapping[str, Any], about: Mapping[str, Any]) -> Child:
    name = str(row["candidate"])
    who = begun_name({**about, "settings": {"label": f"candidate {name}"}})

    def page(path: Path) -> None:
        text = prompts_page(f"candidate {name}", row["prompts"])
        path.write_text(text, encoding="utf-8", errors="backslashreplace")

    return Child(
        name=f"{who} · {row['score']:.1%}, {row['low']:.1%} to {row['high']:.1%} on "
        f"{row['questions']:,}",
        key=_KEY,
        holds=Upload(
            metrics=rounded({key: row[key] for key in ("score", "low", "high", "questions")}),
            tags={"folkmoot.candidate": name, _KEY: row["key"], "folkmoot.kind": "candidate"},
            note="One of the prompts that were tried: `prompts.md` under Artifacts.",
            files={PROMPTS: page, "prompts.json": row["prompts"]},
        ),
        status="FINISHED" if row["complete"] else "KILLED",
    )


def compilation_uploads(
    result: Compilation,
    rows: Iterable[Mapping[str, Any]],
    about: Mapping[str, Any],
    changed: Mapping[str, Mapping[str, Any]],
) -> Uploads:
    """The parts of a finished compilation.

    `rows` are its candidates, `about` is what `compile.json` says, and `changed` are the prompts by
    predictor that differ from those of the given program.
    """
    files = (PROMPTS, "prompts.json", "compile.json", CANDIDATES, "program")
    run = compilation_run(about)
    place = f"{experiment_name(run)}.{run_name({**run, 'settings': {}})}"
    registered = {f"{place}.{name}": _text(prompt) for name, prompt in changed.items()}
    return {
        "candidates": lambda: candidates_of(rows, about),
        "scores": lambda: Upload(
            metrics=rounded(compilation_metrics(result)),
            note=compilation_note(result),
            name=_name(result, about),
            tags={"folkmoot.winner": result.winner, STOPPED_TAG: result.stopped or "no"},
        ),
        "prompts": lambda: Upload(files=existing(result.folder, files), prompts=registered),
    }


def _text(prompt: Mapping[str, Any]) -> str:
    """Instructions, and demonstrations as JSON."""
    demos = (
        json.dumps(demo, ensure_ascii=False, indent=2, default=str) for demo in prompt["demos"]
    )
    return "\n\n".join([prompt["instructions"], *demos])


def _name(result: Compilation, about: Mapping[str, Any]) -> str | None:
    """By the score on questions that the optimizer did not see, else by that which it was chosen
    for.
    """
    if result.after is not None:
        name = next(iter(result.after["scores"]))
        said, interval = score_words(name, result.after["scores"][name])
    elif (chosen := result.selection["winner"]) is not None:
        said, interval = score_words("selection", chosen)
    else:
        return None
    return ended_name(compilation_run(about), said, interval, result.paid)


def compilation_note(result: Compilation) -> str:
    """The compilation in Markdown: the verdict, the scores, the bill."""
    parts = [f"**{result.verdict}**"]
    scores = []
    for phase, summary in (("Before", result.before), ("after", result.after)):
        if summary is not None:
            name = next(iter(summary["scores"]))  # that of the metric stands first
            scores.append("{} {} ({})".format(phase, *score_words(name, summary["scores"][name])))
    if scores:
        parts.append(", ".join(scores) + " on questions that the optimizer did not see.")
    parts.append(
        f"{result.candidates:,} candidates; {result.calls_made:,} calls were made, "
        f"{result.calls_saved:,} "
        "saved. The prompts: `prompts.md` under Artifacts."
    )
    return "\n\n".join(parts)


def compilation_metrics(result: Compilation) -> dict[str, float]:
    """Held-out scores and their difference with their interval's ends, selection scores, and the
    bill.
    """
    found: dict[str, float] = {}
    for phase, summary in (("before", result.before), ("after", result.after)):
        for name, score in (summary["scores"] if summary is not None else {}).items():
            found |= with_ends(f"{name}_{phase}", score)
            # under the name that evaluations have, so that tables sort them together
            if phase == "after":
                found |= with_ends(name, score)
    if (pair := result.comparison) is not None:
        found |= with_ends("difference", {**pair, "value": pair["difference"]}) | {"p": pair["p"]}
        if pair["f1"] is not None:
            found |= with_ends("difference_f1", {**pair["f1"], "value": pair["f1"]["difference"]})
    for program, chosen in (
        ("given", result.selection["given"]),
        ("winner", result.selection["winner"]),
    ):
        if chosen is not None:
            found[f"selection_{program}"] = chosen["value"]
    found |= {name: getattr(result, name) for name in ("candidates", "calls_made", "calls_saved")}
    return found | bill(result.paid)
