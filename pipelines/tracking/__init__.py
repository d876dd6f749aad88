"""Tracking: runs, traces and models go to MLflow, and an outage stops nothing."""
