"""Reads the gold answers of a table: as labels, texts or positions of options, or as yes and no.

Nothing is guessed: if two readings fit all rows and differ, UserError says which option decides.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from itertools import chain, combinations

from ...modules.base.errors import UserError
from ...modules.reading.question import Question, text_of_scalar
from .aliases import numbered
from .cells import as_list

READINGS = ("label", "text", "from0", "from1")
"""What a number may mean as an answer: a label, the text of an option, or its position counted from
0 or from 1.
"""
UNANSWERABLE = "unanswerable"
"""The gold answer of a question with an empty answer, if the user says so (SQuAD 2)."""
_MEANINGS = {
    "text": "the text of an option",
    "from0": "its place counted from 0",
    "from1": "its place counted from 1",
}
_CLASS = re.compile(r"\d{1,3}")
_NUMBER = re.compile(r"-?\d+(?:\.0)?")
_LABELLED = re.compile(
    r"(?:(?:option|choice|answer)[\s_:-]*)?[(\[]?\s*([a-z]|\d{1,2})\s*(?:[)\].:]+\s*(.*)|$)",
    re.I | re.S,
)
_TRUTHS = {"1": "yes", "y": "yes", "t": "true", "0": "no", "n": "no", "f": "false"}
_PAIRS = ({"1", "0"}, {"y", "n"}, {"t", "f"})
_LETTERS, _DIGITS = set(string.ascii_lowercase), set(string.digits)
_NUMBERED = re.compile(r"(.*[^\d\s_.-]|)[\s_.-]*(\d{1,2}|[A-Z])")


class AnswerReader:
    """Reads the gold answers of a table in the only way that fits all its rows.

    Call `see` with row after row until it returns True or there are no more, then `decide` once,
    then `read` with each row. `kind` is that of all rows, if it is known; `reading` is one of
    READINGS, if the user gave it. `note` says what was decided.
    """

    def __init__(self, kind: str | None) -> None:
        self.reading: str | None = None
        self.empty: str | None = None  # the gold of rows without an answer
        self.note = ""
        self._kind = kind
        self._truths = kind == "boolean"
        self._options = False  # whether a row has options
        self._left: list[str] = []  # the readings that fit all numbers so far
        self._apart: set[frozenset[str]] = set()  # pairs of readings that differ on some number
        self._short: set[str] = set()  # answers without options, while all of them are letters
        self._capitals = True  # … and whether they are written like labels
        self.of_classes = False  # whether the column is called as those of classes are
        self._seen = 0  # answers without options
        self._classes = True  # … and whether all may be numbers of classes
        self.own_labels = False  # whether options come with labels
        self._twofold = ""  # an answer that is the label of one option and the text of another

    def see(self, choices: object, answer: object, kind: object) -> bool:
        """Look at a row; returns True once no further row can change how answers are read."""
        if answer is None:
            return False
        if isinstance(choices, Mapping):
            self._options = True
            if self.reading is None and _is_number(answer):
                fitting: dict[str, str] = {}
                for name in self._left or READINGS:
                    label = _label(answer, choices, name)
                    if label:
                        fitting[name] = label
                self._left = list(fitting) or self._left  # otherwise it is an error in the row
                for one, other in combinations(fitting, 2):
                    if fitting[one] != fitting[other]:
                        self._apart.add(frozenset((one, other)))
                # With one reading left, no further number can change it.
                return len(self._left) == 1
            meanings = _label_and_text(answer, choices)
            if len(set(meanings)) == len(meanings) == 2:
                self._twofold = as_text(answer)
            if len(meanings) == 2:  # another row may show which of them it is
                return False
            if self.reading is None:
                self.reading = "label"
                if meanings and folded(answer) not in map(str.casefold, choices):
                    self.reading = "text"
            return True
        if kind is not None or self._kind is not None:
            return True
        text = _bare(answer)
        bare = text.strip("().")
        self._short.add(bare.casefold())
        self._capitals &= text.isupper() or text != bare
        self._seen += 1
        self._classes &= self.of_classes and bool(_CLASS.fullmatch(text))
        short = any(self._short <= words for words in (_LETTERS, _DIGITS, *_PAIRS))
        return not (short or self._classes)

    def decide(self, column: str) -> None:
        """Choose the remaining reading. Raises UserError if two different ones remain."""
        left = self._left
        if self.reading is None and self._twofold and not self.own_labels:
            raise UserError(
                f"the answer {self._twofold!r} in {column!r} is the label of one option and the "
                f"text of another; say which with --columns answer={column}:label or --columns "
                f'answer={column}:text (in Python columns={{"answer": "{column}:text"}})'
            )
        if self.reading is None and "label" not in left:
            # Readings that agree on every row need no decision.
            if any(pair <= set(left) for pair in self._apart):
                meanings = " or ".join(map(_MEANINGS.__getitem__, left))
                ways = " or ".join(f"--columns answer={column}:{name}" for name in left)
                raise UserError(
                    f"the answers in {column!r} are numbers, each of which may be {meanings}; "
                    f"say which with {ways} "
                    f'(in Python columns={{"answer": "{column}:{left[0]}"}})'
                )
            self.reading = next(iter(left), None)
        if self.reading in ("from0", "from1"):
            if not self._options:
                raise UserError(
                    f"{column}:{self.reading} counts options, but no column is read as one; name "
                    "them with --columns choices=FIRST,SECOND,… "
                    '(in Python columns={"choices": "FIRST,SECOND"})'
                )
            self.note = f"index from {self.reading[-1]}"
        few = 2 * len(self._short) <= self._seen  # classes repeat often, other numbers hardly do
        if self._short in _PAIRS:
            self._truths = True
            # The word for yes comes first, since False sorts before True.
            yes, no = sorted(self._short, key=lambda word: _TRUTHS[word] in ("no", "false"))
            self.note = f"{yes} is {_TRUTHS[yes]}, {no} is {_TRUTHS[no]}"
        elif self._short and self._classes and (few or self._short <= _DIGITS):
            raise UserError(
                f"the answers in {column!r} are numbers of classes without names; write the names "
                "in their place, or say --kind number if the numbers are what is asked for"
            )
        elif self._short and self._short <= _LETTERS and self._capitals:
            raise UserError(
                f"the answers in {column!r} are letters, but there are no options; put the "
                "options into columns named A, B, …, or name theirs with --columns "
                "choices=FIRST,SECOND,…, or say --kind span if the letters are what is asked for"
            )

    def read(self, choices: object, answer: object, kind: object) -> object:
        """Return the gold answer in a row. Raises UserError for a position without an option."""
        if answer is None:
            return self.empty
        if not isinstance(choices, Mapping):
            if isinstance(answer, list) or not (self._truths or kind == "boolean"):
                return answer
            return _TRUTHS.get(_bare(answer).casefold(), answer)
        _check_one_right(answer, choices)
        if self.reading in ("from0", "from1", "text") and _is_number(answer):
            label = _label(answer, choices, self.reading)
            if label is None and self.reading != "text":
                raise UserError(
                    f"the answer {as_text(answer)} is not the place of an option, counted from "
                    f"{self.reading[-1]} as the others are; correct it"
                )
            return label or answer
        meanings = _label_and_text(answer, choices)
        if self.reading == "text" and meanings:
            return meanings[-1]
        return _canonical(answer, choices)


def _check_one_right(answer: object, choices: Mapping[str, object]) -> None:
    """Raise UserError for a gold answer that names several options."""
    if not isinstance(answer, str):
        return  # `Question` refuses a list
    labels, said = set(map(str.casefold, choices)), folded(answer)
    letters = list(filter(None, re.split(r"[\s,;/&|+]+|\band\b", said)))
    if len(letters) == 1:
        letters = list(said)
    names = labels.union(map(folded, choices.values()))
    if said not in names and len(letters) > 1 and set(letters) <= labels:
        raise UserError(
            f"several options are right ({answer.strip()[:60]}), but a question is scored against "
            "one; leave the row out, or keep one right option"
        )


def option_columns_missed(questions: Sequence[Question]) -> list[str]:
    """Return the columns that nobody named as options although the answer always stands in one of
    them or is its name.

    Options differ, so that an answer stands in exactly one; those whose names share the words of
    these columns are options too. Empty where there are no such columns.
    """
    names: dict[str, None] = {}
    answered: set[str] = set()
    for question in questions:
        if question.answer is None:
            continue
        gold, holders = folded(question.answer), set[str]()
        for name, value in question.meta.items():
            if isinstance(value, str | int | float):
                names[name] = None
                if gold in (folded(value), name.casefold()):
                    holders.add(name)
        if len(holders) != 1 or question.kind in ("choice", "boolean"):
            return []
        answered |= holders
    if len(answered) < 2:
        return []
    words = {name: set(re.findall(r"[^\W\d_]+", name.casefold())) for name in names}
    common = set.intersection(*(words[name] for name in answered))
    return [name for name in names if name in answered or (common and common <= words[name])]


def numbered_columns(questions: Sequence[Question]) -> tuple[list[str], str] | None:
    """Unused columns of one name with numbers or letters (`Reply 1`, `Reply 2`, …), where every
    gold is one of these, and how the gold is to be read; else None.
    """
    golds = {as_text(question.answer).strip() for question in questions if question.answer}
    if len(golds) < 2 or any(question.choices for question in questions):
        return None
    columns: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(chain.from_iterable(question.meta for question in questions)):
        match = _NUMBERED.fullmatch(numbered(name))
        if match and all(isinstance(question.meta.get(name), str | None) for question in questions):
            columns.setdefault(match[1], {})[match[2]] = name
    for labels in columns.values():
        if len(labels) < 2:
            continue
        if golds <= labels.keys():
            first = next(iter(labels))
        elif golds <= set(map(str, range(len(labels)))):
            first = "0"
        else:
            continue
        return list(labels.values()), {"0": ":from0", "1": ":from1"}.get(first, "")
    return None


def same_gold(answer: object, other: object, choices: object) -> bool:
    """Return whether two columns name the same right answer: in equal words, or the same option by
    its label, text or place.
    """
    one, two = _gold_texts(answer), _gold_texts(other)
    if one & two:
        return True
    # Both count from the same end, so that different numbers are different options.
    if not isinstance(choices, Mapping) or all(map(str.isdigit, one | two)):
        return False
    return bool(_options_meant(one, choices) & _options_meant(two, choices))


def _gold_texts(answer: object) -> set[str]:
    return {" ".join(as_text(member).split()).casefold() for member in as_list(answer)}


def _options_meant(golds: set[str], choices: Mapping[str, object]) -> set[str]:
    """Return the labels that any of the gold answers may mean."""
    meant: set[str] = set()
    for place, (label, text) in enumerate(choices.items()):
        # Whether places are counted from 0 or 1 is not known here.
        names = {label.casefold(), folded(text), str(place), str(place + 1)}
        if golds & names or any(_canonical(gold, choices) == label for gold in golds):
            meant.add(label)
    return meant


def as_text(answer: object) -> str:
    """Return an answer as text; 2.0 becomes 2, since a column with gaps holds a 2 as 2.0."""
    return str(text_of_scalar(answer))


def folded(answer: object) -> str:
    """Return the text of an answer without blanks around it, and without case."""
    return as_text(answer).strip().casefold()


def _bare(answer: object) -> str:
    """Return an answer like `folded`, but with the text 1.0 as 1, too."""
    text = as_text(answer).strip()
    if _NUMBER.fullmatch(text):
        text = text.removesuffix(".0")
    return text


def _label_and_text(answer: object, choices: Mapping[str, object]) -> list[str]:
    """Return the labels that an answer means as a label, and as the text of the only option with
    it.
    """
    said = folded(answer)
    by_label = [label for label in choices if label.casefold() == said]
    by_text = [label for label, text in choices.items() if folded(text) == said]
    if len(by_text) > 1:
        return by_label[:1]
    return by_label[:1] + by_text


def _is_number(answer: object) -> bool:
    return not isinstance(answer, bool) and bool(_NUMBER.fullmatch(as_text(answer).strip()))


def _label(answer: object, choices: Mapping[str, object], reading: str) -> str | None:
    """Return the label that a number means in a reading, if it means one."""
    number = as_text(answer).strip()
    if reading == "label":
        return number if number in choices else None
    if reading == "text":
        for label, text in choices.items():
            if number == str(text).strip():
                return label
        return None
    # Through float, as the text of a cell may be 3.0.
    place = int(float(number)) - (reading == "from1")
    if not 0 <= place < len(choices):
        return None
    label = list(choices)[place]
    # With an empty option in between, a place may be counted with or without it.
    if next(iter(choices)) == "A" and label != string.ascii_uppercase[place]:
        return None
    return label


def _canonical(answer: object, choices: Mapping[str, object]) -> object:
    """Return `(D)`, `D.`, `option_d` and `D. the text` as D, unless an option is called so or says
    so.
    """
    if not isinstance(answer, str):
        return answer
    stripped = answer.strip()
    names = {str(part).casefold() for part in (*choices, *choices.values())}
    match = _LABELLED.match(stripped)
    if stripped.casefold() in names or match is None:
        return stripped
    meant = {choice.casefold(): choice for choice in choices}
    if all(map(str.isdigit, choices)):  # B is the second of `Option 1`, `Option 2`, …
        meant |= dict(zip(string.ascii_lowercase, choices, strict=False))
    label = meant.get(match[1].casefold())
    rest = (match[2] or "").strip().casefold()
    if label is None or (rest and rest != folded(choices[label])):
        return stripped
    return label
