"""Splits English prose into sentences, with care for abbreviations, initials and decimals."""

import re

from .mentions import pattern

# A sentence may end at . ! ? or …, with closing quotes or brackets, before white space and a
# plausible opening. Without the look-behind, a page of dots would take quadratic time; without
# _NEAR, a page without a clear end would.
_END = pattern(r"""(?<![.!?…])([.!?…]++)["'”’»)\]]*+\s+(?=["'“‘«(\[¿¡]*[^\W_])""")


def _words(*rows: str) -> frozenset[str]:
    return frozenset(" ".join(rows).split())


# After these a name or number follows: they never end a sentence.
_ALWAYS_GO_ON = _words(
    "mr mrs ms mx dr prof rev fr hon gen col lt capt cmdr maj sgt cpl adm gov sen rep pres st "
    "ste mt",
    "ft messrs mme mlle vs v e.g i.e cf viz ca approx est fig figs eq vol vols pp al eds trans "
    "dept",
)
# These go on before a number ("No. 5", "Jan. 3", "b. 1950"), else they end a sentence like any
# other word.
_GO_ON_BEFORE_NUMBER = _words(
    "no nos op p c b d r fl ch art sec ser jan feb mar apr jun jul aug sep sept oct nov dec"
)
# These may be either: like "U.S." and initials, they end a sentence only when a common opening word
# follows.
_MAY_GO_ON = _words("jr sr inc ltd co corp bros etc esq ph.d m.d a.m p.m b.c a.d c.e b.c.e")
_OPENERS = _words(
    "a after also although an and as at because before both but by during each for from he her "
    "his how",
    "however if in is it its later many most no on one other our she since some that the their "
    "then there",
    "these they this those to two under until we what when where which while who with you",
)
_NEAR = 40
_DOTTED = pattern(r"(?:[^\W\d_]\.)*[^\W\d_]")
_LAST_WORD = pattern(r"""[^\s"'“”‘’«»()\[\]/–—-]+$""")


def sentences(text: str) -> list[str]:
    """Return the sentences of `text` in order, with white space normalised; joined by spaces, they
    are the text again.

    The end of a line ends a sentence. "U.S.", "Dr. No", "J. R. R. Tolkien", "No. 5" and "3.5" do
    not; "in the U.S. He came" is two. A rule of thumb for English: if in doubt, it does not split.
    """
    cut = []
    for line in text.splitlines():
        line = " ".join(line.split())
        start = 0
        for end in _END.finditer(line):
            before = line[max(start, end.start() - _NEAR) : end.start()]
            if _ends_here(before, end[1], line[end.end() : end.end() + _NEAR]):
                cut.append(line[start : end.end()].rstrip())
                start = end.end()
        if line[start:]:
            cut.append(line[start:])
    return cut


def _ends_here(before: str, mark: str, after: str) -> bool:
    """Return whether a sentence ends at `mark`, by the texts before and after it."""
    opening = after.lstrip("\"'“‘«([¿¡")
    if opening[:1].islower():
        return False
    if mark != ".":
        return True
    last = _LAST_WORD.search(before)
    word = last[0] if last else ""
    key = word.lower().rstrip(".")
    if key in _ALWAYS_GO_ON or (key in _GO_ON_BEFORE_NUMBER and opening[:1].isdigit()):
        return False
    if key in _MAY_GO_ON or (_DOTTED.fullmatch(word) and (word[0].isupper() or "." in word)):
        first = re.match(r"\w+", opening)
        if first is None or first[0].lower() not in _OPENERS:
            return False
        return (
            first[0] != "A" or opening[1:2] == " "
        )  # the article, not the initial of "A. Lincoln"
    return True
