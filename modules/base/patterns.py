"""Regular expressions of modules, which are compiled when they are first used."""

import re
from typing import Any, cast


class _Pattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self.flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self.flags)
        methods = (method for method in dir(compiled) if not method.startswith("_"))
        vars(self).update({method: getattr(compiled, method) for method in methods})
        return getattr(compiled, name)


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Do what `re.compile` does, but later: a process uses a few of the hundred expressions that it
    imports, all of which would take 30 ms.
    """
    return cast(re.Pattern[str], _Pattern(text, flags))
