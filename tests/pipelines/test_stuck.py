"""Mistakes that left users stuck: each is one sentence that shows the right form."""

import pytest

import folkmoot as fm

OPTIONS = [{"q": "Where?", "one": "bank", "two": "mall", "answer": "A"}]
ONE = fm.Question(id="1", question="Where?", choices={"A": "bank", "B": "mall"}, answer="A")
LMS = ["openai/gpt-4o-mini", "openai/gpt-4o"]


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (
            lambda: fm.Deliberation("reasoner, critic"),
            r"give a list, roles=\['reasoner', 'critic'\]",
        ),
        (lambda: fm.evaluate(fm.SingleAgent("cot"), ONE), r"give a list, \[question\]"),
        (lambda: fm.load("where did I put it"), r"program\(question=…\)"),
        (
            lambda: fm.evaluate(fm.SingleAgent("cot"), [ONE], lm=LMS),
            r"agent → LM, such as \{'judge'",
        ),
        (
            lambda: fm.load([{"x": "Where?", "answer": "a"}], columns={"x": "question"}),
            "turn it round",
        ),
    ],
)
def test_a_mistake_is_one_sentence(mistake, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fm.UserError, match=words) as caught:
        mistake()
    assert "\n" not in str(caught.value)


def test_option_columns_may_be_a_list() -> None:
    (question,) = fm.load(OPTIONS, columns={"question": "q", "choices": ["one", "two"]})
    assert question.choices == {"A": "bank", "B": "mall"}
