"""The card of a pipeline's folder: its steps, and the resulting program."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind, ask_command, result_kind
from ..lms.ledger import totals

PIPELINE, WINNER = "pipeline.json", "winner"
STEPS, ENDED, REGISTERED, DONE = "steps", "ended", "registered", "done"
"""Keys of that file: title by folder, how many steps have ended, the winner's name in the registry,
and whether there is nothing left to do.
"""


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    settings = document["manifest"]["settings"]
    card = Card(f"pipeline {settings['label']}", data=settings["data"], program=document[WINNER])
    card.run, card.begun = partial(dict, document["manifest"]), not document[DONE]
    card.tags = {f"folkmoot.{name}": document[name] or "" for name in (WINNER, REGISTERED)}
    for number, (name, title) in enumerate(document[STEPS].items()):
        # By name below the folder that is read: a file from elsewhere must not lead out of it.
        kind = result_kind(folder / Path(name).name)
        if kind is None:  # not begun
            break
        step = kind.card(folder / Path(name).name)
        card.children.append(step.folder)
        if step.problem and number < document.get(ENDED, 0):
            reason = step.problem.removesuffix("; a larger budget goes on from there")
            step.problem = f"{reason}; the next step began from it: for more, take another --out"
        if step.sentences:
            # A step that its share of the budget ended has a result, from which the next begins.
            note = f" (stopped: {step.problem})" if step.problem else ""
            said = " ".join(f"{each.removesuffix('.')}." for each in step.sentences[:2])
            card.sentences.append(f"{title}: {said}{note}")
        if step.problem:
            card.ended(f"{title} stopped early: {step.problem}")
        if card.program is not None:  # the last step has judged it, on these questions
            card.scores, card.costs, card.outcome = step.scores, step.costs, step.outcome
            judged = step.run()
            asked = {name: judged.get(name) for name in ("questions", "data_fingerprint")}
            card.run = partial(dict, {**document["manifest"], **asked})
            if (folder / WINNER).is_dir():
                card.next = ask_command(folder, folder / WINNER, judged["lms"])
    # The conclusion first, which is that of the last step.
    card.sentences = card.sentences[-1:] + card.sentences[:-1]
    card.paid(totals(*card.children).to_dict())
    if card.begun:
        card.ended("not finished")
    return card


KIND = Kind(PIPELINE, "pipeline", "a pipeline", _describe, program=WINNER)
