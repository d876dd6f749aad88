"""Pages from a local corpus: by exact title, else the closest by BM25 (Robertson and Zaragoza
2009).
"""

import hashlib
import os
from asyncio import to_thread
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path

from ..base.errors import UserError
from .base import Environment, Page
from .corpus_index import (
    BASE,
    TITLE,
    Document,
    base_key,
    build,
    open_index,
    parse,
    read_jsonl,
    title_key,
    to_document,
)


class CorpusEnvironment(Environment):
    """A corpus of `{"id"?, "title", "text"}`: a JSONL file, or documents in memory.

    `index_dir` keeps the index of a file; building that of a large one takes minutes. Of documents
    with one title the first is kept.

    Raises UserError, naming file and line or the document's number, for a wrong document.
    """

    source = "corpus"

    def __init__(
        self,
        corpus: str | Path | Iterable[Mapping[str, object]],
        *,
        index_dir: str | Path | None = None,
    ) -> None:
        self._file: int | None = None
        self._index_dir = index_dir
        self._documents: list[Document] | None = None
        self._from_file = isinstance(corpus, str | Path)
        self._where = str(corpus) if self._from_file else "corpus"
        if not isinstance(corpus, str | Path):
            self._documents = [
                to_document(row, 0, 0, f"{self._where}, document {number}", str(number))
                for number, row in enumerate(corpus, 1)
            ]
        elif not Path(corpus).is_file():
            raise UserError(
                f"{corpus}: there is no such corpus; name a JSONL file of titles and texts."
            )
        elif index_dir is None:
            self._documents = list(read_jsonl(Path(corpus)))
        else:
            self._index = open_index(Path(corpus), Path(index_dir))
            self._file = os.open(corpus, os.O_RDONLY)
        if self._documents is not None:
            # In memory, a document's start is its index in the list.
            indexed = (
                document._replace(start=index) for index, document in enumerate(self._documents)
            )
            self._index = build(indexed, self._where)

    def __reduce__(self) -> tuple[object, ...]:
        """In another process, the copy opens the same file, or indexes the documents again."""
        corpus: object = str(Path(self._where).absolute())
        if not self._from_file:
            corpus = [document._asdict() for document in self._documents or ()]
        return partial(CorpusEnvironment, index_dir=self._index_dir), (corpus,)

    def __len__(self) -> int:
        return len(self._index)

    @cached_property
    def fingerprint(self) -> str:
        """`corpus:` and the start of the SHA-256 of the file, or of the documents given."""
        if self._from_file:
            with open(self._where, "rb") as file:
                digest = hashlib.file_digest(file, "sha256")
        else:
            digest = hashlib.sha256()
            for document in self._documents or ():
                digest.update(
                    f"{document.title}\x1f{document.text}\x1e".encode("utf-8", "surrogatepass")
                )
        return f"{self.source}:{digest.hexdigest()[:16]}"

    @property
    def text_form(self) -> str | None:
        return f"corpus:{Path(self._where).absolute()}" if self._from_file else None

    async def fetch(self, title: str) -> Page | None:
        """Return the page with this title, in any case, or but for a parenthetical at its end; else
        None.

        "Kiss and Tell" finds "Kiss and Tell (1945 film)" if no other page is called so, and
        "Animorphs (series)" finds "Animorphs"; "Ed Wood (actor)" does not find "Ed Wood (film)".
        """
        document = self._find_titled(title)
        if document is None:
            return None
        return Page(document.title, document.text, f"{self.source}:{document.id}")

    async def closest(self, query: str, n: int) -> list[str]:
        """Return titles that are `query` plus a parenthetical, then those that fit it best."""
        best = await to_thread(self._index.best, query, n)  # slow with millions of documents
        named = [document.title for document in self._find_based(title_key(query))]
        return list(
            dict.fromkeys([*named, *(self._read_document(number).title for number in best)])
        )[:n]

    async def close(self) -> None:
        """Close the corpus file."""
        self._documents = None
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _find_titled(self, title: str) -> Document | None:
        """Return the document that `fetch` finds, or None."""
        key = title_key(title)
        for wanted in dict.fromkeys((key, base_key(key))):
            # The index finds them by hashes, which may be equal by chance.
            candidates = map(self._read_document, self._index.named(TITLE, wanted))
            documents = [found for found in candidates if title_key(found.title) == wanted]
            exact = [document for document in documents if document.title == title]
            if documents:
                return (exact or documents)[0]
        based = self._find_based(key)
        return based[0] if len(based) == 1 else None

    def _find_based(self, key: str) -> list[Document]:
        """Return the documents whose title key is this one plus a parenthetical."""
        return [
            document
            for document in map(self._read_document, self._index.named(BASE, key))
            if base_key(title_key(document.title)) == key
        ]

    def _read_document(self, number: int) -> Document:
        """Return a document by its number in the index."""
        start, length = map(int, self._index.spans[number])
        if self._documents is not None:
            return self._documents[start]
        if self._file is None:
            raise ValueError("The corpus has been closed.")
        # pread has no position to share, so any number of threads may read.
        line = os.pread(self._file, length, start)
        where = f"{self._where}, document {number + 1}: changed since it was indexed"
        return parse(line, start, where, str(number + 1))
