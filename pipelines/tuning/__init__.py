"""Tuning: an Optuna study finds the structure of a program."""
