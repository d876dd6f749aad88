"""folkmoot: does a team of language-model agents beat one agent on your questions, and at what price?

    import folkmoot as fm

The names below are imported when first used, so that `import folkmoot` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._moved import install as _install_moved

if TYPE_CHECKING:
    from .modules.agents.profile import Profile as Profile
    from .modules.base.errors import UserError as UserError
    from .modules.environment import CorpusEnvironment as CorpusEnvironment
    from .modules.environment import RecordingEnvironment as RecordingEnvironment
    from .modules.environment import ReplayEnvironment as ReplayEnvironment
    from .modules.environment import WikipediaEnvironment as WikipediaEnvironment
    from .modules.protocols.causal import CausalConsistency as CausalConsistency
    from .modules.protocols.deliberation import Deliberation as Deliberation
    from .modules.protocols.deliberation import replay as replay
    from .modules.protocols.ensemble import Ensemble as Ensemble
    from .modules.protocols.program import Program as Program
    from .modules.protocols.router import Router as Router
    from .modules.protocols.single import SingleAgent as SingleAgent
    from .modules.protocols.strategies import STRATEGIES as STRATEGIES
    from .modules.protocols.strategies import Strategy as Strategy
    from .modules.protocols.strategy_network import StrategyNetwork as StrategyNetwork
    from .modules.protocols.team.team import SupervisedTeam as SupervisedTeam
    from .modules.reading.question import Question as Question
    from .optimizers.prompts.demos import labelled_demos as labelled_demos
    from .pipelines.comparison.compare import compare as compare
    from .pipelines.comparison.match_budget import match_budget as match_budget
    from .pipelines.compilation.compile import compile as compile
    from .pipelines.data.load import load as load
    from .pipelines.distillation.distil import distil as distil
    from .pipelines.evaluation.earlier import Evaluation as Evaluation
    from .pipelines.evaluation.evaluate import evaluate as evaluate
    from .pipelines.lms.named import lm as lm
    from .pipelines.programs.saved import load_program as load_program
    from .pipelines.reporting.report import report as report
    from .pipelines.reproduction.reproduce import reproduce as reproduce
    from .pipelines.tuning.tune import tune as tune

_WHERE = {
    "CausalConsistency": ".modules.protocols.causal",
    "CorpusEnvironment": ".modules.environment",
    "Deliberation": ".modules.protocols.deliberation",
    "Ensemble": ".modules.protocols.ensemble",
    "Evaluation": ".pipelines.evaluation.earlier",
    "Profile": ".modules.agents.profile",
    "Program": ".modules.protocols.program",
    "Question": ".modules.reading.question",
    "STRATEGIES": ".modules.protocols.strategies",
    "RecordingEnvironment": ".modules.environment",
    "ReplayEnvironment": ".modules.environment",
    "Router": ".modules.protocols.router",
    "SingleAgent": ".modules.protocols.single",
    "Strategy": ".modules.protocols.strategies",
    "StrategyNetwork": ".modules.protocols.strategy_network",
    "SupervisedTeam": ".modules.protocols.team.team",
    "UserError": ".modules.base.errors",
    "WikipediaEnvironment": ".modules.environment",
    "compare": ".pipelines.comparison.compare",
    "compile": ".pipelines.compilation.compile",
    "distil": ".pipelines.distillation.distil",
    "evaluate": ".pipelines.evaluation.evaluate",
    "labelled_demos": ".optimizers.prompts.demos",
    "lm": ".pipelines.lms.named",
    "load": ".pipelines.data.load",
    "load_program": ".pipelines.programs.saved",
    "match_budget": ".pipelines.comparison.match_budget",
    "replay": ".modules.protocols.deliberation",
    "tune": ".pipelines.tuning.tune",
    "report": ".pipelines.reporting.report",
    "reproduce": ".pipelines.reproduction.reproduce",
}

_install_moved()

__all__ = sorted(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
