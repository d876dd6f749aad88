"""Checks the shipped sample set: `python tools/check_samples.py [FOLDER]`."""

import argparse
import ast
import operator
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

SHIPPED = Path(__file__).parents[1] / "pipelines" / "data" / "samples"
LABELS = "ABCDE"
CORPUS_FILE = "corpus.jsonl"
LEAST_DOCUMENTS = 150
LEAST_ROWS: Mapping[str, Mapping[str, int]] = {
    "choice": {"train": 40, "validation": 40, "test": 120},
    "boolean": {"train": 12, "validation": 12, "test": 36},
    "number": {"train": 12, "validation": 12, "test": 36},
    "span": {"train": 12, "validation": 12, "test": 36},
}
# Two documents sharing this part of their words (Jaccard) would be one text with the names changed.
NEAR_COPY = 0.5

_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_DECIMAL = re.compile(r"-?\d+(?:\.\d+)?")
_STEP = re.compile(r"([\d.()+\-*/ ]+)=\s*(-?\d+(?:\.\d+)?)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, str_min_length=1)


class Row(_Strict):
    """One question as it stands on disk."""

    id: str
    question: str
    choices: dict[str, str] | None
    answer: str
    context: None
    meta: dict[str, Any]


class Document(_Strict):
    """One text of the corpus that the span questions are about."""

    id: str
    title: str
    text: str

    @cached_property
    def words(self) -> str:
        """Title and text as `plain` reads them."""
        return plain(f"{self.title}. {self.text}")


class NumberMeta(_Strict):
    """What a word problem says about its own arithmetic."""

    expression: str
    solution: str


class SpanMeta(BaseModel):
    """What a span question says about its evidence; `values` and `pick` belong to
    comparisons only.
    """

    model_config = ConfigDict(extra="forbid", str_min_length=1)

    type: Literal["bridge", "comparison"]
    supporting_titles: tuple[str, str]
    supporting_ids: tuple[str, str]
    values: tuple[str, str] | None = None
    pick: Literal["smaller", "larger", "same"] | None = None


_Model = TypeVar("_Model", bound=BaseModel)


def plain(text: str) -> str:
    """Return lower case, digits without separators, no articles, no punctuation, single spaces."""
    joined = re.sub(r"(?<=\d),(?=\d{3})|['’]", "", text.lower())
    words = re.sub(r"[^\w.]|\.(?!\d)", " ", joined).split()
    return " ".join(word for word in words if word not in ("a", "an", "the"))


def occurs(part: str, text: str) -> bool:
    """Return whether `part` stands in `text` as whole words, both read by `plain`; nothing occurs
    nowhere.
    """
    return _within(plain(part), plain(text))


def _within(words: str, text: str) -> bool:
    return bool(words) and f" {words} " in f" {text} "


def evaluate(expression: str) -> Fraction:
    """Return the exact value of a sum, difference, product or quotient of plain numbers, brackets
    allowed.

    Raises ValueError for anything else (names, calls, powers) and for a division by zero.
    """

    def value(node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                # The decimal as written: Fraction(0.1) would be the nearest binary number instead.
                return Fraction(str(number))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](value(left), value(right))
        raise ValueError(f"{expression!r} is not plain arithmetic")

    try:
        return value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError) as error:
        raise ValueError(f"{expression!r} has no value") from error


def check(folder: Path) -> list[str]:
    """Return everything that is wrong with the sample set in `folder`, one sentence each; empty if
    all is well.
    """
    problems: list[str] = []
    documents = _read(folder / CORPUS_FILE, Document, problems)
    problems += _corpus_problems(documents)
    asked: dict[str, str] = {}
    used = Counter(document.id for document in documents)
    for kind, splits in LEAST_ROWS.items():
        for split, least in splits.items():
            name = f"{kind}-{split}.jsonl"
            rows = _read(folder / name, Row, problems)
            if len(rows) < least:
                problems.append(f"{name}: has {len(rows)} readable rows, {least} are needed.")
            used.update(row.id for row in rows)
            for row in rows:
                first = asked.setdefault(plain(row.question), row.id)
                if first != row.id:
                    problems.append(f"{name}, {row.id}: asks the same question as {first}.")
                said = {
                    "choice": _choice_problems,
                    "boolean": _boolean_problems,
                    "number": _number_problems,
                }
                found = _span_problems(row, documents) if kind == "span" else said[kind](row)
                problems += [f"{name}, {row.id}: {problem}" for problem in found]
            problems += [f"{name}: {problem}" for problem in _balance_problems(kind, rows)]
    problems += [
        f"the id {key!r} is used {count} times." for key, count in used.items() if count > 1
    ]
    return problems


def _read(path: Path, model: type[_Model], problems: list[str]) -> list[_Model]:
    rows: list[_Model] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path.name}: cannot be read ({type(error).__name__}).")
        return rows
    for number, line in enumerate(lines, 1):
        try:
            rows.append(model.model_validate_json(line))
        except ValidationError as error:
            problems.append(f"{path.name}, line {number}: {_first(error)}")
    return rows


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    place = ".".join(str(part) for part in detail["loc"]) or "the row"
    return f"{place} is wrong: {detail['msg']}."


def _corpus_problems(documents: Sequence[Document]) -> Iterator[str]:
    if len(documents) < LEAST_DOCUMENTS:
        yield (
            f"{CORPUS_FILE}: has {len(documents)} readable documents, {LEAST_DOCUMENTS} are needed."
        )
    for title, count in Counter(plain(document.title) for document in documents).items():
        if count > 1:
            yield f"{CORPUS_FILE}: the title {title!r} is used {count} times."
    words = [(document.id, frozenset(document.words.split())) for document in documents]
    for (one, left), (other, right) in combinations(words, 2):
        if len(left & right) > NEAR_COPY * len(left | right):
            yield f"{CORPUS_FILE}, {other}: is nearly a copy of {one}."


def _choice_problems(row: Row) -> Iterator[str]:
    if row.choices is None or "".join(row.choices) != LABELS:
        yield f"choices must be the options {', '.join(LABELS)}, in this order."
        return
    if len({plain(option) for option in row.choices.values()}) < len(LABELS):
        yield "two options share a text."
    if row.answer not in row.choices:
        yield f"the answer {row.answer!r} is not one of the labels {', '.join(LABELS)}."


def _boolean_problems(row: Row) -> Iterator[str]:
    if row.choices is not None:
        yield "choices must be null."
    if row.answer not in ("yes", "no"):
        yield f"the answer {row.answer!r} must be yes or no."


def _number_problems(row: Row) -> Iterator[str]:
    if row.choices is not None:
        yield "choices must be null."
    if not _DECIMAL.fullmatch(row.answer):
        yield f"the answer {row.answer!r} must be a plain number such as 18 or 2.5."
        return
    answer = Fraction(row.answer)
    try:
        meta = NumberMeta.model_validate(row.meta)
        if evaluate(meta.expression) != answer:
            yield f"meta.expression ({meta.expression}) does not give the answer {row.answer}."
        steps = [(left.strip(" ."), right) for left, right in _STEP.findall(meta.solution)]
        for left, right in steps:
            if evaluate(left) != Fraction(right):
                yield f"in meta.solution, {left} is not {right}."
    except ValidationError as error:
        yield f"in meta, {_first(error)}"
        return
    except ValueError as error:
        yield f"in meta, {error}."
        return
    if len(steps) < 2 or Fraction(steps[-1][1]) != answer:
        yield "meta.solution must have at least two steps and end at the answer."


def _span_problems(row: Row, documents: Sequence[Document]) -> Iterator[str]:
    if row.choices is not None:
        yield "choices must be null."
    try:
        meta = SpanMeta.model_validate(row.meta)
    except ValidationError as error:
        yield f"in meta, {_first(error)}"
        return
    by_title = {document.title: document for document in documents}
    missing = [title for title in meta.supporting_titles if title not in by_title]
    if missing or len(set(meta.supporting_titles)) < 2:
        yield (
            f"meta.supporting_titles must be two titles of {CORPUS_FILE}, not "
            f"{meta.supporting_titles}."
        )
        return
    one, other = (by_title[title] for title in meta.supporting_titles)
    if meta.supporting_ids != (one.id, other.id):
        yield (
            f"meta.supporting_ids must be the ids {one.id} and {other.id} of the supporting titles."
        )
    if meta.type == "bridge":
        yield from _bridge_problems(row, one, other, documents)
    else:
        yield from _comparison_problems(row, meta, one, other)


def _bridge_problems(
    row: Row, one: Document, other: Document, documents: Sequence[Document]
) -> Iterator[str]:
    if not occurs(one.title, row.question):
        yield f"the question does not name {one.title!r}, where the reading starts."
    if occurs(other.title, row.question):
        yield f"the question names {other.title!r}, so it takes one step only."
    if occurs(row.answer, row.question):
        yield "the question contains its answer."
    if not occurs(other.title, one.text):
        yield f"the document {one.title!r} does not lead to {other.title!r}."
    if not occurs(row.answer, other.text):
        yield f"the answer does not occur in the document {other.title!r}."
    start, end = plain(one.title), plain(row.answer)
    for document in documents:
        if _within(start, document.words) and _within(end, document.words):
            yield f"the document {document.title!r} alone gives the answer."


def _comparison_problems(row: Row, meta: SpanMeta, one: Document, other: Document) -> Iterator[str]:
    for document, rival in ((one, other), (other, one)):
        if not occurs(document.title, row.question):
            yield f"the question does not name {document.title!r}."
        if occurs(rival.title, document.text):
            yield f"the document {document.title!r} names {rival.title!r} too."
    if meta.values is None or meta.pick is None:
        yield "a comparison needs meta.values and meta.pick."
        return
    for document, value in zip((one, other), meta.values, strict=True):
        if not occurs(value, document.text):
            yield f"the value {value!r} does not occur in the document {document.title!r}."
    if meta.pick == "same":
        due = "yes" if plain(meta.values[0]) == plain(meta.values[1]) else "no"
    else:
        bare = [value.replace(",", "") for value in meta.values]
        if not all(_DECIMAL.fullmatch(value) for value in bare) or Fraction(bare[0]) == Fraction(
            bare[1]
        ):
            yield f"meta.values must be two different numbers, not {meta.values}."
            return
        first_smaller = Fraction(bare[0]) < Fraction(bare[1])
        due = one.title if first_smaller == (meta.pick == "smaller") else other.title
    if row.answer != due:
        yield f"the answer {row.answer!r} should be {due!r} by meta.values and meta.pick."


def _balance_problems(kind: str, rows: Sequence[Row]) -> Iterator[str]:
    answers = [row.answer for row in rows]
    if kind == "choice":
        for label in LABELS:
            yield from _share_problems(
                f"the answer {label}", answers.count(label), len(rows), 0.14, 0.26
            )
    elif kind == "boolean":
        yield from _share_problems("the answer yes", answers.count("yes"), len(rows), 0.4, 0.6)
    elif kind == "span":
        bridges = sum(row.meta.get("type") == "bridge" for row in rows)
        yield from _share_problems("the type bridge", bridges, len(rows), 0.4, 0.6)
        named = [
            row
            for row in rows
            if row.meta.get("type") == "comparison" and row.answer not in ("yes", "no")
        ]
        # Otherwise "the one named first" would be a way to answer without reading.
        first = sum(plain(row.answer) == _named_first(row) for row in named)
        yield from _share_problems(
            "the title named first as the answer", first, len(named), 0.33, 0.67
        )


def _named_first(row: Row) -> str:
    titles = [plain(str(title)) for title in row.meta.get("supporting_titles", ())]
    question = plain(row.question)
    return min(titles, key=lambda title: question.find(title) % (len(question) + 1), default="")


def _share_problems(what: str, count: int, total: int, low: float, high: float) -> Iterator[str]:
    if total and not low <= count / total <= high:
        yield (
            f"{what} has a share of {count / total:.0%}, which must lie between {low:.0%} and "
            f"{high:.0%}."
        )


def main() -> int:
    """Checks the folder named on the command line, or the shipped set; the exit code is 1 for
    problems.
    """
    parser = argparse.ArgumentParser(description="Check a folkmoot sample set.")
    parser.add_argument("folder", nargs="?", type=Path, default=SHIPPED)
    folder = parser.parse_args().folder
    problems = check(folder)
    print("\n".join(problems) if problems else "The sample set has no problems.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
