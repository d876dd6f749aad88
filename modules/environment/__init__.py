"""Places to look things up: pages behind one interface, one session per agent."""

from .base import MAX_CHARS, Environment, Observation, Page, Session

__all__ = ["MAX_CHARS", "Environment", "Observation", "Page", "Session"]
