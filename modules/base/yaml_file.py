"""Strict reading of users' YAML files: no code, no key twice, no references without end."""

from __future__ import annotations

import re
from collections.abc import Hashable
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from .errors import UserError
from .files import read_regular

MOST_BYTES, MOST_VALUES = 2**24, 100_000
"""The largest YAML file, and the most values in it once its references are expanded."""
SUFFIXES = (".yaml", ".yml")
ROWS = (".jsonl", ".ndjson", ".csv", ".tsv", ".tab", ".psv", ".parquet", ".xlsx", ".xlsm")
"""Suffixes of files with questions, which users give by mistake where a YAML file is wanted."""


def read_yaml(path: Path, what: str, such: str) -> dict[str, Any]:
    """Return the mapping in a YAML file. Raises UserError, with the file and the line, for any
    other content.

    `what` says what the file should describe, and `such` is an example of a line of it.
    """
    suffix = path.suffix.casefold()
    wanted = f"name a YAML file with a line such as {such!r}"
    rows = UserError(
        f"{path} holds rows, such as questions, and not a {what}: {wanted}, and give the "
        "questions as data"
    )
    if suffix in ROWS:
        raise rows
    try:
        content = yaml.load(read_regular(path, MOST_BYTES).decode("utf-8-sig"), Loader=StrictLoader)
    except OSError as problem:
        raise UserError(
            f"the file {path} cannot be read ({problem.strerror}): correct the path"
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8: save the file as UTF-8") from None
    except yaml.YAMLError as problem:
        if suffix not in SUFFIXES:
            raise UserError(f"{path} holds no {what}: {wanted}") from None
        mark = getattr(problem, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(
            f"{where}: {getattr(problem, 'problem', None) or 'not valid YAML'}; correct it"
        ) from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply: write a flatter file") from None
    if isinstance(content, list) and suffix == ".json":
        raise rows
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no {what}: it needs a line such as {such!r}")
    return content


class StrictLoader(yaml.SafeLoader):
    """YAML's safe loader, which also refuses a key that stands twice (instead of dropping the first
    value) and references that expand to more than `MOST_VALUES` values.
    """

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None and _unfolded(node, {}) > MOST_VALUES:
            raise yaml.constructor.ConstructorError(
                None, None, f"it unfolds to more than {MOST_VALUES:,} values", node.start_mark
            )
        return node

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # a list or a mapping as a key is refused by `super` below
            # `<<` may stand twice: it merges a mapping, and names no value.
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is given twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _unfolded(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return the number of values in a node with all references expanded; more than `MOST_VALUES`
    if the node contains itself.
    """
    if id(node) not in sizes:
        sizes[id(node)] = MOST_VALUES + 1  # the size it has if it is met again inside itself
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        if isinstance(node, yaml.MappingNode):
            parts = chain.from_iterable(parts)
        sizes[id(node)] = 1 + sum(_unfolded(part, sizes) for part in parts)
    return sizes[id(node)]


# PyYAML reads 1e-3 as text, by YAML 1.1, but users mean a number.
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
