"""A labelled question that an LM works in the way of every method: the one demonstration of a
comparison.
"""

from __future__ import annotations

from pathlib import Path

import dspy
import yaml

from ...modules.base.errors import UserError
from ...modules.base.keyed import without
from ...modules.protocols.strategies import MOST_PARTS
from ...modules.reading.answers import score
from ...modules.reading.question import INPUTS, Question
from ...modules.reading.steps import parts_of
from ..lms.named import lm as lm_of
from ..programs.resolve import program_of

METHODS = (
    "single:least_to_most",
    "causal:R1E1",
    "single:plan_and_solve",
    "single:self_ask",
    "single:cot",
)
"""All that together fill every field of a worked question but a trace; of a field that two of them
have, the later one's stands."""


def worked(question: Question, *, lm: str | dspy.BaseLM, out: str | Path = "worked.yaml") -> Path:
    """Let an LM solve a labelled question with the prompts of every method, for `demonstration=`:
    about 11 calls.

    Args:
        question: labelled, and none that programs will be asked.
        lm: who works it: a name, or an LM.
        out: the new YAML file.

    Returns the path of the file.

    Raises UserError for a question without an answer, and where the LM's answer is another one:
    then nothing is written.
    """
    if question.answer is None:
        raise UserError(f"question {question.id!r} has no answer: give a labelled question")
    path = Path(out).expanduser()
    if path.exists():
        raise UserError(f"{path} exists: give another out, or delete the file")
    path.parent.mkdir(parents=True, exist_ok=True)
    teacher = lm_of(lm) if isinstance(lm, str) else lm
    content: dict[str, object] = {name: question[name] for name in (*INPUTS, "answer")}
    fields: dict[str, str] = {}
    for method in METHODS:
        # The trace has every field of every step; a transcript has answers and texts alone.
        with dspy.context(lm=teacher, trace=[]):
            prediction = program_of(method)(**question.inputs())
            steps = list(dspy.settings.trace)
        graded = score(prediction.answer, question.gold or "", question.kind, question.choices)
        # One wrong method spoils the demonstration of all: they share its fields.
        if not graded.correct:
            raise UserError(
                f"{method} answers {prediction.answer!r} and not {question.answer!r}: choose "
                f"another question, or another LM"
            )
        for _, _, outputs in steps:
            fields |= {name: str(text) for name, text in outputs.items() if text}
        if examined := prediction.transcript[-1].get("examined"):
            content["other"] = examined["counterfactual"]
        solved = [turn["text"] for turn in prediction.transcript if turn.get("step") == "solve"]
        if solved:
            parts = parts_of(fields["parts"], MOST_PARTS)
            content["parts"] = [list(pair) for pair in zip(parts, solved, strict=False)]
    content["fields"] = without(fields, ("answer", "parts"))
    text = yaml.safe_dump(
        {name: value for name, value in content.items() if value},
        allow_unicode=True,
        sort_keys=False,
    )
    path.write_text(f"# Worked by {teacher.model}, as a demonstration.\n{text}", encoding="utf-8")
    return path
