"""The child process of test_core.py: command lines in turn, where no package of an extra can be
imported.
"""

from __future__ import annotations

import json
import sys
from typing import Any

BLOCKED = {
    *(
        "torch",
        "torch_geometric",
        "sentence_transformers",
        "transformers",
        "safetensors",
        "networkx",
    ),
    *("xllamacpp", "openpyxl", "psycopg", "grpc"),
}


class Blocked:
    """Finds none of these packages, installed or not."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked)  # type: ignore[arg-type]

import canary_child  # noqa: E402

import folkmoot as fm  # noqa: E402

for public in fm.__all__:
    getattr(fm, public)
canary_child.commands(json.loads(sys.argv[1]))
