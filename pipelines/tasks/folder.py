"""The folder of a task: its files, what a program left there as a diff, and a text put into it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TypeVar

from ...modules.base.calls import ASKER, asking
from ...modules.base.files import CACHES
from ...modules.base.keyed import only
from ...modules.reading.grading import MetricError
from ..base.cards import kinds_in
from ..base.settings import settings
from .cluster import join_cluster, on_cluster
from .process import CommandError
from .sandbox import NONE, Sandbox

T = TypeVar("T")

WORK = "tasks"
"""The part of a run's folder in which folders of tasks lie while they are needed."""

NOTHING = "(nothing changed)"
"""The answer of a program that left its folder as it was."""

GIT = ".git"
MOST_DIFF = 20_000_000
MOST_KEPT = 200_000
"""The most bytes of a diff, and those that a row keeps."""

_DIFFER = """diff --no-index --binary --no-prefix --no-renames --no-color --no-ext-diff
    --no-textconv a b"""
_DIFF = re.compile(r"(?:# left out: .*\n)*(?:diff --git |--- .*\n\+\+\+ )")
_PREFIXED = re.compile(r'^(?:diff --git "?a/.* "?b/|--- (?:"?a/.*|/dev/null.*)\n\+\+\+ "?b/)', re.M)
"""How files of a diff are called where their names begin with a/ and b/."""
_FENCED = re.compile(
    r"^([ \t]*)(`{3,}|~{3,})[ \t]*\{?\.?([\w+#-]*)[^\n`]*\n(.*?)(?:^\1\2[ \t\r]*$|\2?\Z)",
    re.M | re.S,
)
"""Indent, fence, language and inside of a block, which the end of the reply ends, too."""
_LANGUAGES = {
    ".py": ("python", "py", "python3"),
    ".js": ("javascript", "js"),
    ".ts": ("typescript", "ts"),
    ".sh": ("bash", "sh", "shell"),
    ".cpp": ("cpp", "c++"),
    ".rs": ("rust", "rs"),
    ".patch": ("diff", "patch"),
}
"""What blocks for a file are called, where that is not the file's suffix."""
_ADVICE = ' (allow with "--allow-empty")'
"""What git adds to a complaint, and nobody can follow here."""
_CUT = "\n… cut: the whole diff has {size:,} bytes\n"
_IS_CUT = re.compile(r"\n… cut: the whole diff has [\d,]+ bytes\n\Z")
_FILE = re.compile(r"^(?=--- .*\n\+\+\+ .*\n@@ )", re.M)
"""Where a file begins in a diff."""
_OBEYED = {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"}
_OBEYED |= {"entry_points.txt"}  # by which pytest finds plugins
_REPLACING = {"pytest.py", "pytest", "_pytest", "unittest.py", "unittest"}
"""Files that pytest obeys, wherever they lie, and what Python takes for pytest or unittest if it
lies in the folder itself.
"""
_OPTION = re.compile(
    r"^(addopts|testpaths|python_files|python_classes|python_functions|norecursedirs)\b"
    r".*(?:\n[ \t\]\"'].*)*",
    re.M,
)
_DEFAULTS = {
    "python_files": "test_*.py *_test.py",
    "python_classes": "Test",
    "python_functions": "test",
    "norecursedirs": ".* build dist node_modules venv",
}
"""Options of pytest by which tests are found, and their values where nothing is set."""
_WAYS = list(product(("false", "true"), ("-p1", "-p0"), ((), ("--recount",))))
"""How diffs of LMs are tried: nearly all end their lines as on Unix, where a file may not, some
have no a/ and b/, and many count their lines wrongly.
"""


@dataclass(frozen=True)
class Workplace:
    """Where folders of tasks are made, and what programs and checks in them run in.

    `hidden` is what none of them may read: the tests, and what others answered. `host` is the
    address at which workers of a cluster reach the meter; None without workers.
    """

    sandbox: Sandbox
    root: Path | None = None
    hidden: tuple[Path, ...] = ()
    host: str | None = None

    async def run(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Return what an async function returns, called here or on a worker."""
        if self.host is None:
            return await function(*arguments)
        return await on_cluster(self.sandbox.name, function, arguments)

    @property
    def relays(self) -> bool:
        """Whether a sandbox may be on another machine than the meter."""
        return self.host is not None and self.sandbox.name != NONE

    @contextmanager
    def folder(self, files: Mapping[str, str]) -> Iterator[Path]:
        """A folder with these files, while the block lasts."""
        root = self.root if self.root and self.root.is_dir() else None  # on another machine
        with TemporaryDirectory(dir=root, prefix="task-", ignore_cleanup_errors=True) as place:
            # The diff names its files by the folders that it compares, a/ and b/.
            folder = Path(place).resolve() / "b"
            lay(files, folder)
            yield folder


def place_around(sandbox: Sandbox | None = None) -> Workplace:
    """Where the current task is done; of a program called by itself, a place in this sandbox."""
    return ASKER.get().place or Workplace(sandbox or Sandbox.of(None))


@contextmanager
def workplace(
    sandbox: Sandbox, run: Path, origins: Iterable[str | None], host: str | None = None
) -> Iterator[None]:
    """Let tasks be done below a run's folder in the block; nothing of a killed attempt is left
    there. `origins` are where the tasks come from. With a `host`, workers of a Ray cluster do them.
    """
    if host is not None:
        join_cluster(host)
    run = run.absolute()
    root = run / WORK
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    # A run within a contest or a study: what other programs answered lies above it.
    above = [place for place in (run, *list(run.parents)[:2]) if kinds_in(place)]
    named = [Path(origin).absolute() for origin in origins if origin]
    hidden = (*named, above[-1] if above else run)
    try:
        with asking(place=Workplace(sandbox, root, hidden, host)):
            yield
    finally:
        shutil.rmtree(root, ignore_errors=True)


def lay(files: Mapping[str, str], folder: Path) -> None:
    """Write files into a folder, in place of what is there under their names."""
    folder.mkdir(exist_ok=True)
    for path, text in files.items():
        file = folder / path
        for place in reversed(file.relative_to(folder).parents):
            if (folder / place).is_file():
                (folder / place).unlink()
            (folder / place).mkdir(exist_ok=True)
        if file.is_dir():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        file.write_bytes(text.encode(errors="replace"))  # a reply may hold half a character


def left_in_folder(files: Mapping[str, str], folder: Path) -> tuple[str, str]:
    """Return what a program left in its folder, as a unified diff that git applies: as a row keeps
    it, and whole. Raises CommandError for more than there is room for.
    """
    try:
        left_out = _without_links(folder)
    except OSError as problem:  # of a path that is too long for the system
        raise CommandError(f"what it left cannot be compared ({problem.strerror})") from None
    lay(files, folder.with_name("a"))
    with TemporaryFile() as printed:
        if complaint := _git(folder.parent, *_DIFFER.split(), out=printed.fileno()):
            raise CommandError(f"what it left cannot be compared ({complaint})")
        size = printed.seek(0, os.SEEK_END)
        if size > MOST_DIFF:
            raise CommandError(
                f"it left changes of {size / 1e6:,.0f} MB, and {MOST_DIFF / 1e6:.0f} MB are the "
                "most: let it delete what is not its work"
            )
        printed.seek(0)
        raw = printed.read()
    if not raw:
        return NOTHING, NOTHING
    whole = "".join(f"# left out: {name}\n" for name in left_out)
    try:
        whole += raw.decode()
    except UnicodeDecodeError:
        raise CommandError("it left a text that is not UTF-8: let it write UTF-8") from None
    size = len(whole.encode())
    if size <= MOST_KEPT:
        return whole, whole
    part = whole.encode()[:MOST_KEPT].decode(errors="ignore")  # the cut may split a character
    return part + _CUT.format(size=size), whole


def _without_links(folder: Path) -> list[str]:
    """Delete caches, links, sockets and devices; returns the names of all but the caches."""
    left_out = []
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(place, name)
            mode = path.lstat().st_mode
            if name in CACHES and stat.S_ISDIR(mode):
                shutil.rmtree(path, ignore_errors=True)
            elif name == GIT and stat.S_ISREG(mode):  # of a worktree or a submodule
                path.unlink()
            elif not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                path.unlink()
                left_out.append(_in_line(str(path.relative_to(folder))))
        # os.walk goes into what is left in this list.
        folders[:] = [name for name in folders if Path(place, name).is_dir()]
    return left_out


def _in_line(name: str) -> str:
    """Return a file's name, escaped where it would not be one readable line."""
    if name.isprintable():
        return name
    return ascii(name)


def _git(folder: Path, *words: str, out: int = subprocess.PIPE) -> str:
    """Run git in a folder, which is never taken for a part of a repository around it. Returns its
    complaint, which is empty where all went well.
    """
    # Settings of the user's may change how a diff looks, and its language.
    own = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    own |= {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    ended = subprocess.run(
        ["git", *words],
        cwd=folder,
        env=settings().environment_of({"PATH"}, ()) | own,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    differs = words[0] == "diff" and ended.returncode == 1
    if ended.returncode == 0 or differs:
        return ""
    complaint = ended.stderr.replace("error: ", "").replace(_ADVICE, "").strip()
    return complaint.replace("\n", "; ")[:300] or f"code {ended.returncode}"


def put(answer: str, folder: Path, answer_file: str | None) -> None:
    """Put an answer into a task's folder: a diff is applied, and a text becomes `answer_file`.

    Raises MetricError for an answer that has no place there.
    """
    if answer == NOTHING:
        return
    if _IS_CUT.search(answer):
        raise MetricError("only a part of the answer was kept, since it was too long")
    if answer_file is None or _DIFF.match(answer):
        _apply(answer, folder)
        return
    # The last block: how to run the code, or what it prints, often follows it in blocks without the
    # language of the file.
    lay({answer_file: _blocks(answer, Path(answer_file).suffix)[-1]}, folder)


def put_back(files: Mapping[str, str], folder: Path, answer_file: str | None) -> list[str]:
    """Give the task back its own of the files that tests obey, such as `conftest.py`: one of an
    answer could let every test pass. Returns the names of those that the answer made or changed.
    """
    own = {path: text for path, text in files.items() if _steers(path)}
    found = dict.fromkeys(own)
    for file in folder.rglob("*"):
        path = file.relative_to(folder).as_posix()
        if file.is_file() and _steers(path):
            found[path] = file.read_text(errors="replace")
    changed = [path for path, text in found.items() if own.get(path) != text]
    changed = [path for path in changed if path != answer_file]
    for path in changed:
        (folder / path).unlink(missing_ok=True)
    lay(only(own, changed), folder)
    return sorted(changed)


def _steers(path: str) -> bool:
    parts = path.split("/")
    return parts[-1] in _OBEYED or parts[0] in _REPLACING


def own_options(files: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variable that makes pytest find tests as a task's files say, whatever an answer
    has written into other files that it reads.
    """
    changed = set()
    for name in ("pyproject.toml", "tox.ini", "setup.cfg"):
        for file in folder.rglob(name):
            before = files.get(file.relative_to(folder).as_posix(), "")
            kept = {found.group() for found in _OPTION.finditer(before)}
            for found in _OPTION.finditer(file.read_text(errors="replace")):
                if found.group() not in kept:
                    changed.add(found[1])
    if not changed:
        return {}
    words = []
    for name in sorted(changed):
        words += ["-o", f"{name}={_DEFAULTS.get(name, '')}"]
    return {"PYTEST_ADDOPTS": shlex.join(words)}


def _blocks(text: str, suffix: str) -> list[str]:
    """Return the fenced blocks in the language of a file with this suffix, else all, else the
    text.
    """
    wanted = _LANGUAGES.get(suffix, (suffix[1:],))
    blocks = _FENCED.findall(text)
    fitting = [block for block in blocks if block[2].casefold() in wanted]
    found = []
    for indent, _, _, inside in fitting or blocks:
        found.append(re.sub(rf"^{indent}", "", inside, flags=re.M))
    return found or [f"{text.rstrip()}\n"]


def _apply(answer: str, folder: Path) -> None:
    blocks = [answer]
    if not _DIFF.match(answer):
        blocks = _blocks(answer, ".patch")
    complaint = _try_to_apply("".join(blocks), folder)
    # Blocks may be a diff a file, or one attempt after another.
    if complaint and len(blocks) > 1:
        complaint = _try_to_apply(blocks[-1], folder)
    if complaint:
        raise MetricError(f"the answer is not a diff that can be applied: {complaint}")
    # Not by what the diff says: git reads numbers of modes in many spellings.
    if any(path.is_symlink() for path in folder.rglob("*")):
        raise MetricError("the diff makes a link, which is refused")


def _try_to_apply(diff: str, folder: Path) -> str:
    """Apply a diff in one of the ways; returns the complaint about it where none of them works."""
    if diff.partition("\n")[0].endswith("\r"):  # all line ends were changed on the way here
        diff = diff.replace("\r\n", "\n")
    if not diff.endswith("\n"):  # reading an answer strips it
        diff += "\n"
    if "diff --git " not in diff:
        # When git counts lines again, only such a line tells it that another file begins.
        diff = _FILE.sub("diff -u\n", diff)
    patch = folder.with_name("patch")
    patch.write_bytes(diff.encode(errors="replace"))
    complaints = []
    for ends, prefix, counts in _WAYS:
        # With these names a new file would be made in a folder `b`.
        if prefix == "-p0" and _PREFIXED.search(diff):
            continue
        how = ("-c", f"core.autocrlf={ends}", "apply", "--whitespace=nowarn", prefix, *counts)
        complaint = _git(folder, *how, str(patch))
        if not complaint:
            return ""
        complaints.append(complaint)
    # that of the diff as it is: the other ways fail in words that would puzzle its author
    return complaints[0]
