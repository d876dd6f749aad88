"""The names under which data sets keep each field, and which columns hold an option each."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from ...modules.base.errors import UserError
from ...modules.reading.question import FIELDS

# What public data sets and people call each field; the first that a table has is taken, of two in
# the same
# group neither.
ALIASES = {
    "id": ["qid question_id example_id uid _id", "idx index uuid guid row_id item_id"],
    "question": [
        "query prompt problem question_text sent",
        "question_stem stem input instruction goal statement claim q text",
    ],
    "choices": [
        "options",
        "choice answer_choices answer_options possible_answers candidates alternatives endings",
    ],
    "answer": [
        "label answer_key gold target correct_answer",
        "correct correct_option correct_choice correct_label answer_idx answer_index answer_letter "
        "gold_label gold_answer golden_answers ground_truth expected expected_answer reference "
        "reference_answer final_answer answers ans cop output",
    ],
    "context": ["passage paragraph", "article support document contexts"],
    "kind": [],
    "meta": ["metadata"],
}
_OPTION = re.compile(
    r"(?P<of>(?i:choices?|options?|opt|op|alternative|ending|sol|solution|answer|ans|candidate)[\s_.-]*)?"
    r"[\[(]?(?P<label>[A-Za-z]|(?<=[A-Za-z\s_.[(-])\d{1,2})[\])]?[.:]?"
)
LIKE_OPTIONS = re.compile(
    r"choice|option|alternativ|ending|distract|candidate|incorrect|wrong", re.I
)


def folded(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().casefold())


def _squeezed(name: str) -> str:
    return re.sub(r"[\s_.-]+", "", name.casefold())


_GROUPS = {
    field: [frozenset(map(_squeezed, group.split())) for group in groups]
    for field, groups in ALIASES.items()
}


def column_of(field: str, names: Iterable[str]) -> str | None:
    """The column of that name, or of another name for it. Raises UserError for two that are as
    good.
    """
    by_rank: dict[int, list[str]] = {}
    for name in names:
        ranks = [rank for rank, group in enumerate(_GROUPS[field], 1) if _squeezed(name) in group]
        for rank in [0] if folded(name) == field else ranks:
            by_rank.setdefault(rank, []).append(name)
    if not by_rank:
        return None
    found = by_rank[min(by_rank)]
    if len(found) > 1:
        raise UserError(
            f"the columns {' and '.join(found)} could both be the {field}; say which "
            f"{naming(field)}"
        )
    return found[0]


def known(name: str) -> bool:
    """Whether a column of that name is one of a table of questions."""
    names = _squeezed(name)
    return folded(name) in FIELDS or any(
        names in group for groups in _GROUPS.values() for group in groups
    )


def option_columns(names: Sequence[str], *, strict: bool) -> dict[str, str]:
    """Column → label of the columns that hold an option each: `A`, `B`, … or `option_a`,
    `choice_1`, ….

    Raises UserError, if `strict`, where columns look like options and cannot be read as such.
    """
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        match = _OPTION.fullmatch(name.strip())
        if match:
            groups.setdefault(_squeezed(match["of"] or ""), {})[name] = match["label"].upper()
    if "" in groups:
        groups[""] = _lettered(groups[""])
    sound = []
    for of, labels in groups.items():
        if len(labels) > 1 and {"A", "0", "1"} & set(labels.values()):
            sound.append(labels)
        elif strict and (
            LIKE_OPTIONS.search(of) or (not of and len(set(labels.values()) & set("BCDEF")) > 1)
        ):
            raise _unlike(labels, "but the first is not there or stands alone")
    if strict and len(sound) > 1:
        raise _unlike([next(iter(labels)) for labels in sound], "of more than one set")
    found = sound[0] if len(sound) == 1 else {}
    if len(set(found.values())) < len(found):
        raise _unlike(found, "with the same label")
    others = [name for name in names if name not in found and LIKE_OPTIONS.search(name)]
    if strict and not found and len(others) > 1:
        raise _unlike(others, "in no order that is said")
    return found


def _lettered(bare: dict[str, str]) -> dict[str, str]:
    """Without columns whose names happen to be letters, such as `n`: of another case, or far
    behind.
    """
    first = next((name for name, label in bare.items() if label == "A"), None)
    found, last = set(), "A"
    for label, name in sorted((label, name) for name, label in bare.items()):
        same = first is None or label in ("A", last) or name.islower() == first.islower()
        if first is None or label.isdigit() or (same and ord(label) - ord(last) <= 2):
            found.add(name)
            last = label if label.isalpha() else last
    return {name: label for name, label in bare.items() if name in found}


def _unlike(names: Iterable[str], why: str) -> UserError:
    return UserError(
        f"the columns {', '.join(names)} look like options, {why}; name them A, B, … (with the "
        f"label as the "
        "answer), or say the kind if they are none"
    )


def naming(field: str) -> str:
    """How a user says which column holds a field, on the command line and in Python."""
    return naming_all({field: "NAME"})


def naming_all(columns: Mapping[str, str]) -> str:
    """The same for several fields, each with the name of its column."""
    options = (f"--columns {shlex.quote(f'{field}={column}')}" for field, column in columns.items())
    return f"with {' '.join(options)} (in Python columns={json.dumps(columns, ensure_ascii=False)})"
