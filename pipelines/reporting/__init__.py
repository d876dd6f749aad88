"""Reporting: one HTML page about runs, verdict first."""
