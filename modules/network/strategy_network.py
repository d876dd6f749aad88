"""A network of agents that each choose a strategy for the question, and vote (MARL-GAT)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy

from ..agents.own_prompts import prompts_given
from ..agents.seat import Seat
from ..agents.transcript import Task, Turn
from ..base.calls import ASKER, ROLLOUTS, asking, bound, with_usage
from ..base.errors import UserError
from ..base.saved_file import Described
from ..base.together import together
from ..protocols.declaration import Protocol
from ..protocols.foreign import Foreign
from ..protocols.program import Program, SeatTurns, prediction_of, solved_by
from ..protocols.single import SingleAgent
from ..protocols.strategies import STRATEGIES
from ..reading.answers import answer_key, score
from ..reading.question import Question
from ..reading.row import ResultRow, TurnDetails
from ..reading.voting import Ties
from .config import NetworkConfig
from .report import network_report
from .selector import Embed, StrategySelector
from .trust import weighted_consensus

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from .state import NetworkState

_AGENT = re.compile(r"agent\.(\d+)(?:\..*)?")


class StrategyNetwork(Program):
    """N agents choose strategies by their policies, answer apart, and vote.

    Args:
        state: what was learned, a DSPy parameter, or a selector that has it.
        embed: embeds questions as in training; called in a thread.
        strategies: strategy → what the name stands for: another prompting strategy, or any
            `dspy.Module`.
        own_prompts: whether all agents, or those of these numbers, have prompts of their own.
        lms: LMs by strategy (`cot`), by agent (`agent.0`) or by both (`agent.0.cot`).
        samples: how many answers the strategies that draw several draw; None is their own number.
        sampling: LM settings of all agents, such as `{"temperature": 0.5}`.
        tie_break: which of equally weighted answers wins: `first`, `weight` (the heaviest single
            agent's), `strongest:agent.N` or `random`.
        seed: settles draws, together with the question's id.
        prompt_layout: where instructions stand: `role_last` (the default), after what all agents
            share, or `role_first`, in the system message.
        prompts: your instructions by agent, or a YAML file with them.

    `decided_by` is `consensus` or `none`. The prediction also has the `confidence` in the answer,
    the `probabilities` of all answers, and by agent `strategies` (None: not asked) and vote
    `weights`; a turn has its `strategy`, `weight` and `confidence`.

    Raises UserError for a strategy that is not in `STRATEGIES`, and agents that do not exist.
    """

    training: Any  # how it went, where a training made it
    learning: Any  # the settings of a training to come, where something is to teach it

    def __init__(
        self,
        state: NetworkState | StrategySelector,
        embed: Embed | None = None,
        *,
        strategies: Mapping[str, object] | None = None,
        own_prompts: bool | Sequence[int] = False,
        lms: Mapping[str, dspy.BaseLM] | None = None,
        samples: int | None = None,
        sampling: Mapping[str, object] | None = None,
        tie_break: str = "first",
        seed: int = 0,
        prompt_layout: str = "role_last",
        prompts: Mapping[str, str] | str | Path | None = None,
    ) -> None:
        super().__init__()
        stands_for = dict(strategies or {})
        if isinstance(state, StrategySelector):
            stands_for = {**state.names, **state.modules, **stands_for}
            state, embed = state.state, embed or state.embed
        if embed is None:
            raise UserError("embed is missing: give what embeds questions, such as fm.Embedder()")
        self.selector = StrategySelector(embedding=embed, state=state)
        config = state.config
        for name in stands_for:
            if name not in config.strategies:
                raise UserError(
                    f"strategies names {name!r}, which the network does not choose among: its "
                    f"strategies are {', '.join(config.strategies)}"
                )
        self.ties = Ties.of(tie_break, _agent_names(config.agents), seed)
        self.samples, self.sampling = samples, dict(sampling or {})
        self.members = {
            name: self._member(name, stands_for.get(name, name)) for name in config.strategies
        }
        self.own_prompts = list[int]()
        every = range(config.agents)
        self._separate(every if own_prompts is True else own_prompts or ())
        self.word(prompts, prompt_layout)
        self.assign(lms)

    @classmethod
    def untrained(cls, config: NetworkConfig, embed: Embed, **options: Any) -> StrategyNetwork:
        """Return a network that has learned nothing yet, for `fm.train`."""
        from .state import NetworkState

        for warning in config.idle():
            warnings.warn(warning, stacklevel=2)
        return cls(NetworkState.fresh(config, embed(["width"]).shape[1]), embed, **options)

    @property
    def state(self) -> NetworkState:
        """The learned state of the network."""
        return self.selector.state

    @state.setter
    def state(self, state: NetworkState) -> None:
        self.selector.state = state

    @property
    def embed(self) -> Embed:
        """The function that makes embeddings of questions."""
        return self.selector.embed

    def describe(self) -> Described:
        config = self.state.config
        stands_for = dict[str, object]()
        for name in config.strategies:
            what = self._stands_for(name)
            if what != name:
                stands_for[name] = what
        described: Described = {
            **self.named(),
            "config": config.to_dict(),
            "learned": self.state.identity,
        }
        if stands_for:
            described["strategies"] = stands_for
        if self.own_prompts:
            described["own_prompts"] = self.own_prompts
        described |= {"samples": self.samples, "sampling": self.sampling}
        if self.ties != Ties():
            described |= self.ties.described()
        return described

    def _stands_for(self, name: str) -> str | Described:
        """Return the strategy that agents with this one follow, or the program that was given for
        it.
        """
        member = self._of(0, name)
        if isinstance(member, SingleAgent) and member.seat.name == self._member_of(0, name):
            return member.strategy
        return member.describe()

    def other_seats(self) -> list[str]:
        return STRATEGIES.names()

    def with_seats(self, names: Iterable[str]) -> Program:
        agents = self._agents_in(names)
        if set(agents) <= set(self.own_prompts):
            return self
        network: StrategyNetwork = self.deepcopy()
        network._separate(agents)
        return network

    def word(
        self,
        prompts: Mapping[str, str] | str | Path | None = None,
        prompt_layout: str | None = None,
    ) -> None:
        prompts = prompts_given(prompts) if prompts is not None else None
        # An agent that is worded or given an LM by itself can no longer share its prompts.
        self._separate(self._agents_in(prompts or ()))
        super().word(prompts, prompt_layout)

    def assign(self, lms: Mapping[str, dspy.BaseLM] | None) -> None:
        self._separate(self._agents_in(lms or ()))
        super().assign(lms)

    def turns(self) -> list[SeatTurns]:
        """The fewest turns that an agent takes are those of its cheapest strategy, the most of its
        dearest; right for the agents together, while a single seat may take none.
        """
        config, counted = self.state.config, list[SeatTurns]()
        for i in range(config.top or config.agents):
            options = [_turns(self._of(i, name)) for name in config.strategies]
            fewest = [sum(map(itemgetter(1), turns)) for turns in options]
            most = [sum(map(itemgetter(2), turns)) for turns in options]
            cheapest, dearest = fewest.index(min(fewest)), most.index(max(most))
            for s, turns in enumerate(options):
                for seat, low, high in turns:
                    counted.append((seat, low if s == cheapest else 0, high if s == dearest else 0))
        return counted

    async def solve(self, task: Task) -> dspy.Prediction:
        chosen = await self.selector.acall(question=task.question, key=task.key)
        names, weights = self.state.config.strategies, chosen.weights
        asked = [(i, name) for i, name in enumerate(chosen.choices) if name is not None]
        predictions = await together(with_usage(self._ask, task, i, name) for i, name in asked)
        turns = []
        answers: list[str | None] = [None] * len(chosen.choices)
        spelled: dict[object, str] = {}
        for (i, name), (prediction, usage) in zip(asked, predictions, strict=True):
            answer = prediction.answer
            said = prediction.transcript[-1]["text"] if prediction.transcript else ""
            details = TurnDetails(
                strategy=name,
                confidence=round(float(chosen.probabilities[i, names.index(name)]), 6),
                weight=round(float(weights[i]), 6),
            )
            turns.append(Turn(f"agent.{i}", 1, answer, str(said), usage=usage, details=details))
            if answer is not None:  # equal answers as the first of them was spelled
                answers[i] = spelled.setdefault(answer_key(answer, task.kind), answer)
        # All agents, since answers and weights have a place for each, asked or not.
        voters = _agent_names(len(answers))
        decide_tie = self.ties.decider(ASKER.get().question, voters, weights.tolist())
        outcome = weighted_consensus(answers, weights, decide_tie)
        return prediction_of(
            task,
            outcome.answer,
            "consensus",
            turns,
            confidence=outcome.probability,
            probabilities=outcome.probabilities,
            strategies=chosen.choices,
            weights=weights.tolist(),
        )

    def routed(self, questions: Sequence[Question]) -> dict[str, list[Question]]:
        """By member, the questions that some agent most likely gives it."""
        names = self.state.config.strategies
        likely = self.state.probabilities(self.embed([asked.question for asked in questions]))
        routed: dict[str, list[Question]] = {name: [] for name in self.members}
        for question, picks in zip(questions, likely.argmax(axis=-1).tolist(), strict=True):
            for member in {self._member_of(i, names[s]) for i, s in enumerate(picks)}:
                routed[member].append(question)
        return routed

    def answering(
        self, questions: Sequence[Question]
    ) -> Callable[[int, int, int], Awaitable[tuple[str | None, bool]]]:
        """Return a function for training: (number of the question, agent, strategy) → (answer or
        None, whether right).

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
                answer = (await self._ask(task, i, self.state.config.strategies[s])).answer
            if answer is None:
                return None, False
            right = score(answer, question.gold or "", question.kind, question.choices).correct
            return answer_key(answer, question.kind), bool(right)

        return answer

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        return network_report(rows, self.embed)

    async def _ask(self, task: Task, i: int, name: str) -> dspy.Prediction:
        """Return agent i's answer with the strategy of that name."""
        member = self._of(i, name)
        own = _lm_of(member)
        # Agents with LMs of their own need no other sample, and share the record of a single
        # agent's calls.
        copies = [_lm_of(self._of(j, name)) is own for j in range(self.state.config.agents)]
        # Copies at temperature 0 would all say the same.
        unset = getattr(own or dspy.settings.lm, "temperature_unset", False)
        heat = self.state.config.copies_temperature if sum(copies) > 1 and unset else None
        context: AbstractContextManager[object] = nullcontext()
        # Predictors of the user's own read no rollouts, so their LM itself is set to it.
        if heat is not None and isinstance(member, Foreign) and own is None:
            context = dspy.context(lm=dspy.settings.lm.copy(temperature=heat))
        with bound(ROLLOUTS, ROLLOUTS.get().of_copy(sum(copies[:i]), heat)), context:
            return await solved_by(member, task)

    def _of(self, i: int, name: str) -> Program:
        """Return the program that agent i answers by with the strategy of that name."""
        return self.members[self._member_of(i, name)]

    def _member_of(self, i: int, name: str) -> str:
        return f"agent.{i}.{name}" if i in self.own_prompts else name

    def _member(self, name: str, thing: Any) -> Program:
        strategy = STRATEGIES.find(thing) if isinstance(thing, str) else thing
        if isinstance(strategy, Program):
            return strategy
        if isinstance(strategy, dspy.Module):
            return Foreign(strategy)
        samples = self.samples if STRATEGIES.named(thing).samples is not None else None
        member = SingleAgent(thing, samples=samples, sampling=self.sampling)
        member.rename(name)
        return member

    def _agents_in(self, names: Iterable[str]) -> list[int]:
        """Return the agents that seats of these names belong to, such as `agent.0.cot`."""
        agents = set[int]()
        for name in names:
            match = _AGENT.fullmatch(name)
            if match and int(match[1]) < self.state.config.agents:
                agents.add(int(match[1]))
        return sorted(agents)

    def _separate(self, agents: Iterable[int]) -> None:
        """Give agents prompts of their own: copies of those that they share."""
        config = self.state.config
        for i in agents:
            if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < config.agents:
                raise UserError(
                    f"own_prompts has {i!r}: give true, or numbers of agents from 0 to "
                    f"{config.agents - 1}"
                )
        for i in sorted(set(agents) - set(self.own_prompts)):
            for name in config.strategies:
                member = self.members[name].deepcopy()
                if isinstance(member, SingleAgent):
                    member.rename(f"agent.{i}.{name}")
                self.members[f"agent.{i}.{name}"] = member
            self.own_prompts = sorted([*self.own_prompts, i])
        if len(self.own_prompts) == config.agents:  # nobody asks the shared ones any more
            for name in config.strategies:
                self.members.pop(name, None)


def _agent_names(agents: int) -> list[str]:
    return list(map("agent.{}".format, range(agents)))


def _turns(member: Program) -> list[SeatTurns]:
    """Return the turns of a member; of a module of the user's own, at most one of each
    predictor.
    """
    turns = member.turns()
    if isinstance(member, Foreign):
        for name, predictor in member.parts(dspy.Predict):
            seat = Seat(name, predictor.signature)
            seat.predict = predictor
            turns.append((seat, 0, 1))
    return turns


def _lm_of(member: Program) -> dspy.BaseLM | None:
    """Return the LM of a member's first predictor; None for that of the run."""
    return next((predictor.lm for _, predictor in member.parts(dspy.Predict)), None)


Embedder = Callable[[str], Embed]
"""The name of an embedding model → what embeds texts with it."""


def trained_network(
    folder: str | Path,
    *,
    embedder: Embedder,
    embedding: str | Embed | None = None,
    strategies: Mapping[str, object] | None = None,
    own_prompts: bool | Sequence[int] = False,
    samples: int | None = None,
    sampling: Mapping[str, object] | None = None,
    tie_break: str = "first",
    seed: int = 0,
    prompt_layout: str = "role_last",
    prompts: Mapping[str, str] | str | Path | None = None,
) -> StrategyNetwork:
    """Return the network whose state is in a folder, with the prompts that every network begins
    with.

    Args:
        folder: what `network.save` or a training wrote.
        embedder: makes what embeds questions, by the name of the model that the training had.
        embedding: what embeds questions; None takes the model that the network's files name.
        strategies, own_prompts, samples, sampling, tie_break, seed, prompt_layout, prompts: as for
            the constructor.

    Raises UserError for a folder without a network, one whose strategies are not prompting
    strategies, and one that names a folder as its embedding model.
    """
    from .state import NetworkState

    state = NetworkState.load(folder)
    if not callable(embedding):
        embedding = embedder(embedding or embedding_of(state, Path(folder)))
    return StrategyNetwork(
        state,
        embedding,
        strategies=strategies,
        own_prompts=own_prompts,
        samples=samples,
        sampling=sampling,
        tie_break=tie_break,
        seed=seed,
        prompt_layout=prompt_layout,
        prompts=prompts,
    )


def embedding_of(state: NetworkState, place: Path) -> str:
    """Return the name of a network's embedding model. Raises UserError for a folder: the user has
    to name that.
    """
    model = state.config.embedding
    if not re.fullmatch(r"\w[\w.-]*(?:/\w[\w.-]*)?", model) or Path(model).exists():
        raise UserError(
            f"the network in {place} wants the embedding model in the folder {model!r}, "
            "which may hold code: if you trust it, give it, "
            f"with embedding={model!r} or --set embedding={model}"
        )
    return model


StrategyNetwork.protocol = Protocol(
    "network",
    "network:runs/network",
    lambda parts: {"folder": ":".join(parts)},
    fixed=("folder", "config", "learned"),
)
