"""Reads the number that a text gives as its answer, as an exact decimal, however it is written."""

import re
import unicodedata
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow

from .mentions import ANSWER_NOUN, pattern, without_typography

_INTEGER = (
    r"(?:[0-9]{1,3}(?:,[0-9]{3}(?![0-9]))+|[0-9]{1,3}(?:[ \u2009\u202f][0-9]{3}(?![0-9]))+|[0-9]+)"
)
DECIMAL = rf"(?:{_INTEGER}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{{1,2}}(?![0-9A-Za-z]))?|\.[0-9]+)"
_JOIN = r"[-–.,/:+*×]"
_NUMBER = pattern(
    r"(?P<sign>\b(?:negative|minus)\s+|[-+])?[$€£¥₹]?(?P<inner>(?<=[$€£¥₹])[-+])?(?<![A-Za-z0-9_])"
    rf"(?<![0-9]{_JOIN})"
    rf"(?:(?:(?:(?P<whole>[0-9]+)\s+)?(?P<over>[0-9]+)/(?P<under>[0-9]+)|(?P<decimal>{DECIMAL}))(?!{_JOIN}?[0-9])|"
    rf"(?P<odd>(?>{_INTEGER})(?:{_JOIN}(?>{_INTEGER}))+))(?!(?:st|nd|rd|th)\b)[ ]?%?",
    re.I,
)
CANONICAL = pattern(r"0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]")
_NUMBER_MARK = pattern(
    rf"####|(?<![a-z])(?:{ANSWER_NOUN})(?:[\"']?\s*[:=]|\s+(?:is|was|would be|should be|comes "
    r"to|equals)\b)(?!\s+not\b)",
    re.I,
)
_ONE = rf"[-+]?[$€£¥₹]?(?>{DECIMAL})%?"
_UNIT = r"(?:\s?[a-z°]+)?"
_SEVERAL = pattern(
    rf"\W*(?:(?:between|from)\s+)?{_ONE}{_UNIT}"
    rf"(?:\s*(?:[-–—+*×/:,;|<>≤≥]|\.\.+|…|\b(?:x|or|and|to|out of)\b)\s*{_ONE}{_UNIT})+\W*",
    re.I,
)
_NO_NUMBER = pattern(
    r"\b(?:unknown|none|cannot|can't|undetermined|unclear|not|nan|n/a|infinit\w*|inf)\b", re.I
)
_SENTENCE = pattern(r"\n|[;!?]|\.(?=\s|$)")
_EXACT = Context(prec=28)
_MOST_DIGITS = 40  # of a power that is written out
# An error if a power would be rounded: the result would not be the number that was written.
_POWERS = Context(prec=_MOST_DIGITS, traps=[InvalidOperation, Overflow, Inexact])

# Stands in place of what cannot be read for certain: a fraction over 0, of which `_value` is None.
_NO_VALUE = " 0/0 "
_PLAIN = r"(?<![\w.,])([0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?)"
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT = pattern(r"(?<=[0-9])[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_EXPONENT = r"\s?(?:\^|\*\*)\s?[{(]?\s?([-+]?[0-9]{1,4})\s?[})]?"
_STARS = pattern(r"(?<=[0-9])(?:\*\*|\s\*\*\s)(?=[-+]?[0-9]{1,4}(?![0-9*]))")
_SCIENTIFIC = pattern(rf"{_PLAIN}\s?(?:×|·|\*|x|\\times|\\cdot)\s?10{_EXPONENT}")
_POWER = pattern(rf"{_PLAIN}{_EXPONENT}")
_UNCERTAIN = pattern(
    r"(?:(?<![0-9.])[0-9.]+\s?)?(?:√|\\sqrt)\s?(?:[{(][^{}()]*[})]|[0-9.]*)"
    r"|(?:(?<![0-9.])[0-9.]+)?\s?(?:π|\\pi\b)"
    # a value with a margin, such as 5 ± 2, 5% ± 2%, ±1 1/2 or ±√2: it is no single number
    r"|(?:(?<![0-9.,])[0-9.,]+\s?[%a-z°]*\s?)?(?:±|\\pm\b|\+/-|\bplus or minus\b)\s?[$€£¥₹]?"
    r"(?:√|\\sqrt\s?\{?)?[0-9.,/¼-¾⅐-⅞ ]*[0-9¼-¾⅐-⅞]"
    # 0.333…, and 12万5千, whose parts are to be added
    r"|(?<![0-9])[0-9]+\.[0-9]*\s?\\(?:overline|bar|dot)\b"
    r"|(?<![0-9.,])[0-9.,]+\s?[万萬亿億]\s?[0-9].*"
)
_GROUPED = pattern(r"(?<=[0-9])[_'](?=[0-9]{3}(?![0-9]))")
_DASH = pattern(r"(^|[:=({^*]\s?|\b(?:is|be)\s)[–—](?=[0-9.$])")
_SIZES = {
    "hundred": 2,
    **dict.fromkeys(("thousand", "k"), 3),
    **dict.fromkeys(("million", "mn", "m"), 6),
    **dict.fromkeys(("billion", "bn", "b"), 9),
    "trillion": 12,
    "lakh": 5,
    "crore": 7,
    **dict.fromkeys("万萬", 4),
    **dict.fromkeys("亿億", 8),
}
"""How many zeros a word or letter such as `million` adds."""
_SIZED = pattern(
    rf"{_PLAIN}(?:\s?(hundred|thousand|million|billion|trillion|lakh|crore|mn|bn)s?|(k|K|M))(?![\w^])"
    r"|(?<=\$)([0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?)\s?(B)(?!\w)"
    r"|(?<![A-Za-z0-9_.,])([0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?)\s?([万萬亿億])(?!\s?[0-9])",
)


def _written_out(text: str) -> str:
    """Return the text with powers, sizes and grouped digits as plain numbers."""
    text = _SUPERSCRIPT.sub(lambda raised: f"^{raised[0].translate(_RAISED)}", text)
    text = _GROUPED.sub("", _DASH.sub(r"\1-", text))
    # Before `_POWER`, which would write out the 10³ of 1.25 × 10³ without its factor.
    text = _SCIENTIFIC.sub(lambda m: _computed(Decimal.scaleb, m[1], int(m[2])), text)
    text = _POWER.sub(lambda m: _computed(_POWERS.power, m[1], int(m[2])), text)
    text = _SIZED.sub(_sized, text)
    return _UNCERTAIN.sub(_NO_VALUE, text)


def _plain(digits: str) -> Decimal:
    return Decimal(re.sub(r"[,\s]", "", digits))


def _sized(match: re.Match[str]) -> str:
    digits, size = filter(None, match.groups())
    return _computed(Decimal.scaleb, digits, _SIZES[size.casefold()])


def _computed(by: Callable[[Decimal, int], Decimal], digits: str, exponent: int) -> str:
    """Return the number in plain digits; `_NO_VALUE` if it has too many of them or is not exact."""
    try:
        number = by(_plain(digits), exponent)
    except (InvalidOperation, Overflow, Inexact):
        return _NO_VALUE
    return decimal_text(number) if abs(number.adjusted()) < _MOST_DIGITS else _NO_VALUE


def read_number(text: str, strict: bool = False) -> Decimal | None:
    """Return the number that the text gives as its answer, exactly; None if there is none.

    A text that is a number and nothing else is that number. Otherwise the two ways of reading
    follow the filters of lm-evaluation-harness for GSM8K. With `strict` ("strict-match"): the first
    `#### N` alone. Without ("flexible-extract"): the number after the last "####", "answer is",
    "answer:" or LaTeX box (after the last "=" if the sentence goes on calculating), else the last
    number in the text.

    Numbers carry a sign (also U+2212, "negative"), currency or unit (dropped: "40%" is 40),
    thousands separators (1,250, 1 250, 1_250 and 1'250), decimals, a fraction ("3/4", "1 1/2"), a
    power ("2^10", "1.25 × 10³") or a size ("1.5 million", "12k"). A hyphen after
    a word ("COVID-19") is not a sign; ordinals and digits inside words are no numbers. When the
    number to take cannot be read for certain ("1,25", "3:30", "5-6", "1/0", "√2"), is one of
    several ("5 or 7"), and for NaN and infinity, the result is None.
    """
    # Powers first, because `without_typography` takes ** for emphasis.
    text = without_typography(_STARS.sub("^", text))
    text = re.sub(r"\\([$%])", r"\1", re.sub(r"\\[,!; ]", "", text))
    if not text.isascii():  # digits of other scripts
        text = re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit[0])), text)
    text = _written_out(text)
    text = re.sub(
        r"[¼-¾⅐-⅞]", lambda m: " " + unicodedata.normalize("NFKC", m[0]).replace("⁄", "/"), text
    ).strip()
    alone = _NUMBER.search(text)
    if alone and not re.search(r"[^\s.()\"']", text[: alone.start()] + text[alone.end() :]):
        return _value(text, alone)
    if strict:
        mark = re.search(r"####\s*", text)
        return _value(text, mark and _NUMBER.match(text, mark.end()))
    if _says_several(text):
        return None
    markers = list(_NUMBER_MARK.finditer(text))
    if markers:
        statement = text[markers[-1].end() :].lstrip(" \n:\"'")
        statement = _SENTENCE.split(statement, maxsplit=1)[0].rpartition("=")[2]
        number = _NUMBER.search(statement)
        before = statement[: number.start()] if number else statement
        # "The answer is not 5", "The answer is unknown": no number is given.
        if _NO_NUMBER.search(before) or _says_several(statement):
            return None
        if number:
            return _value(statement, number)
    numbers = list(_NUMBER.finditer(text))
    return _value(text, numbers[-1]) if numbers else None


def _says_several(text: str) -> bool:
    """Return whether a text is nothing but different numbers: "5 or 7", but not "18, or $18.00"."""
    if not _SEVERAL.fullmatch(text):
        return False
    return len({_value(text, number) for number in _NUMBER.finditer(text)}) > 1


def _value(text: str, number: re.Match[str] | None) -> Decimal | None:
    """Return the value of a match of `_NUMBER` in the text; None if it is ambiguous or none."""
    if number is None or number["odd"]:
        return None
    if number["over"]:
        under = Decimal(number["under"])
        if not under:
            return None
        part = _EXACT.divide(Decimal(number["over"]), under)
        value = _EXACT.add(_plain(number["whole"] or "0"), part)
    else:
        value = _plain(number["decimal"])
    return value.copy_negate() if _negative(text, number) else value


def _negative(text: str, number: re.Match[str]) -> bool:
    """Return whether a number's minus makes it negative, and does not join two words or
    subtract.
    """
    sign = (number["sign"] or number["inner"] or "").strip().casefold()
    if sign in {"", "+"}:
        return False
    # "5-6" and "7 - 2" have no negative numbers. For `$-5`, nothing before the sign is looked at,
    # since the group `sign` is empty.
    before = text[: max(0, number.start("sign"))]
    joined = before[-1:].isalnum() and sign == "-"
    return not joined and not re.search(r"[0-9)\]%]\s*$", before)


def decimal_text(number: Decimal) -> str:
    """Return a number as plain digits, without zeros at the end."""
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
