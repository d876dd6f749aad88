"""Figures and pages drawn from plain data."""
