"""Finds the rows of a data set: in the package, the data folder, on the hub, or in a file."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ...modules.base.errors import UserError
from ..base.settings import settings
from . import catalogue, hub, tables
from .catalogue import SAMPLES, DatasetSpec

_BARE_NAME = re.compile(r"[\w.-]+")
_SPLIT_FILE = re.compile(r"(.+)-(train|validation|test)\.jsonl")


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `folkmoot datasets`: rows of each split (None: not known), and where each is."""

    name: str
    kind: str | None
    splits: dict[str, int | None]
    default_split: str | None
    licence: str
    source: str
    here: dict[str, str]
    """Split → its place on this machine; missing splits are left out."""


def list_datasets(data_dir: str | Path | None = None) -> list[DatasetInfo]:
    """Return the data sets that `load` knows by name, then the user's own in `data_dir` (default:
    FOLKMOOT_DATA).
    """
    folder = _folder(data_dir)
    infos = [_info(spec, folder) for spec in catalogue.specs()]
    for name, here in _own_files(folder).items():
        places = {split: str(path) for split, path in here.items()}
        splits: dict[str, int | None] = dict.fromkeys(here)
        infos.append(DatasetInfo(name, None, splits, None, "not known", "FOLKMOOT_DATA", places))
    return infos


def _info(spec: DatasetSpec, folder: Path | None) -> DatasetInfo:
    splits, here = dict(spec.splits), {}
    for split in splits:
        path = _local(spec, split, folder)
        if path is not None:
            here[split] = str(path)
            with path.open("rb") as lines:  # a file may hold less than what was published
                splits[split] = sum(not line.isspace() for line in lines)
        elif hub.is_cached(spec, split):
            here[split] = "hub cache"
    return DatasetInfo(
        spec.name, spec.kind, splits, spec.default_split, spec.licence, spec.source, here
    )


def _folder(data_dir: str | Path | None) -> Path | None:
    if data_dir is None:
        folder, name = settings().data, "FOLKMOOT_DATA"
    else:
        folder, name = Path(data_dir).expanduser(), "data_dir"
    if folder is not None and not folder.is_dir():
        raise UserError(f"{name} is '{folder}', which is not a folder; correct it")
    return folder


def _local(spec: DatasetSpec, split: str, folder: Path | None) -> Path | None:
    """Return the file of a split in the package or in the data folder, or None."""
    root = SAMPLES if spec.shipped else folder
    if root is None:
        return None
    path = root / spec.file.format(split=split)
    return path if path.is_file() else None


def rows_of_source(
    source: str | Path, split: str | None, data_dir: str | Path | None
) -> tuple[tables.TableSource, DatasetSpec | None]:
    """Return the rows of a known data set or of a file, and the data set, or None."""
    folder = _folder(data_dir)
    spec = catalogue.find(source) if isinstance(source, str) else None
    if spec is None:
        path, split = _path_of(source, split, folder)
        return tables.read(path, split), catalogue.of_file(path)
    split = spec.split(split)
    known = _local(spec, split, folder)
    if known is not None:
        return tables.read(known), spec
    if spec.name in hub.CONVERTERS:
        return tables.TableSource(f"{spec.name} ({split})", hub.fetch(spec, split)), spec
    raise UserError(
        f"{spec.name} ({split}) is not here; put {spec.file.format(split=split)} into a folder and "
        "set FOLKMOOT_DATA to it"
    )


def _path_of(
    name_or_path: str | Path, split: str | None, folder: Path | None
) -> tuple[Path, str | None]:
    """Return the file of a path, or of the user's own NAME-SPLIT.jsonl, and its split (None: not
    stated). Raises UserError for an address, and for a split that is not there.
    """
    if "://" in str(name_or_path):
        raise UserError(f"{name_or_path} is an address: fetch the file, and give its path")
    path = Path(name_or_path).expanduser()
    is_name = isinstance(name_or_path, str) and _BARE_NAME.fullmatch(name_or_path)
    # A path that does not exist stays one, so that the error is about a missing file.
    if path.exists() or path.suffix or not is_name:
        return path, split
    own = _own_files(folder).get(str(name_or_path))
    if own is None:
        raise catalogue.unknown(str(name_or_path))
    chosen = catalogue.SPLIT_ALIASES.get(split, split) if split else next(iter(own))
    # With several splits and none named, any choice would be a guess.
    if chosen not in own or (split is None and len(own) > 1):
        raise UserError(f"{name_or_path} has the splits {', '.join(own)}; choose one of them")
    return own[chosen], None


def _own_files(folder: Path | None) -> dict[str, dict[str, Path]]:
    """Name → split → path of the files in the data folder that belong to no known data set."""
    own: dict[str, dict[str, Path]] = defaultdict(dict)
    if folder is None:
        return own
    for path in sorted(folder.glob("*.jsonl")):
        match = _SPLIT_FILE.fullmatch(path.name)
        if match and catalogue.find(match[1]) is None:
            own[match[1]][match[2]] = path
    return own
