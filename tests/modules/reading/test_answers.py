"""Reading and scoring answers: tricky texts, properties, and the real benchmark files."""

import json
import os
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from folkmoot.modules.reading.answers import (
    AnswerScore,
    infer_kind,
    normalise_span,
    read_answer,
    read_boolean,
    read_choice,
    read_number,
    same_answer,
    score,
)

CHOICES = {"A": "bank", "B": "library", "C": "department store", "D": "mall", "E": "new york"}
TEN = {label: f"word{label.lower()}x" for label in "ABCDEFGHIJ"}
DIGITS = {"1": "gravity", "2": "friction", "3": "heat"}
NUMBERS = {"A": "5", "B": "-5", "C": "1.5", "D": "50%"}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        # a label and nothing else
        ("b", "B"),
        ("a", "A"),
        # a label with its option's text
        ("B - library", "B"),
        ("A bank", "A"),
        ("library (B)", "B"),
        ("A library", "B"),
        # marked
        ("The answer is B because it is quiet.", "B"),
        ("Answer: A library", "B"),
        ("the answer is a", "A"),
        ('```json\n{"reasoning": "A bank or a mall", "answer": "D"}\n```', "D"),
        ("I'd go with the mall.", "D"),
        # the last decision of a text that changes its mind
        ("At first I thought B. But money is kept there, so the answer is A", "A"),
        ("The answer is B. Wait, no, C.", "C"),
        ("between A and B, I pick B", "B"),
        # what is denied is not chosen
        ("The answer is not B but C", "C"),
        ("I choose C over B", "C"),
        ("Neither A nor B; the answer is D.", "D"),
        ("I would eliminate B and C, which leaves (D).", "D"),
        # the label or the option leads, or stands on its own line
        ("B\n\nLibraries are quiet, unlike a mall.", "B"),
        ("Mall. A bank has none.", "D"),
        ("Thinking about a bank and a mall.\n\n(D)", "D"),
        # mentioned once
        ("A library is the place", "B"),
        ("Money, in general, is kept in a bank.", "A"),
        ("A) bank\nB) library\nC) department store\nAnswer: C", "C"),
        # nothing is guessed
        ("", None),
        (" \n", None),
        ("store", None),
        ("A place to keep money", None),
        ("The answer is A/B/C", None),
        ("A) bank\nB) library\nC) department store\nD) mall\nE) new york", None),
        ("neither A nor B", None),
        ("The answer is B. No wait, B is wrong.", None),
        ("If the answer is B, then it would be quiet.", None),
        ("The reasoner's answer is B", None),
        ("The answer is B?", None),
        ("Option B is wrong; a library is quiet.", None),
        ("The answer is none of the above", None),
        ("the answer is vitamin C", None),
        ("B) bank", None),
        ("The mall is right next to the bank.", None),
    ],
)
def test_read_choice(text: str, label: str | None) -> None:
    assert read_choice(text, CHOICES) == label


@pytest.mark.parametrize(
    ("text", "choices", "label"),
    [
        ("I", TEN, "I"),
        ("I cannot say", TEN, None),
        ("The answer is I", TEN, "I"),
        ("The answer is I think unknown", TEN, None),
        ("I. wordix", TEN, "I"),
        ("The answer is 3.", DIGITS, "3"),
        ("The answer is 3.5", DIGITS, None),
        ("There are 3 forces", DIGITS, None),
        ("1. First we look\n2. Then we think\n3. done", DIGITS, None),
        ("1. Objects fall. 2. So the force is gravity.", DIGITS, "1"),
        ("−5", NUMBERS, "B"),
        ("The answer is -5.", NUMBERS, "B"),
        ("50", NUMBERS, None),
        ("none of the above", {"A": "one", "B": "none of the above"}, "B"),
        ("There is no doubt", {"A": "yes", "B": "no"}, None),
        ("vitamin", {"A": "vitamin a", "B": "vitamin c"}, None),
        ("Rr", {"A": "R", "B": "rr", "C": "Rr", "D": "RR"}, "C"),
        ("dear pablo", {"A": "Dear Pablo,", "B": "dear Pablo,"}, None),
        ("in a department store", {"A": "store", "B": "department store"}, "B"),
        ("bring cash", {"A": "get money", "B": "bring cash", "C": "bring cash"}, "B"),
        ("3", {"1": "4", "2": "3", "3": "2"}, "3"),
        ("So she pays $5.", {"A": "$5", "B": "$5.50"}, "A"),
        ("It costs \\$1,300 in all", {"A": "$1,250", "B": "$1,300"}, "B"),
        ("The answer is 3.5.", {"A": "3.5", "B": "3-5"}, "A"),
        ("It is 3–5", {"A": "3:5", "B": "3-5"}, "B"),
    ],
)
def test_read_choice_of_other_labels(text: str, choices: dict[str, str], label: str | None) -> None:
    assert read_choice(text, choices) == label


FORMS = ["{label}", "{label}.", "**{label}**", "{label}) {text}", "{label}. {text}", "{text}"]
FORMS += ["The answer is ({label}) {text}.", '{{"answer": "{label}"}}', "\\boxed{{{label}}}"]
FORMS += ["Option {label} is right.", "{text} is the correct answer."]
FORMS += ["I first considered {other}, but the answer is {label}.", "{label}\n\nIt is not {other}."]
WORDS = st.text("bcdfghjklmnprstvz", min_size=3, max_size=8)
LABELS = st.sampled_from(
    [list("ABCDE"), list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), list("12345"), list("AB")]
)


@st.composite
def questions(draw: st.DrawFn) -> dict[str, str]:
    labels = draw(LABELS)
    words = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
    texts = draw(st.lists(words, min_size=len(labels), max_size=len(labels), unique=True))
    return dict(zip(labels, texts, strict=True))


@given(questions(), st.sampled_from(FORMS), st.data())
def test_every_form_reads_back(choices: dict[str, str], form: str, data: st.DataObject) -> None:
    labels = st.sampled_from(sorted(choices))
    label, other = data.draw(st.lists(labels, min_size=2, max_size=2, unique=True))
    text = form.format(label=label, text=choices[label], other=choices[other])
    assert read_choice(text, choices) == label


@given(questions(), st.data())
def test_a_denied_or_open_option_is_not_read(choices: dict[str, str], data: st.DataObject) -> None:
    labels = st.sampled_from(sorted(choices))
    a, b = data.draw(st.lists(labels, min_size=2, max_size=2, unique=True))
    wrong = (f"not {a}", f"The answer is not ({a}).", f"Option {a} is wrong.")
    for text in (*wrong, f"{a} or {b}", f"It is {a} or {b}."):
        assert read_choice(text, choices) is None, text


@given(st.text(), questions())
def test_any_text_reads_as_a_label_or_nothing(text: str, choices: dict[str, str]) -> None:
    assert read_choice(text, choices) in {None, *choices}


@given(
    st.lists(
        st.sampled_from(["a", "A", "I", "place", "is", "to", "think", "good", ".", ","]),
        max_size=12,
    )
)
def test_prose_is_never_option_a_or_i(words: list[str]) -> None:
    """An article or pronoun with a word after it names no option."""
    text = "It seems " + " ".join(words) + " thing"
    assume(not re.search(r"\b[aAI] (?:is|[.,])|[.,] *[aAI]\b *[.,]", text))
    assert read_choice(text, TEN) is None


TRUE = ["yes", "TRUE", "Answer: yes", "Not false", '{"answer": true}']
FALSE = ["**false**", "Incorrect.", "The statement is not entirely true"]
FALSE += ["It is not true that bats are blind.", "Yes. Wait, actually no."]
FALSE += ["The answer is yes. Therefore the answer is no.", "is this true or false? False."]
NEITHER = ["It's correct in part", "There is no evidence", "If the answer is yes, then rain."]
NEITHER += ["yes and no", "no, because x; yes, because y", "I cannot say yes or no"]
NEITHER += ["I know nothing", ""]
SAID = {True: [*TRUE, "(1)", "Y."], False: [*FALSE, "0"], None: [*NEITHER, "-1", " "]}


@pytest.mark.parametrize(
    ("text", "value"), [(text, value) for value, texts in SAID.items() for text in texts]
)
def test_read_boolean(text: str, value: bool | None) -> None:
    assert read_boolean(text) is value


NUMBERS_READ = {"−3": "-3", "negative 5": "-5", ".5": "0.5", "$5.00": "5", "$-5": "-5"}
NUMBERS_READ |= {"1,250": "1250", "1 250": "1250", "in 2020 150 people": "150", "3/4": "0.75"}
NUMBERS_READ |= {"1½": "1.5", r"$\boxed{\frac{3}{4}}$": "0.75", "**5** 6": "6", "COVID-19": "19"}
NUMBERS_READ |= {"x = -5": "-5", "She has 3 and 4, so 3 + 4 = 7.": "7", '{"answer": 42}': "42"}
NUMBERS_READ |= {"The answer is not 5, but 6": "6", "18 on the 3rd day": "18"}
NUMBERS_READ |= {"The answer is 5 for one. No, the answer is 6 for 2.": "6"}
NUMBERS_READ |= {"We get <<48/2=24>>24.\n#### 72": "72"}
NUMBERS_READ |= {"20-5=15": "15", "half of 5 * 1/2": "0.5", "2^−3": "0.125", "10^{–2}": "0.01"}
NO_NUMBERS = ["5-6", "2.5-3", "10 000-12 000", "2024-01-05", "3*5", "3+5"]
NO_NUMBERS += ["5 ± 5", "±5", "it is 5 kg +/- 2", "5 - 7", "from 5 to 7", "5 to 6 apples"]
NO_NUMBERS += ["5 x 7", "5..7", "Answer: 5 hours and 7 minutes", "5 out of 7"]
NO_NUMBERS += ["it is ±1/2", r"x = \pm \frac{3}{4}", "The answer is 5% ± 2%.", "5 ± √2", "±½"]
NO_NUMBERS += ["H2O", "1,25", "3:30", "She had 5. Answer: unknown", "NaN", ""]


@pytest.mark.parametrize(
    ("text", "value"), [*NUMBERS_READ.items(), *((text, None) for text in NO_NUMBERS)]
)
def test_read_number(text: str, value: str | None) -> None:
    assert read_number(text) == (None if value is None else Decimal(value))


STRICT = {"18": "18", "$1,250.": "1250", "so\n#### 1,250": "1250", "The answer is 18": None}
STRICT |= {"#### 5\n\nQuestion: 8?\n#### 9": "5", "#### about 5": None}


@pytest.mark.parametrize(("text", "value"), STRICT.items())
def test_read_number_strict(text: str, value: str | None) -> None:
    assert read_number(text, strict=True) == (None if value is None else Decimal(value))


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=3
    )
)
def test_numbers_read_back_however_written(number: Decimal) -> None:
    canonical = read_answer(str(number), "number")
    assert Decimal(canonical) == number
    assert re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?", canonical)
    with_minus = f"{number:f}".replace("-", "−")
    for form in (f"{number:,f}", f"#### {number:f}", f"The answer is {number:,f}.", with_minus):
        assert read_number(form) == number
    assert read_number(f"so\n#### {number:f}", strict=True) == number


@given(st.text())
def test_any_text_reads_as_a_finite_number_or_nothing(text: str) -> None:
    number = read_number(text)
    assert number is None or number.is_finite()
    assert read_boolean(text) in {None, True, False}


def test_normalise_span_removes_what_the_official_script_removes_and_no_more() -> None:
    assert normalise_span("  The U.S.A.,\tan  Apple-pie: theatre ") == "usa applepie theatre"
    assert normalise_span("“Ångström” – a test") == "“ångström” – test"


@pytest.mark.parametrize(
    ("said", "gold", "same"),
    [
        ("3-5", "35", False),
        ("35", "3-5", False),
        ("3:5", "35", False),
        ("3*5", "35", False),
        ("1/2", "12", False),
        ("2.5-3", "253", False),
        ("10^5", "105", False),
        ("1e5", "15", False),
        ("-5", "5", False),
        ("$-5", "$5", False),
        (".5", "5", False),
        ("<5", "5", False),
        ("2020-01-05", "20200105", False),
        ("x^2", "x2", False),
        ("C++", "C", False),
        ("A+", "A", False),
        ("O+", "O-", False),
        ("A", "A-", False),
        ("==", "!=", False),
        ("] )", "} )", False),
        ("The", "the.", True),
        ("] )", "] )", True),
        ("1,250", "1250", True),
        ("1'250", "1250", True),
        ("−5", "-5", True),
        ("F-16", "F16", True),
        ("$5", "5", True),
        ("**Paris**", "Paris", True),
    ],
)
def test_only_marks_that_make_another_answer_count(said: str, gold: str, same: bool) -> None:
    assert score(said, gold, "span").correct is same
    assert same_answer(said, gold, "span") is same


@pytest.mark.parametrize(
    ("text", "kind", "answer"),
    [
        ("The answer is (B)", "choice", "B"),
        ("True", "boolean", "yes"),
        ("$1,250.00", "number", "1250"),
        ("1.5e3", "number", "1500"),
        ("-0.0", "number", "0"),
        (" Ed Wood ", "span", "Ed Wood"),
        (None, "span", None),
        ("] )", "span", "] )"),
        ("—", "span", None),
        ("unknown", "number", None),
    ],
)
def test_read_answer_is_canonical(text: str | None, kind: Any, answer: str | None) -> None:
    choices = CHOICES if kind == "choice" else None
    assert read_answer(text, kind, choices) == answer
    if answer is not None:
        assert read_answer(answer, kind, choices) == answer


def test_score_of_each_kind() -> None:
    twice = {"A": "get money", "B": "bring cash", "C": "bring cash"}
    assert score("B", "B", "choice", twice) == AnswerScore(True, None, None)
    assert score("C", "B", "choice", twice).correct
    assert not score("A", "B", "choice", twice).correct
    assert not score(None, "B", "choice", twice).correct
    assert score("18.0", "18", "number") == AnswerScore(True, None, None)
    assert not score(None, "18", "number").correct
    assert score("yes", "TRUE", "boolean").correct
    assert not score("no", "True", "boolean").correct
    assert score("the Bank", "bank", "span") == AnswerScore(True, 1.0, 1.0)
    assert score("bank robbery", "bank", "span") == AnswerScore(False, 0.0, pytest.approx(2 / 3))
    assert score(None, "bank", "span") == AnswerScore(False, 0.0, 0.0)


def rows(name: str) -> Iterator[dict[str, Any]]:
    folder = os.environ.get("FOLKMOOT_DATA")
    path = Path(folder or ".") / f"{name}.jsonl"
    if not folder or not path.exists():
        pytest.skip(f"needs {name}.jsonl in the folder that FOLKMOOT_DATA names")
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "every"),
    [("commonsenseqa-validation", 1), ("arc-challenge-test", 4), ("scienceqa-test", 4)],
)
def test_gold_choices_of_real_rows_read_back(name: str, every: int) -> None:
    for row in islice(rows(name), 0, None, every):
        choices, gold = row["choices"], row["answer"]
        text = choices[gold]
        forms = (gold, f"({gold})", f"Answer: {gold}", f"{gold}) {text}")
        for form in (*forms, f"The answer is {gold}.", text):
            label = read_choice(form, choices)
            assert label is not None, (form, choices)
            assert choices[label].strip() == text.strip(), (form, choices)
            assert score(label, gold, "choice", choices).correct


@pytest.mark.parametrize("name", ["gsm8k-test", "gsm1k-test"])
def test_gold_numbers_of_real_rows_read_back(name: str) -> None:
    for row in rows(name):
        gold, raw = row["answer"], row["meta"]["answer_raw"]
        worked = f"{row['meta'].get('solution', row['question'])}\n#### {raw}"
        assert read_answer(gold, "number") == gold
        assert read_answer(worked, "number") == gold, worked
        assert read_number(worked, strict=True) == Decimal(gold)
        assert infer_kind(gold, None) == "number"
