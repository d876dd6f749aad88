"""Pipelines: one file from data to a registered winner."""
