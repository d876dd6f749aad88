"""folkmoot: does a team of language-model agents beat one agent on your questions, and at what price?

    import folkmoot as fm

The names below are imported when first used, so that `import folkmoot` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .modules.causal import CausalConsistency as CausalConsistency
    from .modules.deliberation import Deliberation as Deliberation
    from .modules.deliberation import replay as replay
    from .modules.ensemble import Ensemble as Ensemble
    from .modules.environment import CorpusEnvironment as CorpusEnvironment
    from .modules.environment import RecordingEnvironment as RecordingEnvironment
    from .modules.environment import ReplayEnvironment as ReplayEnvironment
    from .modules.environment import WikipediaEnvironment as WikipediaEnvironment
    from .modules.errors import UserError as UserError
    from .modules.network.network import StrategyNetwork as StrategyNetwork
    from .modules.profile import Profile as Profile
    from .modules.program import Program as Program
    from .modules.question import Question as Question
    from .modules.router import Router as Router
    from .modules.single import SingleAgent as SingleAgent
    from .modules.strategies import STRATEGIES as STRATEGIES
    from .modules.strategies import Strategy as Strategy
    from .modules.team import SupervisedTeam as SupervisedTeam
    from .optimizers.demos import labelled_demos as labelled_demos
    from .pipelines.compare import compare as compare
    from .pipelines.compile import compile as compile
    from .pipelines.data import load as load
    from .pipelines.distil import distil as distil
    from .pipelines.evaluate import Evaluation as Evaluation
    from .pipelines.evaluate import evaluate as evaluate
    from .pipelines.lms import lm as lm
    from .pipelines.match_budget import match_budget as match_budget
    from .pipelines.report import report as report
    from .pipelines.reproduce import reproduce as reproduce
    from .pipelines.saved import load_program as load_program
    from .pipelines.tune import tune as tune

_WHERE = {
    "CausalConsistency": ".modules.causal",
    "CorpusEnvironment": ".modules.environment",
    "Deliberation": ".modules.deliberation",
    "Ensemble": ".modules.ensemble",
    "Evaluation": ".pipelines.evaluate",
    "Profile": ".modules.profile",
    "Program": ".modules.program",
    "Question": ".modules.question",
    "STRATEGIES": ".modules.strategies",
    "RecordingEnvironment": ".modules.environment",
    "ReplayEnvironment": ".modules.environment",
    "Router": ".modules.router",
    "SingleAgent": ".modules.single",
    "Strategy": ".modules.strategies",
    "StrategyNetwork": ".modules.network.network",
    "SupervisedTeam": ".modules.team",
    "UserError": ".modules.errors",
    "WikipediaEnvironment": ".modules.environment",
    "compare": ".pipelines.compare",
    "compile": ".pipelines.compile",
    "distil": ".pipelines.distil",
    "evaluate": ".pipelines.evaluate",
    "labelled_demos": ".optimizers.demos",
    "lm": ".pipelines.lms",
    "load": ".pipelines.data",
    "load_program": ".pipelines.saved",
    "match_budget": ".pipelines.match_budget",
    "replay": ".modules.deliberation",
    "tune": ".pipelines.tune",
    "report": ".pipelines.report",
    "reproduce": ".pipelines.reproduce",
}

__all__ = sorted(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
