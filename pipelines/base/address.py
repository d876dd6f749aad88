"""Checks of the server addresses and database files that a user gives."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from ...modules.base.errors import UserError
from ...modules.base.fence import one_line

_PRINTED = re.compile(r"[!-\[\]-~]*")  # ASCII without space, backslash and control characters
_LIKE_A_HOST = re.compile(r"(?:localhost|\[.*\]|[\w-]+(?:\.[\w-]+)+)(?::\d*)?", re.IGNORECASE)


def read_address(address: str, schemes: Collection[str], wanted: str) -> SplitResult:
    """Return the parts of an address of one of these schemes.

    Raises UserError, which ends with what is `wanted`, for another scheme, a missing host, an
    impossible port, and for an address that could be checked as one host and reached as another:
    URL parsers differ in what they do with a tab, a space or a backslash, and people may take what
    is before an @ for the host.
    """
    parts = SplitResult("", "", "", "", "")
    with suppress(ValueError):  # for a missing bracket, and a port that is not a number
        parts = urlsplit(address)
        user = parts.netloc.rpartition("@")[0]
        plain = _PRINTED.fullmatch(address) and "@" not in user and not _LIKE_A_HOST.fullmatch(user)
        if plain and parts.scheme in schemes and parts.hostname and parts.port != 0:
            return parts
    # Without what is before the @, which may be a password.
    host = one_line(parts.netloc.rpartition("@")[2])
    shown = f"{parts.scheme}://{host}" if host else "what is given"
    raise UserError(f"{shown} is not a usable address as it is written: give {wanted}")


def shown_address(url: str) -> str:
    """Return a URL that may be shown: without user, password and query."""
    scheme, colon, rest = url.partition("://")
    if not colon:
        # The scheme was left out, so a user's name and password may be first.
        return "…@" + url.rpartition("@")[2] if "@" in url else url
    if not rest.startswith("/"):  # else it is a file, whose name may have an @
        # At the last @, since a password may contain @, / and ?.
        rest = rest.rpartition("@")[2]
    return f"{scheme}://{rest.partition('?')[0]}"


VERSIONS = "alembic_version"
"""The table in which both MLflow and Optuna keep what version their tables are: on a server, each
needs a database without the other's.
"""


def check_database(file: Path, own: str, whose: str, instead: str) -> None:
    """Raise UserError for a SQLite file that has tables but not the `own` one: it is another
    program's, and must not get our tables. A file that cannot be read raises nothing here.
    """
    tables = list[str]()
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as db,
    ):
        tables += [name for (name,) in db.execute("SELECT name FROM sqlite_master ORDER BY name")]
    if tables:
        check_tables(str(file), tables, own, whose, instead)


def check_tables(place: str, tables: Sequence[str], own: str, whose: str, instead: str) -> None:
    """Raise UserError for a database of another program, which lacks the `own` table."""
    if own not in tables:
        raise UserError(
            f"{place} is the database of another program, not of {whose} (it has {tables[0]!r}): "
            f"{instead}"
        )
