"""Learning of prompts, structure and policies."""
