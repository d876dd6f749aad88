"""Where embedding models are looked for; where there is none, one sentence says so at once."""

import stat
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any, ClassVar

import httpx
import huggingface_hub
import numpy as np
import pytest

from folkmoot.pipelines.data.embeddings import Embedder


class Model:
    """Stands in for a sentence-transformers model, and notes how it was loaded."""

    loaded: ClassVar[list[tuple[str, bool]]] = []

    def __init__(self, name: str, *, local_files_only: bool, **_: Any) -> None:
        self.loaded.append((name, local_files_only))

    def encode(self, texts: list[str], **_: Any) -> Any:
        return np.ones((len(texts), 3), dtype=np.float32)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models asked of the hub, which cannot be reached; nothing was fetched before."""
    asked: list[str] = []

    def away(self: Any, name: str, **_: Any) -> None:
        asked.append(name)
        raise httpx.ConnectError("no way to the hub")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", away)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    package = ModuleType("sentence_transformers")  # the true one's import takes seconds
    package.__spec__ = find_spec("sentence_transformers")
    monkeypatch.setattr(package, "SentenceTransformer", Model, raising=False)
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    monkeypatch.setattr(Model, "loaded", [])
    return asked


def test_what_was_fetched_before_needs_no_hub(hub, tmp_path, monkeypatch):
    def cached(repo: str, name: str) -> str | None:
        return "/some/blob" if (repo, name) == ("me/own", "model.safetensors") else None

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", cached)
    assert Embedder("me/own", cache=tmp_path)(["x"]).shape == (1, 3)
    assert Model.loaded == [("me/own", True)]
    assert not hub


def test_a_vector_is_computed_once_on_a_machine(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: "/some/blob")
    encoded: list[str] = []

    def encode(self: Any, texts: list[str], **_: Any) -> Any:
        encoded.extend(texts)
        return np.array([[len(text), 1] for text in texts], dtype=np.float32)

    monkeypatch.setattr(Model, "encode", encode)
    for _ in range(2):
        found = Embedder("me/own", cache=tmp_path)(["a", "bb", "a"])
        assert found.tolist() == [[1, 1], [2, 1], [1, 1]]
    Embedder("me/other", cache=tmp_path)(["a"])
    assert encoded == ["a", "bb", "a"]
    assert stat.S_IMODE((tmp_path / "vectors.sqlite").stat().st_mode) == 0o600
    (tmp_path / "vectors.sqlite").write_bytes(b"no database " * 1000)
    with pytest.warns(RuntimeWarning, match="the vector cache .* vectors are made again"):
        assert Embedder("me/own", cache=tmp_path)(["a"]).tolist() == [[1, 1]]
