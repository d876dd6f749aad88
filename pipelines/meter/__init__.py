"""The meter: teams built with any framework call their LM through it, question by question."""
