"""The kind of a whole column of gold answers.

It is decided once for all questions of a file and not for each question: a prompt says which kind
of answer is wanted, and that must not give away the gold answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .answers import infer_kind
from .asked import Kind

_PAIRS = (("yes", "no"), ("true", "false"))
_NEITHER = frozenset(
    {
        "maybe",
        "unknown",
        "uncertain",
        "unsure",
        "not sure",
        "unclear",
        "undetermined",
        "undecided",
        "inconclusive",
        "cannot be determined",
        "can't tell",
        "cannot tell",
        "cannot say",
        "can't say",
        "neither",
        "both",
        "mixed",
        "partly",
        "partially",
        "partially true",
        "half true",
        "neutral",
        "depends",
        "it depends",
        "sometimes",
        "not given",
        "not mentioned",
        "not enough info",
        "not enough information",
        "insufficient",
        "insufficient evidence",
        "unanswerable",
        "no answer",
        "none",
        "n/a",
        "idk",
    }
)
"""Answers besides yes and no (or true and false) to questions that may stay undecided."""
_MOST_OPTIONS = 4


class ColumnKind(NamedTuple):
    """The kind of a column's questions. If it is choice, because there are a few answers besides
    yes and no, `options` are all of them (label → text). `seen` counts the kinds that the answers
    would have one by one; empty if all have the same.
    """

    kind: Kind
    options: dict[str, str] | None = None
    seen: Mapping[Kind, int] = {}


def kind_of_column(golds: Iterable[str | None]) -> ColumnKind:
    """Return the one kind that fits all gold answers of questions without options; None is skipped.

    Boolean if all are yes, no, true or false; number if all are numbers; choice if they are yes, no
    and a third such as `maybe`; span for any other mixture.
    """
    spellings: dict[str, str] = {}
    counts: Counter[str] = Counter()
    kinds: Counter[Kind] = Counter()
    for gold in golds:
        if gold is None:
            continue
        text = gold.strip()
        spellings.setdefault(text.casefold(), text)
        counts[text.casefold()] += 1
        kinds[infer_kind(text, None)] += 1
    if len(kinds) == 1:
        return ColumnKind(next(iter(kinds)))
    if "boolean" in kinds and len(counts) <= _MOST_OPTIONS:
        pairs = [pair for pair in _PAIRS if counts.keys() & set(pair)]
        others = set(counts).difference(*pairs)
        if len(pairs) == 1 and all(_is_third(text, counts) for text in others):
            texts = [*pairs[0], *sorted(others)]
            labels = "ABCDE"[: len(texts)]
            options = [_like(spellings.get(text, text), spellings) for text in texts]
            return ColumnKind("choice", dict(zip(labels, options, strict=True)), kinds)
    return ColumnKind("span", None, kinds)


def _is_third(text: str, counts: Counter[str]) -> bool:
    """Return whether an answer is a third option besides yes and no: by its word, or because it is
    frequent.
    """
    # Below five times or 5% of all, it is more likely a slip in the data than an option.
    often = counts[text] >= 5 and 20 * counts[text] >= counts.total()
    return text in _NEITHER or (often and infer_kind(text, None) == "span")


def _like(text: str, spellings: dict[str, str]) -> str:
    """Return the text with a capital letter first if all of the column's own answers have one."""
    capitals = all(spelled[:1].isupper() for spelled in spellings.values())
    return text[:1].upper() + text[1:] if capitals else text
