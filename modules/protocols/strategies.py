"""Strategies of a single agent: the registry of prompting strategies, and the flow
of each.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import dspy

from ...signatures import strategies as prompts
from ...signatures.examples import Worked, examples
from ..agents.demonstration import demo_of
from ..agents.seat import Seat
from ..agents.transcript import Task, Turn
from ..base.errors import UserError
from ..base.fence import cut
from ..base.registry import Registry
from ..base.together import together
from ..reading.steps import parts_of, reasoning_steps
from ..reading.voting import vote_among
from .program import prediction_of

MOST_PARTS = 4
MAX_PART_CHARS = 1_000  # so that a part leaves room for its solution, which is quoted with it

SAMPLES = 10
SAMPLED = {"temperature": 0.8, "top_p": 0.5}
"""The sampling of several answers by default (CaCo-CoT, its compared methods)."""

Flow = Callable[[Seat, Mapping[str, Seat], Task, int], Awaitable[dspy.Prediction]]
"""(the agent that answers, those of the steps before, the task, number of samples) → prediction."""


async def answered_once(
    seat: Seat, steps: Mapping[str, Seat], task: Task, samples: int
) -> dspy.Prediction:
    """One call and one answer."""
    return _prediction(task, [await seat.ask(task)])


async def after_examples(
    seat: Seat, steps: Mapping[str, Seat], task: Task, samples: int
) -> dspy.Prediction:
    """One call, with examples of the question's kind unless the agent has demos of its own."""
    return _prediction(task, [await seat.ask(task, examples=examples()[task.kind])])


async def decomposed(
    seat: Seat, steps: Mapping[str, Seat], task: Task, samples: int
) -> dspy.Prediction:
    """Independent subtasks, done at the same time, and an answer from their results."""
    split = await steps["split"].work(task, "split")
    parts = _parts(split)
    done = await together(
        steps["solve"].work(task, "solve", notes=[_to_do(place, part)])
        for place, part in enumerate(parts, 1)
    )
    solutions = [
        _done(place, part, turn.text)
        for place, (part, turn) in enumerate(zip(parts, done, strict=True), 1)
    ]
    return _prediction(task, [split, *done, await seat.ask(task, notes=solutions)])


async def least_to_most(
    seat: Seat, steps: Mapping[str, Seat], task: Task, samples: int
) -> dspy.Prediction:
    """Ever harder sub-questions, one after another, each answered with the earlier answers in view;
    then the question itself.
    """
    order = await steps["split"].work(task, "split")
    turns, solutions = [order], list[dict[str, object]]()
    for place, part in enumerate(_parts(order), 1):
        turn = await steps["solve"].work(task, "solve", notes=[*solutions, _to_do(place, part)])
        turns.append(turn)
        solutions.append(_done(place, part, turn.text))
    return _prediction(task, [*turns, await seat.ask(task, notes=solutions)])


async def most_consistent(
    seat: Seat, steps: Mapping[str, Seat], task: Task, samples: int
) -> dspy.Prediction:
    """The most frequent of `samples` answers, all asked for concurrently.

    Each sample is a turn of round 1, in the order of asking. One without a readable answer does not
    count; a tie goes to the earliest answer. `decided_by` is `majority`, or `none` if no sample
    counts; `tied` says whether there was a tie, `leading` between which answers.
    """
    turns = await _sampled(seat, task, samples)
    return _counted(task, turns, turns)


async def most_complex(
    seat: Seat, steps: Mapping[str, Seat], task: Task, samples: int
) -> dspy.Prediction:
    """The most frequent answer among the more complex half of `samples` chains (Fu et al.;
    CaCo-CoT).

    Of the chains with a readable answer, the ⌈samples / 2⌉ with the most reasoning steps vote; of
    equally long ones the earlier.
    """
    turns = await _sampled(seat, task, samples)
    readable = [place for place, turn in enumerate(turns) if turn.answer is not None]
    longest_first = sorted(readable, key=lambda place: -reasoning_steps(turns[place].text))
    # Back in the order of asking, since ties go to the earliest.
    voting = sorted(longest_first[: math.ceil(samples / 2)])
    return _counted(task, turns, [turns[place] for place in voting])


async def _sampled(seat: Seat, task: Task, samples: int) -> list[Turn]:
    return await together(seat.ask(task, rollout=number) for number in range(1, samples + 1))


def _counted(task: Task, turns: Sequence[Turn], voting: Sequence[Turn]) -> dspy.Prediction:
    vote = vote_among([turn.answer for turn in voting], task.kind)
    return prediction_of(task, vote.answer, "majority", turns, tied=vote.tied, leading=vote.leading)


@dataclass(frozen=True)
class Strategy:
    """A way of prompting. `STRATEGIES["mine"] = Strategy(MySignature)` adds one.

    Args:
        signature: the instructions of the answering call; `answer` is its last output.
        flow: the calls between question and answer; by default one.
        steps: the instructions of the calls before the answering one, by name.
        sampling: LM settings, which those of the agent override.
        samples: how many answers are drawn unless the agent says; None is one.
        turns: fewest and most turns of each step and of `answer`.

    Raises UserError when `answer` is not the signature's last output.
    """

    signature: type[dspy.Signature]
    flow: Flow = answered_once
    steps: Mapping[str, type[dspy.Signature]] = field(default_factory=dict)
    sampling: Mapping[str, object] = field(default_factory=dict)
    samples: int | None = None
    turns: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if list(self.signature.output_fields)[-1:] != ["answer"]:
            raise UserError(
                f"the signature {self.signature.__name__} cannot answer: "
                "make 'answer' its last output field"
            )

    def sampled(self, samples: int) -> Strategy:
        """This strategy, asked `samples` times: the most frequent answer counts. Raises UserError
        unless it answers with one call.
        """
        if self.samples is not None:
            return replace(self, samples=samples)
        if self.flow is not answered_once:
            raise UserError("a strategy of several steps takes no samples: drop them")
        sampling = {**SAMPLED, **self.sampling}
        return replace(self, flow=most_consistent, sampling=sampling, samples=samples)


_PARTS = {"solve": (0, MOST_PARTS)}

_BUILT_IN = {
    "simple": Strategy(prompts.Simple),
    "zero_shot": Strategy(prompts.ZeroShot),
    "few_shot": Strategy(prompts.FewShot, after_examples),
    "cot": Strategy(prompts.ChainOfThought),
    "self_consistency": Strategy(
        prompts.ChainOfThought, most_consistent, sampling=SAMPLED, samples=SAMPLES
    ),
    "complexity": Strategy(prompts.Complexity, most_complex, sampling=SAMPLED, samples=SAMPLES),
    "self_ask": Strategy(prompts.SelfAsk),
    "decomposition": Strategy(
        prompts.Combine,
        decomposed,
        {"split": prompts.Split, "solve": prompts.SolvePart},
        turns=_PARTS,
    ),
    "least_to_most": Strategy(
        prompts.Conclude,
        least_to_most,
        {"split": prompts.Order, "solve": prompts.SolveNext},
        turns=_PARTS,
    ),
    "plan_and_solve": Strategy(prompts.PlanAndSolve),
}


def _checked(name: str, thing: object) -> Strategy:
    """Return the strategy that was imported, or that of a signature. Raises UserError for
    others.
    """
    if isinstance(thing, type) and issubclass(thing, dspy.Signature):
        thing = Strategy(thing)
    if not isinstance(thing, Strategy):
        raise UserError(f"{name} is not a strategy: name an fm.Strategy, or a signature")
    return thing


STRATEGIES: Registry[Strategy] = Registry("strategies", _checked, lambda: _BUILT_IN)
"""All prompting strategies by name: built in, added here, and of installed packages."""


def _prediction(task: Task, turns: list[Turn]) -> dspy.Prediction:
    return prediction_of(task, turns[-1].answer, "single", turns)


def _parts(named: Turn) -> list[str]:
    # An LM may list more or longer parts than `turns` and the prompts allow.
    return [cut(part, MAX_PART_CHARS) for part in parts_of(named.text, MOST_PARTS)]


def _to_do(place: int, part: str) -> dict[str, object]:
    return {"title": prompts.PART.format(place=place), "text": part}


def _done(place: int, part: str, solution: str) -> dict[str, object]:
    solved = solution.strip() or prompts.UNSOLVED
    return {"title": prompts.PART_DONE.format(place=place), "text": f"{part}\n{solved}"}


def demonstrations(plan: Strategy, worked: Worked) -> dict[str, dspy.Example]:
    """Return the worked question as a demo for each step of a strategy and, as `answer`, for its
    answer.

    Raises UserError for a strategy whose fields the worked question does not have.
    """
    if not plan.steps:
        return {"answer": demo_of(worked, plan.signature)}
    if not worked.parts:
        raise UserError("the worked question has no parts to solve first: add them under parts")
    listed, done = [], []
    for place, (part, solution) in enumerate(worked.parts, 1):
        listed.append(f"{place}. {part}")
        done.append(_done(place, part, solution))
    # The last part is shown. In least-to-most, an agent sees the parts before it.
    before = done[:-1] if plan.flow is least_to_most else []
    own: dict[str, dict[str, object]] = {
        "split": {"parts": "\n".join(listed)},
        "solve": {"notes": [*before, _to_do(place, part)], "solution": solution},
        "answer": {"notes": done},
    }
    signatures = {**plan.steps, "answer": plan.signature}
    return {
        step: demo_of(worked, signature, **own.get(step, {}))
        for step, signature in signatures.items()
    }
