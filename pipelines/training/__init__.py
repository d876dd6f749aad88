"""Training: a strategy network learns from recorded or live answers."""
