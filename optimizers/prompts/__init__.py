"""Prompts: DSPy's optimizers by name, and the program as they handle it."""
