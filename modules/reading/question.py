"""`Question`: a `dspy.Example` with options and gold answer; its fields are checked when made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, get_args

import dspy

from ..base.errors import UserError, are_all
from ..base.files import check_inside
from ..base.keyed import only, without, without_none
from .answers import golds_of, infer_kind, read_answer
from .asked import (
    Kind,
    by_letter,
    check_choices,
    check_context,
    in_one_line,
    require_text,
    type_name,
)
from .column_kind import ColumnKind, kind_of_column

KINDS: tuple[str, ...] = get_args(Kind)
FIELDS = ("id", "question", "choices", "answer", "context", "kind", "meta")
INPUTS = ("question", "choices", "context", "kind")
TASK_FILES = ("files", "tests")
NAMELESS = "?"
"""The id of a question that has none."""

_READ_AS = {"boolean": "yes, no, true or false", "number": "a number"}
_INPUT_KEYS = frozenset(INPUTS)


class Question(dspy.Example):  # type: ignore[misc]  # dspy ships no types
    """One question, ready for programs, optimizers and `dspy.Evaluate`.

    Fields: `id`; `question`; `choices` (label → text, 2 to 26 of them; a list of texts is labelled
    A, B, …) or None; `answer`, the gold, or None; `context`, a passage, a list of passages, or
    None; `kind` (choice, boolean, number, span, task, or open, which needs a metric; inferred when
    not given, but never open); `meta`, a dict. For choices the answer is a label, or the text of
    exactly one option. If it is a list of accepted answers, `answer` becomes the first of them and
    `accepted` all. A task may have `files` and `tests`, both path → text, instead of an answer.

    Raises UserError if a field is missing, of a wrong type or at odds with another.
    """

    id: str
    question: str
    choices: dict[str, str] | None
    answer: str | None
    context: str | list[str] | None
    kind: Kind
    meta: dict[str, Any]
    files: dict[str, str]
    tests: dict[str, str]
    _input_keys: frozenset[str]
    _shown: tuple[str, ...] = ()
    """The entries of `meta` that a program is shown, because the user named them."""

    _origin: str | None = None
    """The data set or file that it was loaded from."""

    _kind_guessed = False
    """Whether the kind was inferred, so that `settle_kinds` may change it to fit a whole file."""

    def __init__(
        self, base: Mapping[str, object] | dspy.Example | None = None, **fields: object
    ) -> None:
        held = base.items(include_dspy=True) if isinstance(base, dspy.Example) else base or {}
        given = dict(held) | fields
        super().__init__(_check_fields(given))
        if given.get("kind") is None:
            self._kind_guessed = True
        # Shared by nearly all questions: a set of its own would be a fifth of a question's memory.
        self._input_keys = _INPUT_KEYS
        keys = getattr(base, "_input_keys", None)
        if keys is not None and keys != _INPUT_KEYS:
            self._input_keys = frozenset(keys)

    def __repr__(self) -> str:
        """Return DSPy's form, but with the set of input keys in a fixed order: DSPy's optimizers
        show it to LMs, and the same prompt should be written in every process.
        """
        keys = ", ".join(map(repr, sorted(self._input_keys)))
        return f"Question({dict(self.items(include_dspy=True))}) (input_keys={{{keys}}})"

    def shown(self) -> Question:
        """Return the question as a program is shown it: no gold answer, and of `meta` only the
        entries that the user named.
        """
        fields: dict[str, object] = only(self, ("id", *INPUTS, "files"))
        return Question(fields, answer=None, meta=only(self.meta, self._shown))

    def inputs(self) -> dspy.Example:
        return dspy.Example(self).inputs()

    def given(self) -> dict[str, object]:
        """Return the fields of `inputs()`."""
        return only(self, self._input_keys)

    def labels(self) -> dspy.Example:
        return dspy.Example(self).labels()

    def without(self, *keys: str) -> dspy.Example:
        return dspy.Example(self).without(*keys)

    # The base class would hash dicts, and fail. Equal questions have equal ids.
    def __hash__(self) -> int:
        return hash((self.id, self.question))

    @property
    def gold(self) -> str | list[str] | None:
        """The gold answer, or the list of all accepted ones."""
        accepted = self.get("accepted")
        return list(accepted) if accepted else self.answer

    def to_row(self) -> dict[str, object]:
        """Return the row on disk: id, question, choices, answer, context, meta, a task's files, and
        the kind if it would be inferred differently.
        """
        row: dict[str, object] = only(self, ("id", "question", "choices", "context", "meta"))
        row |= {"answer": self.gold, **only(self, TASK_FILES)}
        if self.kind != infer_kind(self.answer, self.choices):
            row["kind"] = self.kind
        return dspy.Example(row).toDict()  # type: ignore[no-any-return]


def settle_kinds(
    questions: Sequence[Question], further: Iterable[str | None] = ()
) -> ColumnKind | None:
    """Change, in place, all questions without options whose kind was inferred to the one kind that
    fits their gold answers (`kind_of_column`). Returns this kind; None if there are none.

    `further` are gold answers of questions of the same file that were left out.
    """
    open_ones = [question for question in questions if _is_open(question)]
    if not open_ones:
        return None
    golds = (gold for question in open_ones for gold in golds_of(question.gold))
    settled = kind_of_column(chain(golds, further))
    labels = {text.casefold(): label for label, text in (settled.options or {}).items()}
    for question in open_ones:
        question.kind = settled.kind
        if settled.options is not None:
            question.choices = dict(settled.options)
            question.answer = labels.get(str(question.answer).strip().casefold())
        question._kind_guessed = False
    return settled


def with_one_kind(questions: Sequence[Question]) -> Sequence[Question]:
    """Return the same questions, or copies of those whose guessed kinds differ, with one kind."""
    if len({question.kind for question in questions if _is_open(question)}) < 2:
        return questions
    copies = list(questions)
    for i, question in enumerate(questions):
        if _is_open(question):
            copies[i] = Question(question, kind=None)
    settle_kinds(copies)
    return copies


def _is_open(question: Question) -> bool:
    """Return whether the kind of a question may still be changed (`settle_kinds`)."""
    return question._kind_guessed and question.choices is None


def answer_texts(answer: object) -> Any:
    """Return a gold answer, or each of several accepted ones; a number or a truth value becomes
    text.
    """
    if isinstance(answer, list):
        return [text_of_scalar(accepted) for accepted in answer]
    return text_of_scalar(answer)


def question_named(id_: object) -> str:
    """Return the name of a question in messages."""
    return "the question" if id_ == NAMELESS else f"question {id_!r}"


def from_row(row: Mapping[str, object], where: str, kind: str | None = None) -> Question:
    """Return the question in a row of a file.

    More is allowed than by `Question`: a whole number as id; a number or true/false as answer or
    option text; choices as a list of texts (labelled A, B, …) or as `{"label": […], "text": […]}`;
    blank or absent optional fields. Fields of other names go to `meta`. `kind` overrides the row's.
    Raises UserError, which begins with `where` (file and line), if this is not empty.
    """
    fields = {name: row.get(name) for name in FIELDS}
    try:
        for name in ("id", "question"):
            if fields[name] is None:
                raise UserError(
                    f"the row has no {name!r}; add it, or name the column that holds it"
                )
        fields["id"] = _text_of_number(fields["id"])
        fields["answer"] = answer_texts(fields["answer"])
        fields["choices"] = choices_by_label(fields["choices"])
        if not fields["context"]:
            fields["context"] = None
        fields["kind"] = kind or fields["kind"]
        if fields["kind"] == "task" or _are_files(row):
            fields |= {"kind": "task", "files": row.get("files"), "tests": row.get("tests")}
        fields["meta"] = _meta_of(fields["meta"], without_none(without(row, fields)))
        return Question(fields)
    except UserError as error:
        raise UserError(f"{where}: {error}" if where else str(error)) from None


def _check_fields(store: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a question, checked and in a fixed order; fields of other names are
    kept.
    """
    id_ = require_text(store.get("id"), "a question needs an id")
    name = question_named(id_)
    question = require_text(store.get("question"), f"{name} needs its text")
    choices = check_choices(store.get("choices"), name)
    answer, accepted = _read_gold(store, name)
    if len(accepted) > 1 and choices is not None:
        raise UserError(
            f"{name}: several options are right ({', '.join(accepted)[:60]}), but a question is "
            "scored against one; keep one right option, or leave the question out"
        )
    kind = store.get("kind")
    if kind is None:
        # If the accepted answers look like different kinds, they can only be compared as texts.
        forms: Sequence[str | None] = accepted or [None]
        kinds = {infer_kind(form, choices) for form in forms}
        kind = kinds.pop() if len(kinds) == 1 else "span"
    elif kind not in KINDS:
        raise UserError(f"{name} has kind {kind!r}; the kinds are {', '.join(KINDS)}")
    if (kind == "choice") != (choices is not None):
        have = "no choices" if choices is None else "choices"
        raise UserError(f"{name} has kind {kind!r} but {have}; correct one of the two")
    files = _task_files(store, name) if kind == "task" else {}
    if choices is not None and answer is not None:
        answer = _label_of(answer, choices, name)
    elif kind in _READ_AS:
        for text in accepted:
            if read_answer(text, kind) is None:
                raise UserError(
                    f"{name} has the answer {in_one_line(text)}, which cannot be read as "
                    f"{_READ_AS[kind]}; correct it"
                )
    meta = store.get("meta")
    if meta is None:
        meta = {}
    if not isinstance(meta, Mapping) or not are_all(meta, str):
        raise UserError(
            f"{name} has a meta of type {type_name(meta)}; give an object with text keys"
        )
    checked: dict[str, Any] = {
        "id": id_,
        "question": question,
        "choices": choices,
        "answer": answer,
        "context": check_context(store.get("context"), name),
        "kind": kind,
        "meta": dict(meta),
        **files,
    }
    if files and checked["context"] is None:  # so that programs which answer with a text see them
        shown = [f"{path}:\n{text}" for path, text in files["files"].items()]
        checked["context"] = shown or None
    if len(accepted) > 1:
        checked["accepted"] = accepted
    for key, value in store.items():
        # `accepted` may be outdated (see `_read_gold`), so it is not copied.
        if key != "accepted":
            checked.setdefault(key, value)
    return checked


def _are_files(row: Mapping[str, object]) -> bool:
    """Return whether a row has a task's files or tests, and no answer or options."""
    held = [row[name] for name in TASK_FILES if row.get(name) is not None]
    asked = row.get("answer") is None and row.get("choices") is None
    return bool(held) and asked and are_all(held, Mapping)


def _task_files(store: Mapping[str, object], name: str) -> dict[str, dict[str, str]]:
    """Return the files and the tests of a task. Raises UserError for a path that cannot be in its
    folder.
    """
    if store.get("answer") is not None:
        raise UserError(f"{name} is a task and has an answer: drop it, since a check decides")
    checked: dict[str, dict[str, str]] = {}
    for part in TASK_FILES:
        files = store.get(part) or {}
        if not isinstance(files, Mapping) or not are_all(files.values(), str):
            raise UserError(
                f"{name} has {part} that are not an object of paths and texts; correct them"
            )
        for path in files:
            check_inside(path, f"{name}, {part}")
        checked[part] = dict(files)
    paths = set(chain.from_iterable(checked.values()))
    for path in paths:
        folders = set(map(str, PurePosixPath(path).parents))
        for both in folders & paths:
            raise UserError(f"{name}: {both!r} is a file, so {path!r} cannot lie in it")
    return checked


def _read_gold(store: Mapping[str, Any], name: str) -> tuple[str | None, list[str]]:
    """Return the gold answer, and all accepted answers, of which it is the first. Raises UserError
    for one that is not text.
    """
    answer = store.get("answer")
    if answer is None:
        return None, []
    answers: Sequence[object] = [answer]
    if isinstance(answer, list | tuple):
        answers = answer
    # A copy of a question has both fields. If its `answer` was changed, `accepted` is outdated.
    elif answer in (store.get("accepted") or ()):
        answers = store["accepted"]
    needs = f"{name} needs an answer (or null if it is unlabelled)"
    texts = list(dict.fromkeys(require_text(text, needs).strip() for text in answers))
    return next(iter(texts), None), texts


def _label_of(answer: str, choices: Mapping[str, str], name: str) -> str:
    """Return the label that a gold answer means: itself, or that of the only option with this text.
    Raises UserError if it means none, or several.
    """
    folded = answer.casefold()
    for tried in (
        [label for label in choices if label.casefold() == folded],
        [label for label, text in choices.items() if text == answer],
        [label for label, text in choices.items() if text.casefold() == folded],
    ):
        if len(tried) == 1:
            return tried[0]
        if tried:
            raise UserError(
                f"{name} has the answer {in_one_line(answer)}, which choices "
                f"{' and '.join(tried)} share; give the label"
            )
    raise UserError(
        f"{name} has the answer {in_one_line(answer)}, which is neither a label "
        f"({', '.join(choices)}) nor the text of a choice; correct it"
    )


def _meta_of(meta: object, extras: dict[str, object]) -> object:
    """Return the row's `meta` with its other fields added. Raises UserError for a field that
    differs from one of the same name in `meta`.
    """
    if not extras or not (meta is None or isinstance(meta, Mapping)):
        return meta
    meta = dict(meta or {})
    for key, value in extras.items():
        if meta.setdefault(key, value) != value:
            raise UserError(f"the column {key!r} and meta.{key} differ; rename one of them")
    return meta


def choices_by_label(choices: object) -> object:
    """Return choices as label → text, if they have one of the shapes in use; other shapes as they
    are. Raises UserError unless each text has a label of its own.
    """
    if isinstance(choices, Mapping) and {"label", "text"} <= set(choices):
        labels, texts = choices["label"], choices["text"]
        if isinstance(labels, list) and isinstance(texts, list):
            choices = dict(zip(map(_text_of_number, labels), texts, strict=False))
            if not len(choices) == len(labels) == len(texts):
                raise UserError(
                    f"the row has {len(texts)} choice texts and the labels {labels}; give each "
                    "text a label of its own"
                )
    elif isinstance(choices, list):
        choices = by_letter(choices)
    if isinstance(choices, Mapping):
        return {label: text_of_scalar(text) for label, text in choices.items()}
    return choices


def _text_of_number(value: object) -> object:
    """Return `value`, or its digits if it is a whole number: files may have ids and labels as
    numbers.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def text_of_scalar(value: object) -> object:
    """Return `value`, or its text if it is a finite number or a truth value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value) and not value.is_integer():
        return repr(value)
    return _text_of_number(value)
