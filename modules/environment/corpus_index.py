"""The index of a corpus: which document has a title and which fit a query; built once, then
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
from difflib import get_close_matches
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import UserError
from ..base.fence import one_line
from ..base.files import locked, write_whole

KIND = f"1, bm25s {version('bm25s')}"
"""The kind of index written here; others are built anew.

The number goes up when the files or the terms below change. Another version of the library may
score or store differently, so it counts too.
"""

MOST_WORDS = 200_000
ALIKE = 0.75
META = "meta.json"
_ARRAYS = ("title_keys", "title_documents", "base_keys", "base_documents", "spans")
_WORD = re.compile(r"[^\W_]+")
_ACCENT = re.compile("[\u0300-\u036f]+")
_PARENTHETICAL = re.compile(r"\s*\([^()]*\)$")


class Document(NamedTuple):
    """One paragraph: where it stands (bytes of its file, or place in a list), its name and what it
    says.
    """

    start: int
    length: int
    id: str
    title: str
    text: str


def terms(text: str) -> list[str]:
    """What `text` is searched by: its words in lower case, without accents, stop words and plural
    endings.
    """
    text = text.lower()
    if not text.isascii():
        text = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    stop = _stop_words()
    return [_singular(word) for word in _WORD.findall(text) if word not in stop]


@cache
def _stop_words() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN  # brings half of SciPy

    return frozenset(STOPWORDS_EN)


def _singular(word: str) -> str:
    if len(word) < 4 or word[-1] != "s" or word.endswith(("ss", "us", "is")):
        return word
    return word[:-3] + "y" if word.endswith("ies") else word[:-1]


def title_key(title: str) -> str:
    """`title` as titles are matched: case and white space do not count."""
    return one_line(unicodedata.normalize("NFKC", title)).casefold()


def base_key(key: str) -> str:
    """A title key without its trailing parenthetical, "kiss and tell (1945 film)" -> "kiss and
    tell".
    """
    return _PARENTHETICAL.sub("", key) or key


class _Posting(NamedTuple):
    documents: np.ndarray[Any, Any]
    scores: np.ndarray[Any, Any]
    most: float


@dataclass(frozen=True)
class CorpusIndex:
    """An index over n documents, numbered in file order.

    `title_keys` (sorted, uint64) holds a hash of each title key and `title_documents` the number of
    the document; `base_keys` and `base_documents` likewise for titles with a parenthetical, keyed
    without it. Equal hashes do not prove equal titles: the reader checks. `spans` (n, 2) holds
    first byte and length. `duplicates` counts the documents left out because an earlier one has
    their title.
    """

    bm25: Any
    title_keys: np.ndarray[Any, Any]
    title_documents: np.ndarray[Any, Any]
    base_keys: np.ndarray[Any, Any]
    base_documents: np.ndarray[Any, Any]
    spans: np.ndarray[Any, Any]
    duplicates: int

    def __len__(self) -> int:
        return len(self.spans)

    def titled(self, key: str) -> list[int]:
        """Documents that may have this title key, in file order."""
        return _equal(self.title_keys, self.title_documents, key)

    def based(self, key: str) -> list[int]:
        """Documents whose title may be this key plus a parenthetical, in file order."""
        return _equal(self.base_keys, self.base_documents, key)

    def spelled(self, query: str) -> str:
        """The query with each word as the corpus spells the most similar one, without those unlike
        any.

        Empty for a corpus of more than MOST_WORDS different words, where this would take seconds.
        """
        words = self.bm25.vocab_dict
        if len(words) > MOST_WORDS:
            return ""
        found = [get_close_matches(term, words, 1, ALIKE) for term in terms(query)]
        return " ".join(word for close in found for word in close)

    def best(self, query: str, n: int) -> list[int]:
        """At most `n` documents that share a term with `query`, best BM25 score first, ties by
        number.

        Terms are added up from the most to the least telling. As soon as what the others can add is
        less than lies between the n-th best document and one without any score yet, only documents
        that can still be among the best go on ("max score", Turtle and Flood 1995): the common
        words of a question, which most documents have, are hardly read.
        """
        wanted = self.bm25.get_tokens_ids(terms(query))
        if not wanted or n < 1:
            return []
        postings = [self._posting(term) for term in wanted]
        postings.sort(key=lambda posting: -posting.most)
        rest = sum(posting.most for posting in postings)
        scores = np.zeros(len(self), dtype=np.float32)
        least = 0.0
        candidates = None
        for posting in postings:
            if candidates is None and rest < least:
                candidates = np.flatnonzero(scores >= least - rest)
            rest -= posting.most
            if candidates is None:
                scores[posting.documents] += posting.scores  # no document stands twice in a posting
                reached = scores[posting.documents]
            else:
                places = np.searchsorted(posting.documents, candidates)
                places[places == len(posting.documents)] = 0
                has = posting.documents[places] == candidates
                scores[candidates[has]] += posting.scores[places[has]]
                reached = scores[candidates]
            if n <= len(reached):
                # A little less, so that no rounding drops a document that ties with the n-th.
                least = max(least, float(np.partition(reached, -n)[-n]) * (1 - 1e-5))
            if candidates is not None:
                candidates = candidates[reached >= least - rest]
        if candidates is None:
            candidates = np.flatnonzero(scores >= least if least > 0 else scores > 0)
        return [int(i) for i in candidates[np.argsort(-scores[candidates], kind="stable")][:n]]

    def _posting(self, term: int) -> "_Posting":
        """The documents that have a term, in ascending order, and what it adds to the score of
        each.
        """
        arrays = self.bm25.scores
        span = slice(int(arrays["indptr"][term]), int(arrays["indptr"][term + 1]))
        scores = arrays["data"][span]
        return _Posting(arrays["indices"][span], scores, float(scores.max(initial=0)))


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")


def _equal(keys: np.ndarray[Any, Any], documents: np.ndarray[Any, Any], key: str) -> list[int]:
    hashed = np.uint64(_hash(key))
    return [
        int(i)
        for i in documents[np.searchsorted(keys, hashed) : np.searchsorted(keys, hashed, "right")]
    ]


def build(documents: Iterable[Document], where: str) -> CorpusIndex:
    """Index `documents`, keeping the first of those with the same title (case counts, white space
    does not).

    Title and text are searched, the title counting twice. Raises UserError, naming `where`,
    when there are none.
    """
    vocabulary = {"": 0}
    rows: list[array[int]] = []
    seen: set[bytes] = set()
    spans, titles, bases, based = array("q"), array("Q"), array("Q"), array("q")
    duplicates = 0
    for document in documents:
        digest = hashlib.blake2b(document.title.encode(), digest_size=16).digest()
        if digest in seen:
            duplicates += 1
            continue
        seen.add(digest)
        key = title_key(document.title)
        titles.append(_hash(key))
        if (base := base_key(key)) != key:
            bases.append(_hash(base))
            based.append(len(rows))
        spans.extend((document.start, document.length))
        # Terms are never blank, so a document of "" alone fits no query; one of nothing has no mean
        # length.
        words = terms(document.title) * 2 + terms(document.text) or [""]
        rows.append(array("i", [vocabulary.setdefault(word, len(vocabulary)) for word in words]))
    if not rows:
        raise UserError(f"{where}: the corpus has no documents; give it at least one.")
    import bm25s

    bm25 = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
    bm25.index((rows, vocabulary), show_progress=False)
    title_keys, title_documents = _sorted(titles, np.arange(len(rows)))
    base_keys, base_documents = _sorted(bases, np.array(based, dtype=np.int64))
    return CorpusIndex(
        bm25,
        title_keys,
        title_documents,
        base_keys,
        base_documents,
        np.array(spans, dtype=np.int64).reshape(-1, 2),
        duplicates,
    )


def _sorted(
    keys: "array[int]", documents: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    hashed = np.array(keys, dtype=np.uint64)
    order = np.argsort(hashed, kind="stable")
    return hashed[order], documents[order]


def read_jsonl(path: Path) -> Iterator[Document]:
    """The documents of a JSONL file of `{"id"?, "title", "text"}`, one a line; blank lines are
    passed over.

    Raises UserError, naming file and line, for a line that is no such document.
    """
    start = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield parse(line, start, f"{path}, line {number}", str(number))
            start += len(line)


def parse(line: bytes, start: int, where: str, default_id: str) -> Document:
    """The document on one line, its title on one line and without invisible characters.

    Raises UserError, naming `where`, if there is none.
    """
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{where}: this is not a line of JSON ({error}); write one object with title and "
            f"text per line."
        ) from None
    return to_document(row, start, len(line), where, default_id)


def to_document(row: object, start: int, length: int, where: str, default_id: str) -> Document:
    """A document from a decoded row. Raises UserError, naming `where`, if title or text is not
    there.
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
    """The index of the corpus at `path`, from `index_dir` if it is there, else built and kept
    there.

    An index belongs to the content (sha256) of a file; the file is not hashed again while its
    place, size and time of change stay the same. A damaged index is built anew. Of several
    processes one builds and the others wait. Raises UserError for a bad line, a file that changes
    meanwhile, or a folder that cannot be written.
    """
    try:
        if (index := _unchanged(path, index_dir)) is not None:
            return index
        index_dir.mkdir(parents=True, exist_ok=True)
        with locked(index_dir):
            return _shared_or_built(path, index_dir)
    except OSError as error:
        place, reason = error.filename or index_dir, error.strerror or error
        raise UserError(
            f"{place}: cannot read the corpus or keep its index ({reason}); make room or name "
            f"another folder."
        ) from error


def _file(path: Path) -> dict[str, Any]:
    stat = path.stat()
    return {"path": str(path.resolve()), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _unchanged(path: Path, index_dir: Path) -> CorpusIndex | None:
    file = _file(path)
    for meta in index_dir.glob(f"bm25-*/{META}"):
        try:
            same = json.loads(meta.read_bytes())["file"] == file
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if same and (index := load_index(meta.parent)) is not None:
            return index
    return None


def _shared_or_built(path: Path, index_dir: Path) -> CorpusIndex:
    if (index := _unchanged(path, index_dir)) is not None:  # built while this process waited
        return index
    # whoever left it has died: nobody else holds the lock
    for stale in index_dir.glob(".building-*"):
        shutil.rmtree(stale, ignore_errors=True)
    file = _file(path)
    with path.open("rb") as opened:
        content = hashlib.file_digest(opened, "sha256").hexdigest()
    folder = index_dir / f"bm25-{hashlib.sha256(f'{content} {KIND}'.encode()).hexdigest()[:24]}"
    building = index_dir / f".building-{os.getpid()}"
    building.mkdir()
    try:
        index = load_index(folder)
        if index is not None:  # the same content under another name or time: remember those
            meta = json.loads((folder / META).read_bytes())
            write_whole(folder / META, json.dumps({**meta, "file": file}), sync=True)
            return index
        index = build(read_jsonl(path), str(path))
        if _file(path) != file:
            raise UserError(
                f"{path}: the corpus changed while it was being indexed; start again once it is "
                f"done."
            )
        save_index(index, building, {"kind": KIND, "file": file, "sha256": content})
        shutil.rmtree(folder, ignore_errors=True)
        building.rename(folder)
        _sync(index_dir)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    kept = load_index(folder)  # mapped, so that the arrays just built can be given back
    return index if kept is None else kept


def save_index(index: CorpusIndex, folder: Path, about: dict[str, Any]) -> None:
    """Write `index` to an empty folder as JSON and npy files; META, with every file's size, comes
    last.
    """
    index.bm25.save(folder, allow_pickle=False, show_progress=False)
    for name in _ARRAYS:
        np.save(folder / f"{name}.npy", getattr(index, name), allow_pickle=False)
    sizes = {}
    for file in sorted(folder.iterdir()):
        _sync(file)
        sizes[file.name] = file.stat().st_size
    meta = {**about, "documents": len(index), "duplicates": index.duplicates, "files": sizes}
    write_whole(folder / META, json.dumps(meta), sync=True)
    _sync(folder)


def load_index(folder: Path) -> CorpusIndex | None:
    """The index kept in `folder`, its arrays mapped; None if missing, damaged or of another
    kind.
    """
    import bm25s

    try:
        meta = json.loads((folder / META).read_bytes())
        if meta["kind"] != KIND:
            return None
        if any((folder / name).stat().st_size != size for name, size in meta["files"].items()):
            return None
        bm25 = bm25s.BM25.load(
            folder, mmap=True, load_corpus=False, allow_pickle=False, show_progress=False
        )
        titles, titled, bases, based, spans = (
            np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS
        )
        index = CorpusIndex(bm25, titles, titled, bases, based, spans, meta["duplicates"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None
    return index if len(index) == meta["documents"] == bm25.scores["num_docs"] else None


def _sync(path: Path) -> None:
    # A rename can reach the disk before the content does: after a power cut the sizes would be
    # right, the
    # bytes zero.
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
