"""Twenty-eight files of questions as people have them, and what `folkmoot data check` says
of each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Messy(NamedTuple):
    """A file, what it is like, what was understood (kind and first answer), and what is
    said of it.
    """

    file: str
    like: str
    content: bytes
    kind: str | None
    answer: str | None
    says: str


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def text(*rows: str) -> bytes:
    return "\n".join([*rows, ""]).encode()


SOUP, FISH = "What keeps soup warm?", "Is a whale a fish?"
FOUR = ["a sieve", "a flask", "a fork", "a net"]
STEM = {
    "stem": SOUP,
    "choices": [{"label": "A", "text": "a sieve"}, {"label": "B", "text": "a flask"}],
}

MESSY: Sequence[Messy] = (
    Messy(
        "mmlu.jsonl",
        "MMLU: a list of choices, a number as answer; one is 0",
        lines(
            {"question": SOUP, "subject": "kitchen", "choices": FOUR, "answer": 1},
            {"question": "What drains pasta?", "subject": "kitchen", "choices": FOUR, "answer": 0},
        ),
        "choice",
        "B",
        "read `answer` as answer (index from 0)",
    ),
    Messy(
        "unclear.jsonl",
        "the same, but 0- and 1-based both fit",
        lines({"question": SOUP, "choices": FOUR, "answer": 1}),
        None,
        None,
        "the answers in 'answer' are numbers, each of which may be its place counted from 0 or "
        "its place "
        "counted from 1; say which with --columns answer=answer:from0 or --columns "
        "answer=answer:from1 "
        '(in Python columns={"answer": "answer:from0"})',
    ),
    Messy(
        "blanks.csv",
        "stray blanks in header and cells, a column E that few rows fill",
        text(
            "id,prompt, A,B ,C,D,E,gold",
            f"1,{SOUP}, a sieve , a flask,a fork,a net,, B ",
            "2,Which is a bird?,a cow,a pig,a fox,a cat,a hen,E",
        ),
        "choice",
        "B",
        "read `prompt` as question, `A`–`E` as choices, `gold` as answer",
    ),
    Messy(
        "options.csv",
        "`option_a`, …, and the column's name as gold",
        text("question,option_a,option_b,correct_option", f"{SOUP},a sieve,a flask,option_b"),
        "choice",
        "B",
        "read `option_a`–`option_b` as choices, `correct_option` as answer",
    ),
    Messy(
        "brackets.csv",
        "`(D)`, `B.` and `b) a flask` as gold, lower-case columns",
        text(
            "question,a,b,c,d,label",
            "Which floats?,a stone,a coin,a key,a cork,(D)",
            "What keeps tea?,a fork,a flask,a net,a pot,B.",
            "What keeps soup?,a fork,a flask,a net,a pot,b) a flask",
        ),
        "choice",
        "D",
        "read `a`–`d` as choices, `label` as answer",
    ),
    Messy(
        "texts.tsv",
        "tabs, the text of an option as gold",
        text("Question\tChoice 1\tChoice 2\tCorrect Answer", f"{SOUP}\ta sieve\ta flask\tA flask"),
        "choice",
        "2",
        "read `Choice 1`–`Choice 2` as choices, `Correct Answer` as answer",
    ),
    Messy(
        "arc.jsonl",
        "ARC: choices as texts and labels",
        lines(
            {
                "id": "Mercury_1",
                "question": SOUP,
                "choices": {"text": FOUR, "label": ["1", "2", "3", "4"]},
                "answerKey": "2",
            }
        ),
        "choice",
        "2",
        "read `answerKey` as answer",
    ),
    Messy(
        "arc-original.jsonl",
        "ARC's own files: the options inside the question",
        lines({"id": "Mercury_1", "question": STEM, "answerKey": "B"}),
        "choice",
        "B",
        "read `answerKey` as answer",
    ),
    Messy(
        "hellaswag.jsonl",
        "HellaSwag: `endings`, a number as label",
        lines(
            {"ind": 1, "goal": SOUP, "endings": FOUR, "label": "1"},
            {"ind": 2, "goal": "What drains pasta?", "endings": FOUR, "label": "0"},
        ),
        "choice",
        "B",
        "read `goal` as question, `endings` as choices, `label` as answer (index from 0)",
    ),
    Messy(
        "siqa.jsonl",
        "Social IQa: `answerA` to `answerC`, labels 1 to 3",
        lines(
            {
                "context": "Ada cooked.",
                "question": "Why?",
                "answerA": "for fun",
                "answerB": "to eat",
                "answerC": "to sleep",
                "label": "2",
            },
            {
                "context": "Bo ran.",
                "question": "Why?",
                "answerA": "for fun",
                "answerB": "to eat",
                "answerC": "to win",
                "label": "3",
            },
        ),
        "choice",
        "B",
        "read `answerA`–`answerC` as choices, `label` as answer (index from 1)",
    ),
    Messy(
        "medmcqa.jsonl",
        "MedMCQA: `opa` to `opd`, `cop` counted from 0",
        lines(
            {
                "id": "m1",
                "question": SOUP,
                "opa": "a sieve",
                "opb": "a flask",
                "opc": "a net",
                "cop": 1,
            },
            {
                "id": "m2",
                "question": "What drains?",
                "opa": "a sieve",
                "opb": "a cup",
                "opc": "a pot",
                "cop": 0,
            },
        ),
        "choice",
        "B",
        "read `opa`–`opc` as choices, `cop` as answer (index from 0)",
    ),
    Messy(
        "python-lists.csv",
        "a list as Python prints it, which pandas writes into cells",
        text("question,options,answer", f"{SOUP},\"['a sieve', 'a flask']\",a flask"),
        "choice",
        "B",
        "read `options` as choices",
    ),
    Messy(
        "gsm8k.jsonl",
        "GSM8K: the number after `####`",
        lines({"question": "2 + 2?", "answer": "Two and two is <<2+2=4>>4.\n#### 4"}),
        "number",
        "4",
        "read the answer after #### (1 row)",
    ),
    Messy(
        "squad.jsonl",
        "SQuAD: a context, and answers with their places",
        lines(
            {
                "id": "5733",
                "title": "Ada",
                "context": "Ada Lovelace wrote it.",
                "question": "Who wrote it?",
                "answers": {"text": ["Ada Lovelace", "Ada"], "answer_start": [0, 0]},
            }
        ),
        "span",
        "Ada Lovelace",
        "read `answers` as answer, the first answer in `answers` (1 row)",
    ),
    Messy(
        "hotpotqa.json",
        "HotpotQA: an array; titles with sentences as context",
        json.dumps(
            [
                {
                    "_id": "5a",
                    "question": "Who wrote the notes?",
                    "answer": "Ada Lovelace",
                    "context": [["Ada Lovelace", ["She wrote.", " The notes."]]],
                }
            ],
            indent=1,
        ).encode(),
        "span",
        "Ada Lovelace",
        "read `_id` as id",
    ),
    Messy(
        "boolq.jsonl",
        "BoolQ: true and false as JSON has them",
        lines({"question": FISH, "passage": "Whales are mammals.", "answer": False}),
        "boolean",
        "false",
        "read `passage` as context",
    ),
    Messy(
        "zero-one.tsv",
        "0 and 1 as labels, and nothing else",
        text("sent\tlabel", "Whales are fish.\t0", "Hens are birds.\t1"),
        "boolean",
        "no",
        "read `sent` as question, `label` as answer (1 is yes, 0 is no)",
    ),
    Messy(
        "y-n.csv",
        "Y and N",
        text("question,answer", f"{FISH},N", "Is a hen a bird?,Y"),
        "boolean",
        "no",
        "read `answer` as answer (y is yes, n is no)",
    ),
    Messy(
        "excel-europe.csv",
        "Excel in Europe: semicolons, a byte order mark, CRLF",
        b"\xef\xbb\xbfid;question;answer\r\n1;Is a whale a fish, or not?;no\r\n",
        "boolean",
        "no",
        "",
    ),
    Messy(
        "windows.csv",
        "cp1252, as Excel on Windows saves CSV",
        b"question,answer\nWhere is Gar\xe7on served?,in a caf\xe9\n",
        None,
        None,
        "line 2: not UTF-8; save the file as UTF-8 (in Excel: CSV UTF-8)",
    ),
    Messy(
        "quoted.csv",
        "line breaks in quotes: lines are counted as in the file",
        b'id,question,A,B,answer\n1,"Two\nlines, one question?",x,y,A\n2,Next?,x,y,Z\n',
        None,
        None,
        "line 4: question '2' has the answer 'Z', which is neither a label (A, B) nor the text "
        "of a choice; "
        "correct it",
    ),
    Messy(
        "nan.csv",
        "`nan` in a cell: a string stays a string",
        text("question,A,B,C,answer", f"{SOUP},a sieve,a flask,nan,B"),
        "choice",
        "B",
        "read `A`–`C` as choices",
    ),
    Messy(
        "commas.csv",
        "commas at the end, and rows of nothing else",
        text("question,answer,", f"{FISH},no,,,", ",,", "Is a hen a bird?,yes,"),
        "boolean",
        "no",
        "",
    ),
    Messy(
        "nested.json",
        "an object around the list",
        json.dumps({"version": 1, "data": [{"question": FISH, "answer": "no"}]}).encode(),
        "boolean",
        "no",
        "",
    ),
    Messy(
        "letters.csv",
        "letters as gold, and the options inside the question",
        text("question,answer", "Which holds soup? A) a sieve B) a flask,B"),
        None,
        None,
        "the answers in 'answer' are letters, but there are no options; put the options into "
        "columns named "
        "A, B, …, or say --kind span if the letters are what is asked for",
    ),
    Messy(
        "sciq.jsonl",
        "SciQ: the right answer and its distractors, in no order",
        lines(
            {
                "question": SOUP,
                "correct_answer": "a flask",
                "distractor1": "a net",
                "distractor2": "a",
            }
        ),
        None,
        None,
        "line 1: the columns distractor1, distractor2 look like options, and their order is not "
        "known; name them A, B, … (with the label as the answer), or, if they are not options, "
        "give the kind, such as --kind span",
    ),
    Messy(
        "two-golds.csv",
        "two columns that could be the answer",
        text("question,gold,target", f"{FISH},no,yes"),
        None,
        None,
        "line 2: the columns gold and target could each be the answer; say which with --columns "
        "answer=NAME "
        '(in Python columns={"answer": "NAME"})',
    ),
    Messy(
        "faulty.csv",
        "several faults, all listed",
        text(
            "id,question,A,B,answer",
            "1,Which?,x,y,C",
            "2,,x,y,A",
            "3,Which?,x,y,A,more",
            "4,Which?,x,,A",
            "4,Which?,x,y,A",
            "4,Which?,x,y,B",
        ),
        None,
        None,
        "line 2: question '1' has the answer 'C', which is neither a label (A, B) nor the text "
        "of a choice; "
        "correct it; line 3: the row has no 'question'; add it, or name the column that holds it; "
        "line 4: 6 cells under 5 columns; the first line names the columns, and cells that hold "
        "the "
        "delimiter need quotes; line 5: question '4' has 1 choices; give 2 to 26, or null for "
        "none; "
        "line 7: the id '4' already stands at line 6; make ids unique",
    ),
)


def write(one: Messy, folder: Path) -> Path:
    path = folder / one.file
    path.write_bytes(one.content)
    return path
