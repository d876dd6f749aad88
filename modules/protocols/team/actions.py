"""The three actions of a worker, read from its own words: Search[entity], Lookup[keyword],
Finish[answer].
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ...base.fence import one_line

MAX_ARGUMENT_CHARS = 500

Name = Literal["search", "lookup", "finish"]
# ASCII, as in any case "İ" and "ſ" count as i and s, too; few blanks, as many would be tried in
# every split.
_START = re.compile(
    r"(?:action[ \t]{0,4}\d{0,3}[ \t]{0,4}:)?\s{0,9}(?:\d{1,3}[.)]\s{0,4})?[*_`\"'>-]{0,4}\s{0,4}"
    r"(search|lookup|finish)\s{0,4}\[",
    re.IGNORECASE | re.ASCII,
)


class Action(NamedTuple):
    """A worker's next action, and its argument."""

    name: Name
    argument: str


def read_action(text: str) -> Action | None:
    """Return the action that a text begins with; None if it begins with none, or leaves its bracket
    open or empty.

    Only the first action counts, whatever follows it. Brackets inside the argument have to match;
    it has at most MAX_ARGUMENT_CHARS characters and becomes one line without invisible ones.
    """
    text = text.lstrip()
    start = _START.match(text)
    if start is None:
        return None
    depth = 1
    for place in range(start.end(), min(len(text), start.end() + MAX_ARGUMENT_CHARS + 1)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if depth == 0:
            argument = one_line(text[start.end() : place])
            name: Name = start.group(1).lower()  # type: ignore[assignment]
            return Action(name, argument) if argument else None
    return None
