"""What reasoners and evaluators are told (CaCo-CoT): each numbered component of a solution is one
field.
"""

from __future__ import annotations

import dspy

from .strategies import Answering, Working


class CausalReasoner(Answering):
    """Work the question out in the order of the fields below, each resting on those before it.
    State only what you are sure is true.
    """

    concepts: str = dspy.OutputField(desc="what the terms and principles in the question mean")
    subquestions: str = dspy.OutputField(
        desc="the single steps it takes, each a question with its answer"
    )
    rationale: str = dspy.OutputField(desc="how these lead to the answer")
    answer: str = dspy.OutputField()


class CausalEvaluator(Working):
    """You examine the solution quoted above; its author may be wrong. Go through the fields below
    in order and end with the answer that you hold to be right: that of the solution, or another.
    """

    check: str = dspy.OutputField(
        desc="with the whole solution in view, for each of its steps: is it true, and does it "
        "follow"
    )
    contradiction: str = dspy.OutputField(
        desc="suppose that the other answer is the right one, the one named above or else the "
        "most plausible that you know: where does that lead, and does it contradict anything"
    )
    reconsideration: str = dspy.OutputField(desc="think again in the light of what you found")
    answer: str = dspy.OutputField()


SOLUTION = "a solution to examine"
COUNTERFACTUAL = "another answer, to suppose true"
