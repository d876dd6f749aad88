"""`UserError`, checks of values that raise it, and phrases that error messages share."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from pydantic import ValidationError


class UserError(ValueError):
    """An error that the user can fix: one sentence says what, where, and what to do."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is an int or a float. A bool, which Python counts as an int, is
    not.
    """
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_all(values: Iterable[object], kind: type) -> bool:
    """Return whether all values are instances of `kind`."""
    return all(isinstance(value, kind) for value in values)


def checked_whole(name: str, value: object, least: int = 1) -> int:
    """Return the value. Raises UserError unless it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} is {value!r}: give a whole number of at least {least}")
    return value


def checked_among(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return the value. Raises UserError, which calls it a `name`, unless it is among the
    allowed.
    """
    known = list(allowed)
    if value not in known:  # a list and not a set, since the value may have no hash
        raise no_such(name, value, known)
    return str(value)


def no_such(name: str, value: object, known: Collection[str]) -> UserError:
    """Return the error that says that there is no `name` of this value, and lists the known
    ones.
    """
    meant = did_you_mean(value, known)
    return UserError(f"there is no {name} {value!r}{meant}: choose among {', '.join(known)}")


def said_by(problem: BaseException, otherwise: str | None = None) -> str:
    """Return the message of an exception on one line; if empty, its class name, or `otherwise`."""
    try:
        text = " ".join(str(problem).split())
    except KeyboardInterrupt:
        raise
    except BaseException:  # the exception's own code makes its text, and may raise anything
        text = ""
    return text or (type(problem).__name__ if otherwise is None else otherwise)


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return ` (did you mean 'KNOWN'?)` if the name is close to a known one; else an empty
    string.
    """
    close = closest(str(name), names)
    return "" if close is None else f" (did you mean {close!r}?)"


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that is most like this one, whatever their case; None if none is
    close.
    """
    spelled = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(name.casefold(), spelled, n=1)
    return spelled[close[0]] if close else None


def first_fault(problem: ValidationError) -> str:
    """Return the first field that pydantic refuses (at most 200 characters of its path), and
    why.
    """
    fault = problem.errors()[0]
    return f"{'.'.join(map(str, fault['loc']))[:200]}: {fault['msg']}"


def install_line(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'folkmoot[{extra}]'"


def missing_extra(feature: str, extra: str) -> UserError:
    """Return the error that says which extra a feature needs, and how to install it."""
    return UserError(f"{feature} needs the extra `{extra}`: {install_line(extra)}")


@contextmanager
def from_extra(extra: str, feature: str) -> Iterator[None]:
    """Import packages of an extra in this block. Raises UserError if it is not installed."""
    try:
        yield
    except ModuleNotFoundError:
        raise missing_extra(feature, extra) from None


@contextmanager
def system_errors(
    place: object,
    instead: str = "make room, or choose another --out",
    verb: str = "cannot be written",
) -> Iterator[None]:
    """Turn an OSError in the block into a UserError, which says what to do `instead`. Where the
    system names a file, that stands in place of a path, but not of a text.
    """
    try:
        yield
    except OSError as problem:
        named = None if isinstance(place, str) else problem.filename
        reason = problem.strerror or problem
        raise UserError(f"{named or place} {verb} ({reason}): {instead}") from None
