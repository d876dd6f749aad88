"""A run under way, whatever the command: its folder, its books, and where it is tracked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ..base.budget import Account, Budget
from ..base.run_files import LMFields
from ..runs.books import Books, open_books
from ..runs.folder import TemporaryFolder, out_folder, unwritable
from ..runs.manifest import RunFolder
from .live import Tracking

About = TypeVar("About", bound=Mapping[str, Any])
"""What a folder says that its run is of: a manifest, or what another command notes."""


@dataclass
class Run(Generic[About]):
    """A folder that this process alone writes to, with open books.

    `about` is what the folder says it is of, `keep` what a temporary folder lives as long as.
    """

    folder: Path
    about: About
    books: Books
    keep: TemporaryFolder | None
    tracking: Tracking = field(default_factory=Tracking)
    ended: bool = False

    def track(self, kind: str, **beginning: Any) -> None:
        """Begin the tracked run, or go on with that of an earlier attempt; see `Tracking`."""
        self.tracking = Tracking(self.folder, kind, keep=self.keep, **beginning)

    def end(self, show: Callable[[], object] | None = None) -> None:
        """Show the result, which is in the folder, and push that to the tracking store."""
        self.ended = True
        self.tracking.end(show)


@contextmanager
def running(
    kind: RunFolder,
    about: About,
    out: str | Path | None,
    *,
    engines: Iterable[Any] = (),
    records: Sequence[str | Path] = (),
    lms: Mapping[str, LMFields] | None = None,
    cache: bool | None = None,
    budget: str | Budget | None = None,
    account: Account | None = None,
    parts: bool = False,
    replayed: Path | None = None,
    spent: Usage | None = None,
) -> Iterator[Run[About]]:
    """Open a run: its folder, for this process alone, and the books of every call in the block.

    Args:
        kind: how folders of its kind are told apart.
        about: what this run is of; it gets the ids of an earlier attempt in the folder.
        out: the folder; None makes a temporary one.
        engines: what the LMs are billed as that a budget is to hold for.
        records: further folders that get every call; the run's own is one, too.
        lms, cache, budget, account, replayed, spent: as for `open_books`.
        parts: whether the run is made of runs that keep their own books, and keeps none.

    If the block fails, the tracked run ends as failed, or as killed where the user stopped it.
    Raises UserError for a folder of another run, one that cannot be written, and a budget that
    cannot be held.
    """
    with (
        out_folder(out) as (folder, keep),
        kind.opened(folder, about),
        open_books(
            None if parts else folder,
            records=() if parts else (folder, *map(Path, records)),
            replayed=replayed,
            spent=spent,
            lms=lms,
            cache=cache,
            budget=budget,
            account=account,
            engines=engines,
        ) as books,
    ):
        run = Run(folder, about, books, keep)
        try:
            yield run
        except BaseException as problem:
            if not run.ended:
                stopped = isinstance(problem, KeyboardInterrupt | UserError)
                run.tracking.stop("KILLED" if stopped else "FAILED")
            raise


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn what the disk refuses in the block into one sentence."""
    try:
        yield
    except OSError as problem:
        raise unwritable(
            problem, folder, "make room, or choose another --out, and run it again"
        ) from None
