"""YAML files of users, read strictly: no code, no key twice, nothing that unfolds without end."""

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
"""The largest YAML file, and the most values in it once its references are followed."""
SUFFIXES = (".yaml", ".yml")
ROWS = (".jsonl", ".ndjson", ".csv", ".tsv", ".tab", ".psv", ".parquet", ".xlsx", ".xlsm")
"""The types of files that hold questions, which are given by mistake where YAML is wanted."""


def read_yaml(path: Path, what: str, such: str) -> dict[str, Any]:
    """The mapping that a YAML file holds. Raises UserError naming file and line, and of anything
    else, `what` it does not hold, with `such` a line.
    """
    suffix = path.suffix.casefold()
    wanted = f"name a YAML file with a line such as {such!r}"
    rows = UserError(
        f"{path} holds rows, as of questions, and a {what} is wanted here: {wanted}, and give the "
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
    """YAML's safe loader, which also refuses a key that stands twice instead of dropping the first,
    and references that unfold to more than any program has.
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
                continue  # a list or mapping as a key, which the loader below refuses
            # `<<` may stand twice: it merges a mapping, and names no value.
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _unfolded(node: yaml.Node, sizes: dict[int, int]) -> int:
    """The number of values in a node, each as often as it is referred to; endless within
    itself.
    """
    if id(node) not in sizes:
        sizes[id(node)] = MOST_VALUES + 1  # which it keeps if it holds itself
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        if isinstance(node, yaml.MappingNode):
            parts = chain.from_iterable(parts)
        sizes[id(node)] = 1 + sum(_unfolded(part, sizes) for part in parts)
    return sizes[id(node)]


# YAML 1.1 reads 1e-3 as text, though whoever writes it means a number.
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
