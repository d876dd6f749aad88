"""A network of agents that each choose a strategy for the question, and vote (MARL-GAT)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import dspy
import numpy as np
import numpy.typing as npt

from ..agents.seat import Seat
from ..agents.transcript import Task, Turn
from ..base.calls import ASKER, asking, with_usage
from ..base.errors import UserError
from ..base.together import together
from ..network.config import NetworkConfig
from ..reading.answers import answer_key, score
from ..reading.question import Question
from ..reading.row import ResultRow
from ..reading.voting import Ties, weighted_consensus
from ..reports.network import network_report
from .declaration import Described, Plot, Protocol
from .program import Program, SeatTurns, prediction_of, solved_by
from .single import SingleAgent
from .strategies import STRATEGIES, strategy_of

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ..network.state import NetworkState

Embed = Callable[[Sequence[str]], npt.NDArray[np.floating]]
"""Texts (B) to their embeddings (B, D)."""

_ROLLOUTS = 10_000  # between agents: more than any strategy draws samples


class StrategyNetwork(Program):
    """N agents choose strategies by their policies, answer apart from one another, and vote.

    Args: state: what was learned, or a fresh network: a DSPy parameter, never changed by asking.
        embed: makes embeddings of questions, those that the network was trained with; called in a
        thread. lms: LMs of agents or of their strategies, by the names `agent.0`, `agent.0.cot`, ….
        samples: how many answers the strategies that draw several draw; None is their own number.
        sampling: LM settings of all agents. tie_break: which of equally weighted answers wins:
        `first`, `weight` (that of the heaviest single agent), `strongest:agent.N` or `random`, with
        the question's id and `seed`.
        seed: see `tie_break`.
        prompt_layout: `role_last`, behind what all seats share, or `role_first`, in the system
            message.
        prompts: strategy (or seat) → instructions of your own, or the path of a YAML file that says
            so.

    An agent asks in the words of the strategy it chose; agents with one LM draw samples of their
    own, at the config's `copies_temperature` where neither `sampling` nor the LM sets a
    temperature: `fm.lm` has 0 by default, which would make them one agent. `decided_by` is
    `consensus`, or `none` when nobody gave a readable answer. The prediction also has the
    `confidence` in the answer, the `probabilities` of all answers, and by agent `strategies` (None:
    not asked) and vote `weights`; a turn has its `strategy`, its `weight` and, as `confidence`, the
    policy's probability of that strategy.

    Raises UserError for a strategy that is not in `STRATEGIES`, and seats that do not exist.
    """

    trained_by: ClassVar[Callable[..., StrategyNetwork] | None] = None  # handed in from above
    training: Any  # how it went, where a training made it

    def __init__(
        self,
        state: NetworkState,
        embed: Embed,
        *,
        lms: Mapping[str, Any] | None = None,
        samples: int | None = None,
        sampling: Mapping[str, Any] | None = None,
        tie_break: str = "first",
        seed: int = 0,
        prompt_layout: str = "role_last",
        prompts: Mapping[str, str] | str | Path | None = None,
    ) -> None:
        super().__init__()
        self.state, self.embed = state, _Kept(embed)
        self.ties = Ties.of(tie_break, [f"agent.{i}" for i in range(state.config.agents)], seed)
        self.samples, self.sampling = samples, dict(sampling or {})
        self.agents = [
            [_Member(i, name, samples, sampling) for name in state.config.strategies]
            for i in range(state.config.agents)
        ]
        # DSPy finds modules in a list, not in a list of lists.
        self.members = [member for agent in self.agents for member in agent]
        self.word(prompts, prompt_layout)
        self.assign(lms)

    @classmethod
    def untrained(cls, config: NetworkConfig, embed: Embed, **options: Any) -> StrategyNetwork:
        """A network that has learned nothing yet, for `fm.train`; options are those of the
        constructor.
        """
        from ..network.state import NetworkState

        config.warn()
        return cls(NetworkState.fresh(config, embed(["width"]).shape[1]), embed, **options)

    @classmethod
    def from_outcomes(cls, outcomes: Any, **options: Any) -> StrategyNetwork:
        """A network trained on recorded answers: `fm.train(outcomes, …)`, with the same options.

        Raises UserError as `fm.train`.
        """
        if cls.trained_by is None:
            raise UserError(
                "this class alone cannot be trained: take it from folkmoot, as fm.StrategyNetwork"
            )
        return cls.trained_by(outcomes, **options)

    def describe(self) -> dict[str, Any]:
        config = self.state.config.to_dict()
        return {
            **self.named(),
            "config": config,
            "learned": self.state.identity,
            "samples": self.samples,
            "sampling": self.sampling,
            **({} if self.ties == Ties() else self.ties.described()),
        }

    def other_seats(self) -> list[str]:
        return STRATEGIES.names()

    def turns(self) -> list[SeatTurns]:
        """The fewest turns that an agent takes are those of its cheapest strategy, the most of its
        dearest; right for the agents together, while a single seat may take none.
        """
        asked, found = self.state.config.top or len(self.agents), list[SeatTurns]()
        for agent in self.agents[:asked]:
            each = [member.turns() for member in agent]
            cheapest = min(range(len(each)), key=lambda s: sum(low for _, low, _ in each[s]))
            dearest = max(range(len(each)), key=lambda s: sum(high for _, _, high in each[s]))
            for s, turns in enumerate(each):
                for seat, low, high in turns:
                    found.append((seat, low if s == cheapest else 0, high if s == dearest else 0))
        return found

    async def solve(self, task: Task) -> dspy.Prediction:
        vector = (await asyncio.to_thread(self.embed, [task.question]))[0]
        chosen = self.state.choose(vector, task.key)
        chances = self.state.probabilities(vector[None])[0]
        asked = [(i, s) for i, s in enumerate(chosen) if s is not None]
        said = await together(with_usage(self._ask(task, i, s)) for i, s in asked)
        weights = self.state.weights(vector, chosen)
        names = self.state.config.strategies
        turns = [
            Turn(
                f"agent.{i}",
                1,
                prediction.answer,
                str(prediction.transcript[-1]["text"]),
                usage=usage,
                details={
                    "strategy": names[s],
                    "confidence": round(float(chances[i, s]), 6),
                    "weight": round(float(weights[i]), 6),
                },
            )
            for (i, s), (prediction, usage) in zip(asked, said, strict=True)
        ]
        answers: list[str | None] = [None] * len(self.agents)
        spelled: dict[Any, str] = {}
        for (i, _), turn in zip(asked, turns, strict=True):
            if turn.answer is not None:  # equal answers as the first of them was spelled
                answers[i] = spelled.setdefault(answer_key(turn.answer, task.kind), turn.answer)
        voters = [f"agent.{i}" for i in range(len(self.agents))]
        decide_tie = self.ties.decider(ASKER.get().question, voters, weights.tolist())
        outcome = weighted_consensus(answers, weights, decide_tie)
        return prediction_of(
            task,
            outcome.answer,
            "consensus",
            turns,
            confidence=outcome.probability,
            probabilities=outcome.probabilities,
            strategies=[None if s is None else names[s] for s in chosen],
            weights=weights.tolist(),
        )

    def answering(
        self, questions: Sequence[Question]
    ) -> Callable[[int, int, int], Awaitable[tuple[str | None, bool]]]:
        """What training asks: (number of the question, agent, strategy) → (answer or None, whether
        right).

        Raises UserError for a question without a gold answer.
        """
        for question in questions:
            if question.answer is None:
                raise UserError(
                    f"question {question.id!r} has no answer: train on labelled questions"
                )

        async def answer(q: int, i: int, s: int) -> tuple[str | None, bool]:
            question = questions[q]
            task = Task.of(question.question, question.choices, question.context, question.kind)
            with asking(question=question.id):
                said = (await self._ask(task, i, s)).answer
            if said is None:
                return None, False
            right = score(said, str(question.answer), question.kind, question.choices).correct
            return answer_key(said, question.kind), bool(right)

        return answer

    def report(self, rows: Iterable[ResultRow]) -> dict[str, Any]:
        return network_report(rows)

    async def _ask(self, task: Task, i: int, s: int) -> dspy.Prediction:
        """Agent i's answer with strategy s."""
        member, own = self.agents[i][s], self.agents[i][s].seat.predict.lm
        # Agents with LMs of their own need no other sample, and share the record of a single
        # agent's calls.
        copies = [agent[s].seat.predict.lm is own for agent in self.agents]
        member.number = sum(copies[:i])
        unset = getattr(own or dspy.settings.lm, "temperature_unset", False)
        member.temperature = (
            self.state.config.copies_temperature if sum(copies) > 1 and unset else None
        )
        return await solved_by(member, task)


class _Member(SingleAgent):
    """An agent with one of its strategies. `number` tells agents apart that have the same LM, which
    is then asked at `temperature`; None: as it is.
    """

    def __init__(
        self, agent: int, strategy: str, samples: int | None, sampling: Mapping[str, Any] | None
    ) -> None:
        several = strategy_of(strategy).samples is not None
        super().__init__(strategy, samples=samples if several else None, sampling=sampling)
        self.rename(f"agent.{agent}.{strategy}")
        self.number, self.temperature = 0, cast(float | None, None)

    async def solve(self, task: Task) -> dspy.Prediction:
        seat, steps = (
            self._own(self.seat),
            {name: self._own(step) for name, step in self.steps.items()},
        )
        return await self.plan.flow(seat, steps, task, self.samples or 1)

    def _own(self, seat: Seat) -> Seat:
        if not self.number and self.temperature is None:
            return seat
        return cast(Seat, _Sampler(seat, self.number, self.temperature))


class _Sampler:
    """A seat whose calls are samples of one agent's own, for the flow of a strategy."""

    def __init__(self, seat: Seat, number: int, temperature: float | None) -> None:
        self._seat, self._first = seat, number * _ROLLOUTS
        free = temperature is not None and "temperature" not in seat.predict.config
        self._sampling = {"temperature": temperature} if free else {}

    async def ask(self, task: Task, *, rollout: int | None = None, **given: Any) -> Turn:
        return await self._seat.ask(
            task, rollout=self._rollout(rollout), sampling=self._sampling, **given
        )

    async def work(
        self, task: Task, step: str, *, rollout: int | None = None, **given: Any
    ) -> Turn:
        number = self._rollout(rollout)
        return await self._seat.work(task, step, rollout=number, sampling=self._sampling, **given)

    def _rollout(self, rollout: int | None) -> int | None:
        return self._first + (rollout or 0) if self._first else rollout


class _Kept:
    """What makes embeddings, the same one in all copies of a program."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        return self._embed(texts)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Kept:
        return self


Embedder = Callable[[str], Embed]
"""The name of an embedding model → what embeds texts with it."""


def trained_network(
    folder: str | Path,
    *,
    embedder: Embedder,
    embedding: str | Embed | None = None,
    samples: int | None = None,
    sampling: Mapping[str, Any] | None = None,
    tie_break: str = "first",
    seed: int = 0,
    prompt_layout: str = "role_last",
    prompts: Mapping[str, str] | str | Path | None = None,
) -> StrategyNetwork:
    """The network whose state is in a folder, with the prompts that every network begins with.

    Args:
        folder: what `network.save` or a training wrote.
        embedder: makes what embeds questions, by the name of the model that the training had.
        embedding: what embeds questions; None takes the model that the network's files name.
        samples, sampling, tie_break, seed, prompt_layout, prompts: as for the constructor.

    Raises UserError for a folder without a network, one whose strategies are not prompting
    strategies, and one that names a folder as its embedding model.
    """
    from ..network.state import NetworkState

    state = NetworkState.load(folder)
    embed = (
        embedding
        if callable(embedding)
        else embedder(embedding or embedding_of(state, Path(folder)))
    )
    return StrategyNetwork(
        state,
        embed,
        samples=samples,
        sampling=sampling,
        tie_break=tie_break,
        seed=seed,
        prompt_layout=prompt_layout,
        prompts=prompts,
    )


def embedding_of(state: NetworkState, place: Path) -> str:
    """The name of a network's embedding model. Raises UserError for a folder: the user has to name
    that.
    """
    model = state.config.embedding
    if not re.fullmatch(r"\w[\w.-]*(?:/\w[\w.-]*)?", model) or Path(model).exists():
        raise UserError(
            f"the network in {place} wants the embedding model in the folder {model!r}, which "
            f"may hold code: "
            f"if you trust it, give it, with embedding={model!r} or --set embedding={model}"
        )
    return model


def network_title(described: Described) -> str:
    """Such as `5 agents · cot, simple`, of a network or of the settings of one to train."""
    config = described.get("config", described)
    if "strategies" not in config:
        return ""
    strategies = ", ".join(name for name in config["strategies"] if name)
    return f"{config['agents']} agents" + (f" · {strategies}" if strategies else "")


StrategyNetwork.protocol = Protocol(
    "network",
    "network:runs/network",
    lambda parts: {"folder": ":".join(parts)},
    title=network_title,
    plot=Plot(
        "network_plot",
        "How sure the group was beside how often it was right, and which strategy each agent used.",
    ),
    fixed=("folder", "config", "learned"),
    program=trained_network,
)
