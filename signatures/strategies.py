"""What a single agent is told: the words of every prompting strategy, one signature a call."""

from __future__ import annotations

from typing import Any

import dspy


# DSPy never validates by a signature: pydantic need not build what would do that.
class Answering(dspy.Signature, defer_build=True):  # type: ignore[misc, call-arg]
    """Answer the question."""

    question: str = dspy.InputField()
    choices: dict[str, str] | None = dspy.InputField(default=None)
    context: str | None = dspy.InputField(default=None)
    kind: str = dspy.InputField(default="choice")
    correction: str | None = dspy.InputField(default=None)


class Simple(Answering):
    """Answer the question. Exactly one answer is right; give it and nothing else."""

    answer: str = dspy.OutputField()


class ZeroShot(Answering):
    """Read the question with care, recall what you know about it, and answer it directly."""

    answer: str = dspy.OutputField()


class FewShot(Answering):
    """Answer the question in the way the examples before it were answered."""

    answer: str = dspy.OutputField()


class ChainOfThought(Answering):
    """Give the solution and the answer. The solution is complete: it holds every calculation with
    its result and ends in "so the answer is", followed by the answer. Exactly one answer is right.
    """

    reasoning: str = dspy.OutputField(desc="the whole solution, up to the answer")
    answer: str = dspy.OutputField()


class Complexity(Answering):
    """Answer the question. Break your thinking into as many small steps as it takes and leave none
    out; write every step on a line of its own.
    """

    reasoning: str = dspy.OutputField(desc="one small step a line")
    answer: str = dspy.OutputField()


class SelfAsk(Answering):
    """Before you answer, ask yourself what else you would have to know. Put each such question,
    answer it shortly, and let the next one build on that. When nothing is left to ask, answer the
    question itself.
    """

    follow_ups: str = dspy.OutputField(
        desc="each further question with its own short answer, a line each"
    )
    answer: str = dspy.OutputField()


class PlanAndSolve(Answering):
    """First understand the problem and make a plan for it. Then carry the plan out, one step after
    the other, and answer from what came out.
    """

    plan: str = dspy.OutputField(desc="the steps to take, a line each")
    solution: str = dspy.OutputField(desc="every step carried out, with what it gives")
    answer: str = dspy.OutputField()


class Working(Answering):
    """Work on one part of the problem."""

    notes: list[dict[str, Any]] | None = dspy.InputField(default=None)


class Split(Working):
    """Do not answer yet. Name the separate tasks that together settle the question, such that each
    can be done without the others: two to four of them, in a few words each.
    """

    parts: str = dspy.OutputField(desc="one task a line")


class SolvePart(Working):
    """Work out only what the part of the problem that is quoted last asks for; the question it
    belongs to stands above. Be brief and exact.
    """

    solution: str = dspy.OutputField()


class Combine(Working):
    """Whatever parts of the problem were worked on one by one stand above. Put them together, drop
    what does not hold up, and answer the question.
    """

    reasoning: str = dspy.OutputField(desc="how the parts lead to the answer")
    answer: str = dspy.OutputField()


class Order(Working):
    """Do not answer yet. Name the simpler questions that lead up to this one, from the easiest to
    the hardest, such that each can be answered once those before it are: two to four of them.
    """

    parts: str = dspy.OutputField(desc="one simpler question a line, the easiest first")


class SolveNext(Working):
    """Answer only the simpler question that is quoted last, using what has been found for those
    before it. Be brief and exact.
    """

    solution: str = dspy.OutputField()


class Conclude(Working):
    """Whatever simpler questions lead up to this one were answered above, each building on the
    last. Now answer the question itself.
    """

    reasoning: str = dspy.OutputField(desc="how they lead to the answer")
    answer: str = dspy.OutputField()


PART = "part {place}, to do now"
PART_DONE = "part {place}, done"
UNSOLVED = "(nothing usable was said about this part)"
