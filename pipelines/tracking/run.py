"""A run in progress, for every command: its folder, its books, and its display in the tracking
store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ..base.journal import read_object
from ..base.run_files import LMFields, books_of
from ..runs.books import Books, open_books
from ..runs.folder import TemporaryFolder, out_folder
from ..runs.garbage import seldom_collected
from ..runs.manifest import RunFolder
from .context import CURSOR, Untracked

if TYPE_CHECKING:
    from ..base.account import Account
    from ..base.budget import Budget

About = TypeVar("About", bound=Mapping[str, object])
"""The description of a folder's run: a manifest, or another command's document."""


@dataclass
class Run(Generic[About]):
    """A folder that only this process writes to, with open books. `about` is the folder's
    description, and `keep` keeps a temporary folder alive.
    """

    folder: Path
    about: About
    books: Books
    keep: TemporaryFolder | None
    tracking: Untracked = field(default_factory=Untracked)
    ended: bool = False

    def track(self, kind: str, **beginning: Any) -> None:
        """Begin the tracked run, or resume that of an earlier attempt; see `Tracking`."""
        from .live import Tracking

        self.tracking = Tracking(self.folder, kind, keep=self.keep, **beginning)

    def end(self, show: Callable[[], object] | None = None) -> None:
        """Show the result, and push the folder to the tracking store."""
        self.ended = True
        self.tracking.end(show)


@contextmanager
def running(
    kind: RunFolder,
    about: About,
    out: str | Path | None,
    *,
    engines: Iterable[object] = (),
    records: Sequence[str | Path] = (),
    lms: Mapping[str, LMFields] | None = None,
    cache: bool | None = None,
    budget: str | Budget | None = None,
    account: Account | None = None,
    parts: bool = False,
    replayed: Path | None = None,
    spent: Usage | None = None,
) -> Iterator[Run[About]]:
    """Open a run: lock its folder for this process, and keep the books of every call in the block.

    Args:
        kind: the kind of run, which compares folders. about: the description of this run; it gets
            the ids of an earlier attempt in the folder. out: the folder; None makes a temporary
            one. engines: the engines of the LMs that the budget covers. records: further folders
            that record every call, in addition to the run's own. lms, cache, budget, account,
            replayed, spent: as for `open_books`. parts: whether the run consists of runs that keep
            their own books, and keeps none itself.

    If the block fails, the tracked run ends as failed, or as killed where the user stopped it.
    Raises UserError for a folder of another run, one that cannot be written, and a budget that
    cannot be enforced.
    """
    with (
        seldom_collected(),
        out_folder(out) as (folder, keep),
        kind.opened(folder, about),
        open_books(
            None if parts else folder,
            records=() if parts else (books_of(folder), *map(Path, records)),
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


def is_sent(folder: Path, run_id: object) -> bool:
    """Return whether the store has a finished run completely, by its cursor; `run_id` is the id in
    its document, which decides where there is no cursor.
    """
    cursor = read_object(books_of(folder) / CURSOR)
    if cursor is None:
        return run_id is not None
    from .store import current_store

    return cursor.get("clean") is True and cursor.get("store") == current_store()


def send_rest(folder: Path, kind: str, show: Callable[[], object] | None = None) -> str | None:
    """Show a finished result, and send what the store lacks of it. Returns the id of its run."""
    from .live import Tracking

    tracking = Tracking(folder, kind)
    tracking.end(show)
    return tracking.run_id
