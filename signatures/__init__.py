"""What each agent is told: DSPy signatures and the words around them, no logic."""
