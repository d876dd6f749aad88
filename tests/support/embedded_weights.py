"""Weights of embedded LMs that not every machine has."""

import pytest

from folkmoot.pipelines.base.settings import settings
from folkmoot.pipelines.lms.weights import KNOWN

KEPT = settings().cache / "weights"
"""Where `folkmoot lms get` puts them for who runs the tests, which have their own cache."""


def skip_without_weights(text: str) -> None:
    """Let the running test use the weights of a text's models; skip it where one is not here."""
    for name, known in KNOWN.items():
        if f"local/{name}" not in text or known.parts:
            continue
        if not (KEPT / known.file).exists():
            pytest.skip(f"the weights of {name} are not here: make test-qwen")
        mine = settings().cache / "weights"
        mine.mkdir(exist_ok=True)
        if not (mine / known.file).exists():
            (mine / known.file).symlink_to(KEPT / known.file)
