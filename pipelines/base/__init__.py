"""What every pipeline stands on: settings, budgets, JSON lines and shared wording."""
