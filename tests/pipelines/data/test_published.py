"""Files as they are published: one kind each, golds in every shape, refusals in a sentence."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import pandas as pd
import pytest
from messy import lines, text

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.modules.reading.answers import score
from folkmoot.modules.reading.column_kind import kind_of_column
from folkmoot.modules.reading.question import Question
from folkmoot.pipelines.data.cells import as_list
from folkmoot.pipelines.data.load import load, understand
from folkmoot.pipelines.data.questions import listed

Q = "What is asked?"


def asked(*golds: Any, **fields: Any) -> list[dict[str, Any]]:
    return [{"question": f"{Q} {n}", "answer": gold, **fields} for n, gold in enumerate(golds)]


@pytest.mark.parametrize(
    ("golds", "kind", "options"),
    [
        (["yes", "no", "True"], "boolean", None),
        (["12", "3.5", "-7"], "number", None),
        (["Paris", "Rome"], "span", None),
        (["yes", "no", "maybe"], "choice", ["yes", "no", "maybe"]),  # PubMedQA
        (["yes", "maybe"], "choice", ["yes", "no", "maybe"]),
        (["True", "False", "Unknown"], "choice", ["True", "False", "Unknown"]),  # FOLIO
        (["True", "False", "Uncertain"], "choice", ["True", "False", "Uncertain"]),
        (["yes", "no", "irrelevant"] * 5, "choice", ["yes", "no", "irrelevant"]),
        (["yes", "no", "Paris"], "span", None),  # HotpotQA
        (["1912", "Ada", "3"], "span", None),  # DROP, SimpleQA
        (["yes", "4"], "span", None),
        (["yes", None, "no"], "boolean", None),
        ([], "span", None),
    ],
)
def test_columns_have_a_kind(golds: list[str | None], kind: str, options: list[str] | None) -> None:
    found = kind_of_column(golds)
    assert found.kind == kind
    assert options == (None if found.options is None else list(found.options.values()))


def test_every_row_of_a_file_has_the_kind_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pubmed.jsonl"
    path.write_bytes(lines(*asked(*["yes", "no"] * 10, "maybe")))
    whole = load(path)
    assert {question.kind for question in whole} == {"choice"}
    assert whole[-1].answer == "C"
    assert whole[0].choices == {"A": "yes", "B": "no", "C": "maybe"}
    first = load(path, limit=2)  # what is not taken counts, too
    assert [question.kind for question in first] == ["choice", "choice"]


def test_every_door_decides_the_kind_alike() -> None:
    rows = asked("1912", "yes", "Ada")
    frame = pd.DataFrame(rows)
    held = [Question(id=str(n), **row) for n, row in enumerate(rows)]
    for source in (rows, frame, datasets.Dataset.from_pandas(frame), held):
        assert {question.kind for question in listed(source)} == {"span"}
    assert [question.kind for question in held] == ["number", "boolean", "span"], "not the user's"


def test_stated_kinds_stay(tmp_path: Path) -> None:
    rows = [*asked("yes", kind="boolean"), *asked("12", kind="number")]
    assert [question.kind for question in load(rows)] == ["boolean", "number"]
    assert [question.kind for question in load(asked("yes", "12"), kind="span")] == ["span"] * 2


class Read(NamedTuple):
    """Rows of a file, what is read of the first, and words of the line that says so."""

    name: str
    rows: list[dict[str, Any]]
    kind: str
    answer: Any
    choices: list[str] | None = None
    question: str | None = None
    says: str = ""
    columns: dict[str, str] | None = None


WRONG = {f"Incorrect Answer {n}": f"w{n}" for n in (1, 2, 3)}
GPQA = {"Question": Q, "Pre-Revision Correct Answer": "wrong before", "Correct Answer": "right"}
GPQA |= {**WRONG, "Explanation": "since right"}
BBH = "Sort the words.\nOptions:\n" + "\n".join(f"({c}) word {c}" for c in "ABCDEFGHIJKL")
READ = (
    Read("gpqa", [GPQA], "choice", "right", ["right", "w1", "w2", "w3"], says="drawn for each"),
    Read("opentdb", [{"question": Q, "correct_answer": "r", "incorrect_answers": ["x", "y"]}],
         "choice", "r", ["r", "x", "y"]),
    Read("truthfulqa", [{"question": Q, "mc1_targets": {"choices": ["r", "x", "y"],
         "labels": [1, 0, 0]}, "mc2_targets": {"choices": ["r", "s", "x"], "labels": [1, 1, 0]}}],
         "choice", "r", ["r", "x", "y"]),
    Read("bbh", [{"input": BBH, "target": "(K)"}, {"input": BBH.replace("Sort", "Order"),
         "target": "(B)"}], "choice", "word K", [f"word {c}" for c in "ABCDEFGHIJKL"],
         "Sort the words.", "options inside the question"),
    Read("langsmith", [{"inputs": {"question": Q}, "outputs": {"answer": "Rome"}}], "span", "Rome",
         question=Q),
    Read("mlflow", [{"inputs": {"query": Q}, "expectations": {"expected_response": "Rome"},
         "outputs": "Bonn"}], "span", "Rome", question=Q),
    Read("openai chats", [{"messages": [{"role": "user", "content": Q},
         {"role": "assistant", "content": "Rome"}]}], "span", "Rome", question=Q),
    Read("chats and golds", [{"messages": [{"role": "user", "content": Q}], "ideal": "Rome"}],
         "span", "Rome", question=Q),
    Read("sharegpt", [{"conversations": [{"from": "human", "value": Q},
         {"from": "gpt", "value": "Rome"}]}], "span", "Rome", question=Q),
    Read("chats of langsmith", [{"inputs": {"messages": [{"role": "user", "content": Q}]},
         "outputs": {"messages": [{"role": "assistant", "content": "Rome"}]}}], "span", "Rome",
         question=Q),
    Read("popqa", [{"question": Q, "obj": "Rome", "possible_answers": '["Rome", "Roma"]'}], "span",
         "Rome", says="any of the answers"),
    Read("livebench", [{"turns": [Q], "ground_truth": "Rome"}], "span", "Rome", question=Q),
    Read("copa", [{"premise": "It rained.", "question": "cause", "choice1": "x", "choice2": "y",
         "label": n} for n in (1, 0)], "choice", "y", ["x", "y"], says="`premise` as context"),
    Read("belebele", [{"question": Q, "mc_answer1": "x", "mc_answer2": "y",
         "correct_answer_num": "2"}], "choice", "y", ["x", "y"]),
    Read("kahoot", [{"Question - max 120 characters": Q, "Answer 1 - max 75 characters": "x",
         "Answer 2 - max 75 characters": "y", "Correct answer(s)": "2"}], "choice", "y",
         ["x", "y"]),
    Read("a form", [{"Question *": Q, "Option A:": "x", "Option B:": "y", "Answer:": "B"}],
         "choice", "y", ["x", "y"]),
    Read("blooket", [{"Question": Q, "Correct Answer": "r", "Incorrect Answer 1": "x",
         "Incorrect Answer 2 (Optional)": "y"}], "choice", "r", ["r", "x", "y"]),
    Read("ordinals", [{"question": Q, "first answer": "x", "second answer": "y", "answer": n}
         for n in (2, 1)], "choice", "y", ["x", "y"]),
    Read("letters of numbers", [{"question": Q, "option one": "x", "option two": "y",
         "answer": "(B)"}], "choice", "y", ["x", "y"]),
    Read("pubmedqa", [{"question": f"{Q} {word}", "final_decision": word}
         for word in ("yes", "no", "maybe")], "choice", "yes"),
    Read("places", [{"question": Q, "choices": ["x", "y", "z"], "correctAnswerIndex": n}
         for n in (2, 0)], "choice", "z"),
    Read("quail", [{"question": Q, "answers": ["x", "y"], "correct_answer_id": n} for n in (1, 0)],
         "choice", "y", ["x", "y"]),
    Read("reclor", [{"question": Q, "answers": ["x", "y"], "label": n} for n in (1, 0)], "choice",
         "y", ["x", "y"]),
    Read("big-bench", [{"input": Q, "target_scores": {"x": 0, "y": 1}}], "choice", "y",
         ["x", "y"]),
    Read("marked objects", [{"question": Q, "answers": [{"text": "x", "is_correct": False},
         {"text": "y", "is_correct": True}]}], "choice", "y", ["x", "y"]),
    Read("keys and values", [{"question": Q, "options": [{"key": "A", "value": "x"},
         {"key": "B", "value": "y"}], "answer_idx": "B"}], "choice", "y", ["x", "y"]),
    Read("mathqa", [{"question": Q, "options": "a ) 1 . 5 , b ) x , y", "correct": "b"}], "choice",
         "x , y", ["1 . 5", "x , y"]),
    Read("options with numbers", [{"question": Q, "options": "1. x\n2. y", "answer": n}
         for n in (2, 1)], "choice", "y", ["x", "y"]),
    Read("numbers between semicolons", [{"question": Q, "options": "1.5; 2.5", "answer": "2.5"}],
         "choice", "2.5", ["1.5", "2.5"]),
    Read("options between commas", [{"question": Q, "options": "x, y", "answer": "y"}], "choice",
         "y", ["x", "y"]),
    Read("labels in columns", [{"question": Q, "A": "A. x", "B": "B. y", "answer": "B"}],
         "choice", "y", ["x", "y"]),
    Read("distractors between commas", [{"question": Q, "correct_answer": "r",
         "distractors": "x, y"}], "choice", "r", ["r", "x", "y"], says="split at commas"),
    Read("math", [{"problem": Q, "solution": "So $\\boxed{\\frac{1}{2}}$."}], "span",
         "\\frac{1}{2}", says="the answer in \\boxed"),
    Read("dollars in a list", [{"question": Q, "final_answer": ["$2$"]}], "number", "2"),
    Read("musique", [{"question": Q, "answer": "Rome", "answer_aliases": ["Roma"],
         "paragraphs": [{"title": "T", "paragraph_text": "It is Rome."}]}], "span", "Rome",
         says="any of the answers"),
    Read("a table of yes and no", [{"question": f"{Q} {word}", "gold": word, "Ada": "yes",
         "Bo": word} for word in ("no", "yes")], "boolean", "no"),
    Read("zeros and ones with points", [{"question": f"{Q} {word}", "answer": word}
         for word in ("1.0", "0.0")], "boolean", "yes"),
    Read("letters that other rows settle", [*asked("A", choices=["B", "A"]),
         *asked("y", choices=["x", "y"])], "choice", "A"),
    Read("labels that other rows settle", [*asked("A", choices=["B", "A"]),
         *asked("B", choices=["x", "y"])], "choice", "B"),
    Read("a column that is not shown", [{"question": Q, "weather": "It rained all day long.",
         "answer": "Rome"}], "span", "Rome", says="--columns context=weather"),
    Read("passages that are not shown", [{"user_input": Q, "reference": "Rome",
         "reference_contexts": ["It is Rome, they say."]}], "span", "Rome",
         says="--columns context=reference_contexts"),
    Read("braintrust", [{"input": Q, "expected": "Rome", "metadata": {"tag": 1}}], "span", "Rome"),
    Read("openai evals", [{"input": [{"role": "system", "content": "Be brief."},
         {"role": "user", "content": Q}], "ideal": "Rome"}], "span", "Rome",
         question=f"Be brief.\n\n{Q}"),
    Read("openai items", [{"item": {"question": Q, "answer": "Rome"}}], "span", "Rome"),
    Read("named inside", [{"payload": {"ask": Q, "gold": "Rome"}}], "span", "Rome", question=Q,
         columns={"question": "payload.ask", "answer": "payload.gold"}),
    Read("verl", [{"data_source": "x", "prompt": [{"role": "user", "content": Q}],
         "reward_model": {"style": "rule", "ground_truth": "72"}, "extra_info": {"index": 0}}],
         "number", "72", question=Q),
    Read("drop", [{"question": Q, "answers_spans": {"spans": ["Rome"], "types": ["span"]}}], "span",
         "Rome"),
    Read("drop's own file", asked({"number": "5", "date": {"day": ""}, "spans": []}), "number",
         "5"),
    Read("objects in a list", asked([{"text": "Rome", "start": 3}, {"text": "Roma"}]), "span",
         "Rome"),
    Read("parts of a message", [{"input": [{"role": "user", "content": [{"text": Q}]}],
         "ideal": "Rome"}], "span", "Rome", question=Q),
    Read("truthfulqa.csv", [{"question": Q, "Best Answer": "x", "Incorrect Answers": "y; z"},
         {"question": "?", "Best Answer": "x", "Incorrect Answers": "y|z"}],
         "choice", "x", ["x", "y", "z"]),
    Read("promptfoo several", [{"question": Q, "__expected1": "equals: Paris",
         "__expected2": "contains: Par"}], "span", "Paris"),
    Read("promptfoo tests", [{"vars": {"question": Q}, "assert": [{"type": "equals",
         "value": "Paris"}]}], "span", "Paris", question=Q),
    Read("texts in objects", [{"question": {"text": Q, "tokens": ["What"]},
         "answers": [{"text": "Ada"}]}], "span", "Ada", question=Q),
    Read("scores that are no options", [{"input": Q, "expected": "Rome",
         "scores": {"Factuality": 1, "Style": 0}}], "span", "Rome"),
    Read("thousands are no list", [{"question": Q, "correct_answer": "500",
         "distractors": "1,000"}], "choice", "500", ["500", "1,000"]),
    Read("objects beside a question of another name", [{"frage": Q, "gold": "Rome",
         "belege": [{"text": "x"}, {"text": "y"}]}], "span", "Rome", question=Q,
         columns={"question": "frage"}),
    *(Read(f"named {name}", [{"question": Q, **fields}], kind, answer, columns={"answer": name})
      for name, fields, kind, answer in (
          ("answers", {"answers": ["Rome", "Roma"], "label": 1}, "span", "Rome"),
          ("correct_answer", {"correct_answer": "r", "distractors": "x; y"}, "choice", "r"),
          ("gold", {"gold": "x", "correct_answer": "r", "distractor": "y"}, "span", "x"),
          ("__expected1", {"__expected1": "equals: Rome"}, "span", "Rome"),
      )),
    *(Read("squad 2", [{"question": Q, "answers": {"text": [], "answer_start": []}},
         {"question": "Who?", "answers": {"text": [gold], "answer_start": [0]}}], kind,
         "unanswerable", columns={"answer": "answers:unanswerable"})
      for gold, kind in (("Ada", "span"), ("12", "span"), ("yes", "choice"))),
    Read("musique's unanswerable rows", [{"question": Q, "answer": "Rome", "answer_aliases": ["x"],
         "answerable": False, "question_decomposition": []}, {"question": "Who?", "answer": "Ada",
         "answer_aliases": [], "answerable": True, "question_decomposition": []}], "span",
         "unanswerable", columns={"answer": "answer:unanswerable"}),
    Read("browsecomp", [{"problem": "om7Jh/o+V6b0L2f5sRo=", "answer": "p2nFlg==",
         "canary": "BROWSECOMP:x"}], "span", "Rome", question=Q, says="decrypted with `canary`"),
    Read("a canary alone", [{"question": Q, "answer": "Rome", "canary": "x"}], "span", "Rome"),
    Read("promptfoo equals", [{"question": Q, "__expected": "equals: Paris"}], "span", "Paris"),
    Read("promptfoo icontains", [{"question": Q, "__expected": "icontains:Paris"}], "span", "Paris",
         says="--metric contains"),
    Read("q and a", [{"q": Q, "a": "Rome"}], "span", "Rome", says="`a` as answer"),
    Read("whole options", [{"question": f"{Q}\nA. x\nB. y", "answer": "B. y"}], "choice", "y",
         ["x", "y"], Q),
    Read("exams", [{"question": {"stem": Q, "choices": {"text": ["x", "y"], "label": ["A", "B"],
         "para": ["", ""]}}, "answerKey": "B"}], "choice", "y", ["x", "y"]),
    Read("triviaqa's own file", asked({"Value": "Rome", "Aliases": ["Roma"], "Type": "W"}), "span",
         "Rome", says="any of the answers"),
    Read("scibench", [{"problem_text": Q, "answer_number": "0.16"}], "number", "0.16"),
    Read("named in objects of a list", asked([{"ref": "Rome"}, {"ref": "Roma"}]), "span", "Rome",
         columns={"answer": "answer.ref"}),
    Read("medqa", [{"question": Q, "options": {"A": "x", "B": "y"}, "answer": "y",
         "answer_idx": "B"}], "choice", "y", ["x", "y"]),
    Read("decimal commas", asked("3,14", "2,5"), "span", "3,14", says="answers such as `3,14` as"),
    Read("several in a text", asked("Rome | Roma"), "span", "Rome | Roma", says="write a list"),
    Read("null options", asked("B", choices={"A": "x", "B": "y", "C": None}), "choice", "y",
         ["x", "y"]),
    Read("own kind", asked("Rome", kind="geography"), "span", "Rome"),
    Read("own metadata", asked("Rome", metadata="from a book"), "span", "Rome"),
    Read("dollars", asked("$432$", "$$7$$"), "number", "432"),
    Read("invisible", asked("Ro\u200bme\ufeff"), "span", "Rome"),
    Read("decomposed", asked("Cafe\u0301"), "span", "Café"),
    Read("marks of direction", asked("\u200eBonn\u200f"), "span", "Bonn"),
    Read("passages in an object", asked("Rome", context={"contexts": ["It is Rome."]}), "span",
         "Rome"),
    Read("langchain", asked("Rome", contexts=[{"page_content": "It is Rome.", "metadata": {}}]),
         "span", "Rome", says="`contexts` as context"),
    Read("a passage that looks like an object", asked("Rome", context='{"price": 3}'), "span",
         "Rome"),
    Read("a question that looks like a list", [{"question": '["b", "a"]', "answer": "x y"}], "span",
         "x y", question='["b", "a"]'),
    Read("an interval", asked("[0, 1)", "(2, 3]"), "span", "[0, 1)"),
    Read("ms marco", [{"query": Q, "answers": ["Rome"], "passages": {"is_selected": [1],
         "passage_text": ["It is Rome."], "url": ["u"]}}], "span", "Rome",
         says="`passages` as context"),
    Read("mgsm", [{"question": Q, "answer": None, "answer_number": 18}], "number", "18",
         says="`answer_number` as answer where `answer` is empty"),
    Read("multiarith", [{"sQuestion": Q, "lSolutions": ["3"]}], "number", "3", question=Q),
    Read("final_ans", [{"question": Q, "final_ans": "39"}], "number", "39"),
    Read("logiqa", [{"question": Q, "answers": ["x", "y"], "label": letter} for letter in "ba"],
         "choice", "y", ["x", "y"]),
    Read("folio", [{"premises": "It rains.", "conclusion": Q, "label": word}
         for word in ("True", "False", "Uncertain")], "choice", "True",
         ["True", "False", "Uncertain"], Q, "`premises` as context"),
    Read("anli", [{"premise": "It rains.", "hypothesis": Q, "label": "neutral"}], "span", "neutral",
         question=Q),
    Read("both", [{"statement": Q, "conclusion": "x", "passage": "p", "story": "y",
         "label": "Rome"}], "span", "Rome", question=Q),
    Read("superglue", [{"query": Q, "idx": {"passage": 0, "query": 1}, "answers": ["Rome"]}],
         "span", "Rome"),
    Read("finqa", [{"qa": {"question": Q, "answer": "380"}}], "number", "380", question=Q),
    Read("narrativeqa", [{"question": Q, "answer": "Ada", "document": {"text": "Ada did."}}],
         "span", "Ada", says="`document` as context"),
    Read("units", asked("12 km", "3 (dollars)"), "span", "12 km", says="answers such as `12 km`"),
    Read("words for empty cells", asked("nan", "Rome"), "span", "nan", says="leave the cell empty"),
    Read("a passage of several questions", [row | {"weather": f"It rained all day in {town}."}
         for row, town in zip(asked(*["Rome"] * 4), ("Ulm", "Ulm", "Ulm", "Bonn"), strict=True)],
         "span", "Rome", says="--columns context=weather"),
    Read("an object that is not shown", [{"question": Q, "answer": "Rome",
         "search_results": {"search_context": ["It is Rome, they say."]}}], "span", "Rome",
         says="--columns context=search_results"),
)  # fmt: skip


@pytest.mark.parametrize("case", READ, ids=lambda case: case.name)
@pytest.mark.parametrize("shape", ["jsonl", "csv"])
def test_published_rows_are_read(case: Read, shape: str, tmp_path: Path) -> None:
    path = tmp_path / f"q.{shape}"
    if shape == "jsonl":
        path.write_bytes(lines(*case.rows))
    else:  # nested cells are printed
        pd.DataFrame(case.rows).to_csv(path, index=False)
    reading = understand(path, columns=case.columns)
    assert reading.faults == []
    first = reading.questions[0]
    said = first.choices[first.answer] if first.choices else first.answer
    assert (first.kind, said) == (case.kind, case.answer)
    assert case.choices is None or sorted(first.choices.values()) == sorted(case.choices)
    assert case.question in (None, first.question)
    assert case.says in reading.guesses


IN_ARTICLE = {"context": "Ada wrote.", "qas": [{"question": Q, "answers": [{"text": "Ada"}]}]}
NESTED = {"title": "T", "paragraphs": [IN_ARTICLE]}


ROW = {"question": Q, "answer": "Ada", "context": "Ada wrote."}
TAT_QA = {"paragraphs": [{"text": "Ada wrote."}], "questions": [{"question": Q, "answer": "Ada"}]}
HELD = (
    {"features": [{"name": "question"}], "rows": [{"row_idx": 0, "row": ROW}]},  # of the hub
    {name: {"0": cell, "1": cell} for name, cell in ROW.items()},  # pandas.DataFrame.to_json
    {name: [cell] for name, cell in ROW.items()},
    {"q1": ROW, "q2": ROW},
    {"columns": list(ROW), "index": [0], "data": [list(ROW.values())]},
)


@pytest.mark.parametrize(
    ("suffix", "whole"),
    [
        (".json", {"version": "2", "data": [NESTED, NESTED | {"title": "U"}]}),  # SQuAD
        (".jsonl", NESTED),
        (".jsonl", {"article": "Ada wrote.", "questions": [{"question": Q, "answer": "Ada"}]}),
        (".jsonl", {"id": "1", "story": "Ada wrote.", "qas": [{"question": Q, "answer": "Ada"}]}),
        (".json", [TAT_QA]),
        (".jsonl", {"article": "Ada wrote.", "questions": [Q], "answers": ["Ada"]}),  # RACE
        *((".json", whole) for whole in HELD),
    ],
)
def test_questions_in_an_article(suffix: str, whole: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / f"q{suffix}"
    path.write_text(json.dumps(whole))
    questions = load(path)
    if suffix == ".jsonl":
        assert load([whole]) == questions, "rows of Python are taken apart as those of files"
    found = {(q.question, q.answer, *as_list(q.context)) for q in questions}
    assert found == {(Q, "Ada", "Ada wrote.")}


def test_ids_of_articles_are_numbered_and_labels_may_be_numbers() -> None:
    rows = [{**row, "example_id": "high1"} for row in asked("x", "y")]
    assert [question.id for question in load(rows)] == ["high1", "high1-2"]
    [question] = load(asked(2, choices={1: "x", 2: "y"}))
    assert (question.choices, question.answer) == ({"1": "x", "2": "y"}, "2")


def test_drawn_options_stand_in_every_place() -> None:
    rows = [{**GPQA, "Question": f"{Q} {n}", "Correct Answer": f"right {n}"} for n in range(60)]
    first, again = load(rows), load(rows)
    assert [q.answer for q in first] == [q.answer for q in again]
    assert {question.answer for question in first} == set("ABCD")
    marked = {"choices": ["r", "x", "y"], "labels": [1, 0, 0]}
    same = load([{"question": f"{Q} {n}", "mc1_targets": marked} for n in range(60)])
    assert {question.answer for question in same} == set("ABC")


@pytest.mark.parametrize(
    ("column", "none"), [("label", -1), ("label", "-1.0"), ("gold_label", "-")]
)
def test_a_class_label_may_say_that_there_is_none(column: str, none: object) -> None:
    rows = [{"question": f"{Q} {n}", "choices": ["x", "y"], column: n} for n in (0, 1)]
    if column == "gold_label":
        rows = [{**row, column: "xy"[row[column]]} for row in rows]
    asked = load([*rows, {**rows[0], "question": Q, column: none}])
    assert [question.answer for question in asked] == ["A", "B", None]


CELLS = (
    ("{'text': ['Saint Bernadette'], 'answer_start': [515]}", "Saint Bernadette"),
    ("{'text': array(['Saint Bernadette'], dtype=object), 'answer_start': array([515])}",
     "Saint Bernadette"),
    ('{"text": ["Rome"], "answer_start": [3]}', "Rome"),
    ("['3.429']", "3.429"),
    ("[5, 'five']", "5"),
    ("[None, 'Rome', '']", "Rome"),
    ("{}", None),
    ("[1, 2]", "[1, 2]"),
    ("['No Answer Present.']", None),
)  # fmt: skip


@pytest.mark.parametrize(("cell", "answer"), CELLS)
def test_answers_in_cells_are_opened(cell: str, answer: str | None, tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    pd.DataFrame([{"question": Q, "answers": cell}]).to_csv(path, index=False)
    assert load(path)[0].answer == answer


def test_options_that_numpy_printed_are_not_joined_and_an_open_list_is_refused(tmp_path) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes(text("question,choices,answer", f"{Q},\"['0' '30'\n '45']\",30"))
    assert load(path)[0].choices == {"A": "0", "B": "30", "C": "45"}
    inner = "array([array(['It is Rome.'], dtype=object)],\n dtype=object)"  # in HotpotQA
    passages = f"{{'title': array(['T'], dtype='<U1'), 'sentences': {inner}}}"
    path.write_bytes(text("question,answer,context", f'{Q},Rome,"{passages}"'))
    assert load(path)[0].context == ["T: It is Rome."]
    path.write_bytes(text("question,answer", f'{Q},"[\'open"'))
    with pytest.raises(UserError, match="answer is not readable"):
        load(path)


def test_class_labels_are_names_and_minus_one_is_none(tmp_path: Path) -> None:
    names = ["entailment", "neutral", "contradiction"]
    label, tag = datasets.ClassLabel(names=names), datasets.ClassLabel(names=["x", "y"])
    kinds = {"question": datasets.Value("string"), "label": label, "tags": datasets.List(tag)}
    features = datasets.Features(kinds)
    rows = {"question": ["a?", "b?"], "label": [2, -1], "tags": [[0, 1], []]}
    snli = datasets.Dataset.from_dict(rows, features=features)
    snli.save_to_disk(tmp_path / "saved")
    snli.to_parquet(tmp_path / "q.parquet")
    for source in (snli, tmp_path / "saved", tmp_path / "q.parquet"):
        first, second = load(source)
        assert (first.answer, first.meta["tags"]) == ("contradiction", ["x", "y"])
        assert second.answer is None


NUMBERED = [
    {"question": f"{Q} {n}", "gold": str(n % 5 + 1)}
    | {f"Reply {k}": f"r{n}{k}" for k in range(1, 6)}
    for n in range(10)
]  # fmt: skip
REFUSED = (
    ("ragas", [{"question": Q, "answer": "Rome", "contexts": ["x"], "ground_truth": "Paris"}],
     "--columns answer=ground_truth"),
    ("a corrected place", [{"question": Q, "choices": ["x", "y"], "answer": 0,
      "correct_answer": "1"}], "--columns answer=correct_answer"),
    ("numbered", NUMBERED, "--columns 'choices=Reply 1,Reply 2,Reply 3,Reply 4,Reply 5'"),
    ("numbered", NUMBERED, "--columns answer=gold:from1"),
    ("numbered from 0", [row | {"gold": str(n % 5)} for n, row in enumerate(NUMBERED)],
     "--columns answer=gold:from0"),
    ("list of options", asked(["A", "C"], choices=["x", "y", "z"]), "several options are right"),
    ("letters", asked("AC", choices=["x", "y", "z"]), "several options are right"),
    ("letters", asked("A, C", choices=["x", "y", "z"]), "several options are right"),
    ("assertion", [{"question": Q, "__expected": "llm-rubric: is polite"}], "equals:"),
    ("assertion", [{"question": Q, "__expected": "not-contains: x"}], "equals:"),
    ("image", [{"question": "data:image/png;base64,aGk= ?", "answer": "x"}], "image"),
    ("image of Hugging Face", asked("x", image={"bytes": "aGk=", "path": None}), "image"),
    ("image beside", [{"question": "What is <image 1>?", "answer": "x"}], "image"),
    ("image in a chat", [{"input": [{"role": "user", "content": [{"type": "image_url"}]}],
                          "ideal": "x"}], "image"),
    ("assertion without a text", [{"question": Q, "__expected": "is-json"}], "equals:"),
    ("assertion with a number", [{"question": Q, "__expected": "similar(0.8): x"}], "equals:"),
    ("lists in a list", asked([["Rome", "Roma"], ["Bonn"]]), "lists inside a list"),
    ("date of DROP", asked({"number": "", "date": {"year": "1990"}, "spans": []}),
     "--columns answer=answer.date"),
    ("letters", asked("A", choices=["B", "A"]), "--columns answer=answer:text"),
    ("numbers of classes", [{"question": f"{Q} {n}", "label": n} for n in (0, 1, 2)],
     "classes without names"),
    ("options in one text", asked("B", choices="x, y"), "put | between them"),
    ("commas in distractors", [{"question": Q, "answer": "r, s", "distractors": "x, y"}],
     "put | between them"),
    ("several marked", [{"question": Q, "target_scores": {"x": 1, "y": 1}}], "marks 2 options"),
    ("assertions", [{"question": Q, "__expected1": "contains: x", "__expected2": "contains: y"}],
     "ask for different answers"),
    ("rubric in promptfoo's JSON", [{"vars": {"question": Q}, "assert": [{"type": "llm-rubric",
      "value": "is polite"}]}], "equals:"),
    ("chat of several replies", [{"messages": [{"role": who, "content": "x"}
      for who in ("user", "assistant") * 2]}], "earlier replies"),
    ("chat with an example", [{"input": [{"role": "system", "name": "example_assistant",
      "content": "2"}, {"role": "user", "content": "x"}], "ideal": "x"}], "earlier replies"),
    ("coqa", [{"story": "x", "questions": ["a?", "b?"], "answers": {"input_text": ["x", "y"]}}],
     "write a row for each question"),
    ("quac", [{"context": "x", "qas": [{"question": Q, "answers": ["x"], "followup": "y"}]}],
     "write a row for each question"),
    ("hle", [{"question": Q, "answer": "x", "image": "data:image/png;base64,aGk="}], "an image"),
    ("a file of an image", asked("x", image_path="images/1.png"), "an image"),
    ("freshqa", [{"question": Q, "answer_0": "x", "answer_1": "y"}],
     "--columns choices=answer_0,answer_1"),
    ("options that are lists", asked("x", distractors=[["y", "z"], "w"]), "write a text for each"),
    ("splits", [{"train": [ROW], "test": [ROW]}], "write each to a file of its own"),
    ("natural questions", asked("x", document={"title": "T", "html": "h"}),
     "--columns context=document.title"),
    ("passages without a text", asked("x", context=[{"a": "b"}]), "call the text of each `text`"),
    ("many classes", [{"text": f"{Q} {n}", "label": n % 12} for n in range(60)],
     "classes without names"),
    ("chat", [{"input": [{"role": "assistant", "content": "x"}], "ideal": "x"}], "chat"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "rows", "says"), REFUSED)
def test_what_is_not_one_question_is_refused(name, rows, says, tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError) as caught:
        load(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_letter_and_long_golds_are_warned_of() -> None:
    same = understand(asked(*["A"] * 12, choices=["x", "y"]))
    assert "every answer as A" in same.guesses
    few = understand([*asked(*["x"] * 12), *asked("A", choices=["x", "y"])])
    assert "every answer" not in few.guesses
    again = understand([row | {"problem": row["question"]} for row in asked("x", "y")])
    assert "no context" not in again.guesses, "the question itself is no context"
    long = understand(asked("a gold answer that is a whole sentence of more than ten words"))
    assert "--kind open --metric judge" in long.guesses


ACCEPTED = (
    ({"answer": ["14 December 1972 UTC", "December 1972"]}, "december 1972"),
    ({"answers": {"text": ["Ada Lovelace", "Ada"], "answer_start": [0, 0]}}, "Ada"),
    ({"answer": {"value": "Rome", "aliases": ["Roma"], "normalized_value": "rome"}}, "Roma"),
    ({"answers": ["12", "twelve"]}, "Twelve"),
)


@pytest.mark.parametrize(("fields", "answer"), ACCEPTED)
@pytest.mark.parametrize("shape", ["jsonl", "csv"])
def test_accepted_is_right(fields: dict[str, Any], answer: str, shape: str, tmp_path: Path) -> None:
    path = tmp_path / f"q.{shape}"
    rows = [{"question": Q, **fields}]
    if shape == "jsonl":
        path.write_bytes(lines(*rows))
    else:
        pd.DataFrame(rows).to_csv(path, index=False)
    [question] = load(path)
    assert question.kind == "span"
    assert score(answer, question.gold, "span").correct
    assert score(question.answer, question.gold, "span").correct
    assert not score("nobody", question.gold, "span").correct
    [again] = load([question.to_row()])
    assert again.gold == question.gold


def test_rows_keep_every_accepted_answer(tmp_path: Path) -> None:
    questions = [Question(id="1", question=Q, answer=["14 December 1972", "December 1972"])]
    result = fm.evaluate(lambda question: "December 1972", questions, out=tmp_path, tracking=False)
    assert result.summary.accuracy == 1
    again = fm.evaluate(lambda question: "December 1972", questions, out=tmp_path, tracking=False)
    assert again.rows[0]["gold"] == ["14 December 1972", "December 1972"]
