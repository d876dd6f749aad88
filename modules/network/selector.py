"""Chooses a strategy for a question: what a strategy network has learned, as a module."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import dspy
import numpy as np
import numpy.typing as npt

from ..base.errors import UserError
from ..base.saved_file import Described
from .choice import draw, random_for, softmax
from .config import NetworkConfig
from .space import PAPER_STRATEGIES

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from .state import NetworkState

Embed = Callable[[Sequence[str]], npt.NDArray[np.floating]]
"""Texts (B) to their embeddings (B, D)."""


class StrategySelector(dspy.Module):  # type: ignore[misc]
    """Chooses one strategy for a question, or one for each of N agents.

    Call it with `question`; `key`, by default the question, names it for the draws. The prediction
    has

    - `choice`: one strategy for all, drawn from the mean probabilities over agents, or with
      `choice="argmax"` the likeliest;
    - `choices`: the strategy of each agent, None for one that is not to be asked (`top`);
    - `probabilities` (N, S) of all strategies by agent, and `weights` (N,) of the agents' votes.

    Args:
        strategies: names, or name → another name, or a `dspy.Module`, which becomes a part of the
            selector, in `modules`.
        agents: N; a single agent needs no graph.
        embedding: a model's name, an `fm.Embedder`, or a function of texts (n) that gives vectors
            (n, D). None: the model of `fm.train`.
        state: what a network has learned, a DSPy parameter.
        settings: others of `fm.NetworkConfig`.

    `fm.train(…, program=selector)` returns a trained copy. Raises UserError for settings that
    cannot be.
    """

    embedder: ClassVar[Callable[[str | None], Embed] | None] = None  # handed in from above

    def __init__(
        self,
        strategies: Sequence[str] | Mapping[str, object] = PAPER_STRATEGIES,
        *,
        agents: int = 1,
        embedding: str | Embed | None = None,
        state: NetworkState | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.modules, self.names = dict[str, dspy.Module](), dict[str, object]()
        if isinstance(strategies, Mapping):
            for name, thing in strategies.items():
                if isinstance(thing, dspy.Module):
                    self.modules[name] = thing
                else:
                    self.names[name] = thing
        embed = embedding if callable(embedding) else self._named(embedding)
        self.embed = _Kept(embed)
        if state is None:
            from .state import NetworkState

            settings["embedding"] = model_name(embed)
            if self.modules or self.names:
                strategies = tuple(strategies)
            config = NetworkConfig(agents=agents, strategies=strategies, **settings)  # type: ignore[arg-type]
            state = NetworkState.fresh(config, embed(["width"]).shape[1])
        self.state = state

    def describe(self) -> Described:
        """Return the settings and the identity of what was learned, as JSON."""
        return {"config": self.state.config.to_dict(), "learned": self.state.identity}

    def forward(self, question: str, key: str | None = None) -> dspy.Prediction:
        _check(question)
        return self._chosen(self.embed([question])[0], key or question)

    async def aforward(self, question: str, key: str | None = None) -> dspy.Prediction:
        _check(question)
        # Embedding takes long, and would hold up the calls of other questions.
        vector = (await asyncio.to_thread(self.embed, [question]))[0]
        return self._chosen(vector, key or question)

    def _chosen(self, vector: npt.NDArray[np.floating], key: str) -> dspy.Prediction:
        state, config = self.state, self.state.config
        scores = state.scores(vector[None])[0]
        chances = softmax(scores)
        picks = state.pick(scores, vector, key)
        rng = random_for(config.seed, key) if config.sampled else None
        # `draw` takes scores, and the softmax of these gives the mean chances back.
        (common,) = draw(np.log(chances.mean(axis=0, keepdims=True)), rng=rng).strategies
        return dspy.Prediction(
            choice=config.strategies[common],
            choices=[None if s is None else config.strategies[s] for s in picks],
            probabilities=chances,
            weights=state.weights(vector, picks),
        )

    def _named(self, model: str | None) -> Embed:
        named = type(self).embedder
        if named is None:
            raise UserError(
                "this class alone knows no embedding models: take it from folkmoot, as "
                "fm.StrategySelector"
            )
        return named(model)


class _Kept:
    """What makes embeddings, the same one in all copies of a program."""

    def __init__(self, embed: Embed) -> None:
        self.source: Embed = embed.source if isinstance(embed, _Kept) else embed

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.floating]:
        return self.source(texts)

    @property
    def model(self) -> str:
        return model_name(self.source)

    def __deepcopy__(self, memo: dict[int, object]) -> _Kept:
        return self


def model_name(embed: Embed) -> str:
    """Return the name of what embeds: that of its model, else its own."""
    return str(getattr(embed, "model", getattr(embed, "__name__", type(embed).__name__)))


def _check(question: object) -> None:
    if not isinstance(question, str) or not question.strip():
        raise UserError("the question is empty: pass question='…'")
