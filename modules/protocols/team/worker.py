"""One worker of a team: a ReAct loop of thought, action and observation that ends in an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

import dspy

from ....signatures import team as prompts
from ....signatures.examples import Worked
from ...agents.demonstration import demo_of
from ...agents.retrieval import Retrieval
from ...agents.seat import Seat, forget, problem_of
from ...agents.transcript import Task, Turn
from ...base.calls import metered, record_turn
from ...base.fence import cut, one_line
from ...environment.base import Environment, Session
from ...reading.answers import read_vote
from ...reading.row import TurnDetails
from .actions import MAX_ARGUMENT_CHARS, Action, read_action

Step = dict[str, str]
STEP_FIELDS = ("thought", "action", "observation")
SHORTEST_PART = 40
# A fence replaces [NASA] by (NASA), since [INST] could be a chat template's mark; written as
# [ NASA ], it stays an action.
_CAPITALS = re.compile(r"\[(/?[A-Z_]{3,32})\]")
UNCUT = 10**9
MAX_TRACE_CHARS = 20_000  # fits a quotation of any layout together with the answer that follows it


class TeamWorker(dspy.Module):  # type: ignore[misc]
    """A worker in one role (Reasoning as a Team, section 3; ReAct, Yao et al. 2023).

    Args:
        name: what the supervisor calls it.
        role: the name of its role, such as `bold`.
        signature: its instructions, with the outputs `thought` and `action`.
        environment: where it searches.
        max_steps: most steps of one attempt, at least 1; then it is asked for its answer once.
        rollout: its sample number, so that workers of the same role get different replies.
        limits: whether long thoughts, observations and traces are cut.
    """

    def __init__(
        self,
        name: str,
        role: str,
        signature: type[dspy.Signature],
        environment: Environment | None,
        max_steps: int,
        rollout: int | None = None,
        limits: bool = True,
    ) -> None:
        super().__init__()
        self.retrieval = Retrieval(environment)
        self.limits = limits
        self.name = name
        self.role = role
        self.rollout = rollout
        self.max_steps = max_steps
        self.act = Seat(name, signature)
        self.conclude = Seat(f"{name}.conclude", prompts.Concluding)

    def demonstrate(self, worked: Worked) -> None:
        """Set demonstrations: steps of the worked question's trace, of which a bold worker sees few
        and a cautious one all, and the answer. A base LM, which gets no instructions, only knows
        its role by them.
        """
        trace = steps_of(worked)
        last = len(trace) - 1
        by_role = {"bold": [0, last], "cautious": [*range(last + 1)]}
        shown = by_role.get(self.role, [0, len(trace) // 2, last])
        acting, concluding = self.act.predict, self.conclude.predict
        acting.demos = [
            demo_of(worked, acting.signature, notes=_steps(trace[:place]), **trace[place])
            for place in dict.fromkeys(shown)
        ]
        concluding.demos = [demo_of(worked, concluding.signature, notes=_steps(trace[:-1]))]

    async def attempt(
        self,
        task: Task,
        *,
        number: int = 1,
        earlier: Turn | None = None,
        suggestion: str = "",
    ) -> Turn:
        """Make one attempt, with no page open yet; returns its turn.

        Its `details` have `trace`, a dict per step with `thought`, `action`, `observation` and, for
        a step that went wrong, `problem` (`unreadable` or `repeated`); and `forced`, whether the
        answer had to be asked for at the step limit. On a retry, the worker is shown the `earlier`
        attempt and the supervisor's suggestion.
        """
        environment = self.retrieval.environment
        assert environment is not None
        # A session for each attempt: which sentence comes next must not depend on other workers.
        session = environment.open() if self.limits else environment.open(max_chars=UNCUT)
        before, trace = _before(earlier, suggestion), list[Step]()

        def notes() -> list[dict[str, object]]:
            most = {} if self.limits else {"most": UNCUT}
            return [note | most for note in (*before, *_steps(trace))]

        with metered() as usage:
            answer, raw = None, None
            for _ in range(self.max_steps):
                reply = await self.act.fill(task, notes=notes(), rollout=self.rollout)
                action = read_action(reply.action)
                if action is not None and action.name == "finish":
                    answer = read_vote(action.argument, task.kind, task.choices)
                    raw = action.argument
                trace.append(await self._step(task, session, trace, reply, action, answer))
                if trace[-1].get("problem") == "unreadable":
                    forget(reply)
                if answer is not None:
                    break
            forced = answer is None
            if forced:
                asked = await self.conclude.ask(task, notes=notes(), rollout=self.rollout)
                answer, raw = asked.answer, asked.raw
        details = TurnDetails(trace=trace, forced=forced)
        if suggestion:
            details["suggestion"] = suggestion
        if raw == answer:
            raw = None
        text = trace_text(trace, MAX_TRACE_CHARS if self.limits else UNCUT)
        turn = Turn(self.name, number, answer, text, raw, usage=usage, details=details)
        record_turn(turn)
        return turn

    async def _step(
        self,
        task: Task,
        session: Session,
        trace: Sequence[Step],
        reply: dspy.Prediction,
        action: Action | None,
        answer: str | None,
    ) -> Step:
        """Return the step after its action is done. Each part is one line, so that none can pass
        for another part.
        """
        step: Step = {
            "thought": one_line(reply.thought),
            "action": cut(one_line(reply.action), MAX_ARGUMENT_CHARS),
        }
        if action is None:
            return step | {"observation": prompts.NOT_AN_ACTION, "problem": "unreadable"}
        step["action"] = f"{action.name.capitalize()}[{action.argument}]"
        if action.name == "finish":
            if answer is not None:
                return step | {"observation": prompts.FINISHED}
            problem = prompts.NO_ANSWER.format(problem=problem_of(action.argument, task))
            return step | {"observation": problem, "problem": "unreadable"}
        look = session.search if action.name == "search" else session.lookup
        observation = (await look(action.argument)).text
        if action.name == "search":
            wanted = step["action"].casefold()
            actions = [earlier["action"].casefold() for earlier in trace]
            same = [number for number, before in enumerate(actions, 1) if before == wanted]
            # Only for a search: a repeated lookup moves on to the next sentence.
            if same:
                observation = prompts.REPEATED.format(number=same[-1], observation=observation)
                return step | {"observation": observation, "problem": "repeated"}
        return step | {"observation": observation}


def _step_lines(step: Step, longest: int | None = None) -> str:
    """Return a step as three lines, with at most `longest` characters of thought and observation
    each.
    """
    thought, seen = step["thought"], step["observation"]
    if longest is not None:
        thought, seen = cut(thought, longest), cut(seen, longest)
    return prompts.DONE.format(
        thought=thought, action=_CAPITALS.sub(r"[ \1 ]", step["action"]), observation=seen
    )


def steps_of(worked: Worked) -> list[Step]:
    """Return the steps of a worked question's trace."""
    return [dict(zip(STEP_FIELDS, step, strict=True)) for step in worked.trace]


def trace_text(trace: Sequence[Step], most: int = MAX_TRACE_CHARS) -> str:
    """Return a trace as a person or a supervisor reads it: three lines per step, at most `most`
    characters in all. If it is longer, the longest thoughts and observations are cut, so that all
    steps stay.
    """
    longest = most
    while True:
        text = "\n".join(_step_lines(step, longest) for step in trace)
        if len(text) <= most or longest < SHORTEST_PART:
            return cut(text, most)
        # Tried with ever shorter parts, since the length is only known once all steps are written.
        longest = longest * 3 // 4


def _steps(trace: Sequence[Step]) -> list[dict[str, object]]:
    return [
        {"title": prompts.STEP.format(number=number), "text": _step_lines(step), "bare": True}
        for number, step in enumerate(trace, 1)
    ]


def _before(earlier: Turn | None, suggestion: str) -> list[dict[str, object]]:
    if earlier is None:
        return []
    return [
        {"title": prompts.EARLIER, "text": earlier.text, "answer": earlier.answer},
        {"title": prompts.SUGGESTION, "text": suggestion, "advice": True},
    ]
