"""The cards of the result folders below a folder: what ran, its score, cost and progress."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from ...modules.base.errors import UserError
from ...modules.base.files import locked
from ..base.cards import Card, Kind, State, result_kind
from ..evaluation.card import WITHIN
from ..runs.rows import RESULTS
from ..runs.summary import SUMMARY

_TRACKED = re.compile("[0-9a-f]{32}")


def list_cards(folders: Iterable[str | Path]) -> list[Card]:
    """Return the card of every result in these folders and below, the newest first. The runs of a
    contest, or the candidates of a compilation, are on its card.

    Raises UserError for what is not a folder.
    """
    cards: dict[Path, Card] = {}
    for name in folders:
        folder = Path(name).expanduser()
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: name one that holds runs")
        for place, kind in _places(folder):
            cards.setdefault(place.resolve(), card_of(place, kind))
    return sorted(cards.values(), key=lambda card: card.when, reverse=True)


def card_of(folder: Path, kind: Kind) -> Card:
    """Return the card of a folder, with the time of its last change, and whether it is still being
    worked on.
    """
    card = kind.card(folder)
    files = [folder / name for name in (kind.file, RESULTS, SUMMARY)]
    changed = max(path.lstat().st_mtime for path in files if os.path.lexists(path))
    card.when = datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    # An unfinished folder looks the same whether its process was killed or is still at work: only
    # the lock tells them apart.
    if card.state == State.STOPPED and _is_held(folder):
        card.state = State.RUNNING
    return card


def _places(folder: Path) -> Iterator[tuple[Path, Kind]]:
    for root, within, _ in os.walk(folder):
        kind = result_kind(Path(root))
        gone_into = {name for name in within if not name.startswith(".")}
        if _TRACKED.fullmatch(Path(root).name):
            gone_into.discard("artifacts")  # where the tracking store keeps copies
        if kind is not None:
            yield Path(root), kind
            if Path(root) != folder:  # what belongs to the folder that is named is listed, too
                gone_into.intersection_update(WITHIN)
        within[:] = sorted(gone_into)  # in place, as `os.walk` wants it


def _is_held(folder: Path) -> bool:
    """Return whether a process is writing to the folder."""
    try:
        with locked(folder, wait=False):
            return False
    except OSError as problem:
        return isinstance(problem, BlockingIOError)
