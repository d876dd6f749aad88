"""The extras of folkmoot: packages that only some features need, and the errors without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import UserError


def install_line(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'folkmoot[{extra}]'"


def missing_extra(feature: str, extra: str) -> UserError:
    """The error of a feature whose extra is not installed."""
    return UserError(f"{feature} needs the extra `{extra}`: {install_line(extra)}")


@contextmanager
def from_extra(extra: str, feature: str) -> Iterator[None]:
    """Import packages of an extra in this block. Raises UserError if it is not installed."""
    try:
        yield
    except ModuleNotFoundError:
        raise missing_extra(feature, extra) from None
