"""Separates an LM's thoughts from its reply, where one text has both."""

from __future__ import annotations

import re
from typing import NamedTuple

from .mentions import pattern

# of tags such as <think>, <seed:think>, <longcat_think> or <think duration="3">
_NAMES = r"[\w:|]{0,20}think(?:ing)?(?:_\w{1,9})?\|?|thoughts?|reasoning"
_OPENING = pattern(
    rf"\s*(?:<(?:{_NAMES})(?: [^<>/]*)?>|\[(?:think|thinking)\]|◁think▷|<\|channel>(?:thought)?|"
    r"<\|(?:start_thinking|begin_of_thought|inner_prefix)\|>|<unused94>thought|"
    r"<\|start\|>assistant<\|channel\|>(?:analysis|commentary)|<\|channel\|>(?:analysis|commentary))",
    re.IGNORECASE,
)
_CLOSING = pattern(
    rf"</(?:{_NAMES}) ?>|<\|/think(?:ing)?\|>|\[/(?:think|thinking)\]|◁/think▷|"
    r"<\|(?:end_thinking|end_of_thought)\|>(?:\s*<\|(?:start_response|begin_of_solution)\|>)?|"
    r"<\|inner_suffix\|>|</?channel\|>|<unused95>|"
    # channels whose marks a server has taken out
    r"assistantfinal|"
    # the format of the reply may be named between these two marks
    r"<\|channel\|>final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>",
    re.IGNORECASE,
)
_MARK = r"<(?:\|[^|<>\s]{1,30}\||｜[^｜<>\s]{1,30}｜|/s|eos|pad|turn\||unused\d+|end_of_\w{1,20})>"
_END = pattern(rf"(?:{_MARK}\s*){{1,3}}$", re.IGNORECASE)
"""Special tokens of LMs for the end of a reply, which some servers leave in the text."""

_BOX = pattern(r"<\|(?:begin|end)_of_box\|>")
"""The marks around the answer of some LMs, which say nothing."""
_SIGNS = ("<", "[", "◁", "assistantfinal")
"""One of them is in every mark of thoughts."""


class Spoken(NamedTuple):
    """A reply without its thoughts. `unfinished` says that the LM never stopped thinking."""

    text: str
    thoughts: str = ""
    unfinished: bool = False


def without_thoughts(text: str) -> Spoken:
    """Return the reply in a text, which follows the last closing mark of a block of thoughts. After
    a block that is never closed there is no reply.
    """
    if not any(map(text.__contains__, _SIGNS)):
        return Spoken(text)
    text = _BOX.sub("", text)
    closings = list(_CLOSING.finditer(text))
    start = closings[-1].end() if closings else 0
    # An LM may begin to think again after the last closed block.
    if (opening := _OPENING.match(text, start)) is not None:
        thoughts = (text[:start] + text[opening.end() :]).strip()
        return Spoken("", thoughts, unfinished=True)
    if not closings:
        return Spoken(_END.sub("", text))
    thoughts = _CLOSING.sub("", _OPENING.sub("", text[: closings[-1].start()], count=1))
    return Spoken(_END.sub("", text[start:]).strip(), thoughts.strip())
