"""The one error that a user is meant to read, and the words that errors share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class UserError(ValueError):
    """Something the user can put right; the message is one sentence: what, where, what to do.

    The command line prints the message alone and exits with code 2.
    """


def checked_whole(name: str, value: Any, least: int = 1) -> int:
    """The value, where it is a whole number of at least that. Raises UserError with its name."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} is {value!r}: give a whole number of at least {least}")
    return value


def said_by(problem: BaseException, otherwise: str | None = None) -> str:
    """What an exception says, on one line; the name of its class, or `otherwise`, when it says
    nothing.
    """
    try:
        text = " ".join(str(problem).split())
    except KeyboardInterrupt:
        raise
    except BaseException:  # its text is made by somebody's code, which may raise anything
        text = ""
    return text or (type(problem).__name__ if otherwise is None else otherwise)


def did_you_mean(name: Any, names: Iterable[str]) -> str:
    """` (did you mean 'NAME'?)` for what is close to a known name, in capitals or not, else
    nothing.
    """
    close = closest(str(name), names)
    return "" if close is None else f" (did you mean {close!r}?)"


def closest(name: str, names: Iterable[str]) -> str | None:
    """The known name that is most like this one, in capitals or not; None where none is."""
    spelled = {one.casefold(): one for one in names}
    close = difflib.get_close_matches(name.casefold(), spelled, n=1)
    return spelled[close[0]] if close else None
