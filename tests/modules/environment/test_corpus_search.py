"""Search over a corpus: what is skipped for speed never changes what is found."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from folkmoot.modules.environment.corpus_index import CorpusIndex, Document, build, terms

RARE = [f"rare{i}" for i in range(40)]
COMMON = ["river", "town", "king", "film", "band"]


def plain_best(index: CorpusIndex, query: str, n: int) -> list[int]:
    """All scores added up, then sorted: what `best` finds without reading everything."""
    wanted = index.bm25.get_tokens_ids(terms(query))
    if not wanted or n < 1:
        return []
    scores = np.zeros(len(index), dtype=np.float64)
    for term in wanted:
        start, end = index.bm25.scores["indptr"][term : term + 2]
        scores[index.bm25.scores["indices"][start:end]] += index.bm25.scores["data"][start:end]
    order = np.argsort(-np.round(scores, 4), kind="stable")
    return [int(i) for i in order[:n] if scores[i] > 0]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_best_are_those_of_a_full_search(data: st.DataObject) -> None:
    words = st.sampled_from(COMMON * 6 + RARE)
    texts = data.draw(st.lists(st.lists(words, min_size=1, max_size=8), min_size=1, max_size=80))
    documents = [
        Document(i, 0, str(i), f"Title{i}", " ".join(text)) for i, text in enumerate(texts)
    ]
    index = build(documents, "test")
    query = " ".join(data.draw(st.lists(st.sampled_from(COMMON + RARE), max_size=8)))
    n = data.draw(st.integers(0, 6))
    scores = plain_best(index, query, len(texts))
    found = index.best(query, n)
    # Sums that differ in the last bits may change places; the set of scores may not.
    assert len(found) == min(n, len(scores))
    value = {document: place for place, document in enumerate(scores)}
    assert set(found) <= set(value)
    assert rounded(index, query, found) == rounded(index, query, scores[:n])


def rounded(index: CorpusIndex, query: str, documents: list[int]) -> list[float]:
    scores = (
        index.bm25.get_scores_from_ids(index.bm25.get_tokens_ids(terms(query))) if documents else []
    )
    return [round(float(scores[document]), 3) for document in documents]


def test_equal_documents_stand_in_their_order_also_where_most_is_skipped() -> None:
    texts = ["rare river town", *["river town king"] * 3000, *["rare river town"] * 5]
    documents = [Document(i, 0, str(i), f"T{i}", text) for i, text in enumerate(texts)]
    index = build(documents, "test")
    assert index.best("rare river town king", 4) == [0, 3001, 3002, 3003]
    assert index.best("rare river town", 100)[:6] == [0, 3001, 3002, 3003, 3004, 3005]
    assert index.best("river", 3) == [0, 1, 2]
    assert index.best("river river", 3) == [0, 1, 2]
