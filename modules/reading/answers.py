"""Reads, compares and scores answers by the kind of their question. What cannot be read for certain
is unreadable, never guessed.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .asked import Kind
from .choices import read_choice
from .expressions import is_formal, normalise_formal, same_expression, without_text_marks
from .mentions import ANSWER_NOUN, BOXED, pattern, same_text, without_typography
from .numbers import CANONICAL, DECIMAL, decimal_text, read_number
from .thoughts import without_thoughts

__all__ = [
    "AnswerScore",
    "Gold",
    "answer_key",
    "comparable",
    "em_f1",
    "gold_text",
    "golds_of",
    "infer_kind",
    "normalise_span",
    "read_answer",
    "read_boolean",
    "read_choice",
    "read_number",
    "read_vote",
    "same_answer",
    "score",
]

_TRUE, _FALSE = frozenset(("yes", "true")), frozenset(("no", "false"))
_SAID: dict[bool | None, str | None] = {True: "yes", False: "no", None: None}
_TRUTH = r"(?P<word>yes|no|true|false)"
_BETWEEN = r"(?:(?:be|a|entirely|really|quite|strictly|exactly)\s+)*"
_FLIP = rf"(?P<flip>(?:\bnot|n't|\bcannot|\bnever)\s+{_BETWEEN})?"
_TRUTH_END = r"(?=\s*(?:$|[.,;:!?)\]}\"'\n–-]|(?:because|since|as|for|that|but|and|in|if)\b))"
_ALONE_TRUTH = pattern(
    r"[\s\"'(*]*(?:(?P<yes>correct|1|y|t)|incorrect|0|n|f)(?:\.0)?[\s\"')*.]*", re.I
)
_OPEN_TRUTH = pattern(
    r"\b(?:yes|no|true|false)\s*(?:,?\s*\b(?:and|or)\b|/)\s*(?:not\s+)?(?:yes|no|true|false)\b",
    re.I,
)
_STATED_TRUTH = pattern(
    r"(?:(?<![a-z])(?:answer|verdict|conclusion|prediction|response|label)"
    r"(?:[\"']?\s*[:=]|\s+(?:is|would be|should be|must be)\b)|"
    r"####|\bthe (?:statement|claim|sentence|assertion|proposition) is\b|"
    r"\b(?:so|therefore|thus|hence|actually|wait|overall|finally),?"
    r"(?: (?:it|this|that)(?:'s| is))?)"
    rf"[\s:\"'(\[{{,]*(?:(?:therefore|thus|clearly|definitely|probably|a|an|indeed|simply)\s+)*{_FLIP}\"?\b{_TRUTH}\b{_TRUTH_END}",
    re.I,
)
_LEADING_TRUTH = pattern(
    rf"[\s\"'(]*{_FLIP}\b{_TRUTH}\b(?=\s*(?:$|[.,;:!)\n–-]|\bbecause\b|\bsince\b))", re.I
)
_FINAL_TRUTH = pattern(rf"(?:^|[.!?\n][^\S\n]*)[\"'(]*{_FLIP}\b{_TRUTH}[\s.!\"')]*$", re.I)
_ANY_TRUTH = pattern(rf"{_FLIP}\b{_TRUTH}\b{_TRUTH_END}", re.I)
_DOUBTED = pattern(
    r"(?:\b(?:not|never|if|whether|unless|cannot|(?<!no )doubt)\b|n't)[^.;,:!?\n]*$", re.I
)

_TAGGED_SPAN = pattern(r"<(?:final_?)?answer>(.*?)</(?:final_?)?answer>", re.I | re.S)
_ITEM = r"(?:[-*•]|\d{1,3}[.)])[ \t].*"
_MARKED_SPAN = pattern(
    rf"^[ \t>#*_-]*(?:the\s+|my\s+)?(?:final\s+|short\s+|correct\s+|exact\s+)?"
    rf"(?:{ANSWER_NOUN})[ \t*_]*[:：][ \t*_]*\n*(```[\w+#-]*\n(?!```))?[ \t]*"
    rf"((?(1)(?s:.*?)(?=\n?```|\Z)|(?:{_ITEM}(?:\n+[ \t]*{_ITEM})*|\S.*)$))",
    re.I | re.M,
)
"""The line of a statement; of code and of a list under it, all lines."""
_STATED_SPAN = pattern(
    r"(?:^|[.!?\n][^\S\n]*)(?:(?:so|therefore|thus|hence),?\s+)?(?:the|my)\s+(?:final\s+|correct\s+)?"
    r"answer\s+(?:is|would be)[: ]\s*([^\n]+?)\s*\Z",
    re.I,
)
_UNDRESSED = pattern(r"^[\s\"'“*_`]+|[\"'”*_`.\s]+$")
"""The quotes, emphasis and full stop around a stated answer, which are dropped."""

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MEANT = pattern(
    r"(?<=[0-9])(?![,'_][0-9]{3}(?![0-9]))(?:[^\w\s]|_)(?=[0-9])|"  # 3-5, 4.5, not 1,250
    r"(?<![\w)\]}%])[-<>.](?=[$€£]?\.?[0-9])|(?<=[A-Za-z0-9)])[+^=<>#]+|"  # -5, C++, x^2
    r"(?<=[A-Za-z0-9])-(?=\W*\Z)"  # the grade A-
)
_WIDE = {ord(mark): chr(ord(mark) + 0xFEE0) for mark in string.punctuation}
_WIDE[ord(",")] = "．"
"""Marks that are kept become their full-width form, which `normalise_span` does not drop as ASCII
punctuation; a decimal comma becomes a point.
"""
_ARTICLE = pattern(r"\b(?:an?|the)\b")


def read_boolean(text: str) -> bool | None:
    """Return True for yes/true, False for no/false, None when the text says neither, both, or
    leaves it open.

    Reading order, in which the first step that applies decides:

    1. the whole text; only here, "correct" and "incorrect", 1 and 0, Y and N, T and F count, too;
    2. the last marked statement: "answer: yes", a LaTeX box, "the statement is not true", "so no";
    3. the words that open and end the text, if they agree;
    4. every yes/true/false that is not an attribute ("true love"), if all agree.

    "no" before a noun ("no evidence", "no doubt") is never an answer, "not true" is False, and "yes
    or no" only repeats the question.
    """
    text = without_typography(text)
    alone = _ALONE_TRUTH.fullmatch(text)
    if alone:
        return alone["yes"] is not None
    text = _OPEN_TRUTH.sub("…", text)
    stated = _truths(text, _STATED_TRUTH.finditer(text))
    if stated:
        return stated[-1]
    counted = list(filter(None, (_LEADING_TRUTH.match(text), _FINAL_TRUTH.search(text))))
    anywhere = not counted
    for match in _ANY_TRUTH.finditer(text):
        # A "no" within a sentence mostly belongs to a noun: it counts only between punctuation.
        if _set_off(text, match) or (anywhere and match["word"].casefold() != "no"):
            counted.append(match)
    values = set(_truths(text, counted))
    return values.pop() if len(values) == 1 else None


def _truths(text: str, matches: Iterable[re.Match[str]]) -> list[bool]:
    """Return the truth values of the matches, inverted after "not"; those in a clause that doubts
    or supposes them ("if it is true") are left out.
    """
    values = []
    for match in matches:
        flipped = match["flip"] is not None
        start = match.start("flip" if flipped else 0)
        # Not all text before it: a reply with many matches would take quadratic time.
        if not _DOUBTED.search(text[max(0, start - 120) : start]):
            values.append((match["word"].casefold() in _TRUE) != flipped)
    return values


def _set_off(text: str, match: re.Match[str]) -> bool:
    """Return whether the word stands between punctuation, so that it is an answer by itself."""
    before = text[: match.start("word")].rstrip(" \"'")
    after = text[match.end("word") :].lstrip(" \"'")
    return (not before or before[-1] in ".,;:!?\n(") and (not after or after[0] in ".,;:!\n)")


def normalise_span(text: str) -> str:
    """Return lower case, without ASCII punctuation, the words a, an, the, and extra white space.

    The rules and their order are those of HotpotQA's official evaluation script
    (`normalize_answer`).
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def meant_span(text: str) -> str:
    """As `normalise_span`, but with the marks without which it would be another answer: 4.5% is not
    45%, 3-5 is not 35, -5 is not 5, and C++ is not C. If nothing else would be left, articles and
    marks stay: "An" is not "The", and "==" is not "!=".
    """
    marked = _MEANT.sub(lambda mark: mark[0].translate(_WIDE), text.lower())
    bare = marked.translate(_PUNCTUATION).strip()
    return normalise_span(marked) or bare or text.lower().strip()


Gold = str | Sequence[str]
"""A gold answer, or several of which any is right."""


def golds_of(gold: Gold | None) -> Sequence[str]:
    """Return all accepted answers; empty if there is no gold answer."""
    if gold is None:
        return ()
    return (gold,) if isinstance(gold, str) else gold


def gold_text(gold: Gold | None) -> str:
    """Return the accepted answers as one text, joined by "or"; empty if there is no gold answer."""
    return " or ".join(golds_of(gold))


def em_f1(prediction: str | None, gold: Gold) -> tuple[float, float]:
    """Return exact match and token F1 of a span, each 0 to 1, as HotpotQA's official evaluation
    script counts them.

    Both sides are normalised by `normalise_span`; F1 is the harmonic mean of token precision and
    recall, and 0 if the two differ and one is "yes", "no", "noanswer" or "unanswerable". As there,
    two equal texts of articles alone match exactly and have F1 0. Of several accepted answers, the
    best score counts, as in SQuAD's script. None scores (0, 0).

    Unlike the script, texts that differ in a mark that matters are not equal (`meant_span`). If the
    gold is an expression, its operators, brackets, signs and points count, and equal expressions
    match exactly.
    """
    if prediction is None:
        return 0.0, 0.0
    if not isinstance(gold, str):
        matches, overlaps = zip(*[em_f1(prediction, accepted) for accepted in gold], strict=True)
        return max(matches), max(overlaps)
    if is_formal(gold):
        if same_expression(gold, prediction):
            return 1.0, 1.0
        said, wanted = prediction.split(), gold.split()
        return 0.0, _f1(map(normalise_formal, said), map(normalise_formal, wanted))
    predicted, true = normalise_span(prediction), normalise_span(gold)
    if predicted == true:
        signs_alone = bool(gold.strip()) and not any(map(str.isalnum, gold))
        # By the script alone, 35 equals 3-5, A equals A+, and any signs equal any others.
        if signs_alone or any(map(_MEANT.search, (prediction, gold))):
            predicted, true = meant_span(prediction), meant_span(gold)
    exact = float(predicted == true)
    if not exact and {predicted, true} & {"yes", "no", "noanswer", "unanswerable"}:
        return exact, 0.0
    return exact, _f1(predicted.split(), true.split())


def _f1(predicted: Iterable[str], true: Iterable[str]) -> float:
    """Return the harmonic mean of the precision and recall of words; 0 without a common word."""
    said, wanted = Counter(predicted), Counter(true)
    common = (said & wanted).total()
    if not common:
        return 0.0
    precision, recall = common / said.total(), common / wanted.total()
    return 2 * precision * recall / (precision + recall)


def read_answer(
    text: str | None, kind: Kind, choices: Mapping[str, str] | None = None
) -> str | None:
    """Return the canonical answer in a text: a label, "yes" or "no", a plain decimal ("-3.5"), or
    the stripped text. None if it has no readable answer of this kind.

    Thoughts before the reply are left out. If a span is stated ("Answer: Paris", "The answer is
    Paris.", a LaTeX box), the answer is what is stated. A span or open answer needs a letter, a
    digit or a symbol. Raises ValueError for kind choice without choices.
    """
    if text is None:
        return None
    text = without_thoughts(text).text
    if kind == "choice":
        if not choices:
            raise ValueError("an answer of kind choice can only be read with its choices")
        return read_choice(text, choices)
    # A canonical answer needs no search: rows are graded again, and votes counted, very often.
    if kind == "boolean":
        return text if text in ("yes", "no") else _SAID[read_boolean(text)]
    if kind == "number":
        if CANONICAL.fullmatch(text):
            return text
        number = read_number(text)
        return None if number is None else decimal_text(number)
    said = _stated_span(text) if kind == "span" else text.strip()
    # Dashes and dots alone are no answer, but brackets and signs may be what was asked for.
    says_something = any(
        sign in "()[]{}%&#@/\\" or unicodedata.category(sign)[0] not in "CPZ" for sign in said
    )
    return said if says_something else None


def _stated_span(text: str) -> str:
    """Return the short answer that a text states, or else the whole text."""
    boxed = list(BOXED.finditer(text)) or list(_TAGGED_SPAN.finditer(text))
    if boxed:
        return without_text_marks(boxed[-1][1]).strip()
    marked = list(_MARKED_SPAN.finditer(text))
    if marked:
        return _UNDRESSED.sub("", marked[-1][2])
    stated = _STATED_SPAN.search(text)
    if stated:
        return _UNDRESSED.sub("", stated[1])
    return text.strip()


def read_vote(text: str | None, kind: Kind, choices: Mapping[str, str] | None = None) -> str | None:
    """As `read_answer`, for counting votes: of options with the same text, the first label."""
    answer = read_answer(text, kind, choices)
    if answer is None or not choices:
        return answer
    return next(label for label in choices if same_text(label, answer, choices))


def answer_key(answer: str, kind: Kind) -> str:
    """Return the key of an answer for counting votes: equal answers, and no others, have the same
    key.

    Raises ValueError for what cannot be read as a number or boolean: such an answer equals nothing,
    so it has no key (use None for it).
    """
    if kind == "choice":
        return answer.strip().casefold()
    if kind == "task":
        return answer.strip()
    if kind in ("span", "open"):
        if is_formal(answer):
            return normalise_formal(answer)
        return meant_span(answer)
    key = read_answer(answer, kind)
    if key is None:
        raise ValueError(
            f"{answer!r} cannot be read as a {kind}, so it has no key; use None for an abstention"
        )
    return key


def same_answer(a: str | None, b: str | None, kind: Kind) -> bool:
    """Return whether two answers have the same `answer_key`.

    None, and an answer that cannot be read as its kind, equals nothing, not even itself.
    """
    if a is None or b is None:
        return False
    try:
        return answer_key(a, kind) == answer_key(b, kind)
    except ValueError:
        return False


def comparable(gold: Gold | None, answer: object, kind: Kind) -> tuple[Gold | None, object]:
    """Return the gold answer (several accepted ones as a list) and another answer, written so that
    a user's metric can compare them as texts: numbers as plain decimals, yes and no in the words of
    the gold answer.
    """
    golds = list(golds_of(gold))
    if kind == "number":
        golds = [read_answer(text, kind) or text for text in golds]
    elif kind == "boolean" and golds and isinstance(answer, str):
        answer = _in_words_of(golds[0], answer)
    if len(golds) > 1:
        return golds, answer
    return next(iter(golds), None), answer


def _in_words_of(gold: str, answer: str) -> str:
    """Return a truth value written like the gold answer: yes/no or true/false, in the same case."""
    said = read_boolean(answer)
    if said is None:
        return answer
    pair = ("true", "false") if gold.casefold() in ("true", "false") else ("yes", "no")
    word = pair[0] if said else pair[1]
    if gold.isupper():
        return word.upper()
    return word.capitalize() if gold[:1].isupper() else word


def infer_kind(answer: str | None, choices: Mapping[str, str] | None) -> Kind:
    """Return the kind of a question that does not state it: choice with choices, else boolean,
    number or span by the form of its gold answer.

    A year looks like a number, so a data set of spans must state its kind.
    """
    if choices:
        return "choice"
    text = (answer or "").strip()
    if text.casefold() in _TRUE | _FALSE:
        return "boolean"
    # Only a number and nothing else: "about 40 metres", in which one can be read, is a span.
    clean = rf"[-+−]?(?:{DECIMAL}|[0-9]+/[0-9]+)"
    return "number" if re.fullmatch(clean, text) and read_number(text) is not None else "span"


class AnswerScore(NamedTuple):
    """`correct` counts for accuracy; `em` and `f1`, 0 to 1, are None unless the kind is span."""

    correct: bool
    em: float | None
    f1: float | None


def score(
    answer: str | None, gold: Gold, kind: Kind, choices: Mapping[str, str] | None = None
) -> AnswerScore:
    """Return the score of an answer against the gold one, or the best of several accepted ones.
    None, and what cannot be read as this kind, is wrong.

    A choice is correct if its label is the gold one or that of an option with the same text; a span
    if it matches exactly, and so is free text (kind open), which therefore needs a metric. Raises
    ValueError for a fault of the data: a gold answer that is none of the choices, or not of the
    kind.
    """
    if not isinstance(gold, str):
        scores = [score(answer, accepted, kind, choices) for accepted in gold]
        return max(scores, key=lambda scored: (scored.correct, scored.f1 or 0.0))
    if kind == "span":
        em, f1 = em_f1(answer, gold)
        return AnswerScore(em == 1.0, em, f1)
    if kind == "choice":
        label = gold.strip()
        if choices and label not in choices:
            raise ValueError(
                f"the gold answer {gold!r} is not among the choices {', '.join(choices)}"
            )
        chosen = None if answer is None else answer.strip()
        return AnswerScore(chosen == label or same_text(chosen, label, choices or {}), None, None)
    if read_answer(gold, kind) is None:
        raise ValueError(f"the gold answer {gold!r} is not a {kind}")
    return AnswerScore(same_answer(answer, gold, kind), None, None)
