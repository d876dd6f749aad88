"""What a user runs: settings, data, LMs, evaluation and the command line."""
