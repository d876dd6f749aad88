"""Worked examples written for this package: short ones for each kind, and one in full for each data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy


def _examples(kind: str, *rows: tuple[str, Mapping[str, str] | None, str]) -> tuple[dspy.Example, ...]:
    return tuple(
        dspy.Example(question=question, choices=choices, kind=kind, answer=answer)
        for question, choices, answer in rows
    )


EXAMPLES: dict[str, tuple[dspy.Example, ...]] = {
    "choice": _examples(
        "choice",
        (
            "Where would you keep milk so that it stays fresh?",
            {"A": "oven", "B": "refrigerator", "C": "bookshelf", "D": "garden"},
            "B",
        ),
        (
            "What does a plant take in from the air to make its food?",
            {"A": "carbon dioxide", "B": "helium", "C": "smoke", "D": "salt"},
            "A",
        ),
        (
            "After a long walk in the rain, what would someone most likely do first at home?",
            {"A": "water the lawn", "B": "buy a boat", "C": "close the bank", "D": "put on dry clothes"},
            "D",
        ),
        (
            "Which of these conducts electricity best?",
            {"A": "rubber", "B": "wood", "C": "copper", "D": "glass"},
            "C",
        ),
    ),
    "boolean": _examples(
        "boolean",
        ("Can a penguin fly?", None, "no"),
        ("Is ice lighter than the same volume of water?", None, "yes"),
        ("Someone who is hungry would rather have a meal than a blanket.", None, "yes"),
        ("A candle burns longer under water than in air.", None, "no"),
    ),
    "number": _examples(
        "number",
        ("A box holds 12 pens. How many pens are in 5 boxes?", None, "60"),
        ("Mia has 20 coins and gives a quarter of them away. How many does she keep?", None, "15"),
        ("A train leaves at 9:40 and arrives at 11:05. How many minutes does it take?", None, "85"),
        ("Three books cost 7 each and a lamp costs 14. What is the total?", None, "35"),
    ),
    "span": _examples(
        "span",
        ("What is the capital of Portugal?", None, "Lisbon"),
        ("Which planet is closest to the sun?", None, "Mercury"),
        ("Which is longer, a mile or a kilometre?", None, "a mile"),
        ("Which gas do people breathe in to live?", None, "oxygen"),
    ),
}


@dataclass(frozen=True)
class Worked:
    """One question solved in full, in the words of every method: what each reply would say, by output field.

    `parts` are the simpler questions that lead up to it with their answers; `other` is the answer that an
    evaluator supposes to be true instead; `trace` is how a worker looks it up: thought, action, observation.
    """

    question: str
    choices: Mapping[str, str] | None
    kind: str
    answer: str
    other: str
    parts: Sequence[tuple[str, str]]
    fields: Mapping[str, str]
    trace: Sequence[tuple[str, str, str]] = ()

    @property
    def inputs(self) -> dict[str, Any]:
        return {"question": self.question, "choices": self.choices, "kind": self.kind}


def _lines(*lines: str) -> str:
    return "\n".join(lines)


WORKED: dict[str, Worked] = {
    "scienceqa": Worked(
        question="A spoonful of sugar is stirred into warm water until it cannot be seen any more.\n"
        "Which kind of change is this?",
        choices={"A": "chemical change", "B": "physical change"},
        kind="choice",
        answer="B",
        other="A",
        parts=(
            (
                "Does a new substance form when sugar dissolves?",
                "No, it is still sugar, spread through water.",
            ),
            ("What is a change called that forms no new substance?", "A physical change."),
        ),
        fields={
            "reasoning": _lines(
                "The sugar is no longer seen, so it has dissolved.",
                "Dissolving spreads the sugar through the water and makes nothing new.",
                "A change that makes no new substance is a physical change.",
            ),
            "follow_ups": _lines(
                "Is the sugar gone? No, the water tastes sweet.",
                "Has it become something else? No, it is left behind when the water dries up.",
            ),
            "plan": _lines("Say what tells the two kinds of change apart.", "See which one fits dissolving."),
            "solution": "A chemical change makes a new substance, a physical one does not. Dissolved sugar "
            "is still sugar, so the change is a physical one.",
            "concepts": "A physical change alters the form of a substance, a chemical change makes a new "
            "one. To dissolve is to spread the particles of one substance among those of another.",
            "subquestions": _lines(
                "Does a new substance form? No: the water tastes of sugar.",
                "Can the sugar be had back? Yes: it stays behind when the water dries up.",
            ),
            "rationale": "Only the form of the sugar has changed and not what it is made of, which is what a "
            "physical change means.",
            "check": "Both kinds of change are explained rightly, what is said of dissolving is true, and "
            "the conclusion follows from the two answers before it.",
            "contradiction": "Were it a chemical change, something new would have formed. But drying the "
            "water gives the same sugar back: a contradiction.",
            "reconsideration": "No step is wrong and the other answer leads to a contradiction.",
        },
    ),
    "com2sense": Worked(
        question="Since the road was covered in ice, Paul drove faster so that he could stop sooner.",
        choices=None,
        kind="boolean",
        answer="no",
        other="yes",
        parts=(
            ("How does ice change the grip of the tyres?", "They grip less."),
            ("How does speed change the distance needed to stop?", "The faster, the longer the distance."),
        ),
        fields={
            "reasoning": _lines(
                "On ice the tyres grip less, so stopping takes longer.",
                "Driving faster makes the way to a stop longer still.",
                "So driving faster cannot be meant to stop sooner.",
            ),
            "follow_ups": _lines(
                "Does a faster car stop sooner? No, later.", "Does ice help it stop? No, it makes it slide."
            ),
            "plan": _lines(
                "Say what ice and speed do to stopping.", "Compare that with what the statement says."
            ),
            "solution": "Ice and speed both lengthen the way to a stop. The statement has it the other way "
            "round, so it does not make sense.",
            "concepts": "The stopping distance is how far a car goes before it stands still. It grows with "
            "speed and with less grip, and ice gives little grip.",
            "subquestions": _lines(
                "What does ice do to the stopping distance? It grows.",
                "What does driving faster do to it? It grows, too.",
            ),
            "rationale": "Whoever wants to stop sooner on ice must drive slower, so the statement goes "
            "against how cars behave.",
            "check": "What is said of ice, of speed and of the stopping distance is true, and the conclusion "
            "follows.",
            "contradiction": "Were the statement sensible, a faster car would stop sooner on ice. But speed "
            "lengthens the way: a contradiction.",
            "reconsideration": "No step is wrong and the other answer leads to a contradiction.",
        },
    ),
    "boolq": Worked(
        question="is a tomato a fruit in the botanical sense",
        choices=None,
        kind="boolean",
        answer="yes",
        other="no",
        parts=(
            ("What does botany call a fruit?", "The part that grows from a flower and holds the seeds."),
            ("Does a tomato grow from a flower and hold seeds?", "Yes, both."),
        ),
        fields={
            "reasoning": _lines(
                "In botany a fruit is what grows from the flower and holds the seeds.",
                "A tomato grows from the flower of its plant and is full of seeds.",
                "So it is a fruit in that sense, whatever it is in the kitchen.",
            ),
            "follow_ups": _lines(
                "What is a fruit in botany? What grows from a flower and holds the seeds.",
                "Does a tomato? Yes.",
            ),
            "plan": _lines("Recall what botany calls a fruit.", "See whether a tomato fits."),
            "solution": "A fruit grows from a flower and holds seeds. A tomato does both, so it is one.",
            "concepts": "In the botanical sense a fruit is the ripened ovary of a flower, with the seeds in "
            "it. Cooks use the word differently.",
            "subquestions": _lines(
                "Does a tomato grow out of a flower? Yes.", "Are the seeds of the plant inside it? Yes."
            ),
            "rationale": "A tomato has what the definition asks for, and the kitchen's use of the word is "
            "not asked about.",
            "check": "The definition is right, both facts about tomatoes are true, and the conclusion "
            "follows.",
            "contradiction": "Were it no fruit, it would not come from a flower or hold no seeds. It does "
            "both: a contradiction.",
            "reconsideration": "No step is wrong and the other answer leads to a contradiction.",
        },
    ),
    "gsm8k": Worked(
        question="A baker fills 6 trays with 12 rolls each and sells all but 9 of the rolls. How many "
        "are sold?",
        choices=None,
        kind="number",
        answer="63",
        other="72",
        parts=(
            ("How many rolls are there?", "6 x 12 = 72 rolls."),
            ("How many are not sold?", "9 rolls."),
        ),
        fields={
            "reasoning": _lines(
                "There are 6 x 12 = 72 rolls.", "9 of them are not sold.", "So 72 - 9 = 63 are sold."
            ),
            "follow_ups": _lines("How many rolls are there? 72.", "How many are left over? 9."),
            "plan": _lines("Count all rolls.", "Take away those that are left."),
            "solution": "6 x 12 = 72 rolls, and 72 - 9 = 63.",
            "concepts": "All but 9 means every roll except 9 of them.",
            "subquestions": _lines("How many rolls are there? 6 x 12 = 72.", "How many stay? 9."),
            "rationale": "The rolls sold are all rolls less those that stay: 72 - 9 = 63.",
            "check": "The product and the difference are right, and they are what the question asks for.",
            "contradiction": "Were 72 sold, none would be left, but 9 are: a contradiction.",
            "reconsideration": "No step is wrong and the other answer leads to a contradiction.",
        },
    ),
    "hotpotqa": Worked(
        question="Which is longer, the river that flows through Cairo or the one that flows through Paris?",
        choices=None,
        kind="span",
        answer="Nile",
        other="Seine",
        parts=(
            ("How long is the river that flows through Cairo?", "It is the Nile, more than 6,000 km long."),
            ("How long is the river that flows through Paris?", "It is the Seine, less than 800 km long."),
        ),
        fields={
            "reasoning": _lines(
                "The Nile flows through Cairo and the Seine through Paris.",
                "The Nile is more than 6,000 km long, the Seine less than 800 km.",
                "So the Nile is longer.",
            ),
            "follow_ups": _lines(
                "Which river flows through Cairo? The Nile.",
                "Which flows through Paris? The Seine.",
                "Which of the two is longer? The Nile.",
            ),
            "plan": _lines("Name both rivers.", "Compare how long they are."),
            "solution": "They are the Nile and the Seine, and the Nile is several times as long.",
            "concepts": "The length of a river is measured from its source to its mouth.",
            "subquestions": _lines(
                "Which river flows through Cairo? The Nile, more than 6,000 km long.",
                "Which flows through Paris? The Seine, less than 800 km long.",
            ),
            "rationale": "More than 6,000 km is longer than less than 800 km, so it is the Nile.",
            "check": "Both cities and rivers match, the lengths are about right, and the conclusion follows.",
            "contradiction": "Were it the Seine, it would have to be longer than 6,000 km, and it is not: a "
            "contradiction.",
            "reconsideration": "No step is wrong and the other answer leads to a contradiction.",
            "judgement": "The trace finds both rivers and a length, its steps fit together, the conclusion "
            "is likely, and nothing is missing.",
        },
        trace=(
            (
                "I need the two rivers first and begin with Cairo.",
                "Search[Cairo]",
                "Cairo is the capital of Egypt. The city lies on the Nile, close to its delta.",
            ),
            (
                "So the Nile is one of them. Next I need the river of Paris.",
                "Search[Paris]",
                "Paris is the capital of France. It grew up on an island in the Seine.",
            ),
            (
                "The other one is the Seine. How long is it?",
                "Search[Seine]",
                "The Seine is a river in the north of France. It is 777 km long.",
            ),
            ("777 km is far less than the Nile has, so the Nile is longer.", "Finish[Nile]", "(finished)"),
        ),
    ),
}
