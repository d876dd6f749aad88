"""folkmoot: does a team of language-model agents beat one agent on your questions, and at what price?

    import folkmoot as fm

The names below are imported when first used, so that `import folkmoot` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .modules.deliberation import Deliberation as Deliberation
    from .modules.deliberation import replay as replay
    from .modules.ensemble import Ensemble as Ensemble
    from .modules.environment import CorpusEnvironment as CorpusEnvironment
    from .modules.errors import UserError as UserError
    from .modules.profile import Profile as Profile
    from .modules.program import Program as Program
    from .modules.question import Question as Question
    from .modules.single import SingleAgent as SingleAgent
    from .optimizers.demos import labelled_demos as labelled_demos
    from .pipelines.compare import compare as compare
    from .pipelines.data import load as load
    from .pipelines.evaluate import Evaluation as Evaluation
    from .pipelines.evaluate import evaluate as evaluate
    from .pipelines.lms import lm as lm
    from .pipelines.match_budget import match_budget as match_budget

_WHERE = {
    "CorpusEnvironment": ".modules.environment",
    "Deliberation": ".modules.deliberation",
    "Ensemble": ".modules.ensemble",
    "Evaluation": ".pipelines.evaluate",
    "Profile": ".modules.profile",
    "Program": ".modules.program",
    "Question": ".modules.question",
    "SingleAgent": ".modules.single",
    "UserError": ".modules.errors",
    "compare": ".pipelines.compare",
    "evaluate": ".pipelines.evaluate",
    "labelled_demos": ".optimizers.demos",
    "lm": ".pipelines.lms",
    "load": ".pipelines.data",
    "match_budget": ".pipelines.match_budget",
    "replay": ".modules.deliberation",
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
