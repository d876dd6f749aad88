"""Rows of public data sets from the Hugging Face hub, at pinned commits, converted to our rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, from_extra
from . import tables
from .catalogue import DatasetSpec, Hub
from .tables import TableRow

# Com2Sense is not on the hub; its authors' repository is read at one commit.
_COM2SENSE = "https://raw.githubusercontent.com/PlusLabNLP/Com2Sense/15864a7c0637b950b5f28dc3556f71be01133d47/data/"


def fetch(spec: DatasetSpec, split: str) -> Iterator[TableRow]:
    """Yield the rows of one split, converted; from the local hub cache if they are in it, with no
    network then.

    Only data files are downloaded, never code. Raises UserError, at once, if they cannot be had.
    """
    convert = CONVERTERS[spec.name]
    rows: Iterable[TableRow]
    try:
        if spec.hub is None:
            rows = _com2sense_rows(spec, split)
        else:
            rows = chain.from_iterable(tables.read(file).rows for file in _files(spec.hub, split))
    except UserError:
        raise
    except Exception as error:  # the hub's client raises whatever its HTTP library does
        raise UserError(
            f"{spec.name} ({split}) cannot be fetched from {spec.source} ({type(error).__name__}); "
            f"connect to the network, or put {spec.file.format(split=split)} into a folder and set "
            "FOLKMOOT_DATA to it"
        ) from None
    for index, row in enumerate(rows):
        converted = convert(row.fields, split, index)
        if converted is not None:
            yield TableRow(row.where, converted)


def is_cached(spec: DatasetSpec, split: str) -> bool:
    """Return True if the split, at the pinned commit, is in the local hub cache."""
    with suppress(Exception):
        return spec.hub is not None and bool(_downloaded(spec.hub, split, offline=True))
    return False


def _files(place: Hub, split: str) -> list[Path]:
    """Return all files of a split."""
    with suppress(Exception):  # what was downloaded once needs no network, not even to ask
        return _downloaded(place, split, offline=True)
    return _downloaded(place, split, offline=False)


def _downloaded(place: Hub, split: str, *, offline: bool) -> list[Path]:
    """Return all files of a split. Raises FileNotFoundError for parts that are missing, and what
    the hub's client raises.
    """
    from huggingface_hub import snapshot_download

    pattern = f"{place.folder}/{split}-*.parquet"
    folder = snapshot_download(
        place.id,
        repo_type="dataset",
        revision=place.revision,
        allow_patterns=pattern,
        local_files_only=offline,
    )
    files = sorted(Path(folder).glob(pattern))
    # Names end in `-00000-of-00002`, some with a hash after it; all parts have to be there.
    parts = re.search(r"-of-(\d+)", " ".join(file.name for file in files))
    if not files or (parts and len(files) != int(parts[1])):
        raise FileNotFoundError(pattern)
    return files


def _com2sense_rows(spec: DatasetSpec, split: str) -> list[TableRow]:
    with from_extra("datasets", spec.name):
        import datasets

    rows = datasets.load_dataset(
        "json",
        data_files=f"{_COM2SENSE}{_dev(split)}.json",
        split="train",
        download_config=datasets.DownloadConfig(max_retries=1),
    )
    return [TableRow(f"row {number}", row) for number, row in enumerate(rows, 1)]


def _dev(split: str) -> str:
    return "dev" if split == "validation" else split


def _commonsenseqa(row: dict[str, object], split: str, index: int) -> dict[str, object]:
    return {
        "id": row["id"],
        "question": row["question"],
        "choices": row["choices"],
        "answer": row["answerKey"],
        "meta": {"question_concept": row["question_concept"]},
    }


def _arc_challenge(row: dict[str, Any], split: str, index: int) -> dict[str, object]:
    # Some rows are labelled 1 to 4; A to D like the rest, so that prompts and votes see one
    # alphabet.
    labels = row["choices"]["label"]
    meta = {}
    if labels[0] != "A":
        meta["upstream_labels"] = labels
    return {
        "id": row["id"],
        "question": row["question"],
        "choices": row["choices"]["text"],
        "answer": chr(ord("A") + labels.index(row["answerKey"])),
        "meta": meta,
    }


def _gsm(name: str, row: dict[str, object], split: str, index: int) -> dict[str, object]:
    # Without the way to it; the commas of its thousands go below.
    answer = str(row["answer"]).rpartition("####")[2].strip()
    return {
        "id": f"{name}-{split}-{index:04d}",
        "question": row["question"],
        "answer": answer.replace(",", ""),
    }


def _hotpotqa(row: dict[str, Any], split: str, index: int) -> dict[str, object]:
    named = f"hotpotqa-{split}-{row['id']}"
    if split == "validation":
        named = f"hotpotqa-dev-{index:04d}"
    # The paragraphs that come with a row are left out: agents must find the evidence themselves.
    return {
        "id": named,
        "question": row["question"],
        "answer": row["answer"],
        "meta": {
            "type": row["type"],
            "level": row["level"],
            "hotpot_id": row["id"],
            "supporting_titles": list(dict.fromkeys(row["supporting_facts"]["title"])),
        },
    }


def _scienceqa(row: dict[str, Any], split: str, index: int) -> dict[str, object] | None:
    # A question about a picture cannot be asked in text.
    if row["image"] is not None:
        return None
    question, hint = row["question"], row["hint"].strip()
    meta = {name: row[name] for name in ("subject", "topic", "category", "skill")}
    meta["grade"] = int(row["grade"].removeprefix("grade"))
    if hint:
        question += f"\n{hint}"
        meta["hint"] = hint
    return {
        "id": f"scienceqa-{split}-{index}",
        "question": question,
        "choices": row["choices"],
        "answer": chr(ord("A") + row["answer"]),
        "meta": meta,
    }


def _com2sense(row: dict[str, Any], split: str, index: int) -> dict[str, object]:
    meta = {name: row[name] for name in ("domain", "scenario", "numeracy")}
    return {"id": row["id"], "question": row["sent"].strip(), "answer": row["label"], "meta": meta}


def _boolq(row: dict[str, Any], split: str, index: int) -> dict[str, object]:
    return {
        "id": f"boolq-{_dev(split)}-{index:04d}",
        "question": row["question"].rstrip("?") + "?",
        "answer": "yes" if row["answer"] else "no",
        "context": row["passage"],
    }


CONVERTERS: dict[str, Callable[[dict[str, Any], str, int], dict[str, object] | None]] = {
    "commonsenseqa": _commonsenseqa,
    "arc-challenge": _arc_challenge,
    "gsm8k": partial(_gsm, "gsm8k"),
    "gsm1k": partial(_gsm, "gsm1k"),
    "hotpotqa": _hotpotqa,
    "scienceqa": _scienceqa,
    "com2sense": _com2sense,
    "boolq": _boolq,
    "boolq-open": _boolq,
}
"""The converter from published rows to folkmoot's, for each data set that can be downloaded."""
