"""Separates an LM's thoughts from its reply, where both stand in one text."""

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
    # the format of the reply may stand between
    r"<\|channel\|>final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>",
    re.IGNORECASE,
)
_END = pattern(
    r"(?:(?:<\|(?:return|end|end_response|end_of_solution|im_end|eot_id|eom_id|endoftext|"
    r"end_of_text|end_of_turn)\|>|</s>|<(?:eos|end_of_turn)>|<｜end▁of▁sentence｜>)\s*){1,3}$",
    re.IGNORECASE,
)
"""The marks of its own that a reply ends by; some servers leave an LM's special tokens there."""


class Spoken(NamedTuple):
    """A reply without its thoughts. `unfinished` says that the LM never stopped thinking."""

    text: str
    thoughts: str = ""
    unfinished: bool = False


def without_thoughts(text: str) -> Spoken:
    """The reply in a text: what follows the last closing mark of a block of thoughts. A block that
    is never closed has no reply after it.
    """
    if "<" not in text and "[" not in text and "◁" not in text:
        return Spoken(text)
    closings = list(_CLOSING.finditer(text))
    start = closings[-1].end() if closings else 0
    # Thoughts that begin again after the last closed ones, and never end.
    if (opening := _OPENING.match(text, start)) is not None:
        thoughts = (text[:start] + text[opening.end() :]).strip()
        return Spoken("", thoughts, unfinished=True)
    if not closings:
        return Spoken(_END.sub("", text))
    thoughts = _CLOSING.sub("", _OPENING.sub("", text[: closings[-1].start()], count=1))
    return Spoken(_END.sub("", text[start:]).strip(), thoughts.strip())
