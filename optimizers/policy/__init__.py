"""Policies: a strategy network and a router learn from answers."""
