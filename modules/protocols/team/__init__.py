"""The supervised team (Reasoning as a Team): workers who look things up, and a supervisor."""
