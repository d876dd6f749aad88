"""The base of all pipelines: settings, budgets, JSON lines and shared wording."""
