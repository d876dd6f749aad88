"""Says what a vote of agents will gain before anybody pays for it."""
