"""Sandboxes: the command lines that run code which an LM wrote, by bubblewrap, Docker or Podman."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...modules.base.errors import UserError
from ..base.settings import settings
from .process import Started
from .supervisor import MOST_FILE, MOST_MEMORY, MOST_PROCESSES

BWRAP, NONE = "bwrap", "none"
ENGINES = ("docker", "podman")
HERE, HOME, SOCKET, RELAY = "/tmp/task", "/tmp/home", "/tmp/meter", "/tmp/relay.py"
"""Where a sandbox has the task's folder, a home, the meter, and what relays to it."""

SCRATCH = 512 * 2**20
"""The most bytes in `/tmp` of a sandbox."""

HIDDEN = ("/tmp", "/var/tmp", "/run")
"""Folders of which a sandbox has empty ones: others' files, and sockets of the system's services.
"""

SYSTEM = "--unshare-all --ro-bind / / --proc /proc --ro-bind /proc/sys /proc/sys"
"""What a sandbox sees of the system. Root could else set the kernel's own settings, such as what
runs when a process crashes, and bubblewrap leaves them writable.
"""

SAYS = {
    BWRAP: "in a sandbox (bwrap: no network but the meter, and only the task's folder is written)",
    NONE: "without a sandbox: code that LMs write can do whatever you can",
}


HIDES = {BWRAP: "; the sandbox hides your home and /tmp"}
"""What to know of a sandbox in which a command does not run."""


class Door(NamedTuple):
    """The meter's socket, and the port at which a program asks it."""

    socket: Path
    port: int


@dataclass(frozen=True)
class Sandbox:
    """What runs programs and checks: `bwrap`, `docker:IMAGE`, `podman:IMAGE` or `none`."""

    name: str

    @classmethod
    def of(cls, name: str | None) -> Sandbox:
        """Return the sandbox of a name; None is bubblewrap. Raises UserError where it cannot be
        used.
        """
        if shutil.which("git") is None:
            raise UserError("tasks need git, since what a program leaves is a diff: install it")
        engine, _, image = (name or BWRAP).partition(":")
        if engine in ENGINES and image:
            if shutil.which(engine) is None:
                raise UserError(f"--sandbox {name}: there is no command {engine}: install it")
        elif name not in (None, BWRAP, NONE):
            raise UserError(
                f"there is no sandbox {name!r}: choose bwrap, docker:IMAGE, podman:IMAGE or none"
            )
        elif name != NONE and (missing := _missing_bwrap()):
            raise UserError(
                f"tasks run code that an LM wrote, and bwrap {missing}: install bubblewrap, or "
                "give --sandbox docker:IMAGE or podman:IMAGE, or --sandbox none to run it "
                "unprotected"
            )
        return cls(name or BWRAP)

    def __str__(self) -> str:
        return SAYS.get(self.name, f"in containers of {self.name}, without a network")

    def started(
        self,
        words: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        *,
        task: Container[str] = (),
        door: Door | None = None,
        hidden: Iterable[Path] = (),
        cwd: Path | None = None,
    ) -> Started:
        """Return how a command is started in a task's folder.

        Args: words: the command; a file in `cwd`, the user's folder, is found from there.
            variables: its environment variables beside PATH, LANG and HOME. task: the names of the
            task's own files. hidden: what it must not read.
        """
        base = (cwd or Path()).resolve()
        words = [_from(base, task, word) for word in words]
        own = [Path(word).parent for word in words if word[:1] == "/" and os.path.isfile(word)]
        environment = {**settings().environment_of({"PATH", "LANG"}, ()), **variables}
        if self.name == NONE:
            return Started(words, environment | {"HOME": str(folder.parent)}, folder, [])
        if self.name == BWRAP:
            program, needed = _find(words[0], environment.get("PATH"))
            words, own = [program, *words[1:]], [*own, *needed]
            line = [*_bwrap(folder, own, door, hidden), *_through(door, sys.executable), *words]
            return Started(line, environment | {"HOME": HOME}, folder, [])
        engine, _, image = self.name.partition(":")
        name = f"folkmoot-{secrets.token_hex(6)}"
        environment.pop("PATH", None)  # the image has its own; values stay out of the command line
        # Other folders of this machine, such as its Python's, would not work in the image.
        own = [path for path in own if path.is_relative_to(base)]
        line = [
            *_container(engine, name, folder, own, door),
            *_each(environment, "-e", "{}"),
            image,
        ]
        # What the engine's own client needs to find its daemon.
        client = settings().environment_of({"PATH", "HOME", "XDG_RUNTIME_DIR"}, ("DOCKER_",))
        line += [*_through(door, "python3"), *words]
        return Started(line, client | environment, folder, [engine, "rm", "-f", name])


def _from(base: Path, task: Container[str], word: str) -> str:
    """Return a word of a command; a file of the user's by its whole path, unless the task has one
    of that name. What a program has added to the folder does not count: it could replace the user's
    check.
    """
    # Not Path.is_file, which fails on a long word, such as code.
    mine = os.path.normpath(word) not in task and os.path.isfile(base / word)
    return str(base / word) if mine else word


@cache
def _find(word: str, path: str | None) -> tuple[str, tuple[Path, ...]]:
    """Return what a command's first word starts, and the folders that it needs: a home is hidden,
    and the user's Python or a virtual environment may be there, behind a shim. Raises UserError for
    another program in the home.
    """
    place = shutil.which(word, path=path)
    if place is None:
        return word, ()
    is_python = Path(place).name.startswith("python")
    if is_python or (Path(place).parent.parent / "pyvenv.cfg").exists():
        python = str(Path(place).with_name("python"))
        if is_python:
            python = place
        script = "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sep='\\n')"
        asked = subprocess.run([python, "-c", script], capture_output=True, text=True)
        if not asked.returncode:
            program, *prefixes = asked.stdout.splitlines()
            return program if is_python else place, tuple(map(Path, prefixes))
    visible = Path(place).is_relative_to(sys.prefix) or not Path(place).is_relative_to(Path.home())
    if "/" in word or visible:
        return word, ()
    raise UserError(
        f"{word} is {place}, in your home, which the sandbox hides: name its whole path if its "
        "folder is all it needs, install it elsewhere, or give --sandbox none"
    )


@cache
def _missing_bwrap() -> str:
    """Return why bubblewrap cannot be used here, after its name; empty where it can."""
    if shutil.which(BWRAP) is None:
        return "is not installed"
    line = [BWRAP, *SYSTEM.split(), "true"]
    ended = subprocess.run(line, capture_output=True, text=True)
    if not ended.returncode:
        return ""
    return f"cannot be used ({ended.stderr.strip()[:200]})"


def _bwrap(
    folder: Path, own: Sequence[Path], door: Door | None, hidden: Iterable[Path]
) -> list[str]:
    """Return Bubblewrap's command line, up to the command."""
    hides = (*HIDDEN, str(Path.home()))
    empty = [place for place in hides if Path(place).is_dir() and place != "/"]
    # A checkout that is installed in place is outside of Python's folders, and pytest loads it.
    checkout = Path(__file__).resolve().parents[2]
    needed = [Path(sys.prefix), Path(sys.base_prefix), checkout, *own]
    # only what an empty folder would hide: the rest of the disk is there to read anyway
    within = [str(path) for path in needed if any(path.is_relative_to(place) for place in empty)]
    folders = [str(path.resolve()) for path in hidden if path.is_dir()]
    files = [str(path.resolve()) for path in hidden if path.is_file()]
    # --new-session: a program could otherwise type into the user's terminal (TIOCSTI).
    line = f"""{BWRAP} {SYSTEM} --die-with-parent --new-session --cap-drop ALL
        --dev /dev --size {SCRATCH} --tmpfs /dev/shm --remount-ro /dev"""
    return [
        *line.split(),
        *_each(empty, "--size", str(SCRATCH), "--tmpfs", "{}"),
        *_each(within, "--ro-bind", "{}", "{}"),
        *_each(folders, "--size", "4096", "--tmpfs", "{}"),
        *_each(files, "--ro-bind", os.devnull, "{}"),
        *("--dir", HOME, "--bind", str(folder), HERE, "--chdir", HERE),
        *(word for path, place in _meter(door) for word in ("--ro-bind", path, place)),
        "--",
    ]


def _container(
    engine: str, name: str, folder: Path, own: Sequence[Path], door: Door | None
) -> list[str]:
    """Return Docker's or Podman's command line, up to the variables and the image."""
    line = f"""{engine} run --rm -i --init --name {name} --network none --read-only
        --tmpfs /tmp:exec,size={SCRATCH} --cap-drop ALL --security-opt no-new-privileges
        --memory {MOST_MEMORY} --pids-limit {MOST_PROCESSES} --ulimit fsize={MOST_FILE}
        --user {os.getuid()}:{os.getgid()} -e HOME=/tmp -w {HERE}"""
    return [
        *line.split(),
        *("-v", f"{folder}:{HERE}"),
        *_each(map(str, own), "-v", "{0}:{0}:ro"),
        *(word for path, place in _meter(door) for word in ("-v", f"{path}:{place}:ro")),
    ]


def _each(values: Iterable[str], *words: str) -> list[str]:
    """Return words for each value, which stands where they say `{}`."""
    return [word.format(value, value) for value in values for word in words]


def _meter(door: Door | None) -> list[tuple[str, str]]:
    relay = str(Path(__file__).with_name("relay.py"))
    return [] if door is None else [(str(door.socket), SOCKET), (relay, RELAY)]


def _through(door: Door | None, python: str) -> list[str]:
    """Return what starts a program so that it reaches the meter."""
    return [] if door is None else [python, "-I", "-S", RELAY, SOCKET, str(door.port)]
