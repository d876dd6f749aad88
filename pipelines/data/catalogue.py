"""The data sets that have a name: kind, splits, licence, and source of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from ...modules.base.errors import UserError, did_you_mean
from ...modules.reading.asked import Kind
from ...signatures.shipped import shipped_yaml
from .aliases import squeezed

SPLIT_ALIASES = {"dev": "validation", "val": "validation", "valid": "validation"}
SAMPLES = Path(__file__).parent / "samples"


@dataclass(frozen=True)
class Hub:
    """A data set's place on the Hugging Face hub: its id, the commit that is read, and the folder
    in it.
    """

    id: str
    revision: str
    folder: str = "data"


@dataclass(frozen=True)
class DatasetSpec:
    """One data set that `load` knows by name.

    `splits` maps each split to its number of questions, None where it is not known. `file` is the
    name of its file in FOLKMOOT_DATA, with `{split}` for the split. `closed_book` drops the
    passage; `evidence` says that a list in `context` holds ids of corpus documents, which no agent
    may see; `balance` names the `meta` field whose values a seeded sample holds in equal numbers;
    `cluster` names the `meta` field that says which questions belong together, by a
    value that they share or by a partner's id.
    """

    name: str
    kind: Kind
    splits: dict[str, int | None]
    default_split: str
    licence: str
    file: str
    aliases: tuple[str, ...] = ()
    hub: Hub | None = None
    url: str | None = None
    closed_book: bool = False
    evidence: bool = False
    balance: str | None = None
    cluster: str | None = None
    shipped: bool = False

    def split(self, wanted: str | None) -> str:
        """Return the split of that name, or the default one. Raises UserError if there is no such
        split.
        """
        name = self.default_split if wanted is None else wanted.casefold()
        split = SPLIT_ALIASES.get(name, name)
        if split not in self.splits:
            raise UserError(
                f"{self.name} has no split {wanted!r}; its splits are {', '.join(self.splits)}"
            )
        return split

    @property
    def source(self) -> str:
        """The source of the rows if they are neither in the package nor in FOLKMOOT_DATA."""
        if self.hub is not None:
            return f"{self.hub.id}@{self.hub.revision[:7]}"
        if self.shipped:
            return "shipped with folkmoot"
        return self.url or f"{self.file.format(split='SPLIT')} in FOLKMOOT_DATA"


@cache
def specs() -> list[DatasetSpec]:
    """Return all data sets that have a name."""
    named = shipped_yaml(__package__, "catalogue.yaml").items()
    fields = [{"name": name, **held} for name, held in named]
    return TypeAdapter(list[DatasetSpec]).validate_python(fields)


@cache
def _by_key() -> Mapping[str, DatasetSpec]:
    # Squeezed, so that `ARC_Challenge` finds arc-challenge.
    return {squeezed(name): spec for spec in specs() for name in (spec.name, *spec.aliases)}


def find(name: str) -> DatasetSpec | None:
    """Return the data set of a name, alias or hub id, or None."""
    return _by_key().get(squeezed(name)) if name else None


def cluster_of(source: str) -> str | None:
    """Return the field by which a data set groups its questions, or None."""
    spec = find(source) or of_file(Path(source))
    return None if spec is None else spec.cluster


def of_file(path: Path) -> DatasetSpec | None:
    """Return the data set whose file has this name (of the samples: this place too); None if there
    is none.

    A passage in the file stays: the closed-book sets are asked for by name.
    """
    for spec in specs():
        names = {spec.file.format(split=split) for split in spec.splits}
        in_place = not spec.shipped or path.absolute().parent == SAMPLES
        if path.name in names and not spec.closed_book and in_place:
            return spec
    return None


def unknown(name: str) -> UserError:
    """Return the error for a name of neither a data set nor a file."""
    names = [spec.name for spec in specs()]
    hint = f"the names are {', '.join(names)}, or give the path of a file"
    return UserError(f"there is no data set or file {name!r}{did_you_mean(name, names)}; {hint}")
