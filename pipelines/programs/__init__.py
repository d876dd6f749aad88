"""Programs by name, saved programs, trained networks, and which LM sits where."""
