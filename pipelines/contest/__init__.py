"""The contest: programs answer the same questions in rounds until it is clear which one to take."""
