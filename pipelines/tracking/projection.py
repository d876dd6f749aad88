"""What the tracking store shows of a result folder: one projection of its card, for every kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.keyed import without
from ...modules.base.saved_file import FILE, LM_FILE, MODULE
from ..base.cards import Card, Content, Kind, State, kinds_in
from ..base.journal import read_object
from ..base.run_files import Manifest
from .cursor import Beginning, Cursor
from .entry import ModelEntry, RunEntry
from .values import (
    as_param,
    data_place,
    experiment_name,
    score_head,
    scrubbed,
    settings_of_run,
    shown_parameters,
    tags_of,
    title,
)

STATUS = {
    State.FINISHED: "FINISHED",
    State.STOPPED: "KILLED",
    State.RUNNING: "RUNNING",
    State.FAILED: "FAILED",
}
"""The store's status of a run by the state of its card."""
STOPPED_TAG = "folkmoot.stopped"
"""Tag of a run with a result: why it ended early, such as a budget, or `no`."""
DETAILS = ("program_hash", "prompt_hash", "data_fingerprint", "lms", "versions", "git_commit")


def entries_in(folder: Path, cursor: Cursor, kind: str | None = None) -> list[RunEntry]:
    """Return the entries of the runs in a folder, or of one kind, with what its cursor has noted of
    them. Raises UserError for a folder without runs, and for damaged files.
    """
    entries = []
    for held in kinds_in(folder):
        if kind not in (None, held.file):
            continue
        card = held.card(folder)
        damaged = card.problem
        if card.state != State.DAMAGED:
            try:
                noted = cursor.noted.get(held.file) or Beginning()
                entries.append(_entry(folder, card, held, f"{cursor.key}/{held.file}", noted))
                continue
            except (LookupError, TypeError, ValueError, AttributeError) as problem:
                damaged = f"{type(problem).__name__}: {problem}"
        raise UserError(f"{folder / held.file} is damaged ({damaged}): run its command again")
    if not entries:
        raise UserError(f"{folder} holds no run: name the folder of a finished run")
    return entries


def _entry(folder: Path, card: Card, kind: Kind, key: str, noted: Beginning) -> RunEntry:
    """Return the entry of a folder."""
    run = Manifest.of(scrubbed({**card.run(), "mlflow_run_id": None}))
    about: dict[str, Any] = {
        "key": key,
        "experiment": experiment_name(run),
        "dataset": {
            "digest": run["data_fingerprint"],
            "source": {"data": data_place(run), "split": run["settings"].get("split")},
            "rows": run["questions"],
        },
        "params": shown_parameters(run),
        "tags": {**tags_of(run), "folkmoot.kind": kind.command},
        "document": folder / kind.file,
        "traced": card.traced,
        "place": noted.place,
        "began": noted.began,
        "ended": noted.ended,
    }
    if card.begun:
        return RunEntry(name=title(run), status="RUNNING", **about)
    details = {**{name: run.get(name) for name in DETAILS}, "settings": settings_of_run(run)}
    files = {name: _clean(content) for name, content in card.artifacts().items()}
    course = card.course()
    own = about.pop("tags") | _tags(card)
    model = None
    if kind.program is not None and noted.model:
        model = _model_in(folder / kind.program, kind.program, noted)
    step = 0
    if course:
        step = course[-1][0]
    elif card.score is not None:
        step = card.score.n or 0
    return RunEntry(
        name=title(run, _head(card), card.name),
        status=STATUS[card.state],
        metrics=card.figures(),
        step=step,
        curve=course,
        note=_note(card, files),
        files={**files, "details.json": details},
        model=model,
        children=[_below(child, run, key) for child in card.below],
        parts=card.children,
        tags=own,
        **about,
    )


def _below(card: Card, run: Manifest, key: str) -> RunEntry:
    """Return the entry of what has no folder of its own, such as a trial."""
    files = {name: _clean(content) for name, content in card.artifacts().items()}
    setting, (began, ended) = scrubbed(card.run().get("parameters") or {}), card.times
    return RunEntry(
        key=f"{key}/{card.folder}",
        name=title(run.but(settings={}), _head(card), card.name),
        status=STATUS[card.state],
        params={name: as_param(value) for name, value in setting.items()},
        metrics=card.figures(),
        tags={"folkmoot.kind": card.kind, **card.tags},
        note=_note(card, files),
        files=files,
        began=began,
        ended=ended,
    )


def _head(card: Card) -> str | None:
    """Return the main score at the beginning of a name."""
    if card.score is None:
        return None
    if card.score.name == "difference":
        return str(card.score).partition(" ")[0]
    return score_head(card.score.name, vars(card.score))


def _tags(card: Card) -> dict[str, str]:
    tags = {STOPPED_TAG: card.problem or "no", **card.tags}
    if card.outcome is not None:
        tags["folkmoot.outcome"] = card.outcome
    return {name: text for name, text in tags.items() if text}


def _note(card: Card, files: Mapping[str, Content]) -> str | None:
    """Return the description, in Markdown: the conclusion, why it ended early, and what to open."""
    if not card.sentences:
        return None
    first, *others = scrubbed(card.sentences)
    lines = [f"**{first}**", *others]
    if card.problem:
        lines.append(f"Stopped early: {scrubbed(card.problem)}.")
    if files:
        lines.append(f"Open `{next(iter(files))}` under Artifacts.")
    return "\n\n".join(lines)


def _clean(content: Content) -> Content:
    """Return a file's content without secrets, and without the run's id, which a push writes into
    it.
    """
    if not isinstance(content, dict):
        return content
    return scrubbed(without(content, ["mlflow_run_id"]))  # type: ignore[no-any-return]


def _model_in(folder: Path, name: str, noted: Beginning) -> ModelEntry | None:
    """Return the program saved in a folder, as a model; None for a user's own class, which is not
    imported here.
    """
    if not folder.is_dir() or folder.is_symlink() or (folder / MODULE).exists():
        return None
    if not (folder / FILE).exists():  # it only names a program
        return None
    lm = noted.lm or read_object(folder / LM_FILE)
    return ModelEntry(folder, "network" if name == "." else name, lm, noted.registered)
