"""Places to look things up: pages behind one interface, one session per agent."""

from .base import MAX_CHARS, Environment, Observation, Page, Session
from .corpus import CorpusEnvironment
from .replay import RecordingEnvironment, ReplayEnvironment
from .tools import FunctionEnvironment, SeveralEnvironments
from .wikipedia import WikipediaEnvironment

__all__ = [
    "MAX_CHARS",
    "CorpusEnvironment",
    "Environment",
    "FunctionEnvironment",
    "Observation",
    "Page",
    "RecordingEnvironment",
    "ReplayEnvironment",
    "Session",
    "SeveralEnvironments",
    "WikipediaEnvironment",
]
