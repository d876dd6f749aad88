"""Rows of published data sets whose shape is not a table, as rows of a table: nested objects, the
right option apart from the wrong ones, options inside the question, marked and expected targets.
"""

from __future__ import annotations

import hashlib
import random
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from ...modules.base.errors import UserError
from .aliases import CONTAINERS, squeezed
from .cells import as_list

_RIGHT = re.compile(r"(?:(?:correct|right|best|gold)(?:answers?|options?)|answer)")
_WRONG = re.compile(
    r"(?:(?:incorrect|wrong)(?:answers?|options?|choices?)?|false(?:answers?|options?)|distractors?)"
    r"\d*"
)
_DRAWN = " in an order drawn for each question"
_ASSERTED = "__expected"
_ASSERTION = re.compile(r"(not-)?([a-z][a-z-]*)\s*:\s*(.*)", re.S)
_CHECKED = re.compile(
    r"(?:not-)?(?:(?:is|contains)-[a-z-]+|latency|cost|[a-z-]+\([\d.]+\).*)", re.S
)
"""Assertions of promptfoo without a text: `is-json`, `cost(0.01)`, `similar(0.8): …`."""
_LISTED = re.compile(r"^[ \t]*\(?([A-Z])[).:][ \t]+(\S.*?)[ \t]*$", re.M)
_LETTER = re.compile(r"\(?([A-Z])\)?\.?")


class Shapes:
    """Turns the rows of one source into rows with plain columns.

    `columns` are those that the user names by field; a dotted one (`inputs.question`) opens the
    object before its dot. `kind` is that of all rows, if it is known. `notes` counts remarks on
    what was done, each with its rows.
    """

    def __init__(self, columns: Mapping[str, str], kind: str | None) -> None:
        self._opened = {column.partition(".")[0] for column in columns.values() if "." in column}
        self._may_be_choice = kind in (None, "choice") and "choices" not in columns
        self.notes: Counter[str] = Counter()

    def plain(self, cells: Mapping[str, Any]) -> dict[str, Any]:
        """The cells with nested objects opened. Raises UserError for assertions that no answer
        follows from.
        """
        flat: dict[str, Any] = {}
        for name, cell in cells.items():
            flat |= self._flattened(name, cell)
        if _ASSERTED in flat:
            flat |= {_ASSERTED: self._asserted(flat[_ASSERTED])}
        return self._with_marked(self._with_apart(flat))

    def _flattened(self, name: str, cell: Any) -> dict[str, Any]:
        holds_fields = name in self._opened or squeezed(name) in CONTAINERS
        if isinstance(cell, Mapping):
            stem = cell.get("stem")
            if name == "question" and isinstance(stem, str):  # ARC's own files
                return {"question": stem, "choices": cell.get("choices")}
            if holds_fields and "messages" not in cell:
                return {f"{name}.{key}": value for key, value in cell.items()}
            if holds_fields:
                return {name: _said_to(cell["messages"])}
        if holds_fields and _is_chat(cell):
            return {name: _said_to(cell)}
        return {name: cell}

    def _asserted(self, cell: Any) -> Any:
        """The text that promptfoo's assertion compares the answer with."""
        if not isinstance(cell, str):
            return cell
        match = _ASSERTION.fullmatch(cell.strip())
        if match is None and _CHECKED.fullmatch(cell.strip()) is None:
            return cell
        negated, how, text = match.groups() if match else ("", "", "")
        if negated or how not in ("equals", "contains", "icontains"):
            raise UserError(
                f"the assertion {cell.strip()[:60]!r} names no answer to compare with; write "
                "equals:, contains: or icontains:, or leave the row out"
            )
        if how != "equals":
            self.notes[f"`{how}:` as the answer, to be scored with --metric contains"] += 1
        return text.strip()

    def _with_apart(self, cells: dict[str, Any]) -> dict[str, Any]:
        """Options of the right answer's column and the wrong ones', in an order drawn for each
        question, so that the right one does not always stand first.
        """
        wrong = [name for name in cells if _WRONG.fullmatch(squeezed(name))]
        right = [name for name in cells if _RIGHT.fullmatch(squeezed(name))]
        if not wrong or not right or not self._may_be_choice or "choices" in cells:
            return cells
        first = min(right, key=lambda name: squeezed(name) == "answer")
        # one cell for all wrong options, as in TruthfulQA.csv: "You die; You grow"
        listed = [
            re.split(r"[;|\n]", cells[name])
            if name.endswith("s") and isinstance(cells[name], str)
            else cells[name]
            for name in wrong
        ]
        texts = list(chain.from_iterable(map(_texts, listed)))
        gold = _texts(cells[first])[:1]
        if not gold or not texts:
            return cells
        rest = {name: cell for name, cell in cells.items() if name not in (*wrong, first)}
        names = "`–`".join(dict.fromkeys([wrong[0], wrong[-1]]))
        self.notes[f"`{first}` and `{names}` as choices{_DRAWN}"] += 1
        return rest | _drawn([*gold, *texts], gold[0], rest)

    def _with_marked(self, cells: dict[str, Any]) -> dict[str, Any]:
        """Options with a mark for the right one each (TruthfulQA's `mc1_targets`)."""
        for name in ("mc1_targets", "multiple_choice_targets"):
            held = cells.get(name)
            if not isinstance(held, Mapping) or not self._may_be_choice:
                continue
            texts, marks = held.get("choices"), held.get("labels")
            if not isinstance(texts, Sequence) or not isinstance(marks, Sequence):
                continue
            right = [str(text) for text, mark in zip(texts, marks, strict=False) if mark]
            if len(right) != 1:
                raise UserError(f"{name} marks {len(right)} options as right; mark one of them")
            self.notes[f"`{name}` as choices{_DRAWN}"] += 1
            rest = {key: cell for key, cell in cells.items() if not key.endswith("_targets")}
            return rest | _drawn(list(map(str, texts)), right[0], rest)
        return cells


def _texts(cell: Any) -> list[str]:
    texts = ("" if member is None else str(member).strip() for member in as_list(cell))
    return list(filter(None, texts))


def _drawn(options: list[str], gold: str, rest: Mapping[str, Any]) -> dict[str, object]:
    """Choices and answer, with the options in an order that depends on all texts of the question,
    since many questions may have the same options. Numbers are texts in some files and not in
    others, so they have no part in it.
    """
    texts = sorted(dict.fromkeys(options))
    others = [cell.strip() for cell in rest.values() if isinstance(cell, str)]
    said = [text for text in others if any(map(str.isalpha, text))]
    seed = hashlib.sha256("\n".join([*texts, *said]).encode()).hexdigest()
    random.Random(seed).shuffle(texts)
    labels = dict(zip(string.ascii_uppercase, texts, strict=False))
    right = next((label for label, text in labels.items() if text == gold), None)
    return {"choices": labels if right else texts, "answer": right}


def _is_chat(cell: Any) -> bool:
    return (
        isinstance(cell, list)
        and bool(cell)
        and all(isinstance(turn, Mapping) and {"role", "content"} <= turn.keys() for turn in cell)
    )


def _said_to(messages: Any) -> str:
    """What a chat says to the LM, as one text. Raises UserError for a chat that it answered in."""
    if not _is_chat(messages):
        raise UserError("messages without a role and a content each; correct them")
    if any(turn["role"] == "assistant" for turn in messages):
        raise UserError("a chat with earlier replies of the LM is not one question; leave it out")
    return "\n\n".join(_plain_text(turn["content"]).strip() for turn in messages)


def _plain_text(content: Any) -> str:
    """The text of a message, which may be a list of parts. Raises UserError for any other part."""
    parts: list[Any] = [
        part.get("text") if isinstance(part, Mapping) else part for part in as_list(content)
    ]
    if not all(isinstance(part, str) for part in parts):
        raise UserError("a message holds more than text, such as an image; leave the row out")
    return "\n".join(parts)


def options_inside(question: Any, answer: Any) -> tuple[str, dict[str, str]] | None:
    """The question without its listed options, and these, where the gold is one of their letters
    (`(A) …` line by line, as in BIG-Bench Hard); None where there are none.
    """
    if not isinstance(answer, str) or not isinstance(question, str):
        return None
    letter, found = _LETTER.fullmatch(answer.strip()), list(_LISTED.finditer(question))
    if letter is None:
        return None
    labels = "".join(match[1] for match in found)
    if len(found) < 2 or labels != string.ascii_uppercase[: len(found)] or letter[1] not in labels:
        return None
    stem = question[: found[0].start()].rstrip()
    stem = re.sub(r"\n\s*(?:options|choices|answer choices)\s*:\s*$", "", stem, flags=re.I)
    rest = question[found[-1].end() :].strip()
    whole = f"{stem.rstrip()}\n{rest}" if rest else stem.rstrip()
    return whole, {match[1]: match[2] for match in found}
