"""What an LM that rewrites instructions is told of an answered question: who was right, who missed
it.
"""

from __future__ import annotations

GOLD = "The right answer is {gold}."
WON = "The program answered {answer}, which is right (decided by {decided_by})."
LOST = "The program answered {answer}, which is wrong (decided by {decided_by})."
PARTLY = (
    "The program answered {answer}, which is partly right: F1 {f1:.2f} (decided by {decided_by})."
)
GRADED = "The program answered {answer}, which the metric scores {score:.3g}."
UNREAD = (
    "No answer could be read from the program, which counts as wrong (decided by {decided_by})."
)
FAILED = "The program failed on this question ({error}), which counts as wrong."

SAID = "{agent} said: {answers}."
RIGHT = "{answer} (right)"
WRONG = "{answer} (wrong)"
ABSTAINED = "nothing that could be read"

WON_OVER = "{agent} was won over from the wrong {before} to the right {after} in round {round}{by}."
MISLED = "{agent} was misled from the right {before} to the wrong {after} in round {round}{by}."
AFTER = ", after {others} had said so"
UNREADABLE = "The reply of {agent} in round {round} could not be read as an answer{raw}."
IT_WAS = "; it was {raw}"

IGNORED = "{agent} decided for the wrong {answer}, although {others} had given the right {gold}."
FOUND = "{agent} decided for the right {answer}, although {others} had said otherwise."
SILENT = "{agent} gave no readable decision, although {others} had given the right {gold}."
UPHELD = "{agent} looked at the wrong {before} of {other} and upheld it."
OVERTURNED = "{agent} looked at the right {before} of {other} and replaced it by the wrong {after}."
REPAIRED = "{agent} looked at the wrong {before} of {other} and replaced it by the right {after}."
SENT_BACK_RIGHT = (
    "{agent} sent {other} back although its answer {before} was right; the hint was {hint}."
)
SENT_BACK_WRONG = "{agent} sent {other} back from the wrong {before}, with the hint {hint}."
OUTVOTED = "{others} had the right {gold}, but the vote went to {answer}."
NOBODY = "Nobody had the right answer."

YOURS = "You are {seat}."
PREPARES = (
    "You are {seat}, which prepares the answer and does not give it: say what would have "
    "led to {gold}."
)
ARGUED = "{agent} argued: {text}"
