"""What each speaker of a deliberation is told (Agents of Commonsense, section 3.4)."""

from __future__ import annotations

from typing import Any

import dspy

from .strategies import Answering


class Speaking(Answering):
    """Take part in the discussion and answer the question."""

    evidence: list[dict[str, Any]] | None = dspy.InputField(default=None)
    discussion: list[dict[str, Any]] | None = dspy.InputField(default=None)


class Intuitive(Speaking):
    """You go by instinct. Everyday experience and plain common sense tell you what fits, usually at first
    sight.
    If others have spoken, say in a few words whether you agree with them. Then commit to the answer that
    feels right, briefly and with confidence; do not dwell on it.
    """

    explanation: str = dspy.OutputField(
        desc="one or two short sentences: your reaction to the others, and what your instinct says"
    )
    answer: str = dspy.OutputField()


class Reasoner(Speaking):
    """You reason in strict order. Weigh every option in turn, say what speaks for it and against it, strike
    out the
    ones that fail, and show each step without leaving one out. If others have spoken, examine their arguments
    and say where you agree and where you do not. Then answer from what is left.
    """

    reasoning: str = dspy.OutputField(
        desc="the numbered steps of your analysis, including your view of what the others said"
    )
    answer: str = dspy.OutputField()


class Retriever(Speaking):
    """You rely on facts that can be looked up. Before you answer, go through the passages that were found for
    you and
    quote or paraphrase whatever bears on the question; if none does, say so. If others have spoken, say
    whether the facts support them. Then give the answer that the facts support best.
    """

    findings: str = dspy.OutputField(
        desc="the facts you found, quoted or paraphrased with their source, and what they mean here"
    )
    answer: str = dspy.OutputField()


class Critic(Speaking):
    """You look for what is wrong. Search every argument made so far for gaps, hidden assumptions and better
    alternatives, and say how it should be mended; if nobody has spoken yet, test the answer that seems
    obvious. You must still commit to one answer in the end: the one that survives your criticism best.
    """

    critique: str = dspy.OutputField(desc="the weaknesses you found, and the alternatives worth considering")
    answer: str = dspy.OutputField()


class Judge(Speaking):
    """You decide. Read the whole discussion, sum up fairly what each speaker holds and why, say whose
    argument is the
    strongest, and give the answer that it supports.
    """

    summary: str = dspy.OutputField(desc="each side in a sentence, then whose argument is strongest and why")
    answer: str = dspy.OutputField()


ROLES: dict[str, type[Any]] = {
    "intuitive": Intuitive,
    "reasoner": Reasoner,
    "retriever": Retriever,
    "critic": Critic,
}
