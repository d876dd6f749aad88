"""How agents work together: one dspy.Module per protocol, and their parts."""
