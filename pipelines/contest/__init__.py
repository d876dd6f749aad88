"""The contest: programs answer the same questions in rounds until it is sure which one to take."""
