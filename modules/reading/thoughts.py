"""Separates an LM's thoughts from its reply, where one text has both."""

from __future__ import annotations

import re
from typing import NamedTuple

from .mentions import pattern

_NAMES = "think|thinking|thought|thoughts|reasoning|seed:think"
_OPENING = pattern(
    rf"\s*(?:<(?:{_NAMES})>|\[(?:think|thinking)\]|◁think▷|<\|channel>thought|"
    r"<\|(?:start_thinking|begin_of_thought)\|>|"
    r"<\|start\|>assistant<\|channel\|>(?:analysis|commentary)|<\|channel\|>(?:analysis|commentary))",
    re.IGNORECASE,
)
_CLOSING = pattern(
    rf"</(?:{_NAMES})>|\[/(?:think|thinking)\]|◁/think▷|<channel\|>|"
    r"<\|(?:end_thinking|end_of_thought)\|>(?:\s*<\|(?:start_response|begin_of_solution)\|>)?|"
    # the format of the reply may be named between these two marks
    r"<\|channel\|>final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>",
    re.IGNORECASE,
)
_END = pattern(
    r"(?:(?:<\|(?:return|end|end_response|end_of_solution|im_end|eot_id|eom_id|endoftext|"
    r"end_of_text|end_of_turn)\|>|</s>|<(?:eos|end_of_turn)>|<｜end▁of▁sentence｜>)\s*){1,3}$",
    re.IGNORECASE,
)
"""Special tokens of LMs for the end of a reply, which some servers leave in the text."""


class Spoken(NamedTuple):
    """A reply without its thoughts. `unfinished` says that the LM never stopped thinking."""

    text: str
    thoughts: str = ""
    unfinished: bool = False


def without_thoughts(text: str) -> Spoken:
    """The reply in a text, which follows the last closing mark of a block of thoughts. After a
    block that is never closed there is no reply.
    """
    if "<" not in text and "[" not in text and "◁" not in text:
        return Spoken(text)
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
