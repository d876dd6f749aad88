"""Distillation: the cheapest single agent that is as good as a team, and a router."""
