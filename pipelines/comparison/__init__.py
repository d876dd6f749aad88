"""Comparison of runs question by question, at matched budgets."""
