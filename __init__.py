"""folkmoot: does a team of language-model agents beat one agent on your questions, and at what
price?

    import folkmoot as fm

The names below are imported when first used, so that `import folkmoot` stays quick.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    __all__: list[str]
    from .modules.agents.exchange import Exchange as Exchange
    from .modules.agents.exchange import Hear as Hear
    from .modules.agents.exchange import hear_all as hear_all
    from .modules.agents.profile import Profile as Profile
    from .modules.agents.seat import Seat as Seat
    from .modules.agents.transcript import Task as Task
    from .modules.agents.transcript import Turn as Turn
    from .modules.base.errors import UserError as UserError
    from .modules.base.registry import Registry
    from .modules.base.together import together as together
    from .modules.environment.corpus import CorpusEnvironment as CorpusEnvironment
    from .modules.environment.replay import RecordingEnvironment as RecordingEnvironment
    from .modules.environment.replay import ReplayEnvironment as ReplayEnvironment
    from .modules.environment.wikipedia import WikipediaEnvironment as WikipediaEnvironment
    from .modules.network.config import NetworkConfig as NetworkConfig
    from .modules.protocols.causal import CausalConsistency as CausalConsistency
    from .modules.protocols.declared import Declared as Declared
    from .modules.protocols.deliberation.deliberation import Deliberation as Deliberation
    from .modules.protocols.deliberation.replay import replay as replay
    from .modules.protocols.ensemble import Ensemble as Ensemble
    from .modules.protocols.program import Program as Program
    from .modules.protocols.program import prediction_of as prediction_of
    from .modules.protocols.roles import ROLES as ROLES
    from .modules.protocols.roles import Role as Role
    from .modules.protocols.router.calibration import RouterCalibration as RouterCalibration
    from .modules.protocols.router.router import Router as Router
    from .modules.protocols.single import SingleAgent as SingleAgent
    from .modules.protocols.strategies import STRATEGIES as STRATEGIES
    from .modules.protocols.strategies import Strategy as Strategy
    from .modules.protocols.team.team import SupervisedTeam as SupervisedTeam
    from .modules.reading.metrics import Metric as Metric
    from .modules.reading.question import Question as Question
    from .modules.reading.voting import all_agree as all_agree
    from .optimizers.policy.settings import TrainingSettings as TrainingSettings
    from .optimizers.prompts.demos import labelled_demos as labelled_demos
    from .pipelines.comparison.compare import compare as compare
    from .pipelines.comparison.comparison import Comparison as Comparison
    from .pipelines.comparison.match_budget import match_budget as match_budget
    from .pipelines.comparison.pairs import Pair as Pair
    from .pipelines.compilation.compile import compile as compile
    from .pipelines.compilation.outcome import Compilation as Compilation
    from .pipelines.compilation.worked import worked as worked
    from .pipelines.contest.contest import acontest as acontest
    from .pipelines.contest.contest import contest as contest
    from .pipelines.contest.outcome import Contest as Contest
    from .pipelines.controls.controls import controls as controls
    from .pipelines.controls.outcome import Controls as Controls
    from .pipelines.data.embeddings import Embedder as Embedder
    from .pipelines.data.load import load as load
    from .pipelines.evaluation.earlier import Evaluation as Evaluation
    from .pipelines.evaluation.earlier import load_run as load_run
    from .pipelines.evaluation.evaluate import aevaluate as aevaluate
    from .pipelines.evaluation.evaluate import evaluate as evaluate
    from .pipelines.evaluation.evaluate import recheck as recheck
    from .pipelines.forecasting.forecast import Forecast as Forecast
    from .pipelines.forecasting.forecast import forecast as forecast
    from .pipelines.lms.named import lm as lm
    from .pipelines.logs.import_log import Imported as Imported
    from .pipelines.logs.import_log import import_log as import_log
    from .pipelines.meter.programs import Command as Command
    from .pipelines.meter.server import Endpoint as Endpoint
    from .pipelines.pipeline.pipeline import Pipeline as Pipeline
    from .pipelines.pipeline.pipeline import pipeline as pipeline
    from .pipelines.programs.own_roles import roles as roles
    from .pipelines.programs.saved import load_program as load_program
    from .pipelines.reporting.report import report as report
    from .pipelines.reproduction.reproduce import reproduce as reproduce
    from .pipelines.runs.rows import Rows as Rows
    from .pipelines.runs.summary import Summary as Summary
    from .pipelines.tasks.check import Check as Check
    from .pipelines.tracking.log_model import log_program as log_program
    from .pipelines.training.fit import StrategyNetwork as StrategyNetwork
    from .pipelines.training.fit import StrategySelector as StrategySelector
    from .pipelines.training.fit import train as train
    from .pipelines.training.train import Trained as Trained
    from .pipelines.tuning.tune import Study as Study
    from .pipelines.tuning.tune import tune as tune
    from .signatures.roles import Signature as Signature

# tqdm would ask notebooks for ipywidgets, which folkmoot's own progress does without.
warnings.filterwarnings("ignore", message="IProgress not found")

_WHERE = {
    "CausalConsistency": ".modules.protocols.causal",
    "Check": ".pipelines.tasks.check",
    "Command": ".pipelines.meter.programs",
    "Comparison": ".pipelines.comparison.comparison",
    "Compilation": ".pipelines.compilation.outcome",
    "Contest": ".pipelines.contest.outcome",
    "CorpusEnvironment": ".modules.environment.corpus",
    "Declared": ".modules.protocols.declared",
    "Deliberation": ".modules.protocols.deliberation.deliberation",
    "Embedder": ".pipelines.data.embeddings",
    "Endpoint": ".pipelines.meter.server",
    "Ensemble": ".modules.protocols.ensemble",
    "Evaluation": ".pipelines.evaluation.earlier",
    "Exchange": ".modules.agents.exchange",
    "Hear": ".modules.agents.exchange",
    "Metric": ".modules.reading.metrics",
    "Pair": ".pipelines.comparison.pairs",
    "Profile": ".modules.agents.profile",
    "Program": ".modules.protocols.program",
    "Question": ".modules.reading.question",
    "ROLES": ".modules.protocols.roles",
    "RecordingEnvironment": ".modules.environment.replay",
    "ReplayEnvironment": ".modules.environment.replay",
    "Role": ".modules.protocols.roles",
    "Router": ".modules.protocols.router.router",
    "RouterCalibration": ".modules.protocols.router.calibration",
    "Rows": ".pipelines.runs.rows",
    "STRATEGIES": ".modules.protocols.strategies",
    "Seat": ".modules.agents.seat",
    "Signature": ".signatures.roles",
    "SingleAgent": ".modules.protocols.single",
    "Strategy": ".modules.protocols.strategies",
    "Study": ".pipelines.tuning.tune",
    "Summary": ".pipelines.runs.summary",
    "SupervisedTeam": ".modules.protocols.team.team",
    "Task": ".modules.agents.transcript",
    "Turn": ".modules.agents.transcript",
    "UserError": ".modules.base.errors",
    "WikipediaEnvironment": ".modules.environment.wikipedia",
    "acontest": ".pipelines.contest.contest",
    "aevaluate": ".pipelines.evaluation.evaluate",
    "all_agree": ".modules.reading.voting",
    "compare": ".pipelines.comparison.compare",
    "compile": ".pipelines.compilation.compile",
    "contest": ".pipelines.contest.contest",
    "evaluate": ".pipelines.evaluation.evaluate",
    "hear_all": ".modules.agents.exchange",
    "labelled_demos": ".optimizers.prompts.demos",
    "lm": ".pipelines.lms.named",
    "load": ".pipelines.data.load",
    "load_program": ".pipelines.programs.saved",
    "load_run": ".pipelines.evaluation.earlier",
    "log_program": ".pipelines.tracking.log_model",
    "match_budget": ".pipelines.comparison.match_budget",
    "prediction_of": ".modules.protocols.program",
    "recheck": ".pipelines.evaluation.evaluate",
    "replay": ".modules.protocols.deliberation.replay",
    "report": ".pipelines.reporting.report",
    "roles": ".pipelines.programs.own_roles",
    "together": ".modules.base.together",
    "tune": ".pipelines.tuning.tune",
    "worked": ".pipelines.compilation.worked",
}


def _attached() -> Registry[object]:
    """Return the names that attached rooms and other packages add, by their entry points."""
    from .modules.base.registry import FUNCTIONS

    return FUNCTIONS


if not TYPE_CHECKING:  # which then sees misspelt names

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("folkmoot")
        if name in _WHERE:
            value = getattr(import_module(_WHERE[name], __name__), name)
        elif name == "__all__":
            value = sorted([*_WHERE, *_attached().names()])
        else:
            value = None if name.startswith("_") else _attached().find(name)
        if value is None:
            # With these two, a traceback also says which name was probably meant.
            missing = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(missing, name=name, obj=sys.modules[__name__])
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_attached().names()})
