"""Comparison: runs set against each other question by question, at matched budgets."""
