"""Sample questions of the contract, and the replies of its scripted LM."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from ...modules.reading.answers import read_answer
from ...modules.reading.question import Question
from .server import Reply, wanted_fields
from .server import filled as filled

Body = dict[str, Any]
Pick = Callable[[Question, Body], str | None]


def sample_questions() -> list[Question]:
    """Four questions of each kind, in turn: choice, boolean, number and span, the last with a
    passage.
    """
    boxes = {"A": "the red box", "B": "the blue box", "C": "the green box"}
    towns = ("Elmford", "Ashby", "Oakham", "Thornley")
    questions = []
    for i, town in enumerate(towns):
        where = f"Which town lies at mile {i + 1}?"
        passage = [f"Mile {i + 1} is the town of {town}.", "The road goes on to the sea."]
        questions += [
            Question(
                id=f"choice-{i}",
                question=f"Where is coin {i + 1}?",
                choices=boxes,
                answer="ABC"[i % 3],
            ),
            Question(
                id=f"boolean-{i}",
                question=f"Is {i + 5} odd?",
                kind="boolean",
                answer=("yes", "no")[i % 2],
            ),
            Question(
                id=f"number-{i}",
                question=f"What is {i + 1} times 300?",
                kind="number",
                answer=str((i + 1) * 300),
            ),
            Question(id=f"span-{i}", question=where, kind="span", answer=town, context=passage),
        ]
    return questions


def one_of_each_kind(questions: Sequence[Question]) -> list[Question]:
    return list({question.kind: question for question in reversed(questions)}.values())


def gold(question: Question) -> str:
    """Return the right answer in canonical form."""
    answer = read_answer(question.answer, question.kind, question.choices)
    assert answer is not None, (
        f"question {question.id!r} has no readable gold answer: the contract needs one"
    )
    return answer


def wrong(question: Question) -> str:
    """Return a readable answer that is not the right one."""
    right = gold(question)
    if question.choices:
        # Two labels may stand for one text, so that another label alone would not be wrong.
        return next(
            label for label, text in question.choices.items() if text != question.choices[right]
        )
    if question.kind == "boolean":
        return "no" if right == "yes" else "yes"
    return str(Decimal(right) + 1) if question.kind == "number" else "somewhere else"


def loosely(answer: str, question: Question) -> str:
    """Return an answer in words that an LM might use, not in its canonical form."""
    if question.kind == "choice":
        return f"({answer})."
    if question.kind == "boolean":
        return "True" if answer == "yes" else "False"
    decimals = "0" if "." in answer else ".0"
    return f"{answer}{decimals}" if question.kind == "number" else f" {answer} "


def text_of(body: Body) -> str:
    """Return the last message of a request, after any demonstrations."""
    return str(body["messages"][-1]["content"])


def digest(body: Body) -> int:
    """Return a number that the request's body alone decides."""
    return int.from_bytes(
        hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()[:6], "big"
    )


def unreadable(body: Body) -> str:
    """Return a reply in which no answer can be read, whatever the kind: with an empty answer, or no
    JSON at all.
    """
    return "???" if _answer_options(body) and digest(body) % 2 else filled(body, "")


def _answer_options(body: Body) -> list[str]:
    return list(wanted_fields(body).get("answer", {}).get("enum") or ())


def saying(questions: Sequence[Question], pick: Pick) -> Reply:
    """Return replies with what `pick` chooses for the question of a request; None is an unreadable
    reply.

    A question that is none of these (a protocol may ask its own) gets its first option, or a
    number.
    """

    def reply(body: Body) -> str:
        text = text_of(body)
        asked = [question for question in questions if question.question in text]
        if not asked:
            return filled(body, [*_answer_options(body), "7"][0])
        # the text of one question may stand within another's
        question = max(asked, key=lambda found: len(found.question))
        answer = pick(question, body)
        return unreadable(body) if answer is None else filled(body, answer)

    return reply


def agreeing(questions: Sequence[Question]) -> Reply:
    """Everybody always gives the right answer."""
    return saying(questions, lambda question, _: loosely(gold(question), question))


def disputed(questions: Sequence[Question]) -> Reply:
    """Every other call about a question is right, and every other one is wrong."""
    # By question, since those of a run are asked at the same time.
    asked: Counter[str] = Counter()

    def pick(question: Question, _: Body) -> str:
        asked[question.id] += 1
        return gold(question) if asked[question.id] % 2 else wrong(question)

    return saying(questions, pick)


def garbled(questions: Sequence[Question]) -> Reply:
    """Nobody ever gives a readable answer."""
    return saying(questions, lambda *_: None)


def mixed(questions: Sequence[Question]) -> Reply:
    """Right, wrong or (one in eight) unreadable, as the request's body alone decides."""

    def pick(question: Question, body: Body) -> str | None:
        # The same request has the same reply, whatever else is asked at that time.
        draw = digest(body) % 16
        said = gold(question) if draw < 9 else wrong(question)
        return None if draw < 2 else said

    return saying(questions, pick)
