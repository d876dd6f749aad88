"""The index of a corpus: it finds documents by title and by query. It is built once, then
memory-mapped.
"""

import hashlib
import json
import os
import re
import shutil
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.errors import UserError
from ..base.fence import one_line
from ..base.files import locked, write_whole

if TYPE_CHECKING:
    from bm25s import BM25

KIND = f"2, bm25s {version('bm25s')}"
"""The version of the index; indexes of other versions are rebuilt.

Increase the number when the files or the terms below change. The version of the library is a part,
since another one may score or store differently.
"""

META = "meta.json"
TITLE, BASE = "title ", "base "
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")
Array = npt.NDArray[np.generic]
_ARRAYS = ("names", "numbers", "spans")
_WORD = re.compile(r"[^\W_]+")
_ACCENT = re.compile("[\u0300-\u036f]+")
_PARENTHETICAL = re.compile(r"\s*\([^()]*\)$")


class Document(NamedTuple):
    """A document, and its position: `start` and `length` in bytes of its file, or `start` as index
    in a list.
    """

    start: int
    length: int
    id: str
    title: str
    text: str


def terms(text: str) -> list[str]:
    """Return the terms of a text for search: its words in lower case, without accents, stop words
    and plural endings.
    """
    text = text.lower()
    if not text.isascii():
        text = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    stop = _stop_words()
    return [_singular(word) for word in _WORD.findall(text) if word not in stop]


@cache
def _stop_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN  # slow to import: half of SciPy comes with it

    return frozenset(STOPWORDS_EN)


def _singular(word: str) -> str:
    # "gas", "glass", "virus" and "crisis" are no plurals.
    if len(word) < 4 or word[-1] != "s" or word.endswith(("ss", "us", "is")):
        return word
    return word[:-3] + "y" if word.endswith("ies") else word[:-1]


def title_key(title: str) -> str:
    """Return the key of a title: titles that differ only in case or white space have the same."""
    return one_line(unicodedata.normalize("NFKC", title)).casefold()


def base_key(key: str) -> str:
    """Return a title key without its trailing parenthetical: of "kiss and tell (1945 film)",
    "kiss and tell".
    """
    return _PARENTHETICAL.sub("", key) or key


@dataclass(frozen=True)
class CorpusIndex:
    """An index over n documents, numbered in file order.

    `names` (sorted, uint64) holds hashes of title keys, and of title keys without their
    parenthetical where they have one; `numbers` holds the document of each. Equal hashes do not
    prove equal titles: the reader checks. `spans` (n, 2) holds first byte and length.
    """

    bm25: "BM25"
    names: Array
    numbers: Array
    spans: Array

    def __len__(self) -> int:
        return len(self.spans)

    def named(self, kind: str, key: str) -> list[int]:
        """Return the documents, in file order, that may have this title key (TITLE), or a title
        that is this key plus a parenthetical (BASE).
        """
        hashed = np.uint64(_hash(kind, key))
        start, end = (np.searchsorted(self.names, hashed, side) for side in SIDES)
        return [int(number) for number in self.numbers[start:end]]

    def best(self, query: str, n: int) -> list[int]:
        """Return at most `n` documents that share a term with `query`, by BM25 score, then by
        number.
        """
        wanted = self.bm25.get_tokens_ids(terms(query))
        if not wanted or n < 1:
            return []
        scores = self.bm25.get_scores_from_ids(wanted)
        # Sorting all scores would be slow: only those from the n-th best on are sorted.
        least = np.partition(scores, -n)[-n] if n < len(scores) else 0
        among = np.flatnonzero((scores >= least) & (scores > 0))
        return [int(i) for i in among[np.argsort(-scores[among], kind="stable")][:n]]


def _hash(kind: str, key: str) -> int:
    text = f"{kind}{key}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def build(documents: Iterable[Document], where: str) -> CorpusIndex:
    """Return an index of the titles, which count twice, and texts of documents. Of documents with
    the same title, case included, the first is kept.

    Raises UserError, naming `where`, when there are none.
    """
    vocabulary = {"": 0}
    rows: list[array[int]] = []
    seen: set[bytes] = set()
    spans, hashes, named = array("q"), array("Q"), array("q")
    for document in documents:
        digest = hashlib.blake2b(document.title.encode(), digest_size=16).digest()
        if digest in seen:
            continue
        seen.add(digest)
        key = title_key(document.title)
        names = [_hash(TITLE, key)]
        if (base := base_key(key)) != key:
            names.append(_hash(BASE, base))
        hashes.extend(names)
        named.extend([len(rows)] * len(names))
        spans.extend((document.start, document.length))
        # A document without terms has no length, so it gets the term "", which no query has.
        words = terms(document.title) * 2 + terms(document.text) or [""]
        rows.append(array("i", [vocabulary.setdefault(word, len(vocabulary)) for word in words]))
    if not rows:
        raise UserError(f"{where}: the corpus has no documents; give it at least one.")
    import bm25s

    bm25 = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
    bm25.index((rows, vocabulary), show_progress=False)
    names_of = np.array(hashes, dtype=np.uint64)
    order = np.argsort(names_of, kind="stable")
    places = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return CorpusIndex(bm25, names_of[order], np.array(named, dtype=np.int64)[order], places)


def read_jsonl(path: Path) -> Iterator[Document]:
    """Yield the documents of a JSONL file of `{"id"?, "title", "text"}`, one per line; blank lines
    are skipped.

    Raises UserError, naming file and line, for a line that is not such a document.
    """
    start = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield parse(line, start, f"{path}, line {number}", str(number))
            start += len(line)


def parse(line: bytes, start: int, where: str, default_id: str) -> Document:
    """Return the document in a line of JSON, its title on one line and without invisible
    characters.

    Raises UserError, naming `where`, if the line is not a document.
    """
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{where}: this is not a line of JSON ({error}); "
            "write one object with title and text per line."
        ) from None
    return to_document(row, start, len(line), where, default_id)


def to_document(row: object, start: int, length: int, where: str, default_id: str) -> Document:
    """Return the document in a decoded row. Raises UserError, naming `where`, if title or text is
    missing.
    """
    if not isinstance(row, Mapping):
        raise UserError(
            f"{where}: expected an object with title and text, found {type(row).__name__}."
        )
    for name in ("title", "text"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise UserError(
                f'{where}: "{name}" is missing, blank or not a string; give each document one.'
            )
    if not (title := one_line(row["title"])):
        raise UserError(
            f'{where}: "title" has nothing but invisible characters; give each document one.'
        )
    return Document(start, length, one_line(str(row.get("id", default_id))), title, row["text"])


def open_index(path: Path, index_dir: Path) -> CorpusIndex:
    """Return the index of the corpus at `path`, from `index_dir`; build and save it first if it is
    missing, damaged, or of a file with another size or time of change.

    Of several processes one builds and the others wait. Raises UserError for a bad line, a file
    that changes meanwhile, or a folder that cannot be written.
    """
    try:
        state = path.stat()
        file = {"path": str(path.resolve()), "size": state.st_size, "time": state.st_mtime_ns}
        named = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:24]
        folder = index_dir / f"bm25-{named}"
        if (index := load_index(folder, file)) is not None:
            return index
        index_dir.mkdir(parents=True, exist_ok=True)
        with locked(index_dir):
            if (index := load_index(folder, file)) is not None:  # built while this process waited
                return index
            return _build(path, folder, file)
    except OSError as error:
        place, reason = error.filename or index_dir, error.strerror or error
        raise UserError(
            f"{place}: cannot read the corpus or keep its index ({reason}); "
            "make room or name another folder."
        ) from error


def _build(path: Path, folder: Path, file: dict[str, object]) -> CorpusIndex:
    """Build the index of a corpus, save it in the folder and return it. A process that dies leaves
    no half of a folder. Raises UserError if the corpus changes meanwhile.
    """
    building = folder.with_name(".building")
    # A process that died may have left one.
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        index = build(read_jsonl(path), str(path))
        state = path.stat()
        if (state.st_size, state.st_mtime_ns) != (file["size"], file["time"]):
            raise UserError(
                f"{path}: the corpus changed while it was being indexed; "
                "start again once it is done."
            )
        save_index(index, building, file)
        shutil.rmtree(folder, ignore_errors=True)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    kept = load_index(folder, file)  # memory-mapped: the arrays just built can be freed
    return index if kept is None else kept


def save_index(index: CorpusIndex, folder: Path, file: dict[str, object]) -> None:
    """Write `index` to an empty folder as JSON and npy files; META, with every file's size, is
    written last.
    """
    index.bm25.save(folder, allow_pickle=False, show_progress=False)
    for name in _ARRAYS:
        np.save(folder / f"{name}.npy", getattr(index, name), allow_pickle=False)
    sizes = {entry.name: entry.stat().st_size for entry in folder.iterdir()}
    # Without it, META could outlive a power cut, and the bytes of the other files not.
    os.sync()
    meta = {"kind": KIND, "file": file, "files": sizes}
    write_whole(folder / META, json.dumps(meta), sync=True)


def load_index(folder: Path, file: dict[str, object]) -> CorpusIndex | None:
    """Return the saved index of this file, memory-mapped; None if it is missing, damaged or of
    another version.
    """
    import bm25s

    try:
        meta = json.loads((folder / META).read_bytes())
        sizes = {name: (folder / name).stat().st_size for name in meta["files"]}
        if (meta["kind"], meta["file"], meta["files"]) != (KIND, file, sizes):
            return None
        bm25 = bm25s.BM25.load(
            folder, mmap=True, load_corpus=False, allow_pickle=False, show_progress=False
        )
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
        index = CorpusIndex(bm25=bm25, **arrays)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None
    return index if len(index) == bm25.scores["num_docs"] else None
