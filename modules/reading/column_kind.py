"""The kind of a whole column of gold answers.

It is decided once for all questions of a source, never question by question: what a prompt says of
the kind of answer must not depend on the gold answer.
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
"""Third answers of questions that yes and no, or true and false, do not settle."""
_MOST_OPTIONS = 4


class ColumnKind(NamedTuple):
    """The kind of the questions of a column; `options` are the answers to choose from (label →
    text), where the column has only a few beside yes and no; `seen` counts what the answers look
    like one by one.
    """

    kind: Kind
    options: dict[str, str] | None = None
    seen: Mapping[Kind, int] = {}


def kind_of_column(golds: Iterable[str | None]) -> ColumnKind:
    """The one kind that fits all gold answers of questions without options.

    Only yes, no, true and false are boolean; only numbers are numbers; yes, no and a third such as
    `maybe` are a choice between these; anything mixed is span. Answers that are missing do not
    count.
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
    # Nothing to settle: all golds look alike.
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
    """Whether an answer stands beside yes and no as a third: by its word, or because it returns as
    often as they do.
    """
    # Five times and 5% of all: below, it is rather a slip in the data than an option.
    often = counts[text] >= 5 and 20 * counts[text] >= counts.total()
    return text in _NEITHER or (often and infer_kind(text, None) == "span")


def _like(text: str, spellings: dict[str, str]) -> str:
    """The text with a capital, where the column's own answers have one."""
    capitals = all(spelled[:1].isupper() for spelled in spellings.values())
    return text[:1].upper() + text[1:] if capitals else text
