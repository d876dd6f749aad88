"""Formal answers, in which operators, brackets, signs and points count: expressions, intervals,
units, names such as C++. Official scripts would drop such characters as punctuation.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache

from .mentions import pattern

MOST_CHARS = 300  # of an expression that is evaluated

_FORMAL = pattern(
    r"\\[A-Za-z]|[0-9A-Za-z)\]}]\s*(?:[+^=<>]|\*+\s*[0-9A-Za-z(\\])|[0-9]\s*/\s*[0-9]|(?:^|\s)[-−–+]\s?[0-9.\\]|"
    r"[0-9]\.[0-9]|[0-9][-−–][0-9]*[ij]\b|[\[(][^()\[\]]*,[^()\[\]]*[\])]|[A-Za-z]#"
)
_LATEX = pattern(r"\\(?:left|right|[,;!: ]|displaystyle)|\$|(?<=\d),(?=\d{3}(?!\d))")
_TEXT = pattern(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
# What could take long to evaluate: towers of powers, and powers and factorials of large numbers.
_ENDLESS = pattern(r"\^\s*\{?\s*[0-9]{3,}|\^[^+*/=-]*\^|[0-9]{3,}\s*!")


def is_formal(text: str) -> bool:
    """Return whether a text has LaTeX, an operator, a bracket, or a digit with a sign or point in
    it.
    """
    return _FORMAL.search(text) is not None


def normalise_formal(text: str) -> str:
    """Return an expression without what has no meaning: white space, case, LaTeX's sizes."""
    text = _LATEX.sub("", without_text_marks(text))
    text = re.sub(r"\\[dt]frac", r"\\frac", text).translate({ord("−"): "-", ord("–"): "-"})
    return re.sub(r"\s+", "", text).casefold().rstrip(".")


def without_text_marks(text: str) -> str:
    r"""Return the text without LaTeX's marks for words, such as `\text{Paris}`."""
    return _TEXT.sub(r"\1", text)


@lru_cache(maxsize=4096)
def same_expression(one: str, other: str) -> bool:
    """Return whether two expressions are written alike or equal by `math-verify`, if this is
    installed (extra `math`).
    """
    if normalise_formal(one) == normalise_formal(other):
        return True
    if max(len(one), len(other)) > MOST_CHARS or _ENDLESS.search(f"{one} {other}"):
        return False
    try:
        from math_verify import parse, verify
    except ImportError:
        return False
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    # Without its time-outs, which only work in the main thread.
    parsed = [parse(f"${text.strip('$ ')}$", parsing_timeout=None) for text in (one, other)]
    return bool(verify(*parsed, timeout_seconds=None))
