"""Weights of embedded LMs that not every machine has."""

from __future__ import annotations

import pytest

from folkmoot.pipelines.base.settings import settings
from folkmoot.pipelines.lms.weights import KNOWN


def skip_without_weights(text: str) -> None:
    """Skips the running test if the text names a model that is neither installed nor in the cache."""
    named = [weights for name, weights in KNOWN.items() if f"local/{name}" in text]
    for weights in named:
        if not weights.installed and not (settings().cache / "weights" / weights.file).exists():
            pytest.skip(f"the extra `{weights.extra}` is not installed: make test-qwen")
