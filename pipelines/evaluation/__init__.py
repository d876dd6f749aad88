"""Evaluation: a program answers questions, within a plan and a budget."""
