"""What the workers and the supervisor of a team are told (Reasoning as a Team)."""

from __future__ import annotations

from typing import Literal

import dspy

from .strategies import Working


class Acting(Working):
    """Find the answer by looking things up, one step at a time."""

    thought: str = dspy.OutputField(
        desc="what you know by now and what to do next, in a sentence or two"
    )
    action: str = dspy.OutputField(
        desc="exactly one of Search[entity], to open the page of that name; Lookup[keyword], for "
        "the next "
        "sentence with that word on the open page; Finish[answer], to end with your answer"
    )


class Bold(Acting):
    """You explore boldly. Guess early what the answer may be, follow unusual leads, jump to the
    page that a hunch suggests, and finish as soon as your story holds together; some doubt is
    allowed. If the supervisor made a suggestion above, follow it. Take the next step.
    """


class Cautious(Acting):
    """You check everything. Before you conclude anything, find the sentence that proves it; look
    facts up a second time where sources could differ, and finish only with what you have read. If
    the supervisor made a suggestion above, follow it. Take the next step.
    """


class Neutral(Acting):
    """You weigh both sides. Follow the likeliest lead, confirm what matters most, and neither rush
    nor dwell on what is clear. If the supervisor made a suggestion above, follow it. Take the next
    step.
    """


class Concluding(Working):
    """No step is left. Give the best answer that the steps above allow; there is always one."""

    answer: str = dspy.OutputField()


class Supervising(Working):
    """You supervise workers who looked things up independently; you see what each of them did. You
    are calm, fair and committed to a good decision: an unusual way to a sound answer is as good as
    a usual one. Accept an answer when its trace is coherent, plausible and complete. Else send the
    worker with the most promising trace back with one suggestion. You have to decide, and the
    question always has an answer.
    """

    judgement: str = dspy.OutputField(
        desc="for each worker: do the steps fit together, is the conclusion likely given what "
        "was read, and is anything missing"
    )
    decision: Literal["accept", "retry"] = dspy.OutputField(desc="accept or retry")
    worker: str = dspy.OutputField(desc="whose answer stands, or who tries again")
    suggestion: str = dspy.OutputField(desc="for a retry, one short and specific hint; else empty")


class Deciding(Working):
    """You supervise workers who looked things up independently; you see what each of them did. You
    are committed to a good decision, and nobody can try again any more: name the worker whose
    answer is to stand, the one whose trace is the most coherent, plausible and complete. You have
    to decide, and the question always has an answer.
    """

    judgement: str = dspy.OutputField(
        desc="for each worker: do the steps fit together, is the conclusion likely given what "
        "was read, and is anything missing"
    )
    worker: str = dspy.OutputField(desc="whose answer stands")


NEXT = "If the supervisor made a suggestion above, follow it. Take the next step."
"""What a role that answers is also told where it works in a team."""

STEP = "step {number}"
DONE = "Thought: {thought}\nAction: {action}\nObservation: {observation}"
NOT_AN_ACTION = (
    "(That is no action. Allowed are Search[entity], Lookup[keyword] and Finish[answer].)"
)
NO_ANSWER = "(That is no answer: {problem}.)"
REPEATED = "(As in step {number}.) {observation}"
FINISHED = "(finished)"
EARLIER = "your earlier attempt"
SUGGESTION = "the supervisor suggests, as advice on what to look for"
TRACE = "what {worker} did"
STYLED = "what {worker} did, who {style}"
STYLES = {
    "bold": "guesses early and follows hunches",
    "cautious": "proves every step before the next",
    "neutral": "weighs both sides",
}
UNDECIDED = "accept or retry was not said, or no worker with an answer was named"
