"""The command line, a file a command; nothing imports it."""

from .app import main as main
