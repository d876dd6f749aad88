"""Policies: a strategy network learns from answers."""
