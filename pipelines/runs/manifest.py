"""`run.json`, the manifest of a run: read, written, and compared, since a folder is only resumed by
the same run.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from ...modules.base.errors import UserError, system_errors
from ...modules.base.files import read_regular
from ...modules.protocols.short_names import short_name
from ..base.journal import as_json, parsed, read_object
from ..base.run_files import Counts, DataSettings, LMFields, Manifest, MetricFields
from ..base.typed import Signed, as_read, misfit
from .folder import MANIFEST as MANIFEST
from .folder import claimed
from .rows import RESULTS
from .summary import SUMMARY

IMPORT = "import.json"  # in a folder with the runs of an import
CONTEST = "contest.json"  # in a folder with the runs of a contest, below `runs`


_NEEDED = ("program", "program_hash", "lms", "data_fingerprint", "questions", "settings")
MOST_RUNS = 9
PACKAGES = ("folkmoot", "dspy", "litellm", "optuna", "mlflow", "torch", "numpy", "xllamacpp")


class OtherRun(UserError):  # noqa: N818
    """A folder holds something else than this run, whose result is none of it."""


def check_kind(folder: Path, file: str) -> None:
    """Raise UserError for a folder that holds another kind of result than the one of this file,
    but for a network's training and test.
    """
    if not {path.name for path in folder.glob("*")} - {file}:
        return
    # Which kinds there are is asked of all packages, which takes a while.
    from ..base.cards import KINDS, kinds_in

    own = KINDS.find(file)
    if own is None:
        return
    for other in kinds_in(folder):
        together = {file, other.file}
        is_test = MANIFEST in together and (own.tested or other.tested)
        if len(together) > 1 and not is_test:
            raise OtherRun(f"{folder} holds {other.what}: choose another --out")


@dataclass(frozen=True)
class RunFolder:
    """A kind of run, and how its folders are compared.

    Args: what: the kind's name, such as `compilation`. file: the JSON file that describes a folder.
    same: the fields of that file that must be equal, each with the words for a difference. others:
    files that, without that file, show that the folder holds something else, each with its name in
    words.
    """

    what: str
    file: str
    same: Mapping[str, str]
    others: Mapping[str, str] = field(default_factory=dict)

    def earlier(self, folder: Path, about: Mapping[str, object]) -> dict[str, Any]:
        """Return the description of an earlier attempt at the same run in the folder; empty for a
        new one. Writes nothing. Raises UserError for a damaged file, another run or foreign files,
        OSError for an unreadable one.
        """
        path = folder / self.file
        check_kind(folder, self.file)
        try:
            written = parsed(read_regular(path))
        except (FileNotFoundError, NotADirectoryError):
            for name, held in self.others.items():
                if (folder / name).exists() and (folder / name).stat().st_size:
                    raise OtherRun(f"{folder} holds {held}: choose another --out") from None
            return {}
        if written is None:
            raise UserError(f"{path} is damaged: choose another --out, or delete the folder")
        now = as_json(about)
        for key, differs in self.same.items():
            if written.get(key) != now.get(key):
                raise OtherRun(
                    f"{folder} holds another {self.what} ({differs}): choose another --out, or "
                    f"delete it"
                )
        return written

    @contextmanager
    def opened(self, folder: Path, about: Mapping[str, object]) -> Iterator[None]:
        """Lock the folder for this process; `about` gets the MLflow run of an earlier attempt, or
        None. Raises UserError as `earlier` and `claimed` do.
        """
        with claimed(folder):
            with system_errors(folder):
                written = self.earlier(folder, about)
            # A run that goes on does so in its own run of MLflow.
            run_id = written.get("mlflow_run_id")
            if not isinstance(run_id, str):
                run_id = None
            cast(dict[str, object], about)["mlflow_run_id"] = run_id
            yield


RUN = RunFolder(
    "run",
    MANIFEST,
    {
        "program_hash": "its program differs",
        "lms": "its LM differs",
        "data_fingerprint": "its data differs",
        "metric": "its metric differs",
    },
    {RESULTS: f"rows but not of which run ({MANIFEST} is missing)"},
)


@cache
def _run_as_read() -> object:
    return as_read(
        Manifest,
        _NEEDED,
        lms=dict[str, as_read(LMFields, ("name",))],  # type: ignore[misc]
        metric=as_read(MetricFields, ("name",), low=Signed | None, high=Signed | None) | None,
        settings=as_read(DataSettings),
        versions=dict[str, str | None],
        judge=dict[str, object],
    )


def read_run(folder: Path) -> Manifest:
    """Read the manifest in a run's folder. Raises UserError where it is missing or damaged."""
    manifest = read_object(folder / MANIFEST)
    if manifest is None:
        one = "the folder of one, as folkmoot runs lists them"
        if any(folder.glob(f"runs/*/{MANIFEST}")):  # as in a contest
            one = f"one of those in {folder / 'runs'}"
        raise UserError(f"{folder} holds no run ({MANIFEST} is missing or damaged): name {one}")
    if wrong := misfit(manifest, _run_as_read()):
        raise UserError(
            f"{folder} holds no run ({wrong} in {MANIFEST} is not valid): name another folder, as "
            "folkmoot runs lists them"
        )
    return Manifest.of(manifest)


def name_of_run(run: Manifest) -> str:
    """Name a run in a few words: by the user's own name for it, else by its program."""
    run = Manifest.of(run)
    settings = run.settings
    return settings.run_name or settings.label or short_name(run.program, settings.demos or 0)


def made_with() -> dict[str, Any]:
    """Collect the versions and the user's commit, which every manifest has."""
    return {"versions": dict(versions()), "git_commit": git_commit()}


@cache
def versions() -> Mapping[str, str]:
    """Return the installed version of Python and of every package that can change a result."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def git_commit() -> str | None:
    """Return the commit of the user's working folder, or None outside a repository."""
    try:
        answer = subprocess.run(
            # On a slow network disk, git may take longer than a run should wait.
            ["git", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    return answer.stdout.strip() or None


def former_runs(out: Path) -> list[tuple[Path, dict[str, object]]]:
    """Return the run in a folder, if any, and the runs beside it, latest first, each with its
    manifest; used for estimates and for suggesting comparisons.
    """
    beside: list[Path] = []
    with suppress(OSError):
        beside = [path.parent for path in out.parent.glob(f"*/{MANIFEST}") if path.parent != out]
        beside.sort(key=lambda folder: -(folder / MANIFEST).stat().st_mtime)
    runs = [(folder, read_object(folder / MANIFEST) or {}) for folder in [out, *beside]]
    # Each manifest is read: the latest few are enough.
    return [(folder, run) for folder, run in runs if "lms" in run][:MOST_RUNS]


def rival_of(folder: Path, run: Manifest) -> Path | None:
    """Return the latest run beside a folder with the same questions and metric, an answer, and
    another program or LM, which did not stop early.
    """
    for other, manifest in former_runs(folder):
        # The same program with the same LMs would be compared with itself.
        same = [manifest.get(name) == run.get(name) for name in ("program_hash", "lms")]
        judged = [manifest.get(name) == run.get(name) for name in ("data_fingerprint", "metric")]
        if other == folder or not all(judged) or all(same):
            continue
        with suppress(OSError, TypeError, ValueError):  # without rows, or damaged
            summary = read_object(other / SUMMARY) or {}
            counts = Counts.of(summary.get("counts") or {})
            answered = (other / RESULTS).stat().st_size and counts.errors < counts.rows
            if answered and summary.get("stopped") is None:
                return other
    return None
