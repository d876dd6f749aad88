"""The card of a compilation's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any

from ...modules.reading.grading import metric_name
from ..base.cards import (
    Card,
    Content,
    Gap,
    Kind,
    Score,
    TableEntry,
    ask_command,
    kept_files,
    kinds_in,
)
from ..base.journal import read_object, records
from ..base.run_files import Manifest, SummaryFields
from ..comparison.verdict import BEATS, UNDECIDED, WORSE, A, B
from ..evaluation.card import about, costs_of, judged
from ..lms.ledger import totals
from ..runs.summary import SUMMARY

COMPILE, PROGRAM, PROMPTS = "compile.json", "program", "prompts.md"
COLUMNS = ("candidate", "score", "low", "high", "questions", "complete")
FILES = (PROMPTS, "prompts.json", "candidates.jsonl", PROGRAM)


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    card = about("compilation of", Manifest.of(document))
    card.run = partial(_compiled_run, document)
    result = document.get("result")
    card.begun = result is None
    result = result or {"stopped": "not finished"}
    card.ended(result.get("stopped"))
    card.paid(result.get("paid") or totals(folder).to_dict(), result.get("lost"))
    if verdict := result.get("verdict"):
        card.sentences = [verdict]
    runs = [folder / "before", *sorted(folder.glob("after/*"))]
    evaluated = [run for run in runs if run.is_dir()]
    held_out = []
    for phase in ("before", "after"):
        if result.get(phase):
            name, measured = metric_name(document), SummaryFields.of(result[phase])
            score = Score.of(name, measured.scores[name])
            card.scores = [score]
            held_out.append(f"{phase} {judged(score, measured.counts)}")
    # Without an evaluation after, the program is the one before.
    if len(evaluated) < 2:
        held_out = [words.removeprefix("before ") for words in held_out[:1]]
    if held_out:
        card.sentences.append(f"Held out: {'; '.join(held_out)}.")
    if pair := result.get("comparison"):
        # Without an evaluation after, the given program was compared with itself.
        if len(evaluated) > 1:
            difference = {**pair, "value": pair["difference"]}
            card.scores.append(Gap.of("difference", difference))
        outcome = pair["outcome"]
        card.outcome = {A: UNDECIDED, B: WORSE}.get(outcome, outcome)
        if result["gain"]:  # of phrases F1 decides, which that outcome is not about
            card.outcome = BEATS
    card.files = [folder / PROMPTS] if (folder / PROMPTS).exists() else []
    # The last one is that of the program that came out.
    if evaluated and (summary := read_object(evaluated[-1] / SUMMARY)):
        card.costs = costs_of(SummaryFields.of(summary))
    learned = [place for place in sorted(folder.glob("round-*/*/")) if kinds_in(place)]
    card.children = [*learned, *evaluated]
    card.artifacts = partial(_artifacts, folder, dict(document))
    card.tags = {"folkmoot.winner": result.get("winner") or ""}
    if (folder / PROGRAM).is_dir():
        card.next = ask_command(folder, folder / PROGRAM, document["lms"])
    return card


def _compiled_run(document: Mapping[str, Any]) -> dict[str, object]:
    """Return the compilation as a run's manifest describes one."""
    questions = document["questions"]
    own = {name: document[name] for name in ("optimizer", "preset", "seed", "train_fingerprint")}
    label = f"compile {document['optimizer']} {document['preset']}"
    return {
        **document,
        "result": None,
        "data_fingerprint": document["validation_fingerprint"] or document["train_fingerprint"],
        "questions": questions["validation"] or questions["select"],
        "settings": {"command": "compile", "label": label, **document["settings"], **own},
    }


def _artifacts(folder: Path, document: dict[str, Any]) -> dict[str, Content]:
    """Return the change of the prompts, which one wants to see first, and every candidate in a
    table.
    """
    # The first row is that of the given program, which is scored before all others.
    rows = list(records(folder / "candidates.jsonl", ("key", "candidate", "prompts")))
    prompts = {str(row["candidate"]): _lines_of(row["prompts"]) for row in rows}
    chosen = str(((document.get("result") or {}).get("selection") or {}).get("candidate"))
    given = next(iter(prompts.values()), [])
    change = unified_diff(given, prompts.get(chosen, given), "before", "after", lineterm="", n=1)
    table = []
    for row in rows:
        table.append([*map(row.get, COLUMNS), _changed(given, row["prompts"])])
    return {
        "PROMPTS.diff": "\n".join(change) or "The prompts are those that were given.",
        "candidates.json": TableEntry([*COLUMNS, "changed"], table),
        **kept_files(folder, FILES),
        COMPILE: document,
    }


def _lines_of(prompts: object) -> list[str]:
    return json.dumps(prompts, indent=1, ensure_ascii=False).splitlines()


def _changed(given: list[str], prompts: object) -> str:
    """Return the lines of a candidate that the given prompts do not have."""
    return "\n".join(line.strip() for line in _lines_of(prompts) if line not in given)


KIND = Kind(COMPILE, "compile", "a compilation", _describe, program=PROGRAM)
