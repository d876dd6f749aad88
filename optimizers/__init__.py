"""Learning of prompts, structure and policies, and the statistics that judge the results."""
