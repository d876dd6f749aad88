"""Reads standard input in place of a file or a question that is given as `-`."""

from __future__ import annotations

import hashlib
import sys

from ...modules.base.errors import UserError
from ...modules.base.files import MOST_BYTES, write_whole
from ..base.request import Request
from .command import command_options

DASH = "-"


def piped() -> bytes:
    """Return all of standard input. Raises UserError if it is too large."""
    # One byte more than allowed shows that there is more, without reading all of it.
    content = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise UserError(f"standard input has more than {MOST_BYTES // 2**20} MB: give a file")
    return content


def piped_text() -> str:
    """Return standard input as a question. Raises UserError if it is not UTF-8."""
    try:
        return piped().decode().strip()
    except UnicodeDecodeError:
        raise UserError("standard input is not UTF-8: write the question as UTF-8") from None


def take_piped(request: Request) -> None:
    """Write the questions of standard input to a file in the cache, and put its name where an
    option is `-`. The file is named by its content, so that the run can be resumed. Raises
    UserError if two options are `-`, or if there are no questions.
    """
    named = {}
    for name, option in command_options(type(request)).items():
        takes_file = "FILE" in (option.info.metavar or "").split("|")
        if takes_file and DASH in _values(getattr(request, name)):
            named[name] = option.long_name
    if not named:
        return
    if len(named) > 1:
        both = " and ".join(named.values())
        raise UserError(f"{both} are both -, but standard input can be read only once: give files")
    from ..base.settings import settings  # imports pydantic

    content = piped()
    if not content.strip():
        raise UserError(
            "standard input is empty: pipe questions into it, or give a file instead of -"
        )
    digest = hashlib.sha256(content).hexdigest()[:12]
    path = settings().cache / "stdin" / f"stdin-{digest}{_suffix(content)}"
    # Questions may be confidential, and others may be able to read the cache folder.
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, content)
    path.chmod(0o600)
    name = next(iter(named))
    value = getattr(request, name)
    values = [str(path) if item == DASH else item for item in _values(value)]
    setattr(request, name, values if isinstance(value, list) else values[0])


def _values(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _suffix(content: bytes) -> str:
    """Return the suffix for a file with this content, recognized by its beginning."""
    if content.startswith(b"PAR1"):
        return ".parquet"
    is_json = content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
    return ".json" if is_json else ".csv"
