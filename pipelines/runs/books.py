"""The books of a run: the ledger of what it pays, the records of its calls, the call cache and its
budget.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ...modules.base.calls import Usage, bound, refusals, total
from ...modules.base.context import OPEN_BOOKS
from ...modules.base.errors import system_errors
from ..base.journal import records
from ..base.run_files import LMFields, books_of
from ..lms.ledger import Ledger, totals
from ..lms.limits import try_all_again
from ..lms.store import BooksAround, CallCache, CallStore, books_around, open_cache, write_lms
from .rows import RESULTS

if TYPE_CHECKING:
    from ..base.account import Account
    from ..base.budget import Budget

_LOG = logging.getLogger("folkmoot")

T = TypeVar("T")


@dataclass(frozen=True)
class Books:
    """Open books; a part that is None or empty is not kept."""

    ledger: Ledger | None = None
    stores: tuple[CallStore, ...] = ()
    cache: CallCache | None = None
    account: Account | None = None
    around: BooksAround = field(default_factory=books_around, repr=False)

    @property
    def paid(self) -> Usage:
        """The bill of the answered calls."""
        return self.ledger.bill()[0] if self.ledger is not None else Usage()

    @property
    def lost(self) -> Usage:
        """What calls without a known end may have cost besides, those in flight included."""
        return self.ledger.bill()[1] if self.ledger is not None else Usage()

    @property
    def spent(self) -> Usage:
        """What budgets count: both together."""
        return total([self.paid, self.lost])

    @contextmanager
    def used(self, accounts: Iterable[Account]) -> Iterator[None]:
        """Keep every call of the block in these books and the outer ones, and pay it from all their
        accounts; in threads, too, which do not inherit context variables.
        """
        outer = self.around
        ledgers = (self.ledger,) if self.ledger else ()
        books = BooksAround(
            _before(ledgers, outer.ledgers),
            _before(tuple(accounts), outer.accounts),
            _before(self.stores, outer.stores),
            self.cache,
            books_around().meter,
        )
        with bound(OPEN_BOOKS, books), refusals():
            yield


@contextmanager
def open_books(
    ledger: Path | None = None,
    *,
    records: Iterable[Path] = (),
    replayed: Path | None = None,
    lms: Mapping[str, LMFields] | None = None,
    cache: bool | None = None,
    account: Account | None = None,
    budget: str | Budget | None = None,
    engines: Iterable[object] = (),
    spent: Usage | None = None,
    option: str = "--out",
) -> Iterator[Books]:
    """Keep books of every call in the block, in addition to the books of the outer runs.

    Args:
        ledger: folder of the ledger.
        records: folders that record every call, and answer recorded ones. replayed: folder that
            only answers. lms: the LMs noted in the records, seat → identity. cache: whether the
            user's call cache answers; None leaves that unchanged. account: the account that pays
            for the calls. budget: ceilings of an account that is opened here. engines: the engines
            of the LMs that the budget covers. spent: the part of the budget already spent; None
            takes the ledger's total. option: the command-line option that names the folders.

    Raises UserError for folders that cannot be written and a budget that cannot be enforced.
    """
    outer = books_around()
    if not outer.ledgers and not outer.accounts:  # no other run is around this one
        # An endpoint that an earlier run has given up may be back.
        try_all_again()
    with ExitStack() as held:
        place = ledger or next(iter(records), None)
        with system_errors(place, f"choose another {option}"):
            book = None
            if ledger is not None:
                book = held.enter_context(closing(Ledger(books_of(ledger))))
            stores = tuple(held.enter_context(closing(CallStore(folder))) for folder in records)
            if book is not None and ledger is not None and book.at_least(_paid_by_rows(ledger)):
                _LOG.warning(
                    "the ledger of %s is damaged or missing: the %s calls that its rows paid for "
                    "count instead",
                    *(ledger, book.total.calls),
                )
            # A replay has to know which LM gave the answers.
            if lms is not None:
                for store in stores:
                    write_lms(store.folder, lms)
        if replayed is not None:
            stores = (
                *stores,
                held.enter_context(closing(CallStore(books_of(replayed), readonly=True))),
            )
        if budget is not None:
            from ..base.account import open_account

            if spent is None:
                spent = Books(book).spent
            account = open_account(budget, engines, spent)
        call_cache = outer.cache
        if cache is not None:
            call_cache = held.enter_context(open_cache(cache))
        books = Books(book, stores, call_cache, account)
        held.enter_context(books.used((account,) if account else ()))
        yield books


def account_of(
    budget: str | Budget | None, engines: Iterable[object], *folders: Path
) -> Account | None:
    """Return the budget that is left after the payments in the ledgers of `folders`; None without a
    budget. `engines` are the names under which its LMs are billed. Raises UserError for a budget
    that cannot be enforced.
    """
    if budget is None:
        return None
    from ..base.account import open_account

    return open_account(budget, engines, totals(*folders))


def _paid_by_rows(folder: Path) -> Usage:
    """Return the bill of the rows in a folder, and in those of its parts."""
    # Runs of a contest or of a study lie one or two folders deeper.
    files = [each for part in ("", "*/", "*/*/") for each in folder.glob(part + RESULTS)]
    rows = (row for file in files for row in records(file, ("usage",)))
    usages = (row["usage"] for row in rows if isinstance(row["usage"], dict))
    return total(Usage.of(usage) for usage in usages if usage.get("calls") is not None)


def _before(own: tuple[T, ...], outer: tuple[T, ...]) -> tuple[T, ...]:
    """Inner ones first, without duplicates."""
    # By identity: two accounts may hold the same figures, and each has to be charged.
    return (*own, *(each for each in outer if not any(each is mine for mine in own)))
