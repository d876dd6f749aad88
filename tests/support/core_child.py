"""The child of test_core.py: command lines without packages of extras, or attached rooms."""

import json
import sys
from typing import Any

BLOCKED = {"torch", "torch_geometric", "sentence_transformers", "transformers", "safetensors"}
BLOCKED |= {"networkx", "xllamacpp", "psutil", "datasets", "openpyxl", "zipfile_zstd"}
BLOCKED |= {"psycopg", "grpc"}
ROOMS = {f"folkmoot.{room}" for room in sys.argv[2:]}


class Blocked:
    """Finds none of these packages and rooms, installed or not."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        room = ".".join(name.split(".")[:3])
        if (not ROOMS and name.partition(".")[0] in BLOCKED) or room in ROOMS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked)  # type: ignore[arg-type]

import command_lines  # noqa: E402

import folkmoot as fm  # noqa: E402

for public in fm._WHERE if ROOMS else fm.__all__:
    getattr(fm, public)
command_lines.commands(json.loads(sys.argv[1]))
