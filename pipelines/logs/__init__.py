"""Logs of others, read as runs: a reader a format, and what makes run folders of their answers."""
