"""Outcomes for tests: planted and recorded ones as tables, embeddings without a model."""

import hashlib
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from folkmoot.pipelines.data.embeddings import Embedder

CHANCES = {
    "cot": {"sums": 0.9, "rivers": 0.2},
    "self_ask": {"sums": 0.2, "rivers": 0.9},
    "zero_shot": {"sums": 0.5, "rivers": 0.5},
}
"""How often each strategy is right on the questions of each planted group."""

WORDS = {"sums": "add number sum total plus", "rivers": "river bank water source delta"}


def planted(
    n: int, seed: int, *, strategies: bool = True, agents: Sequence[str] = ("m",)
) -> list[dict[str, Any]]:
    """Outcome rows of n questions; `cot` or `self_ask` is mostly right, as their words tell."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        group = rng.choice(list(WORDS))
        words = " ".join(rng.choices(WORDS[group].split(), k=4))
        for agent in agents:
            for strategy, chances in CHANCES.items():
                right = rng.random() < chances[group]
                answer = "right" if right else rng.choice(["a", "b", "c", None])
                who = {"agent": agent if strategies else strategy}
                who["strategy"] = strategy if strategies else None
                asked = {"question_id": f"{seed}-{i}", "question": f"{words} {seed}-{i}?"}
                rows.append({**asked, "group": group, **who, "answer": answer, "correct": right})
    return rows


def words_of(texts: Sequence[str]) -> np.ndarray:
    """Vectors (n, 32) that add up each word's own direction, of length 1."""
    rows = []
    for text in texts:
        total = np.full(32, 1e-3)
        for word in text.split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
            scale = 1.0 if word.isalpha() else 0.1
            total += np.random.default_rng(seed).standard_normal(32) * scale
        rows.append(total / np.linalg.norm(total))
    return np.array(rows, dtype=np.float32)


def embed_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every embedding model of this process be `words_of`."""
    monkeypatch.setattr(Embedder, "_encode", lambda self, texts: words_of(texts))
