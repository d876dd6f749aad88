"""A PostgreSQL server of the tests' own, on a socket and a loopback port that nobody else knows."""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_helpers import free_port

PASSWORD = "s3cret-canary"


def tool(name: str) -> str | None:
    places = [
        os.environ.get("PATH", ""),
        *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))),
    ]
    return shutil.which(name, path=os.pathsep.join(places))


def reason_to_skip() -> str | None:
    if tool("initdb") is None or tool("pg_ctl") is None:
        return "PostgreSQL is not installed (initdb and pg_ctl): apt-get install postgresql"
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'folkmoot[postgres]'"
    if os.geteuid() == 0 and not _users():
        return "PostgreSQL does not run as root, and there is no user to run it as"
    return None


def _users() -> list[str]:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return [name for name in ("postgres", "nobody") if name in known]


def _run(*words: str) -> None:
    """As another user when root, as PostgreSQL wants it."""
    user = _users()[0] if os.geteuid() == 0 else None
    own = pwd.getpwnam(user).pw_gid if user else None
    options: dict[str, object] = {"user": user, "group": own, "extra_groups": [] if user else None}
    options |= {"cwd": "/", "timeout": 120}
    done = subprocess.run(words, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def server() -> Iterator[str]:
    """The URL of a fresh server's database, with its password; skips where there is none."""
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    port = free_port()
    initdb, pg_ctl = tool("initdb"), tool("pg_ctl")
    assert initdb
    assert pg_ctl
    with tempfile.TemporaryDirectory(prefix="folkmoot-pg-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        (folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            owner = pwd.getpwnam(_users()[0])
            for path in (folder, folder / "password"):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        data = str(folder / "data")
        words = ("-U", "moot", "-A", "scram-sha-256", f"--pwfile={folder / 'password'}", "-N")
        _run(initdb, "-D", data, *words)
        places = f"-c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        options = f"-p {port} {places} -c fsync=off"
        _run(pg_ctl, "-D", data, "-l", str(folder / "log"), "-o", options, "-w", "start")
        try:
            yield f"postgresql://moot:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            _run(pg_ctl, "-D", data, "-m", "immediate", "stop")
