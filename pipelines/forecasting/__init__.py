"""Forecasts: what a vote of agents will gain, before it is paid for."""
