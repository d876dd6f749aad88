"""Reproduction: rows of published tables run again beside what was published."""
