"""How LMs write answers: thoughts, markers, numbers and expressions, an entry each."""

import pytest

from folkmoot.modules.reading.answers import em_f1, read_answer
from folkmoot.modules.reading.expressions import same_expression
from folkmoot.modules.reading.thoughts import without_thoughts

OPTIONS = {"A": "one", "B": "two", "C": "three"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>\nAt first sight B.\n</think>\n\nA", "A"),
        ("Maybe B …</think>A", "A"),
        ("[THINK]B?[/THINK]C", "C"),
        ("<thinking>B</thinking>\nThe answer is A", "A"),
        ("◁think▷B◁/think▷A", "A"),
        (
            "<|channel|>analysis<|message|>B?<|end|><|start|>assistant<|channel|>final<|message|>A",
            "A",
        ),
        ("<think>It is B, so", None),
        ("ANSWER: $B$", "B"),
        ("$$\\boxed{B}$$", "B"),
        ("\\boxed{\\textbf{(B) } two}", "B"),
        ("Ｂ", "B"),
        ("答案：B", "B"),
        ("答案是B", "B"),
        ("Antwort: B", "B"),
        ("Die richtige Antwort ist B.", "B"),
        ("La respuesta correcta es B.", "B"),
        ("La bonne réponse est B.", "B"),
    ],
)
def test_a_choice(text: str, answer: str | None) -> None:
    assert read_answer(text, "choice", OPTIONS) == answer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1\\frac{1}{2}", "1.5"),
        ("1.25 × 10^3", "1250"),
        ("1.25 \\times 10^{3}", "1250"),
        ("2.5×10⁻²", "0.025"),
        ("2^{10}", "1024"),
        ("The answer is 2**10", "1024"),
        ("10⁻³", "0.001"),
        ("1_250", "1250"),
        ("1'250", "1250"),
        ("–4", "-4"),
        ("the answer is –4", "-4"),
        ("1.5 million", "1500000"),
        ("12k", "12000"),
        ("$1.5B", "1500000000"),
        ("Antwort: 12", "12"),
        ("5 km", "5"),
        *((text, None) for text in ("√2", "3√2", "3π", "\\sqrt{16}", "10^400")),
    ],
)
def test_a_number_is_itself_or_unreadable(text: str, number: str | None) -> None:
    assert read_answer(text, "number") == number


@pytest.mark.parametrize(
    "text",
    [
        "Answer: Paris",
        "The answer is Paris.",
        "\\boxed{\\text{Paris}}",
        "So the final answer is: **Paris**.",
        "I think so.\nFinal Answer: Paris",
        "<think>Rome?</think>Paris",
    ],
)
def test_a_span_is_what_the_text_states(text: str) -> None:
    assert read_answer(text, "span") == "Paris"


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("-\\frac{\\pi}{6}", "\\frac{\\pi}{6}", False),
        ("\\frac{14}{3}", "\\dfrac{14}{3}", True),
        ("6-5i", "6+5i", False),
        ("2.5 cm", "25 cm", False),
        ("45%", "4.5%", False),
        ("25 cm", "2,5 cm", False),
        ("3,14", "314", False),
        ("3,14", "3.14", True),
        ("1,250 people", "1250 people", True),
        ("[0,1)", "(0,1]", False),
        ("C#", "C++", False),
        ("(1,2)", "(1, 2)", True),
        ("The Beatles", "beatles.", True),
    ],
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
