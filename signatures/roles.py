"""What each speaker of a deliberation is told (Agents of Commonsense, section 3.4)."""

from __future__ import annotations

from typing import Any

import dspy

from .strategies import Answering


class Speaking(Answering):
    """Take part in the discussion and answer the question."""

    evidence: list[dict[str, Any]] | None = dspy.InputField(default=None)
    discussion: list[dict[str, Any]] | None = dspy.InputField(default=None)


class Signature(Speaking):
    """Take part and answer the question: what an agent of your own is told, in place of this."""

    notes: list[dict[str, Any]] | None = dspy.InputField(default=None)


class Intuitive(Speaking):
    """You are quick, without overthinking: you go by instinct, experience and common sense. Say
    whether you agree with those who spoke, then commit to what feels right.
    """

    explanation: str = dspy.OutputField()
    answer: str = dspy.OutputField()


class Reasoner(Speaking):
    """You reason in strict order: weigh every option, strike out those that fail, skip no step. Say
    where you agree with those who spoke, then answer from what is left.
    """

    reasoning: str = dspy.OutputField()
    answer: str = dspy.OutputField()


class Retriever(Speaking):
    """You rely on facts that can be looked up: quote or paraphrase what bears on the question in
    the passages found, or say that nothing does. Say whether the facts support those who spoke,
    then give the answer they support.
    """

    findings: str = dspy.OutputField()
    answer: str = dspy.OutputField()


class Querying(Answering):
    """Do not answer yet. You may look things up before you speak: say which facts would settle the
    question or a point that the speakers leave open, in the words of an encyclopedia and without a
    guess at the answer.
    """

    discussion: list[dict[str, Any]] | None = dspy.InputField(default=None)
    queries: str = dspy.OutputField()


QUERIES = "what to search for, a few words a line, {most} at most"


class Critic(Speaking):
    """You look for what is wrong: gaps, hidden assumptions and better alternatives in every
    argument so far, or in the obvious answer. Still commit to the answer that survives best.
    """

    critique: str = dspy.OutputField()
    answer: str = dspy.OutputField()


class Judge(Speaking):
    """You decide. Sum up fairly what each speaker holds and why, say whose argument is the
    strongest, and give the answer that it supports.
    """

    summary: str = dspy.OutputField()
    answer: str = dspy.OutputField()


class Picker(Answering):
    """The notes hold several finished answers to the question, in an order that means nothing.
    Check each against the question, compare where they differ, and say which one you would hand in
    and why. A longer answer is not a better one.
    """

    notes: list[dict[str, Any]] | None = dspy.InputField(default=None)
    comparison: str = dspy.OutputField()
    best: str = dspy.OutputField(desc="the number of the candidate, alone")
