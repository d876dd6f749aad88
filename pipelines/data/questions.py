"""Lists, checks and compares questions before any money is spent. The readers of files are only
imported if there is something to read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import dspy

from ...modules.agents.transcript import check_passage
from ...modules.base.errors import UserError, are_all
from ...modules.reading.answers import golds_of
from ...modules.reading.question import TASK_FILES, Question, question_named, with_one_kind
from ..base.request import naming
from ..base.wording import counted
from .sampling import sample

if TYPE_CHECKING:
    from .aliases import ColumnNames

_MOST_NAMED = 8
_QUOTES = re.compile(r"['’`]")
_PUNCTUATION = re.compile(r"[^\w\s+*/=<>^%-]|_|-(?!\s?\d)")


def listed(
    questions: object,
    name: str = "questions",
    *,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    columns: ColumnNames | None = None,
    kind: str | None = None,
    show: Sequence[str] = (),
) -> list[Question]:
    """Return the questions in a list or a generator, unchanged; anything else is read by `load`.

    `show` names the columns of `meta` that programs are shown. Raises UserError, which calls an
    object in Python `name`.
    """
    if isinstance(questions, Question):
        raise UserError(f"{name} is one question: give a list, [question]")
    # A generator can be read only once, and is counted before it is asked.
    if isinstance(questions, Iterator):
        questions = list(questions)
    if isinstance(questions, Sequence) and questions != "" and are_all(questions, Question):
        found = with_one_kind(questions)
        if limit is not None and seed is not None:
            found = sample(found, limit, seed)
        return showing(list(found[:limit]), show)
    from .load import drawn_from, understand

    reading = understand(questions, split, limit, seed, columns, kind, called=name)
    return showing(drawn_from(reading, limit, seed), show)


def showing(questions: list[Question], show: Sequence[str]) -> list[Question]:
    """Return the questions, after setting the columns of `meta` that programs are shown. Raises
    UserError for a column that no question has, and for one with the gold answers in it.
    """
    names: tuple[str, ...] = ()
    if show:
        names = tuple(dict.fromkeys(map(str.strip, ",".join(show).split(","))))
    for name in names:
        texts = {q.id: str(q.meta[name]).casefold() for q in questions if name in q.meta}
        if not texts:
            raise UserError(f"--show {name!r}: no question has such a column; correct the name")
        tells = sum(q.id in texts and _tells(texts[q.id], q) for q in questions)
        # Some texts have the gold answer in them by chance, but not more than half.
        if 2 * tells > len(texts):
            raise UserError(
                f"--show {name!r}: the column holds the gold answer of {tells} of "
                f"{counted(len(texts), 'question')}, so programs would see it; leave it out"
            )
    for question in questions:
        question._shown = names
    return questions


def _tells(text: str, question: Question) -> bool:
    """Return whether a text has the gold answer, or the text of the right option, in it as whole
    words.
    """
    golds = list(map(str, golds_of(question.gold)))
    if question.choices is not None and question.answer in question.choices:
        golds.append(question.choices[question.answer])
    for gold in golds:
        word = re.escape(gold.strip().casefold())
        if re.search(rf"(?<!\w){word}(?!\w)", text):
            return True
    return False


def right_text(question: Question) -> str:
    """Return the normalised gold answer (for a choice, its option's text), to compare two
    questions'.
    """
    gold = question.gold
    if question.choices is not None and question.answer is not None:
        gold = question.choices[question.answer]
    return _normalised(str(gold))


def origin_of(questions: object) -> str | None:
    """Return the name or file from which all these questions were loaded; None if that is unknown,
    or they are from several.
    """
    if isinstance(questions, str | Path) or not isinstance(questions, Sequence):
        return None
    origins = {getattr(question, "_origin", None) for question in questions}
    return origins.pop() if len(origins) == 1 else None


def fingerprint(questions: Iterable[Question]) -> str:
    """Return SHA-256 (hex) of every field of every question, in order; the order of the options
    counts.
    """
    digest, encoder = hashlib.sha256(), json.JSONEncoder(sort_keys=True, default=_plain)
    for question in questions:
        row = dict(question.items(include_dspy=True))
        # As a list, since the encoder sorts keys and the order of options counts.
        row["choices"] = row["choices"] and list(row["choices"].items())
        try:
            digest.update(encoder.encode(row).encode() + b"\n")
        except (TypeError, ValueError) as error:
            raise UserError(
                f"question {question.id!r} cannot be written as JSON ({error}); correct its meta"
            ) from None
    return digest.hexdigest()


def _plain(held: object) -> object:
    """Return the JSON value of an object in a question's `meta`, as DSPy writes it. Raises
    TypeError.
    """
    plain = dspy.Example(held=held).toDict()["held"]
    if plain is held:
        raise TypeError(f"Object of type {type(held).__name__} is not JSON serializable")
    return plain


def called(question: Question) -> str:
    """Return the name of a question in errors: its id, and its row if the id is a hash."""
    name = question_named(question.id)
    if (row := question.meta.get("row")) is None:
        return name
    return f"{name} (row {row})"


def stands_at(question: Question) -> str:
    """Return the position of a question in its source ("line 7")."""
    return str(getattr(question, "_where", called(question))).rpartition(", ")[2]


def check_labelled(questions: Iterable[Question]) -> None:
    """Raise UserError if a question has no gold answer and so could not be scored."""
    unlabelled = [q for q in questions if q.answer is None and q.kind != "task"]
    if unlabelled:
        first = f"question {unlabelled[0].id!r}"
        if where := getattr(unlabelled[0], "_where", None):
            first = f"at {where}, {first}"
        for part in TASK_FILES:
            if part in unlabelled[0].meta:
                raise UserError(
                    f"{first} has {part} that are not an object of paths and texts, so it is no "
                    "task: correct them"
                )
        has = "has" if len(unlabelled) == 1 else "have"
        problem = (
            f"{counted(len(unlabelled), 'question')} {has} no answer (the first {first}); add the "
            f"answers, or name the column that holds them, {naming('answer')}, as "
            "NAME:unanswerable if a question may have none"
        )
        others = [name for name in unlabelled[0].meta if name != "row"][:_MOST_NAMED]
        if others:
            problem += f"; its other columns are {', '.join(others)}"
        if any(name.startswith("test") for name in others):
            problem += "; a task needs no answer, but tests, a column of objects of paths and texts"
        raise UserError(problem)


def overlap(train: Iterable[Question], test: Iterable[Question]) -> list[tuple[str, str]]:
    """Return (train id, test id) of each test question whose text is in `train`, apart from case
    and punctuation. Of several such training questions, it is the first with the same options, else
    the first.
    """
    same_text: dict[str, str] = {}
    same_options: dict[tuple[str, frozenset[str]], str] = {}
    for question in train:
        same_text.setdefault(_normalised(question.question), question.id)
        same_options.setdefault(_with_options(question), question.id)
    pairs = []
    for question in test:
        text = same_text.get(_normalised(question.question))
        if text is not None:
            pairs.append((same_options.get(_with_options(question), text), question.id))
    return pairs


def apart(
    questions: Sequence[Question], earlier: Sequence[Question] = ()
) -> tuple[list[Question], str | None]:
    """Return the questions without repeated ones and without those in an `earlier` split, and a
    sentence on what was left out (None if nothing was). Questions are equal if their texts, options
    and contexts are, whatever their ids.
    """
    keys = _keys_apart([*earlier, *questions])
    known = set(islice(keys, len(earlier)))
    kept, again, before = [], 0, 0
    seen: set[Hashable] = set()
    for question, key in zip(questions, keys, strict=True):
        if key in known:
            before += 1
        elif key in seen:
            again += 1
        else:
            kept.append(question)
        seen.add(key)
    whole, parts = counted(len(questions), "question"), []
    if again:
        parts.append(f"{again:,} of {whole} are asked twice")
    if before:
        parts.append(f"{before:,} of {whole} are training questions, too")
    if not parts:
        return kept, None
    return kept, f"{' and '.join(parts)}: each is asked once"


def asked_again(questions: Sequence[Question]) -> tuple[int, int]:
    """Return how many questions repeat an earlier one, and how many of these differ in answer."""
    first: dict[Hashable, Question] = {}
    again = differ = 0
    for question, key in zip(questions, _keys_apart(questions), strict=True):
        before = first.setdefault(key, question)
        again += before is not question
        differ += right_text(before) != right_text(question)
    return again, differ


def held_apart(
    train: Sequence[Question], validation: Sequence[Question], needed: bool
) -> tuple[list[Question], list[Question], list[str]]:
    """Both lists without repeated questions, validation also without training questions, and
    sentences on what was left out. Raises UserError for two questions with the same id, and if
    validation is `needed` and nothing is left of it.
    """
    for questions in (train, validation):
        check_ids(questions)
    # A repeated question would count twice, and one in both lists would be no test.
    train, asked_twice = apart(train)
    others, known = apart(validation, train)
    if needed and not others:
        why = "all are training questions, too" if validation else "there are none"
        raise UserError(f"no validation questions are left ({why}): hold others out")
    return train, others, list(filter(None, (asked_twice, known)))


def _keys_apart(questions: Sequence[Question]) -> Iterator[Hashable]:
    """Return a key for each question: its text, and if others have the same text, its options and
    context.
    """
    texts = [_normalised(question.question) for question in questions]
    times = Counter(texts)
    for question, text in zip(questions, texts, strict=True):
        if times[text] == 1:
            yield text
            continue
        yield *_with_options(question), _normalised(" ".join(_passages(question)))


def _passages(question: Question) -> Sequence[str]:
    """Return the passages of a question; one text is one passage."""
    if isinstance(question.context, str):
        return [question.context]
    return question.context or ()


def check_overlap(train: Sequence[Question], test: Sequence[Question]) -> str | None:
    """Return one sentence on the test questions whose text is in `train`, or None."""
    pairs = overlap(train, test)
    if not pairs:
        return None
    trained = set(map(_with_options, train))
    same = sum(_with_options(question) in trained for question in test)
    return (
        f"{len(pairs)} of {len(test)} test questions have the text of a training question, "
        f"{same} the same options too (the first is {pairs[0][1]!r}, in training "
        f"{pairs[0][0]!r}); take them out of one"
    )


def _with_options(question: Question) -> tuple[str, frozenset[str]]:
    options = (question.choices or {}).values()
    return _normalised(question.question), frozenset(map(_normalised, options))


def _normalised(text: str) -> str:
    """Without case, punctuation and spacing; signs of arithmetic stay, as `3 - 4` is not `3
    + 4`.
    """
    without_quotes = _QUOTES.sub("", text.casefold())
    return " ".join(_PUNCTUATION.sub(" ", without_quotes).split()) or text


def check_ids(questions: Sequence[Question]) -> None:
    """Raise UserError for an id that two questions share, since their rows would be mixed up."""
    [(most, times)] = Counter(question.id for question in questions).most_common(1) or [("", 1)]
    if times > 1:
        raise UserError(f"the question id {most!r} appears twice: give every question its own id")


def check_asked(questions: Sequence[Question]) -> None:
    """Raise UserError for questions that cannot be scored, or not be shown whole."""
    check_labelled(questions)
    check_contexts(questions)


def check_contexts(questions: Sequence[Question], *, tasks: bool = False) -> None:
    """Raise UserError for a passage that is too long for a prompt, which would be cut; those of
    `tasks` are exempt where a program finds their files in its folder.
    """
    for question in questions:
        if question.context and (tasks or question.kind != "task"):
            check_passage("\n\n".join(_passages(question)), called(question))
