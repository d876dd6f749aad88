"""How LMs write answers: thoughts, markers, numbers and expressions, an entry each."""

import pytest

from folkmoot.modules.reading.answers import em_f1, read_answer
from folkmoot.modules.reading.expressions import same_expression
from folkmoot.modules.reading.thoughts import without_thoughts

OPTIONS = {"A": "one", "B": "two", "C": "three"}
CHANNELS = "<|channel|>analysis<|message|>B?<|end|><|start|>assistant<|channel|>final<|message|>A"
THOUGHTS = ["<think>\nAt first sight B.\n</think>\n\nA", "Maybe B …</think>A", CHANNELS]
THOUGHTS += ["<thinking>B</thinking>\nThe answer is A", "◁think▷B◁/think▷A"]
MARKED = [
    "ANSWER: $B$",
    "$$\\boxed{B}$$",
    "\\boxed{\\textbf{(B) } two}",
    "Ｂ",
    "答案：B",
    "答案是B",
]
MARKED += ["正解はBです", "정답은 B입니다", "故选：B。", "因此，正确答案是选项B。"]
MARKED += ["Antwort: B", "Die richtige Antwort ist B.", "La respuesta correcta es B."]
CHOSEN = {"A": THOUGHTS, "B": [*MARKED, "La bonne réponse est B."], "C": ["[THINK]B?[/THINK]C"]}
SEVERAL = ['{"answer": ["A", "B"]}', '{"answer": "A, B"}', "Answer: A; B", '["A", "B"]']
SEVERAL += ["\\boxed{A} and \\boxed{B}", "A: no\nB: yes\nC: no", '{"A": 0.1, "B": 0.9}']
SEVERAL += ["A. Incorrect, since …\nB. Correct, since …", "A: 0.1, B: 0.7, C: 0.2"]
CHOSEN |= {None: ["<think>It is B, so", *SEVERAL]}


@pytest.mark.parametrize(
    ("text", "answer"), [(text, answer) for answer, texts in CHOSEN.items() for text in texts]
)
def test_a_choice(text: str, answer: str | None) -> None:
    assert read_answer(text, "choice", OPTIONS) == answer


NUMBERS = {"1\\frac{1}{2}": "1.5", "1.25 × 10^3": "1250", "1.25 \\times 10^{3}": "1250"}
NUMBERS |= {"2.5×10⁻²": "0.025", "2^{10}": "1024", "The answer is 2**10": "1024"}
NUMBERS |= {"10⁻³": "0.001", "1_250": "1250", "1'250": "1250", "–4": "-4"}
NUMBERS |= {"the answer is –4": "-4", "1.5 million": "1500000", "12k": "12000"}
NUMBERS |= {"$1.5B": "1500000000", "Antwort: 12": "12", "5 km": "5"}
NUMBERS |= {"४२": "42", "١٢": "12", "12万元": "120000", "3 crore": "30000000", "\\frac34": "0.75"}
NUMBERS |= dict.fromkeys(["√2", "3√2", "3π", "\\sqrt{16}", "10^400", "\\boxed{0.\\overline{3}}"])
NUMBERS |= dict.fromkeys(["\\boxed{5, 7}", "\\boxed{5 \\text{ or } 7}", '{"answer": [12, 13]}'])
NUMBERS |= dict.fromkeys(["12 or 13", "Between 5 and 7", "5 ± 1", "12万5千"])
NUMBERS |= {"18, or $18.00": "18", "100 or 10^2": "100"}


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_a_number_is_itself_or_unreadable(text: str, number: str | None) -> None:
    assert read_answer(text, "number") == number


STATED = ["Answer: Paris", "The answer is Paris.", "\\boxed{\\text{Paris}}"]
STATED += [
    "<answer>Paris</answer>",
    "Exact Answer: Paris\nConfidence: 9",
    "Answer:\n```\nParis\n```",
]
STATED += ["So the final answer is: **Paris**.", "I think so.\nFinal Answer: Paris"]


SPANS = dict.fromkeys([*STATED, "<think>Rome?</think>Paris"], "Paris")
SPANS |= {"Answer:\n\n- Paris\n- Rome\n\nBoth.": "- Paris\n- Rome", "Answer:\n```\n```": None}
SPANS |= {
    "Answer:\n```python\na = 1\nb = 2\n```\nDone": "a = 1\nb = 2",
    "<think />Paris": "<think />Paris",
}


@pytest.mark.parametrize(("text", "span"), SPANS.items())
def test_a_span_is_what_the_text_states(text: str, span: str | None) -> None:
    assert read_answer(text, "span") == span


EQUAL = [("\\frac{14}{3}", "\\dfrac{14}{3}"), ("3,14", "3.14"), ("1,250 people", "1250 people")]
EQUAL += [("(1,2)", "(1, 2)"), ("The Beatles", "beatles.")]
UNEQUAL = [("-\\frac{\\pi}{6}", "\\frac{\\pi}{6}"), ("6-5i", "6+5i"), ("2.5 cm", "25 cm")]
UNEQUAL += [("45%", "4.5%"), ("25 cm", "2,5 cm"), ("3,14", "314"), ("[0,1)", "(0,1]")]


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [*((*pair, True) for pair in EQUAL), *((*pair, False) for pair in [*UNEQUAL, ("C#", "C++")])],
)
def test_signs_and_operators_count(gold: str, answer: str, right: bool) -> None:
    assert em_f1(answer, gold)[0] == right


def test_equal_expressions_are_right_with_the_extra() -> None:
    pytest.importorskip("math_verify")
    assert em_f1("14/3", "\\frac{14}{3}") == (1.0, 1.0)
    assert same_expression("2\\sqrt{2}", "\\sqrt{8}")
    assert not same_expression("9^9^9^9", "9^9^9")  # not worked out


def test_thoughts_are_kept_apart() -> None:
    assert without_thoughts("<think>so</think>A") == ("A", "so", False)
    assert without_thoughts("<think>so") == ("", "so", True)
    assert without_thoughts("a < b [1]") == ("a < b [1]", "", False)
