"""The folder of a run: what identifies it, its rows, their summary, and outcome tables."""
