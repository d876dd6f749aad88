"""The error for users, and wording that errors share."""

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
    """Whether a value is a number; in Python a truth value would be one, too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_all(values: Iterable[object], kind: type) -> bool:
    """Whether each of the values is of this kind."""
    return all(isinstance(value, kind) for value in values)


def checked_whole(name: str, value: object, least: int = 1) -> int:
    """The value, where it is a whole number of at least that. Raises UserError with its name."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} is {value!r}: give a whole number of at least {least}")
    return value


def checked_among(name: str, value: object, allowed: Iterable[str]) -> str:
    """The value, where it is one of those. Raises UserError with its name."""
    known = list(allowed)
    if value not in known:  # a list finds a value that has no hash, too
        raise no_such(name, value, known)
    return str(value)


def no_such(name: str, value: object, known: Collection[str]) -> UserError:
    """The error about a value that is none of those that are known."""
    meant = did_you_mean(value, known)
    return UserError(f"there is no {name} {value!r}{meant}: choose among {', '.join(known)}")


def said_by(problem: BaseException, otherwise: str | None = None) -> str:
    """The message of an exception on one line; if empty, its class name, or `otherwise`."""
    try:
        text = " ".join(str(problem).split())
    except KeyboardInterrupt:
        raise
    except BaseException:  # the exception's own code makes its text, and may raise anything
        text = ""
    return text or (type(problem).__name__ if otherwise is None else otherwise)


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """` (did you mean 'NAME'?)` for what is close to a known name, in capitals or not, else
    nothing.
    """
    close = closest(str(name), names)
    return "" if close is None else f" (did you mean {close!r}?)"


def closest(name: str, names: Iterable[str]) -> str | None:
    """The known name that is most like this one, in capitals or not; None where none is."""
    spelled = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(name.casefold(), spelled, n=1)
    return spelled[close[0]] if close else None


def first_fault(problem: ValidationError) -> str:
    """The first place that pydantic refuses, at most 200 characters of it, and why."""
    fault = problem.errors()[0]
    return f"{'.'.join(map(str, fault['loc']))[:200]}: {fault['msg']}"


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
