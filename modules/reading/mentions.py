"""Finds where a text mentions an option, by its label ("B", "(B)", "option B") or by its words."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, cast


class _Pattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, text: str, flags: int) -> None:
        self._made = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made), name)
        setattr(self, name, found)  # found at once from now on, without this method
        return found


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but compiled at first use: a process uses only a few of the hundred
    expressions that it imports, and to compile all would take 30 ms.
    """
    return cast(re.Pattern[str], _Pattern(text, flags))


ANSWER_NOUN = (
    "answer|antwort|lösung|respuesta|réponse|risposta|resposta|antwoord|ответ|答案|回答|答え|정답"
)
"""The word for an answer in the languages in which LMs reply."""

BOXED = pattern(r"\\(?:boxed|fbox)\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
"""A LaTeX box, with up to two levels of braces inside."""

# Full-width letters and signs have the same order in Unicode as their ASCII forms.
_FULL_WIDTH = dict(zip(range(0xFF01, 0xFF5F), range(0x21, 0x7F), strict=True))
_TYPOGRAPHY = _FULL_WIDTH | str.maketrans("‘’´“”«»‐‑−﹣－–—\xa0。、", '\'\'\'""""-----–– .,')
_DRESSING = (
    (pattern(r"\\(?:text|textbf|mathrm|mathbf|mathbb)\s*\{([^{}]*)\}"), r"\1"),
    (pattern(r"(?<=\d)\s*(?=\\[dt]?frac)"), " "),
    (pattern(r"\\[dt]?frac\s?(\d)\s?(\d)"), r"\1/\2"),
    (pattern(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"\1/\2"),
    (pattern(r"\{,\}"), ","),
    (pattern(rf"\${{0,2}}{BOXED.pattern}\${{0,2}}"), r" answer: \1 "),
    (pattern(r"(?<![\w$])\$\s*\(?([A-Z])\)?\s*\$(?!\w)"), r"(\1)"),
    # in Chinese and Japanese, a label follows without a space
    (pattern(r"(?<=[是为為选選项項はが])(?=[A-Z](?![A-Za-z]))"), " "),
    (pattern(r"(?<![A-Za-z])([A-Z])(?:です|입니다)"), r"\1."),
    (pattern(r"<(?:final_?)?answer>", re.I), " answer: "),
    (pattern(r"</(?:final_?)?answer>", re.I), "\n"),
    # a label in bold is a label, not an article
    (pattern(r"\*\*\s*\(?([A-Z0-9])[).:]?\s*\*\*"), r"(\1)"),
    (pattern(r"(?<!\d)(?<!\d )\*+|\*+(?! ?\d)|`+|(?<!\w)_+|_+(?![\w{])"), ""),
)
_TOKEN = pattern(r"(?<!\w)-?\d+(?:[.,:/]\d+)*\w*%?|\w+(?:'\w+)*")
_ARTICLE = pattern(r"(?<!\w)(?:the|an?)\s+(?=\w)", re.I)  # "A. bank" has a label, not an article
_NAMED = pattern(r"\b(?:option|choice|letter|label|candidate)s?\s*[\"'(\[]*$", re.I)
_BETWEEN = pattern(
    r"[)\].:,\s\"'–-]{1,5}\(?(?:(?:the|an?)\s+)?", re.I
)  # from a label to its option's words
TEXT_ENDS = pattern(r"[\"')\]}]*\s*(?:$|[.,;\n]|or\b|and\b)", re.I)


@dataclass(slots=True)
class Mention:
    """Where a text mentions an option: the characters from `start` to `end`.

    `label` is None if the mention contradicts itself ("B) bank" where bank is A). `by_label` tells
    a label from the option's words; `explicit` means that it cannot be an ordinary word.
    `numbering` marks "1." at the start of a line, which may number a step of the reasoning.
    `choices._weigh` sets `decided` and `denied` by the words around the mention.
    """

    start: int
    end: int
    label: str | None
    by_label: bool
    explicit: bool = False
    numbering: bool = False
    decided: bool = False
    denied: bool = False


def without_typography(text: str) -> str:
    """Return the text in plain typography: straight quotes, no full-width letters, LaTeX boxes as
    "answer: …", no Markdown emphasis.
    """
    text = unicodedata.normalize("NFC", text).translate(_TYPOGRAPHY)
    for dressing, replacement in _DRESSING:
        text = dressing.sub(replacement, text)
    return text.strip()


def tokens(text: str, *, case: bool, articles: bool) -> list[str]:
    """Return the words and numbers of a text; a sign, decimal point or percent stays with its
    number. Without `case` they are case-folded, without `articles` these are left out, except for
    one at the end.
    """
    text = unicodedata.normalize("NFC", text).translate(_TYPOGRAPHY)
    if not articles:
        text = _ARTICLE.sub("", text)
    words = _TOKEN.findall(text)
    return words if case else list(map(str.casefold, words))


def same_text(label: str | None, other: str | None, choices: Mapping[str, str]) -> bool:
    """Return whether two labels mean the same option, by label or by text (real data repeat
    options).
    """
    if label is None or other is None:
        return False
    known = label in choices and other in choices
    return label == other or (known and choices[label].strip() == choices[other].strip())


def one_option(labels: Sequence[str | None], choices: Mapping[str, str]) -> str | None:
    """Return the first of the labels if all mean the same option; else None."""
    if labels and all(same_text(labels[0], label, choices) for label in labels):
        return labels[0]
    return None


def find_mentions(text: str, choices: Mapping[str, str]) -> list[Mention]:
    """Return all mentions of options in order; "B) bank" is one mention. `text` has gone through
    `without_typography`.
    """
    texts = _by_text(text, choices)
    labels = []
    for match in _label_pattern(tuple(choices)).finditer(text):
        mention = _by_label(text, match, choices)
        _join_text(text, mention, texts, choices)
        labels.append(mention)
    found = labels.copy()
    for words in texts:
        if not any(m.start <= words.start and words.end <= m.end for m in labels):
            found.append(words)
    return sorted(found, key=attrgetter("start"))


@lru_cache(maxsize=256)
def _label_pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for any of the labels, also in brackets."""
    body = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    # Not inside a word, number, abbreviation (U.S.), degree, compound (A-frame) or contraction
    # (I'm).
    return re.compile(
        rf"(?P<open>[(\[{{]\s*)?(?<![\w$.°'-])(?P<label>{body})(?!\w|[.,]\d|%|'\w|-\w|[+#]|\.\w\.)"
        r"(?P<close>\s*[)\]}])?",
        re.I,
    )


def _by_label(text: str, match: re.Match[str], choices: Mapping[str, str]) -> Mention:
    """Return the mention that a match of `_label_pattern` is."""
    written = match["label"]
    label = next(key for key in choices if key.casefold() == written.casefold())
    bracketed = bool(match["open"] and match["close"])
    start, end = match.span() if bracketed else match.span("label")
    before, after = text[max(0, start - 120) : start], text[end : end + 1]
    opens_line = not before.rpartition("\n")[2].strip("-•> \"'")
    delimited = not bracketed and (
        (after == ")" and not match["open"]) or (opens_line and after in {".", ":"})
    )
    numbering = delimited and written.isdigit()
    explicit = bracketed or (delimited and not numbering) or _NAMED.search(before) is not None
    return Mention(start, end, label, by_label=True, explicit=explicit, numbering=numbering)


@lru_cache(maxsize=4096)
def _text_pattern(options: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for options of the same words, with any case, articles and punctuation."""
    words = tokens(options[0], case=True, articles=False)
    if not words:  # an option of symbols only
        return re.compile(rf"(?<![^\s\"'(]){re.escape(options[0])}(?![^\s\"').,])")
    # Between words may be punctuation, but 3.5 does not match the option 3-5.
    body = r"(?!(?<=\d)[.,:/]\d)\W{1,6}(?:(?:the|an?)\s+)?".join(map(re.escape, words))
    if " ".join(words).casefold() == "no":
        body += r"(?![ \t]+(?!(?:is|because|since)\b)\w)"  # "no doubt" is not the option "no"
    last = "".join(re.escape(option[-1]) for option in options if not option[-1].isalnum())
    closing = f"[{last}]?" if last else ""
    opening = r"\$?" if options[0].startswith("$") else ""
    return re.compile(
        rf"(?<![\w$])(?<!\d[.,/-])(?<![^\s\w]-)(?<!\s-)(?:(?:the|an?)\s+)?{opening}{body}(?!\w|[.,/]\d|%|-\w|[{{^]){closing}",
        re.I,
    )


def _by_text(text: str, choices: Mapping[str, str]) -> list[Mention]:
    """Return the mentions by words, in order. Options that differ only in case or articles are told
    apart by their exact spelling.
    """
    labels = set(map(str.casefold, choices))
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, option in choices.items():
        words = tuple(tokens(option, case=False, articles=False)) or (option.strip(),)
        if option.strip() and option.strip().casefold() not in labels:
            alike.setdefault(words, []).append(label)
    groups: dict[tuple[int, int], list[str]] = {}
    for group in alike.values():
        texts = _text_pattern(tuple(choices[label].strip() for label in group))
        for match in texts.finditer(text):
            groups[match.span()] = group
    mentions = []
    for (start, end), named in groups.items():
        # Within the option "department store", "store" is not another option.
        longer = [(s, e) for s, e in groups if s <= start and end <= e]
        if longer != [(start, end)]:
            continue
        meant = one_option(named, choices)
        if meant is None:
            written = tokens(text[start:end], case=True, articles=True)
            exact = [k for k in named if tokens(choices[k], case=True, articles=True) == written]
            meant = one_option(exact, choices)
        mentions.append(Mention(start, end, meant, by_label=False))
    return sorted(mentions, key=attrgetter("start"))


def _join_text(
    text: str, mention: Mention, texts: list[Mention], choices: Mapping[str, str]
) -> None:
    """Extend a label's mention to the option's words next to it ("B) library", "library (B)"); its
    label becomes None if these are another option's words.
    """
    between = _BETWEEN.match(text, mention.end)
    follow = [t for t in texts if between and mention.end < t.start <= between.end()]
    opening = text[mention.start]
    if follow:
        words, apart = follow[0], text[mention.end : follow[0].start]
        letter = not mention.explicit and (opening in "AaIi" or opening.islower())
        # "a bank" mentions the option bank, and not option A with its words.
        joined = not letter or bool(apart.strip())
        if joined and any(same_text(t.label, mention.label, choices) for t in follow):
            mention.end, mention.explicit, mention.numbering = words.end, True, False
        # "A. library" where library is B: unclear which of the two is meant.
        elif joined and words.label and "," not in apart and TEXT_ENDS.match(text, words.end):
            mention.end, mention.explicit, mention.label = words.end, True, None
    if opening in "([{":
        for t in texts:
            if t.label and t.end <= mention.start and not text[t.end : mention.start].strip("\"' "):
                if not same_text(t.label, mention.label, choices):
                    mention.label = None
                t.label = mention.label
