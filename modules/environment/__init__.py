"""Where agents look things up: pages behind one interface, one session per agent."""

from .base import MAX_CHARS, Environment, Observation, Page, Session
from .corpus import CorpusEnvironment

__all__ = ["MAX_CHARS", "CorpusEnvironment", "Environment", "Observation", "Page", "Session"]
