"""Regular expressions of modules, which are compiled when they are first used."""

import re
from typing import Any, cast


class _Pattern:
    def __init__(self, *made: Any) -> None:
        self._made = made

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made), name)
        setattr(self, name, found)  # so that it is not asked for again
        return found


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Do what `re.compile` does, but later: a process uses a few of the hundred expressions that it
    imports, all of which would take 30 ms.
    """
    return cast(re.Pattern[str], _Pattern(text, flags))
