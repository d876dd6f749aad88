"""Reading: questions, answers and options as text, compared and counted."""
