"""Prompts: DSPy's optimizers by name, and an adapter that lets them optimise a program."""
