"""Compilation: a DSPy optimizer improves the prompts of a program."""
