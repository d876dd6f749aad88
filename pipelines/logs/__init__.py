"""Logs of other tools: one reader per format, and the import of their answers as run folders."""
