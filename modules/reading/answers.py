"""Reads and compares answers: one pure normaliser a kind (choice, boolean, number, text), none
guessing.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Literal, NamedTuple

from .choices import read_choice
from .mentions import same_text, without_typography

__all__ = [
    "Gold",
    "Kind",
    "Score",
    "answer_key",
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

Kind = Literal["choice", "boolean", "number", "span", "open"]

_TRUE, _FALSE = frozenset(("yes", "true")), frozenset(("no", "false"))
_TRUTH = r"(?P<word>yes|no|true|false)"
_BETWEEN = r"(?:(?:be|a|entirely|really|quite|strictly|exactly)\s+)*"
_FLIP = rf"(?P<flip>(?:\bnot|n't|\bcannot|\bnever)\s+{_BETWEEN})?"
_TRUTH_END = r"(?=\s*(?:$|[.,;:!?)\]}\"'\n–-]|(?:because|since|as|for|that|but|and|in|if)\b))"
_OPEN_TRUTH = re.compile(
    r"\b(?:yes|no|true|false)\s*(?:,?\s*\b(?:and|or)\b|/)\s*(?:not\s+)?(?:yes|no|true|false)\b",
    re.I,
)
_STATED_TRUTH = re.compile(
    r"(?:(?<![a-z])(?:answer|verdict|conclusion|prediction|response|label)"
    r"(?:[\"']?\s*[:=]|\s+(?:is|would be|should be|must be)\b)|"
    r"####|\bthe (?:statement|claim|sentence|assertion|proposition) is\b|"
    r"\b(?:so|therefore|thus|hence|actually|wait|overall|finally),?(?: (?:it|this|that)(?:'s| "
    r"is))?)"
    rf"[\s:\"'(\[{{,]*(?:(?:therefore|thus|clearly|definitely|probably|a|an|indeed|simply)\s+)*{_FLIP}\"?\b{_TRUTH}\b{_TRUTH_END}",
    re.I,
)
_LEADING_TRUTH = re.compile(
    rf"[\s\"'(]*{_FLIP}\b{_TRUTH}\b(?=\s*(?:$|[.,;:!)\n–-]|\bbecause\b|\bsince\b))", re.I
)
_FINAL_TRUTH = re.compile(rf"(?:^|[.!?\n]\s*)[\"'(]*{_FLIP}\b{_TRUTH}[\s.!\"')]*$", re.I)
_ANY_TRUTH = re.compile(rf"{_FLIP}\b{_TRUTH}\b{_TRUTH_END}", re.I)
_DOUBTED = re.compile(
    r"(?:\b(?:not|never|if|whether|unless|cannot|(?<!no )doubt)\b|n't)[^.;,:!?\n]*$", re.I
)

_INTEGER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:[ \u2009\u202f][0-9]{3})+|[0-9]+)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{{1,2}}(?![0-9A-Za-z]))?|\.[0-9]+)"
_NUMBER = re.compile(
    r"(?P<sign>\b(?:negative|minus)\s+|[-+])?[$€£¥₹]?(?P<inner>(?<=[$€£¥₹])[-+])?(?<![A-Za-z0-9_])(?<![0-9][.,/:])"
    rf"(?:(?:(?:(?P<whole>[0-9]+)\s+)?(?P<over>[0-9]+)/(?P<under>[0-9]+)|(?P<decimal>{_DECIMAL}))(?![.,/:]?[0-9])|"
    r"(?P<odd>[0-9]+(?:[.,/:][0-9]+)+))(?!(?:st|nd|rd|th)\b)[ ]?%?",
    re.I,
)
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]")
_NUMBER_MARK = re.compile(
    r"####|(?<![a-z])answer(?:[\"']?\s*[:=]|\s+(?:is|was|would be|should be|comes "
    r"to|equals)\b)(?!\s+not\b)",
    re.I,
)
_NO_NUMBER = re.compile(
    r"\b(?:unknown|none|cannot|can't|undetermined|unclear|not|nan|n/a|infinit\w*|inf)\b", re.I
)
_SENTENCE = re.compile(r"\n|[;!?]|\.(?=\s|$)")
_EXACT = Context(prec=28)
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:an?|the)\b")


def read_boolean(text: str) -> bool | None:
    """True for yes/true, False for no/false, None when the text says neither, both, or leaves it
    open.

    Reading order: the whole text (here alone "correct" and "incorrect" count); the last marked
    statement ("answer: yes", a LaTeX box, "the statement is not true", "so no"); the word that
    opens or that ends the text, when they agree; else every yes/true/false that is not an attribute
    ("true love"), when all agree. "no" before a noun ("no evidence", "no doubt") is never an
    answer, "not true" is False, "yes or no" is an echo of the question.
    """
    if not text or not text.strip():
        return None
    text = without_typography(text)
    whole = re.sub(r"[\W_]+", " ", text).strip().casefold()
    if whole in {"correct", "incorrect"}:
        return whole == "correct"
    text = _OPEN_TRUTH.sub("…", text)
    stated = [value for m in _STATED_TRUTH.finditer(text) if (value := _truth(text, m)) is not None]
    if stated:
        return stated[-1]
    edges = [m for m in (_LEADING_TRUTH.match(text), _FINAL_TRUTH.search(text)) if m]
    every = list(_ANY_TRUTH.finditer(text))
    set_off = [m for m in every if _set_off(text, m)]
    matches = (
        edges + set_off if edges else [m for m in every if m["word"].casefold() != "no"] + set_off
    )
    values = {value for m in matches if (value := _truth(text, m)) is not None}
    return values.pop() if len(values) == 1 else None


def _truth(text: str, match: re.Match[str]) -> bool | None:
    """The value of one match, turned round by "not"; None in a clause that doubts or
    supposes it.
    """
    word = match["word"].casefold()
    start = match.start() if match["flip"] is None else match.start("flip")
    if _DOUBTED.search(text[max(0, start - 120) : start]):
        return None
    return (word in _TRUE) != (match["flip"] is not None)


def _set_off(text: str, match: re.Match[str]) -> bool:
    """Whether punctuation stands on both sides of the word, so that it answers."""
    before, after = (
        text[: match.start("word")].rstrip(" \"'"),
        text[match.end("word") :].lstrip(" \"'"),
    )
    return (not before or before[-1] in ".,;:!?\n(") and (not after or after[0] in ".,;:!\n)")


def read_number(text: str, strict: bool = False) -> Decimal | None:
    """The number that the text gives as its answer, exactly, or None.

    The two readings follow the filters of lm-evaluation-harness for GSM8K. `strict`
    ("strict-match"): only the first `#### N`. Not strict ("flexible-extract"): the number after the
    last "####", "answer is", "answer:" or LaTeX box (after the last "=" where the sentence goes on
    calculating), else the last number in the text. In both, a text that is a number and nothing
    else is that number.

    Numbers carry a sign (also U+2212, "negative"), currency or unit (dropped: "40%" is 40),
    thousands separators (1,250 and 1 250), decimals or a fraction ("3/4", "1 1/2"). A hyphen after
    a word or number ("5-6", "COVID-19") is not a sign; ordinals and digits inside words are no
    numbers. When the number to take cannot be read for certain ("1,25", "3:30", "1/0"), and for NaN
    and infinity, the result is None.
    """
    if not text:
        return None
    text = re.sub(r"\\([$%])", r"\1", re.sub(r"\\[,!; ]", "", without_typography(text)))
    text = re.sub(
        r"[¼-¾⅐-⅞]", lambda m: " " + unicodedata.normalize("NFKC", m[0]).replace("⁄", "/"), text
    ).strip()
    alone = _NUMBER.search(text)
    if alone and not re.search(r"[^\s.()\"']", text[: alone.start()] + text[alone.end() :]):
        return _value(text, alone)
    if strict:
        mark = re.search(r"####\s*", text)
        number = _NUMBER.match(text, mark.end()) if mark else None
        return _value(text, number) if number else None
    markers = list(_NUMBER_MARK.finditer(text))
    if markers:
        statement = text[markers[-1].end() :].lstrip(" \n:\"'")
        statement = _SENTENCE.split(statement, maxsplit=1)[0].rpartition("=")[2]
        number = _NUMBER.search(statement)
        if _NO_NUMBER.search(statement, 0, number.start() if number else len(statement)):
            return None
        if number:
            return _value(statement, number)
    numbers = list(_NUMBER.finditer(text))
    return _value(text, numbers[-1]) if numbers else None


def _value(text: str, number: re.Match[str]) -> Decimal | None:
    def integer(digits: str) -> Decimal:
        return Decimal(re.sub(r"[,\s]", "", digits))

    if number["odd"]:
        return None
    if number["over"]:
        under = Decimal(number["under"])
        if not under:
            return None
        value = _EXACT.add(
            integer(number["whole"] or "0"), _EXACT.divide(Decimal(number["over"]), under)
        )
    else:
        value = integer(number["decimal"])
    return value.copy_negate() if _negative(text, number) else value


def _negative(text: str, number: re.Match[str]) -> bool:
    """Whether the sign is a sign: a minus that joins two words or numbers, or subtracts, is
    none.
    """
    sign = (number["sign"] or number["inner"] or "").strip().casefold()
    if sign in {"", "+"}:
        return False
    before = text[: number.start("sign")] if number["sign"] else ""
    joined = before[-1:].isalnum() and sign == "-"
    return not joined and not re.search(r"[0-9)\]%]\s*$", before)


def normalise_span(text: str) -> str:
    """Lower case, without ASCII punctuation, the words a, an, the, and extra white space.

    The rules and their order are those of HotpotQA's official evaluation script
    (`normalize_answer`).
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


Gold = str | Sequence[str]
"""A gold answer, or several of which any is right."""


def golds_of(gold: Gold | None) -> Sequence[str]:
    """The accepted answers; empty where there is none."""
    if gold is None:
        return ()
    return (gold,) if isinstance(gold, str) else gold


def gold_text(gold: Gold | None) -> str:
    """The accepted answers in words; empty where there is none."""
    return " or ".join(golds_of(gold))


def em_f1(prediction: str | None, gold: Gold) -> tuple[float, float]:
    """Exact match and token F1 of a span, each 0 to 1, as HotpotQA's official evaluation script
    counts them.

    Both sides are normalised by `normalise_span`. F1 is the harmonic mean of token precision and
    recall, and 0 when either side is "yes", "no" or "noanswer" and the other differs. As there, two
    texts with no token left match exactly and have F1 0. No prediction scores (0, 0). Of several
    accepted answers the one that scores most counts, as in SQuAD's script.
    """
    if prediction is None:
        return 0.0, 0.0
    if not isinstance(gold, str):
        scores = [em_f1(prediction, accepted) for accepted in gold]
        return max(em for em, _ in scores), max(f1 for _, f1 in scores)
    predicted, true = normalise_span(prediction), normalise_span(gold)
    exact = float(predicted == true)
    if not exact and {predicted, true} & {"yes", "no", "noanswer"}:
        return exact, 0.0
    predicted_tokens, true_tokens = predicted.split(), true.split()
    common = (Counter(predicted_tokens) & Counter(true_tokens)).total()
    if not common:
        return exact, 0.0
    precision, recall = common / len(predicted_tokens), common / len(true_tokens)
    return exact, 2 * precision * recall / (precision + recall)


def read_answer(
    text: str | None, kind: Kind, choices: Mapping[str, str] | None = None
) -> str | None:
    """The canonical answer in a text: a label, "yes" or "no", a plain decimal ("-3.5"), or the
    stripped text.

    None when the text has no readable answer of this kind; a span or open one has a letter, a digit
    or a symbol. Raises ValueError for kind choice without choices.
    """
    if text is None:
        return None
    if kind == "choice":
        if not choices:
            raise ValueError("an answer of kind choice can only be read with its choices")
        return read_choice(text, choices)
    if (kind == "boolean" and text in ("yes", "no")) or (
        kind == "number" and _CANONICAL.fullmatch(text)
    ):
        # as it was read before: rows are graded again, and votes counted, without searching
        return text
    if kind == "boolean":
        value = read_boolean(text)
        return None if value is None else "yes" if value else "no"
    if kind == "number":
        number = read_number(text)
        return None if number is None else _decimal_text(number)
    return (
        text.strip()
        if any(unicodedata.category(letter)[0] not in "CPZ" for letter in text)
        else None
    )


def read_vote(text: str | None, kind: Kind, choices: Mapping[str, str] | None = None) -> str | None:
    """The answer in a text as it counts among others: of options with the same text it is the
    first.
    """
    answer = read_answer(text, kind, choices)
    if answer is None or not choices:
        return answer
    return next(label for label in choices if same_text(label, answer, choices))


def _decimal_text(number: Decimal) -> str:
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def answer_key(answer: str, kind: Kind) -> str:
    """The key that two answers share exactly when they are the same answer; for counting votes.

    Raises ValueError for an answer that is not a number or boolean: an unreadable answer is equal
    to nothing, so it has no key (use None for it).
    """
    if kind == "choice":
        return answer.strip().casefold()
    if kind in ("span", "open"):
        # "The The" and "A" are not the same band
        return normalise_span(answer) or answer.strip().casefold()
    key = read_answer(answer, kind)
    if key is None:
        raise ValueError(
            f"{answer!r} cannot be read as a {kind}, so it has no key; use None for an abstention"
        )
    return key


def same_answer(a: str | None, b: str | None, kind: Kind) -> bool:
    """Whether two answers are the same: labels, truth values, numbers by value, spans by
    `normalise_span`.

    None, and an answer that cannot be read as its kind, equals nothing, not even itself.
    """
    if a is None or b is None:
        return False
    try:
        return answer_key(a, kind) == answer_key(b, kind)
    except ValueError:
        return False


def infer_kind(answer: str | None, choices: Mapping[str, str] | None) -> Kind:
    """The kind of a question that does not state it: choice with choices, else by the look of its
    gold answer; never open.

    A year looks like a number: a data set of spans must state its kind.
    """
    if choices:
        return "choice"
    text = (answer or "").strip()
    if text.casefold() in _TRUE | _FALSE:
        return "boolean"
    clean = rf"[-+−]?(?:{_DECIMAL}|[0-9]+/[0-9]+)"
    return "number" if re.fullmatch(clean, text) and read_number(text) is not None else "span"


class Score(NamedTuple):
    """`correct` counts towards accuracy; `em` and `f1`, each 0 to 1, are those of a span, else
    None.
    """

    correct: bool
    em: float | None
    f1: float | None


def score(
    answer: str | None, gold: Gold, kind: Kind, choices: Mapping[str, str] | None = None
) -> Score:
    """Score one answer against the gold one, or the best of several accepted ones; an answer of
    None, or of another kind, is wrong.

    A choice is correct with the gold label or a label whose option has the same text; a span when
    it matches exactly, and so does free text (kind open), which is why that needs a metric. Raises
    ValueError when the gold itself is none of the choices, no number, or no boolean: a fault of the
    data.
    """
    if not isinstance(gold, str):
        scores = [score(answer, accepted, kind, choices) for accepted in gold]
        return max(scores, key=lambda scored: (scored.correct, scored.f1 or 0.0))
    if kind == "span":
        em, f1 = em_f1(answer, gold)
        return Score(em == 1.0, em, f1)
    if kind == "choice":
        label = gold.strip()
        if choices and label not in choices:
            raise ValueError(
                f"the gold answer {gold!r} is not among the choices {', '.join(choices)}"
            )
        chosen = None if answer is None else answer.strip()
        return Score(chosen == label or same_text(chosen, label, choices or {}), None, None)
    if read_answer(gold, kind) is None:
        raise ValueError(f"the gold answer {gold!r} is not a {kind}")
    return Score(same_answer(answer, gold, kind), None, None)
