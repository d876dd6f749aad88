"""The data sets known by name: kind, splits, licence, and where each one comes from."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path

from ...modules.base.errors import UserError
from ...modules.reading.answers import Kind

SPLIT_ALIASES = {"dev": "validation", "val": "validation", "valid": "validation"}
SAMPLES = Path(__file__).parent / "samples"


@dataclass(frozen=True)
class Hub:
    """A data set's place on the Hugging Face hub: its id, the commit that is read, and the folder in it."""

    id: str
    revision: str
    folder: str = "data"


@dataclass(frozen=True)
class DatasetSpec:
    """One data set that `load` knows by name.

    `splits` maps each split to its number of questions, None where it is not known. `file` is the name of its
    file in FOLKMOOT_DATA, with `{split}` for the split. `closed_book` drops the passage; `evidence` says
    that a list in `context` holds ids of corpus documents, which no agent may see; `balance` names the
    `meta` field whose values a seeded sample holds in equal numbers; `partner` names the `meta` field with
    the id of a question's partner, which a seeded sample takes along.
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
    partner: str | None = None
    shipped: bool = field(default=False)

    def split(self, wanted: str | None) -> str:
        """The split of that name, or the default one. Raises UserError if there is no such split."""
        split = (
            self.default_split if wanted is None else SPLIT_ALIASES.get(wanted.casefold(), wanted.casefold())
        )
        if split not in self.splits:
            raise UserError(f"{self.name} has no split {wanted!r}; its splits are {', '.join(self.splits)}")
        return split

    @property
    def source(self) -> str:
        """Where the rows come from when they are in neither the package nor FOLKMOOT_DATA."""
        if self.hub is not None:
            return f"{self.hub.id}@{self.hub.revision[:7]}"
        return (
            "shipped with folkmoot"
            if self.shipped
            else self.url or f"{self.file.format(split='SPLIT')} in FOLKMOOT_DATA"
        )


def _sample(kind: Kind) -> DatasetSpec:
    return DatasetSpec(
        name=f"sample-{kind}",
        kind=kind,
        splits={"train": None, "validation": None, "test": None},
        default_split="test",
        licence="Apache-2.0",
        file=f"{kind}-{{split}}.jsonl",
        evidence=True,
        balance="type" if kind == "span" else None,
        shipped=True,
    )


_HOTPOT_LICENCE = "CC BY-SA 4.0"
_BOOLQ = Hub("google/boolq", "35b264d03638db9f4ce671b711558bf7ff0f80d5")
_BOOLQ_SPLITS: dict[str, int | None] = {"train": 9427, "validation": 3270}

SPECS: tuple[DatasetSpec, ...] = (
    DatasetSpec(
        name="commonsenseqa",
        kind="choice",
        splits={"train": 9741, "validation": 1221},  # the answers of its test split were never published
        default_split="validation",
        licence="MIT",
        file="commonsenseqa-{split}.jsonl",
        aliases=("csqa", "tau/commonsense_qa"),
        hub=Hub("tau/commonsense_qa", "94630fe30dad47192a8546eb75f094926d47e155"),
    ),
    DatasetSpec(
        name="arc-challenge",
        kind="choice",
        splits={"train": 1119, "validation": 299, "test": 1172},
        default_split="test",
        licence="CC BY-SA 4.0",
        file="arc-challenge-{split}.jsonl",
        aliases=("arc", "allenai/ai2_arc"),
        hub=Hub("allenai/ai2_arc", "210d026faf9955653af8916fad021475a3f00453", "ARC-Challenge"),
    ),
    DatasetSpec(
        name="gsm8k",
        kind="number",
        splits={"train": 7473, "test": 1319},
        default_split="test",
        licence="MIT",
        file="gsm8k-{split}.jsonl",
        aliases=("openai/gsm8k",),
        hub=Hub("openai/gsm8k", "740312add88f781978c0658806c59bc2815b9866", "main"),
    ),
    DatasetSpec(
        name="gsm1k",
        kind="number",
        splits={"test": 1205},
        default_split="test",
        licence="MIT",
        file="gsm1k-{split}.jsonl",
        aliases=("ScaleAI/gsm1k",),
        hub=Hub("ScaleAI/gsm1k", "bc09569d09a614b9b530edc7f076fb214ac10493"),
    ),
    DatasetSpec(
        name="hotpotqa",
        kind="span",
        splits={"train": 90447, "validation": 7405},
        default_split="validation",
        licence=_HOTPOT_LICENCE,
        file="hotpotqa-{split}.jsonl",
        aliases=("hotpotqa/hotpot_qa",),
        hub=Hub("hotpotqa/hotpot_qa", "1908d6afbbead072334abe2965f91bd2709910ab", "distractor"),
        evidence=True,
        balance="type",
    ),
    DatasetSpec(
        name="hotpotqa-context",
        kind="span",
        splits={"train": 400, "validation": 858},
        default_split="validation",
        licence=_HOTPOT_LICENCE,
        file="hotpotqa-{split}-context.jsonl",
        evidence=True,
        balance="type",
    ),
    DatasetSpec(
        name="scienceqa",
        kind="choice",
        splits={"train": 6508, "validation": 2144, "test": 2224},  # the questions without an image
        default_split="test",
        licence="CC BY-NC-SA 4.0",
        file="scienceqa-{split}.jsonl",
        aliases=("derek-thomas/ScienceQA",),
        hub=Hub("derek-thomas/ScienceQA", "f18b0a70359ebfb41f658fd564208d0355b013f4"),
    ),
    DatasetSpec(
        name="com2sense",
        kind="boolean",
        splits={"train": 1608, "validation": 782},  # the labels of its test split were never published
        default_split="validation",
        licence="none stated",
        file="com2sense-{split}.jsonl",
        url="github.com/PlusLabNLP/Com2Sense@15864a7",
        partner="pair_id",
    ),
    DatasetSpec(
        name="boolq",
        kind="boolean",
        splits=_BOOLQ_SPLITS,
        default_split="validation",
        licence="CC BY-SA 3.0",
        file="boolq-{split}.jsonl",
        aliases=("boolq-closed", "google/boolq"),
        hub=_BOOLQ,
        closed_book=True,
    ),
    DatasetSpec(
        name="boolq-open",
        kind="boolean",
        splits=_BOOLQ_SPLITS,
        default_split="validation",
        licence="CC BY-SA 3.0",
        file="boolq-{split}.jsonl",
        hub=_BOOLQ,
    ),
    _sample("choice"),
    _sample("boolean"),
    _sample("number"),
    _sample("span"),
)


def _key(name: str) -> str:
    """A name without case, dashes and underscores, so that `ARC_Challenge` finds arc-challenge."""
    return re.sub(r"[-_ ]", "", name.casefold())


_BY_KEY = {_key(name): spec for spec in SPECS for name in (spec.name, *spec.aliases)}


def find(name: str) -> DatasetSpec | None:
    """The data set of that name, alias or hub id; None if there is none."""
    return _BY_KEY.get(_key(name))


def of_file(path: Path) -> DatasetSpec | None:
    """The data set whose file has this name (of the samples: this place too); None if there is none.

    A passage in the file stays: the closed-book sets are asked for by name.
    """
    for spec in SPECS:
        names = {spec.file.format(split=split) for split in spec.splits}
        at_home = not spec.shipped or path.resolve().parent == SAMPLES.resolve()
        if path.name in names and at_home and not spec.closed_book:
            return spec
    return None


def unknown(name: str) -> UserError:
    """The error for a name that is no data set and no file."""
    names = [spec.name for spec in SPECS]
    close = difflib.get_close_matches(name.casefold(), names, n=1)
    hint = f"did you mean {close[0]!r}" if close else f"the names are {', '.join(names)}"
    return UserError(f"there is no data set or file {name!r}; {hint}, or give the path of a file")
