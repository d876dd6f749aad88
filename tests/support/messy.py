"""Files of questions as people have them, and what `folkmoot data check` says of each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Messy(NamedTuple):
    """A file, the kind and first answer that are read (or None: it is refused), the message."""

    file: str
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

MESSY: Sequence[Messy] = (
    Messy("mmlu.jsonl", lines(
         {"question": SOUP, "subject": "kitchen", "choices": FOUR, "answer": 1},
         {"question": "What drains pasta?", "subject": "kitchen", "choices": FOUR, "answer": 0}),
         "choice", "B", "read `answer` as answer (index from 0)"),
    Messy("unclear.jsonl", lines({"question": SOUP, "choices": FOUR, "answer": 1}), None, None,
         "the answers in 'answer' are numbers, each of which may be its place counted from 0 or "
         "its place counted from 1; say which with --columns answer=answer:from0 or --columns "
         'answer=answer:from1 (in Python columns={"answer": "answer:from0"})'),
    Messy("blanks.csv", text("id,prompt, A,B ,C,D,E,gold",
         f"1,{SOUP}, a sieve , a flask,a fork,a net,, B ",
         "2,Which is a bird?,a cow,a pig,a fox,a cat,a hen,E"),
         "choice", "B", "read `prompt` as question, `A`–`E` as choices, `gold` as answer"),
    Messy("brackets.csv", text("question,a,b,c,d,label",
         "Which floats?,a stone,a coin,a key,a cork,(D)",
         "What keeps tea?,a fork,a flask,a net,a pot,B.",
         "What keeps soup?,a fork,a flask,a net,a pot,b) a flask"),
         "choice", "D", "read `a`–`d` as choices, `label` as answer"),
    Messy("texts.tsv", text("Question\tChoice 1\tChoice 2\tCorrect Answer",
         f"{SOUP}\ta sieve\ta flask\tA flask"), "choice", "2",
         "read `Choice 1`–`Choice 2` as choices, `Correct Answer` as answer"),
    Messy("arc.jsonl", lines({"id": "Mercury_1", "question": SOUP,
         "choices": {"text": FOUR, "label": ["1", "2", "3", "4"]}, "answerKey": "2"}),
         "choice", "2", "read `answerKey` as answer"),
    Messy("arc-original.jsonl", lines({"id": "Mercury_1", "question": {"stem": SOUP, "choices": [
         {"label": "A", "text": "a sieve"}, {"label": "B", "text": "a flask"}]},
         "answerKey": "B"}), "choice", "B", "read `answerKey` as answer"),
    Messy("hellaswag.jsonl", lines({"ind": 1, "goal": SOUP, "endings": FOUR, "label": "1"},
         {"ind": 2, "goal": "What drains pasta?", "endings": FOUR, "label": "0"}), "choice", "B",
         "read `goal` as question, `endings` as choices, `label` as answer (index from 0)"),
    Messy("siqa.jsonl", lines({"context": "Ada cooked.", "question": "Why?", "answerA": "for fun",
         "answerB": "to eat", "answerC": "to sleep", "label": "2"},
         {"context": "Bo ran.", "question": "Why?", "answerA": "for fun", "answerB": "to eat",
         "answerC": "to win", "label": "3"}), "choice", "B",
         "read `answerA`–`answerC` as choices, `label` as answer (index from 1)"),
    Messy("python-lists.csv", text("question,options,answer",
         f"{SOUP},\"['a sieve', 'a flask']\",a flask"), "choice", "B",
         "read `options` as choices"),
    Messy("gsm8k.jsonl", lines({"question": "2 + 2?",
         "answer": "Two and two is <<2+2=4>>4.\n#### 4"}), "number", "4",
         "read the answer after #### (1 row)"),
    Messy("squad.jsonl", lines({"id": "5733", "title": "Ada", "context": "Ada Lovelace wrote it.",
         "question": "Who wrote it?",
         "answers": {"text": ["Ada Lovelace", "Ada"], "answer_start": [0, 0]}}), "span",
         "Ada Lovelace", "read `answers` as answer, any of the answers in `answers` (1 row)"),
    Messy("hotpotqa.json", json.dumps([{"_id": "5a", "question": "Who wrote the notes?",
         "answer": "Ada Lovelace",
         "context": [["Ada Lovelace", ["She wrote.", " The notes."]]]}], indent=1).encode(),
         "span", "Ada Lovelace", "read `_id` as id"),
    Messy("boolq.jsonl", lines({"question": FISH, "passage": "Whales are mammals.",
         "answer": False}), "boolean", "false", "read `passage` as context"),
    Messy("zero-one.tsv", text("sent\tlabel", "Whales are fish.\t0", "Hens are birds.\t1"),
         "boolean", "no", "read `sent` as question, `label` as answer (1 is yes, 0 is no)"),
    Messy("excel-europe.csv",
         b"\xef\xbb\xbfid;question;answer\r\n1;Is a whale a fish, or not?;no\r\n",
         "boolean", "no", ""),
    Messy("mac.csv", b"question,answer\rWho?,Ada\rWhere?,Rome\r", "span", "Ada", ""),
    Messy("stated.csv", text("sep=|", "question|answer", "Who, Ada, Bo or Cy?|Ada"), "span", "Ada",
         ""),
    Messy("windows.csv", b"question,answer\nWhere is Gar\xe7on served?,in a caf\xe9\n", None,
         None, "line 2: not UTF-8; save the file as UTF-8 (in Excel: CSV UTF-8)"),
    Messy("commas.csv", text("question,answer,", f"{FISH},no,,,", ",,", "Is a hen a bird?,yes,"),
         "boolean", "no", ""),
    Messy("letters.csv", text("question,answer", "Which holds soup? A) a sieve B) a flask,B"),
         None, None,
         "the answers in 'answer' are letters, but there are no options; put the options into "
         "columns named A, B, …, or name theirs with --columns choices=FIRST,SECOND,…, or say "
         "--kind span if the letters are what is asked for"),
    Messy("sciq.jsonl", lines({"question": SOUP, "correct_answer": "a flask",
         "distractor1": "a net", "distractor2": "a"}), "choice", "B",
         "read `correct_answer` and `distractor1`–`distractor2` as choices in an order drawn for "
         "each question (1 row)"),
    Messy("two-golds.csv", text("question,gold,target", f"{FISH},no,yes"), None, None,
         "line 2: the columns 'gold' and 'target' may both hold the right answer and differ ('no' "
         "and 'yes'); say which one does with --columns answer=target (in Python "
         'columns={"answer": "target"})'),
    Messy("faulty.csv", text("id,question,A,B,answer", "1,Which?,x,y,C", "2,,x,y,A",
         "3,Which?,x,y,A,more", "4,Which?,x,,A", "4,Which?,x,y,A", "4,Which?,x,y,B"), None, None,
         "line 2: question '1' has the answer 'C', which is neither a label (A, B) nor the text "
         "of a choice; correct it; line 3: the row has no 'question'; add it, or name the column "
         "that holds it; line 4: 6 cells under 5 columns; the first line names the columns, and "
         "cells that hold the delimiter need quotes; line 5: question '4' has 1 choices; give 2 "
         "to 26, or null for none; line 7: the id '4' already stands at line 6; make ids unique"),
)  # fmt: skip


def write(one: Messy, folder: Path) -> Path:
    path = folder / one.file
    path.write_bytes(one.content)
    return path
