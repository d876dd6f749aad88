"""What the folder of a trained strategy network shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..base.cards import Card, Content, Kind, Score, kept_files, program_options
from ..base.journal import read_object
from ..base.run_files import Manifest, SummaryFields
from ..base.wording import as_sentence
from ..evaluation.card import judged, names_of_lms
from ..lms.ledger import totals
from ..runs.summary import SUMMARY

ABOUT = "training.json"
CALLS = "training"
"""Sub-folder of the network's folder with the training's calls and their ledger."""
FILES = (
    *("network.json", "tensors.safetensors", "program.json", "training.json"),
    *("training_log.json", "scores.json"),
)
LEARNED = {
    "reward": "reward",
    "individual": "accuracy",
    "consensus": "consensus",
    "entropy": "entropy",
    "trust": "trust",
    "edges_changed": "edges_changed",
    "loss": "loss",
}
"""The figures of a batch of a training, with their names in the tracking store."""
PICTURES = {
    "trust": "How much each agent (row) trusts each other agent (column), from 0 to 1, over the "
    "training and at its end.",
    "graphs": "Who is connected to whom over the training; thicker lines mean more trust.",
    "rewards": "Reward and accuracy of one agent and of the group over the training, and how sure "
    "choices were.",
    "strategies": "The share of each strategy among the choices over the training.",
}
"""The plots of a training and their captions."""


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    lm, data = names_of_lms(Manifest.of(document)), document["data"]
    card = Card("trained network", program="network", lm=lm, data=data)
    card.paid(totals(folder / CALLS, folder).to_dict())
    # `program.json` is the last file that a training writes.
    card.run, card.begun = partial(_trained_run, document), not (folder / "program.json").exists()
    card.artifacts, card.course = partial(_artifacts, folder), partial(_course, folder)
    finished = (folder / "network.json").exists()
    if not finished:
        card.ended(document.get("stopped") or "not finished")
    summary, replayed = read_object(folder / SUMMARY), read_object(folder / "scores.json")
    if summary:
        tested = SummaryFields.of(summary)
        accuracy = Score.of("accuracy", tested.scores["accuracy"])
        card.scores = [accuracy]
        card.sentences = [f"Test: {judged(accuracy, tested.counts)}."]
    # Trained on recorded answers, it was tested on such, and has no run of its own.
    elif replayed:
        consensus = {**replayed["consensus"], "n": replayed["questions"]}
        card.scores = [Score.of("consensus", consensus)]
        card.sentences = list(map(as_sentence, replayed["verdict"]))
        for name, figure in replayed.items():
            if name != "consensus" and isinstance(figure, Mapping) and "value" in figure:
                card.scores.append(Score.of(name, figure))
    elif finished:
        card.sentences = ["Not tested yet: --test FILE asks it questions that it has not seen."]
    for name, caption in PICTURES.items():
        file = folder / "plots" / f"{name}.png"
        if file.is_file():
            card.pictures[file] = caption
    if finished:
        command = shlex.join(["folkmoot", "evaluate", str(folder), "--data", "FILE"])
        card.next = f"{command}{program_options(folder, document['lms'])}"
    return card


def _trained_run(document: Mapping[str, Any]) -> dict[str, object]:
    """Return the training as a run's manifest describes one."""
    same = ("lms", "data_fingerprint", "questions", "versions", "git_commit")
    own = {name: document[name] for name in ("kind", "data", "preset")}
    return {
        **{name: document[name] for name in same},
        "program": {"program": "network training", **document["network"]},
        "program_hash": "",
        "prompt_hash": "",
        "settings": {
            "command": "train",
            "label": "network training",
            **own,
            **document["training"],
        },
    }


def _artifacts(folder: Path) -> dict[str, Content]:
    plots = [path.name for path in sorted((folder / "plots").glob("*.png"))]
    return {
        **kept_files(folder, FILES, "network/"),
        **kept_files(folder / "plots", plots, "plots/"),
    }


def _course(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Return the figures of each batch, by the questions seen so far."""
    course = []
    for step in (read_object(folder / "training_log.json") or {}).get("steps") or []:
        figures = {name: step[key] for key, name in LEARNED.items() if step.get(key) is not None}
        shares = {f"strategy/{name}": share for name, share in step.get("strategies", {}).items()}
        course.append((int(step["questions"]), {**figures, **shares}))
    return course


KIND = Kind(ABOUT, "train", "a training", _describe, program=".", tested=True)
