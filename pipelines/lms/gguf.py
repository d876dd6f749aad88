"""What a GGUF file says about itself, read from its head; nothing of the tensors is loaded."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...modules.base.errors import UserError

_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_TEXT, _ARRAY = 8, 9
_BYTES_A_CACHED_NUMBER = 2  # keys and values are kept as 16-bit floats
_BASE = re.compile(r"(?<![a-z])(base|pt|pretrain(ed)?)(?![a-z])")


@dataclass(frozen=True)
class Header:
    """The head of a GGUF file.

    `has_template`: whether it brings a chat template. `untuned`: whether it is a base model, which
    knows no chat. `context_tokens`: the longest prompt and reply it was made for, 0 where it does
    not say. `bytes_a_token`: main memory that its attention takes for each token of the context; 0
    if unknown.
    """

    name: str
    licence: str | None
    has_template: bool
    untuned: bool
    context_tokens: int
    bytes_a_token: int


def read_header(path: Path) -> Header:
    """The head of the file. Raises UserError for a file that is missing, no GGUF, or no language
    model.
    """
    try:
        with path.open("rb") as file:
            said = dict(_pairs(file, path.stat().st_size))
    except (ValueError, struct.error, UnicodeDecodeError) as problem:
        raise UserError(
            f"{path} is no GGUF file, or a damaged one ({problem}): fetch it again"
        ) from None
    except OSError as problem:
        reason = problem.strerror or problem
        raise UserError(
            f"{path} cannot be read ({reason}): name a GGUF file as local/PATH.gguf"
        ) from None
    kind = str(said.get("general.architecture"))
    if (
        f"{kind}.block_count" not in said
        or said.get("general.type", "model") != "model"
        or kind == "clip"
    ):
        raise UserError(
            f"{path} holds no language model (it says {kind}): name the model's own GGUF file"
        )
    name = str(said.get("general.name") or path.stem)
    words = " ".join(str(said.get(f"general.{key}", "")) for key in ("name", "finetune")).casefold()
    template = bool(said.get("tokenizer.chat_template"))
    return Header(
        name=name,
        licence=str(said["general.license"]) if "general.license" in said else None,
        has_template=template,
        untuned=not template or bool(_BASE.search(words)),
        context_tokens=_number(said.get(f"{kind}.context_length")),
        bytes_a_token=_cache_bytes(said, kind),
    )


def _cache_bytes(said: dict[str, Any], kind: str) -> int:
    heads = _number(said.get(f"{kind}.attention.head_count"))
    width = _number(said.get(f"{kind}.embedding_length")) // max(heads, 1)
    both = sum(
        _number(said.get(f"{kind}.attention.{one}_length")) or width for one in ("key", "value")
    )
    shared = _number(said.get(f"{kind}.attention.head_count_kv")) or heads
    return _number(said[f"{kind}.block_count"]) * shared * both * _BYTES_A_CACHED_NUMBER


def _number(found: Any) -> int:
    """A whole number; 0 for what is none, such as a list with a number for each layer."""
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _pairs(file: BinaryIO, size: int) -> Iterator[tuple[str, Any]]:
    """The head's keys with their values, lists as their lengths. Raises ValueError or
    struct.error.
    """
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version, _, count = struct.unpack("<IQQ", file.read(20))
    if version not in (2, 3):
        raise ValueError(f"version {version} of the format")

    def take(length: int) -> bytes:
        if length > size - file.tell():
            raise ValueError("it ends too soon")
        return file.read(length)

    def value(kind: int) -> Any:
        if kind == _TEXT:
            return take(*struct.unpack("<Q", take(8))).decode("utf-8", "replace")
        if kind == _ARRAY:
            inner, many = struct.unpack("<IQ", take(12))
            if inner in _NUMBERS:
                take(many * struct.calcsize(_NUMBERS[inner]))
            elif inner == _TEXT:
                for _ in range(many):
                    take(*struct.unpack("<Q", take(8)))
            else:
                raise ValueError(f"a list of type {inner}")
            return many
        if kind not in _NUMBERS:
            raise ValueError(f"a value of type {kind}")
        return struct.unpack(f"<{_NUMBERS[kind]}", take(struct.calcsize(_NUMBERS[kind])))[0]

    for _ in range(count):
        key = str(value(_TEXT))
        yield key, value(*struct.unpack("<I", take(4)))
