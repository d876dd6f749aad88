"""Rows of published data sets whose shape is not a table, as rows of a table: nested objects, the
right option apart from the wrong ones, options inside the question, marked and expected targets.
"""

from __future__ import annotations

import base64
import hashlib
import random
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, cycle
from typing import Any

from ...modules.base.errors import UserError, are_all
from ...modules.base.keyed import without
from ...modules.reading.mentions import BOXED
from .aliases import CONTAINERS, columns_of, squeezed
from .cells import OPTION_TEXTS, as_list, opened_cell, separated
from .tables import CHAT_TURNS

_RIGHT = re.compile(r"(?:(?:correct|right|best|gold)(?:answers?|options?)|answer)")
_WRONG = re.compile(
    r"(?:(?:incorrect|wrong)(?:answers?|options?|choices?)?|false(?:answers?|options?)|distractors?)"
    r"\d*"
)
_COMMA = re.compile(r",(?!\d{3}\b)")
_DRAWN = " in an order drawn for each question"
_ASSERTED = re.compile(r"__expected\d*")
_ASSERTION = re.compile(r"(not-)?([a-z][a-z-]*)\s*:\s*(.*)", re.S)
_CHECKED = re.compile(
    r"(?:not-)?(?:(?:is|contains)-[a-z-]+|latency|cost|[a-z-]+\([\d.]+\).*)", re.S
)
"""Assertions of promptfoo without a text: `is-json`, `cost(0.01)`, `similar(0.8): …`."""
_LISTED = re.compile(r"^[ \t]*\(?([A-Z])[).:][ \t]+(\S.*?)[ \t]*$", re.M)
_LETTER = re.compile(r"\(?([A-Z])\)?\.?")
_PLACE = re.compile(r"\d{1,2}|[A-Za-z]")


class Shapes:
    """Turns the rows of one source into rows with plain columns.

    `columns` are those that the user names by field; a dotted one (`inputs.question`) opens the
    object before its dot. `kind` is that of all rows, if it is known. `notes` counts remarks on
    what was done, each with its rows.
    """

    def __init__(self, columns: Mapping[str, str], kind: str | None) -> None:
        self._opened = {column.partition(".")[0] for column in columns.values() if "." in column}
        self._may_be_choice = kind in (None, "choice") and "choices" not in columns
        self._named_answer = columns.get("answer")
        self.notes: Counter[str] = Counter()

    def plain(self, cells: Mapping[str, object]) -> dict[str, Any]:
        """Return the cells with nested objects opened. Raises UserError for assertions that no
        answer follows from.
        """
        flat: dict[str, object] = {}
        for name, cell in cells.items():
            flat |= self._flatten(name, cell)
        flat = self._with_asserted(self._decrypted(_without_twin(flat)))
        if self._named_answer is None:
            flat = self._with_marked(_with_answers(flat))
        return self._with_apart(flat)

    def _flatten(self, name: str, cell: object) -> dict[str, object]:
        holds_fields = name in self._opened or squeezed(name) in CONTAINERS
        if isinstance(cell, Mapping):
            stem = cell.get("stem")
            if name == "question" and isinstance(stem, str):  # ARC's own files
                return {"question": stem, "choices": cell.get("choices")}
            if name == "question" and isinstance(cell.get("text"), str):  # NarrativeQA
                return {"question": cell["text"]}
            if holds_fields and "messages" not in cell:
                return {f"{name}.{key}": value for key, value in cell.items()}
            if holds_fields:
                turns = _turns(cell["messages"])
                if not turns:
                    raise UserError("messages without a role and a content each; correct them")
                if [who for who, _ in turns] == ["assistant"]:  # the reply that is wanted
                    return {f"{name}.answer": _plain_text(turns[0][1])}
                return {f"{name}.question": _join_chat(turns)}
        asks = holds_fields or bool(columns_of("question", [name]))
        turns = _turns(cell) if asks else []
        if turns and squeezed(name) in ("messages", "conversations"):
            *earlier, (who, last) = turns
            if who != "assistant":
                return {f"{name}.question": _join_chat(turns)}
            # An example to learn from: its end is the gold.
            return {f"{name}.question": _join_chat(earlier), f"{name}.answer": _plain_text(last)}
        if turns:
            return {name: _join_chat(turns)}
        if name in self._opened and isinstance(cell, list) and are_all(cell, Mapping):
            keys = dict.fromkeys(chain.from_iterable(cell))
            return {f"{name}.{key}": [member.get(key) for member in cell] for key in keys}
        if name == "turns" and len(as_list(cell)) == 1:  # LiveBench
            return {name: as_list(cell)[0]}
        return {name: cell}

    def _decrypted(self, cells: dict[str, object]) -> dict[str, object]:
        """Return the row of BrowseComp with its question and answer as plain texts."""
        canary = cells.get("canary")
        if not isinstance(canary, str):
            return cells
        asked = columns_of("question", cells)
        if not asked:
            return cells
        key = hashlib.sha256(canary.encode()).digest()
        texts: dict[str, object] = {}
        try:
            for name in (*asked, "answer"):
                hidden = base64.b64decode(str(cells.get(name)), validate=True)
                plain = (byte ^ mask for byte, mask in zip(hidden, cycle(key), strict=False))
                texts[name] = bytes(plain).decode()
        except ValueError:  # not encrypted: other data sets have a canary, too
            return cells
        self.notes["question and answer decrypted with `canary`"] += 1
        return cells | texts

    def _with_asserted(self, cells: dict[str, object]) -> dict[str, object]:
        """Return the cells with one text in place of promptfoo's assertions, all of which have to
        hold.
        """
        checks: list[Any] = as_list(cells.get("assert"))  # in promptfoo's JSON
        if all(isinstance(check, Mapping) and "type" in check for check in checks):
            for number, check in enumerate(checks):
                said = f"{check['type']}: {check.get('value', '')}"
                cells = {**cells, f"__expected{number}": said}
        named = [name for name in cells if _ASSERTED.fullmatch(name)]
        found = [self._read_assertion(cells[name]) for name in named if cells[name] is not None]
        if not found:
            return cells
        asked: dict[str, dict[object, None]] = {"equals": {}, "contains": {}}
        for how, text in found:
            asked[how][text] = None
        texts = asked["equals"] or asked["contains"]
        first = next(iter(texts))
        whole = str(first).casefold()
        if len(texts) > 1 or not all(str(text).casefold() in whole for _, text in found):
            raise UserError(
                f"the assertions ask for different answers ({', '.join(map(str, texts))}); keep "
                "one of them, or leave the row out"
            )
        if not asked["equals"]:
            self.notes["`contains:` as the answer, to be scored with --metric contains"] += 1
        called = self._named_answer if self._named_answer in named else "__expected"
        return without(cells, [*named, "assert"]) | {called: first}

    def _read_assertion(self, cell: object) -> tuple[str, object]:
        """Return whether promptfoo's assertion asks for an equal or a contained text, and the
        text.
        """
        if not isinstance(cell, str):
            return "equals", cell
        said = cell.strip()
        match = _ASSERTION.fullmatch(said)
        if match is None and _CHECKED.fullmatch(said) is None:
            return "equals", said
        if match is None or match[1] or match[2] not in ("equals", "contains", "icontains"):
            raise UserError(
                f"the assertion {said[:60]!r} names no answer to compare with; write "
                "equals:, contains: or icontains:, or leave the row out"
            )
        return match[2].removeprefix("i"), match[3].strip()

    def _with_apart(self, cells: dict[str, Any]) -> dict[str, Any]:
        """Return options of the right answer's column and the wrong ones', in an order drawn for
        each question, so that the right one does not always stand first.
        """
        wrong = [name for name in cells if _WRONG.fullmatch(squeezed(name))]
        right = [name for name in cells if _RIGHT.fullmatch(squeezed(name))]
        if not wrong or not right or not self._may_be_choice or "choices" in cells:
            return cells
        first = self._named_answer or min(right, key=lambda name: squeezed(name) == "answer")
        if first not in right:
            return cells
        gold = _texts(cells[first])[:1]
        how = _DRAWN
        texts: list[str] = []
        for name in wrong:
            parts = _texts(cells[name])
            # one cell for all wrong options, as in TruthfulQA.csv: "You die; You grow"
            if name.endswith("s") and isinstance(cells[name], str):
                parts = separated(cells[name])
            if name.endswith("s") and len(parts) == 1 and _COMMA.search(parts[0]):
                if gold and _COMMA.search(gold[0]):
                    raise UserError(
                        f"{name} is one text ({parts[0][:40]!r}), whose options may hold commas as "
                        "the right one does; put | between them"
                    )
                parts, how = _COMMA.split(parts[0]), f", split at commas,{_DRAWN}"
            texts += _texts(parts)
        if not gold or not texts:
            return cells
        lists = [name for name in right if name.endswith("s")]
        rest = without(cells, [*wrong, first, *lists])
        names = "`–`".join(dict.fromkeys([wrong[0], wrong[-1]]))
        self.notes[f"`{first}` and `{names}` as choices{how}"] += 1
        drawn = _shuffle([*gold, *texts], gold[0], rest)
        return rest | {"choices": drawn["choices"], self._named_answer or "answer": drawn["answer"]}

    def _with_marked(self, cells: dict[str, object]) -> dict[str, object]:
        """Return options with a mark for the right one each: TruthfulQA's `mc1_targets`,
        BIG-bench's `target_scores`, objects with `is_correct`.
        """
        if not self._may_be_choice:
            return cells
        for name, held in cells.items():
            called = squeezed(name)
            marked: list[tuple[str, bool]] = []
            if called in _MARKED:
                marked = _marked_texts(held)
            elif called in _OF_OPTIONS:
                marked = _marked_objects(held)
            if not marked:
                continue
            right = [text for text, mark in marked if mark]
            if len(right) != 1:
                raise UserError(f"{name} marks {len(right)} options as right; mark one of them")
            self.notes[f"`{name}` as choices{_DRAWN}"] += 1
            targets = [key for key in cells if key.endswith("_targets")]
            rest = without(cells, [name, *targets])
            return rest | _shuffle([text for text, _ in marked], right[0], rest)
        return cells


_MARKED = ("mc1targets", "mc2targets", "multiplechoicetargets", "targetscores")
_OF_OPTIONS = ("choices", "options", "answers")
_MARKS = ("correct", "iscorrect", "isright", "isanswer")


def _marked_texts(held: object) -> list[tuple[str, bool]]:
    """Return texts of options, each with whether it is marked as right; empty where there are no
    marks.
    """
    if not isinstance(held, Mapping):
        return []
    pairs: Iterable[tuple[object, object]] = held.items()
    if {"choices", "labels"} <= held.keys():
        pairs = zip(as_list(held["choices"]), as_list(held["labels"]), strict=False)
    elif len(held) < 2 or not all(mark in (0, 1) for mark in held.values()):
        return []
    return [(str(text), bool(mark)) for text, mark in pairs]


def _marked_objects(held: object) -> list[tuple[str, bool]]:
    """Return the texts of options in a list of objects, each with whether it is marked as right."""
    marked: list[tuple[str, bool]] = []
    for option in as_list(held):
        if not isinstance(option, Mapping):
            return []
        marks = [cell for key, cell in option.items() if squeezed(key) in _MARKS]
        texts = [option[key] for key in OPTION_TEXTS if key in option]
        if len(marks) != 1 or not texts:
            return []
        marked.append((str(texts[0]), str(marks[0]).casefold() in ("true", "1", "yes")))
    return marked


def _without_twin(cells: dict[str, object]) -> dict[str, object]:
    """Return the row without the answer of its twin, which only that one's passages have: the
    official script of MuSiQue does not score it.
    """
    answerable = str(cells.get("answerable")).casefold()
    if answerable != "false" or "question_decomposition" not in cells:
        return cells
    return without(cells, ["answer_aliases"]) | {"answer": None}


def _with_answers(cells: dict[str, Any]) -> dict[str, Any]:
    """Return the row with its accepted answers in one column, and a list of options called so.

    Without another answer, these are all possible ones (PopQA), or the boxed end of the solution
    (MATH). A list of answers, of which another column names one, has the options (ReClor). Aliases
    in a column of their own are accepted, too (MuSiQue).
    """
    golds = columns_of("answer", cells)
    if not golds:
        if "possible_answers" in cells:
            accepted = opened_cell(cells["possible_answers"])
            return without(cells, ["possible_answers"]) | {"answers": accepted}
        solution = cells.get("solution")
        if isinstance(solution, str) and BOXED.search(solution):
            return cells | {"answer": solution}
    lists = [name for name in golds if isinstance(cells[name], list) and len(cells[name]) > 1]
    places = [name for name in golds if _PLACE.fullmatch(str(cells[name]).strip())]
    if len(lists) == 1 and places and not columns_of("choices", cells):
        return without(cells, lists) | {"choices": cells[lists[0]]}
    aliases, answer = cells.get("answer_aliases"), cells.get("answer")
    if isinstance(aliases, list) and isinstance(answer, str):
        return without(cells, ["answer_aliases"]) | {"answer": [answer, *aliases]}
    return cells


def _texts(cell: object) -> list[str]:
    members = [member for member in as_list(cell) if member is not None]
    if any(isinstance(member, list | Mapping) for member in members):
        raise UserError("the options are lists or objects, not texts; write a text for each")
    return list(filter(None, (str(member).strip() for member in members)))


def _shuffle(options: list[str], gold: str, rest: Mapping[str, object]) -> dict[str, object]:
    """Return choices and answer, with the options in an order that depends on all texts of the
    question, since many questions may have the same options. Numbers are texts in some files and
    not in others, so they have no part in it.
    """
    texts = sorted(dict.fromkeys(options))
    others = [cell.strip() for cell in rest.values() if isinstance(cell, str)]
    said = [text for text in others if any(map(str.isalpha, text))]
    seed = hashlib.sha256("\n".join([*texts, *said]).encode()).hexdigest()
    random.Random(seed).shuffle(texts)
    labels = dict(zip(string.ascii_uppercase, texts, strict=False))
    for label, text in labels.items():
        if text == gold:
            return {"choices": labels, "answer": label}
    # There are more options than letters, and the question will be refused by their number.
    return {"choices": texts, "answer": None}


def _turns(cell: object) -> list[tuple[str, object]]:
    """Return the turns of a chat, as OpenAI or as ShareGPT writes it: who speaks and what; empty
    for anything else.
    """
    turns: list[tuple[str, object]] = []
    if not isinstance(cell, list) or not are_all(cell, Mapping):
        return turns
    for turn in cell:
        shape = next((shape for shape in CHAT_TURNS if turn.keys() >= set(shape)), None)
        if shape is None:
            return []
        who, said = map(turn.get, shape)
        # The second is OpenAI's way to write a reply as a part of the system's message.
        if who == "gpt" or turn.get("name") == "example_assistant":
            who = "assistant"
        turns.append((str(who), said))
    return turns


def _join_chat(turns: Sequence[tuple[str, object]]) -> str:
    """Return the messages of a chat to the LM as one text. Raises UserError for a chat that holds a
    reply.
    """
    if any(who == "assistant" for who, _ in turns):
        raise UserError("a chat with earlier replies of the LM is not one question; leave it out")
    return "\n\n".join(_plain_text(said).strip() for _, said in turns)


def _plain_text(content: object) -> str:
    """Return the text of a message, which may be a list of parts. Raises UserError for parts other
    than text.
    """
    texts: list[str] = []
    for part in as_list(content):
        if isinstance(part, Mapping):
            part = part.get("text")
        if not isinstance(part, str):
            raise UserError("a message holds more than text, such as an image; leave the row out")
        texts.append(part)
    return "\n".join(texts)


def options_inside(question: object, answer: object) -> tuple[str, dict[str, str]] | None:
    """Return the question without its listed options, and these, where the gold is one of them or
    its letter (`(A) …` line by line, as in BIG-Bench Hard); None where there are none.
    """
    if not isinstance(answer, str) or not isinstance(question, str):
        return None
    letter, found = _LETTER.fullmatch(answer.strip()), list(_LISTED.finditer(question))
    for line in found:
        if line[0].strip() == answer.strip():  # the whole option as it is listed
            letter = line
    if letter is None:
        return None
    labels = "".join(match[1] for match in found)
    if len(found) < 2 or labels != string.ascii_uppercase[: len(found)] or letter[1] not in labels:
        return None
    stem = question[: found[0].start()].rstrip()
    # The line that announces the options goes with them.
    head = r"\n\s*(?:options|choices|answer choices)\s*:\s*$"
    whole = re.sub(head, "", stem, flags=re.I).rstrip()
    rest = question[found[-1].end() :].strip()
    if rest:
        whole += f"\n{rest}"
    return whole, {match[1]: match[2] for match in found}
