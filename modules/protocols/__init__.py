"""The protocols: one file or folder per program, and what all programs share."""
