"""The other names that data sets give to the fields of questions, and the columns that hold one
option each.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence

from ...modules.base.errors import UserError
from ...modules.reading.mentions import pattern
from ..base.request import naming

ALIASES = {
    "id": "qid question_id example_id uid _id idx index uuid guid row_id item_id",
    "question": "query prompt problem problem_text question_text sent sentence question_stem stem "
    "input instruction goal statement claim q text user_input turns ctx conclusion hypothesis "
    "squestion",
    "choices": "options choice answer_choices answer_options possible_answers candidates "
    "alternatives endings",
    "answer": "label gold target correct ground_truth ground_truths expected reference answers "
    "answers_spans ans cop output ideal final_decision lsolutions __expected",
    "context": "passage passages paragraph paragraphs article support document contexts "
    "retrieved_contexts premise premises body narrative story theory dialogue flores_passage ctx",
    "kind": "",
    "meta": "metadata",
}
"""Other names of each field, from public data sets; blanks, dashes and underscores do not count."""

ColumnNames = Mapping[str, str | Sequence[str]]
"""Field → the column that holds it; several for options in columns of their own."""

_GOLD = re.compile(
    r"(?:correct|right|gold|golden|true|expected|reference|target|final|best)"
    r"(?:answer|ans|option|choice|label|response|output)s?"
    r"(?:index|idx|id|number|num|position|pos|key|letter|text)?"
    r"|(?:correct|gold|answer|label)"
    r"(?:index|idx|id|number|num|position|pos|key|letter|text|option|choice)"
)
"""Further names of the answer: `correctAnswerIndex`, `answer_key`, …"""

_OPTION = pattern(
    r"(?P<of>(?:[A-Za-z]{1,2}_)?"
    r"(?i:choices?|options?|opt|op|alternative|ending|sol|solution|answer|ans|candidate)[\s_.-]*)?"
    r"[\[(]?(?P<label>[A-Za-z]|(?<=[A-Za-z\s_.[(-])\d{1,2})[\])]?[.:]?"
)
LIKE_OPTIONS = pattern(r"choice|option|alternativ|ending|distract|candidate|incorrect|wrong", re.I)


_ASIDE = re.compile(r"\s*\([^()]*\)|\s+[-–—]\s.*")
_ORDINALS = (
    ("first", "1st", "one"),
    ("second", "2nd", "two"),
    ("third", "3rd", "three"),
    ("fourth", "4th", "four"),
    ("fifth", "5th", "five"),
    ("sixth", "6th", "six"),
)
_PLACES = {word: str(place) for place, words in enumerate(_ORDINALS, 1) for word in words}


def squeezed(name: str) -> str:
    """Return a name without case, blanks, dots, dashes, underscores, the punctuation of forms and
    remarks in brackets: `answer2` for `Answer 2 (optional)`, `answer` for `Answer:*`.
    """
    return re.sub(r"[\s_.:*-]+", "", (_ASIDE.sub("", name) or name).casefold())


def numbered(name: str) -> str:
    """Return a name without remarks in brackets, and with its number as a digit at its end: `answer
    1` for `first answer`.
    """
    bare = (_ASIDE.sub("", name) or name).strip()
    words = re.split(r"[\s_-]+", bare)
    for word, others in ((words[0], words[1:]), (words[-1], words[:-1])):
        if others and word.casefold() in _PLACES:
            return f"{' '.join(others)} {_PLACES[word.casefold()]}"
    return bare


_NAMES = {field: set(map(squeezed, names.split())) for field, names in ALIASES.items()}

_OBJECTS = (
    "input inputs output outputs expected expectations reference referenceoutputs item data "
    "example vars doc row fields qa messages conversations rewardmodel"
)
_WEAK = frozenset(("conclusion", "hypothesis", "story", "theory", "passages"))
"""Names that say what a column holds where no other one does: of a statement and a conclusion, the
statement is asked about.
"""
CONTAINERS = frozenset(_OBJECTS.split())
"""Objects that hold the fields of a row (LangSmith, MLflow, Braintrust, OpenAI, verl)."""


def columns_of(field: str, names: Iterable[str]) -> list[str]:
    """Return the columns that may hold the field: first the one with its name, then those with
    another name for it. `inputs.question` is called `question`.
    """
    words = {name: _word(name) for name in names}
    called = [name for name, word in words.items() if word == field]
    others = [name for name, word in words.items() if word in _NAMES[field] - {field}]
    if field == "answer":
        others += [name for name, word in words.items() if _GOLD.fullmatch(word)]
    return called + others


def _word(name: str) -> str:
    container, _, inner = name.partition(".")
    return squeezed(inner if inner and squeezed(container) in CONTAINERS else name)


def column_of(field: str, names: Iterable[str]) -> str | None:
    """Return the column with the field's name, else the only one with another name for it.

    Raises UserError for several such columns, except for ids, of which any will do, and for
    answers, which `Columns` compares.
    """
    found = columns_of(field, names)
    found = [name for name in found if _word(name) not in _WEAK] or found
    if len(found) > 1 and field not in ("id", "answer") and _word(found[0]) != field:
        raise UserError(
            f"the columns {' and '.join(found)} could each be the {field}; say which "
            f"{naming(field)}"
        )
    return found[0] if found else None


def option_columns(names: Sequence[str], *, strict: bool) -> dict[str, str]:
    """Column → label of the columns that hold an option each: `A`, `B`, … or `option_a`, …

    Raises UserError, if `strict`, where columns look like options and cannot be read as such.
    """
    sets: dict[str, dict[str, str]] = {}
    for name in names:
        match = _OPTION.fullmatch(numbered(name))
        if match:
            sets.setdefault(squeezed(match["of"] or ""), {})[name] = match["label"].upper()
    if "" in sets:
        sets[""] = _without_strays(sets[""])
    whole: list[dict[str, str]] = []
    for labels in sets.values():
        # Without the first option, columns of one stem are numbered for another reason.
        has_first = {"A", "0", "1"} & set(labels.values())
        if len(labels) > 1 and has_first:
            whole.append(labels)
    if strict and len(whole) > 1:
        raise _unlike([next(iter(labels)) for labels in whole], "of more than one set")
    for stem, labels in sets.items():
        several = len(set(labels.values()) & set("BCDEF")) > 1
        # one bare letter is an ordinary column; several without A lack their first option
        looks_so = LIKE_OPTIONS.search(stem) or (not stem and several)
        if strict and labels not in whole and looks_so:
            raise _unlike(labels, "but the first is not there or stands alone")
    options = whole[0] if len(whole) == 1 else {}
    if len(set(options.values())) < len(options):
        raise _unlike(options, "with the same label")
    others = [name for name in names if LIKE_OPTIONS.search(name)]
    if strict and not options and len(others) > 1:
        raise _unlike(others, "and their order is not known")
    return options


def _without_strays(letters: dict[str, str]) -> dict[str, str]:
    """Return the columns without those whose names are letters only by chance: of another case than
    `A`, or far behind.
    """
    first = next((name for name, label in letters.items() if label == "A"), None)
    if first is None:
        return letters
    alike = {name: label for name, label in letters.items() if name.isupper() == first.isupper()}
    # options may have gaps, so six letters are near even where there are fewer columns
    last = max("F", string.ascii_uppercase[min(len(alike), 26) - 1])
    return {name: label for name, label in alike.items() if label <= last}


def _unlike(names: Iterable[str], why: str) -> UserError:
    return UserError(
        f"the columns {', '.join(names)} look like options, {why}; name them A, B, … (with the "
        "label as the answer), or, if they are not options, give the kind, such as --kind span"
    )
