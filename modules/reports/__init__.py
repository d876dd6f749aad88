"""Reports from recorded rows: which agents were right, which gave way, and the effect."""
