"""Where a study lives: a database in its folder or elsewhere, by URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from optuna.storages import BaseStorage, RDBStorage

from ...modules.base.errors import UserError, missing_extra
from ..base.address import (
    VERSIONS,
    check_database,
    check_tables,
    read_address,
    shown_address,
)
from . import recovery

DATABASE = "study.db"
READY_SECONDS = 20.0
WAIT_SECONDS = 60.0  # that a worker waits for others who write to a SQLite file
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
}
_FORMS = (
    "postgresql://USER:PASSWORD@HOST/DATABASE, mysql://…, or sqlite:///FILE, or "
    "leave it out for a file in --out"
)


def check_url(url: str) -> None:
    """Raise UserError, without the password, for a URL that names no storage."""
    scheme, colon, rest = url.partition("://")
    if not colon:
        raise UserError(f"--storage {safe_url(url)!r} is not a URL: give {_FORMS}")
    if scheme.startswith("sqlite") and rest.strip("/") in ("", ":memory:"):
        raise UserError(f"--storage {url!r} names no file: give {_FORMS}")
    if scheme.partition("+")[0] in _DRIVERS:
        if set("@/?") & {*rest.rpartition("@")[0]}:
            raise UserError(
                f"--storage {safe_url(url)!r} is an address with an @, / or ? in its password: "
                "write %40, %2F or %3F"
            )
        if not rest.startswith("/"):  # which is a socket of this machine
            read_address(url, (scheme,), f"--storage as {_FORMS}")


def open_storage(url: str | None, folder: Path) -> BaseStorage:
    """Return Optuna's storage for a URL; None is a SQLite file in the folder.

    Raises UserError, without the password, for a URL that is not one, a missing driver, and a
    server that does not answer.
    """
    from sqlalchemy.exc import IntegrityError, ProgrammingError, SQLAlchemyError

    advice = "start it, or correct --storage"
    if url is None:
        advice = "choose another --out"
        folder.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{folder.absolute() / DATABASE}"
    check_url(url)
    scheme, _, rest = url.partition("://")
    if scheme.startswith("sqlite"):
        file = Path(rest.removeprefix("/").partition("?")[0]).absolute()
        check_database(file, "studies", "Optuna", "give --storage another file")
    engine: dict[str, object] = {"connect_args": {"timeout": WAIT_SECONDS}}
    if scheme.partition("+")[0] in _DRIVERS:
        # Between two uses a trial may ask LMs for an hour, and servers close what lies idle.
        engine = {"pool_pre_ping": True, "connect_args": {"connect_timeout": int(READY_SECONDS)}}
    address = f"{_DRIVERS.get(scheme, scheme)}://{rest}"
    opened = partial(
        RDBStorage,
        address,
        engine_kwargs=engine,
        heartbeat_interval=recovery.BEAT_SECONDS,
        grace_period=recovery.GRACE_SECONDS,
    )
    try:
        if not is_local(url):
            _check_server(address, url, engine)
        try:
            return opened()
        except (IntegrityError, ProgrammingError):
            # Another machine was making the tables of a new database: they are there now.
            return opened()
    except UserError:  # a ValueError, too
        raise
    except ImportError as problem:
        raise _missing(problem, url) from None
    except (SQLAlchemyError, ValueError, OSError, RuntimeError, TypeError) as problem:
        why = _why(problem, url)
        raise UserError(f"the storage {safe_url(url)} cannot be used ({why}): {advice}") from None


def _check_server(address: str, url: str, options: Mapping[str, Any]) -> None:
    """Raise UserError where a server's database has another program's tables, and SQLAlchemy's
    errors where it cannot be reached.
    """
    from sqlalchemy import create_engine, inspect

    engine = create_engine(address, **options)
    tables = inspect(engine).get_table_names()
    engine.dispose()
    if VERSIONS in tables:
        instead = "give --storage another database"
        check_tables(safe_url(url), tables, "studies", "Optuna", instead)


def is_local(url: str | None) -> bool:
    """Return whether only processes of this machine can be at the study."""
    return url is None or url.startswith("sqlite:")


def safe_url(url: str | None) -> str:
    """Return the URL as it may be seen: without user, password and query."""
    return DATABASE if url is None else shown_address(url)


def _missing(problem: ImportError, url: str) -> UserError:
    feature = f"the storage {safe_url(url)}"
    name = str(getattr(problem.__cause__, "name", problem.name)).partition(".")[0]
    if name == "psycopg":
        return missing_extra(feature, "postgres")
    return UserError(f"{feature} needs the package {name}: pip install {name}")


def _why(problem: Exception, url: str) -> str:
    """Return the reason in a line, without the URL's secrets."""
    # Drivers put what they could not connect to into their messages, password and all.
    text = " ".join(str(problem.__cause__ or problem).split())
    try:
        secrets = [url, urlsplit(url).password, urlsplit(url).query]
    except ValueError:
        return type(problem).__name__
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return re.sub(r"//[^/@\s]+@", "//***@", text)[:200]
